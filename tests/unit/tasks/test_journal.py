"""What a run has still to record: in its order, together while an append is under way, all of it before an effect."""

import asyncio
from collections.abc import Sequence

import pytest

from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.events import CheckpointSaved, Draft, Event, StepSkipped
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.tasks import Claim
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.workflows.runner import MOST_NOTED, Journal

WEB = Content.of(Label.WEB, ["example.org"])


class Held:
    """A log whose appends last until they are let go; `breaks` is what the next one raises."""

    def __init__(self) -> None:
        self.appends: list[list[Draft]] = []
        self.go = asyncio.Event()
        self.breaks: Exception | None = None

    async def append(
        self, stream: str, drafts: Sequence[Draft], *, expected_version: int | None = None, claim: Claim | None = None
    ) -> tuple[Event, ...]:
        self.appends.append(list(drafts))
        await self.go.wait()
        if self.breaks is not None:
            raise self.breaks
        return ()

    @property
    def told(self) -> list[list[str]]:
        return [[_name(draft) for draft in drafts] for drafts in self.appends]


def _name(draft: Draft) -> str:
    body = draft.body
    if isinstance(body, CheckpointSaved):
        return f"@{body.node_id}"
    assert isinstance(body, StepSkipped)
    return body.step_id


def skipped(step_id: str) -> StepSkipped:
    return StepSkipped(step_id=step_id, reason="x")


def journal_on(log: Held) -> Journal:
    recorder = Recorder(log=log, session_id=SessionId("s"), task_id=TaskId("t"))
    return Journal(recorder, lambda step: CheckpointSaved(checkpoint_id="c", node_id=step, state={}))


async def test_what_comes_during_an_append_goes_into_the_next_one_with_one_checkpoint_behind_it() -> None:
    log = Held()
    journal = journal_on(log)
    await journal.note((skipped("a"), CLEAN), settles="a")
    await asyncio.sleep(0)
    for step in ("b", "c"):
        await journal.note((skipped(step), CLEAN), settles=step)
    await journal.note((skipped("d"), CLEAN))
    log.go.set()
    await journal.flushed()
    assert log.told == [["a", "@a"], ["b", "c", "d", "@c"]]


async def test_whoever_waits_goes_on_once_all_of_it_is_durable() -> None:
    log = Held()
    journal = journal_on(log)
    await journal.note((skipped("a"), CLEAN))
    waiting = asyncio.create_task(journal.flushed())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    log.go.set()
    await waiting
    await journal.note((skipped("b"), CLEAN))
    await journal.flushed()
    assert log.told == [["a"], ["b"]]


async def test_each_fact_bears_what_it_is_made_from() -> None:
    log = Held()
    log.go.set()
    journal = journal_on(log)
    await journal.note((skipped("a"), WEB))
    await journal.note((skipped("b"), CLEAN))
    await journal.flushed()
    ((first, second),) = log.appends
    assert (first.labels, first.sources) == (WEB.labels, WEB.sources)
    assert second.labels == ()


async def test_a_log_that_breaks_is_told_to_whoever_notes_or_waits_next_and_nothing_more_is_written() -> None:
    log = Held()
    log.breaks = Unavailable("The disk is full.")
    log.go.set()
    journal = journal_on(log)
    await journal.note((skipped("a"), CLEAN))
    with pytest.raises(Unavailable):
        await journal.flushed()
    with pytest.raises(Unavailable):
        await journal.note((skipped("b"), CLEAN))
    assert log.told == [["a"]]


async def full(journal: Journal) -> "asyncio.Task[None]":
    """Note so many facts behind an append under way that whoever notes the last one waits; return who does."""
    await journal.note((skipped("first"), CLEAN))
    await asyncio.sleep(0)
    for number in range(MOST_NOTED - 1):
        await journal.note((skipped(str(number)), CLEAN))
    noting = asyncio.create_task(journal.note((skipped("last"), CLEAN)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not noting.done()
    return noting


async def test_where_many_wait_the_next_one_waits_until_they_are_being_written() -> None:
    log = Held()
    journal = journal_on(log)
    noting = await full(journal)
    log.go.set()
    log.go.clear()  # the first append ends, the second does not
    await noting
    assert [len(append) for append in log.appends] == [1, MOST_NOTED]


async def test_whoever_waits_for_room_learns_that_the_log_broke() -> None:
    log = Held()
    noting = await full(journal_on(log))
    log.breaks = Unavailable("The disk is full.")
    log.go.set()
    with pytest.raises(Unavailable):
        await noting


async def test_a_cancellation_leaves_nothing_half_written() -> None:
    log = Held()
    journal = journal_on(log)
    await journal.note((skipped("a"), CLEAN))
    waiting = asyncio.create_task(journal.flushed())
    await asyncio.sleep(0)
    waiting.cancel()
    log.go.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await journal.note((skipped("b"), CLEAN))
    await journal.flushed()
    assert log.told == [["a"], ["b"]]
