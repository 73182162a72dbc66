"""A turn that is asked for again and again is folded no further than there is news, and looks as if folded whole."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from ozzie_server_ext.domain.events import Draft, Event, TaskQueued, TaskStarted, TaskSucceeded
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.render.turnfold import fold, new_turn
from ozzie_server_ext.render.turnview import TurnView
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.views import FoldedTurns
from tests.replay.histories import SESSION, TASK, Histories, completed, task_created, task_draft


class CountingLog(InMemoryEventLog):
    """Knows how many events were read from it."""

    def __init__(self) -> None:
        super().__init__(FakeClock(), CountingIds())
        self.read_events = 0

    async def read(self, **asked: Any) -> tuple[Event, ...]:
        found = await super().read(**asked)
        self.read_events += len(found)
        return found


@pytest.fixture
def log() -> CountingLog:
    return CountingLog()


async def write(log: InMemoryEventLog, *drafts: Draft, task_id: TaskId = TASK) -> None:
    await log.append(task_stream(task_id), drafts)


async def begin(log: InMemoryEventLog, *, task_id: TaskId = TASK) -> None:
    bodies = (task_created(), TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"))
    await write(log, *(task_draft(body, task_id=task_id) for body in bodies), task_id=task_id)


def whole(events: Sequence[Event], session_id: SessionId, task_id: TaskId) -> TurnView:
    view = new_turn(task_id=task_id, session_id=session_id)
    for event in events:
        labels = {"labels": list(event.labels)} if event.labels else {}
        view = fold(view, event.type, {**encode(event.body), **labels}, event.ts)
    return view


@pytest.mark.parametrize("seed", range(8))
async def test_a_turn_looks_at_every_position_as_if_it_was_folded_whole(log: CountingLog, seed: int) -> None:
    turns, chance = FoldedTurns(log, most=3), random.Random(seed)
    sessions: dict[TaskId, SessionId] = {}
    compared = 0
    for stream, drafts in Histories(seed).take(150):
        for event in await log.append(stream, drafts):
            if event.task_id and event.session_id:
                sessions[event.task_id] = event.session_id
        for task_id, session_id in list(sessions.items())[-6:]:
            if chance.random() < 0.5:  # some are asked for behind every event, and some after many
                turn = await turns.get(task_id, session_id)
                events = await log.read_stream(task_stream(task_id))
                assert turn.view == whole(events, session_id, task_id)
                assert (turn.position, turn.event_id) == (events[-1].position, events[-1].event_id)
                compared += 1

    assert compared > 100


async def test_only_what_is_new_is_read(log: CountingLog) -> None:
    turns = FoldedTurns(log)
    await begin(log)
    await write(log, *(task_draft(completed(f"r{number}", "word")) for number in range(1200)))
    first = await turns.get(TASK, SESSION)
    assert len(first.view.parts) == 1200, "more than fits into one page"

    log.read_events = 0
    await write(log, task_draft(completed("last", "word")))
    assert len((await turns.get(TASK, SESSION)).view.parts) == 1201
    assert log.read_events == 2, "the last one that was known, and the new one"
    assert await turns.get(TASK, SESSION) is await turns.get(TASK, SESSION)


async def test_two_pages_that_ask_at_once_get_the_same(log: CountingLog) -> None:
    turns = FoldedTurns(log)
    await begin(log)
    await write(log, task_draft(completed("r", "word")))
    first, second = await asyncio.gather(turns.get(TASK, SESSION), turns.get(TASK, SESSION))

    assert first.view == second.view
    assert len(turns) == 1


async def test_so_many_turns_are_kept_and_no_more(log: CountingLog) -> None:
    turns = FoldedTurns(log, most=2)
    tasks = [TaskId(f"01T{number:023d}") for number in range(5)]
    for task_id in tasks:
        await begin(log, task_id=task_id)
        await turns.get(task_id, SESSION)
        await turns.get(tasks[0], SESSION)

    assert len(turns) == 2
    log.read_events = 0
    await turns.get(tasks[0], SESSION)
    assert log.read_events == 1, "the one that is always asked for was never let go"
    await turns.get(tasks[1], SESSION)
    assert log.read_events == 1 + 3


async def test_what_nobody_asks_for_any_more_is_let_go(log: CountingLog) -> None:
    turns = FoldedTurns(log, idle_s=0)
    await begin(log)
    await write(log, task_draft(TaskSucceeded(rounds=1)))
    assert (await turns.get(TASK, SESSION)).view.is_final

    later = asyncio.Event()
    asyncio.get_running_loop().call_later(0.001, later.set)
    await later.wait()
    assert len(turns) == 0


async def test_what_was_erased_is_shown_no_more(log: CountingLog) -> None:
    turns = FoldedTurns(log)
    await begin(log)
    await write(log, task_draft(completed("r", "a secret")))
    assert (await turns.get(TASK, SESSION)).view.parts

    log.bodies.clear()
    assert (await turns.get(TASK, SESSION)).view == new_turn(task_id=TASK, session_id=SESSION)

    await write(log, task_draft(completed("s", "another")))
    (part,) = (await turns.get(TASK, SESSION)).view.parts
    assert "another" in repr(part)
