"""A gateway that stops in the middle of a turn, and the one after it, on real files."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import (
    MessageCompleted,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    Origin,
    TaskStarted,
    ToolCallCompleted,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.tasks.service import NewTurn

WAIT_S = 20

Start = Callable[[], Awaitable[Ozzie]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts an Ozzie on the test's home, as each gateway after the other does."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (project / "data" / "three.csv").write_text("a,b\n1,2\n3,4\n5,6\n")
    home = Home(tmp_path / "home")
    home.create()

    async def start_one() -> Ozzie:
        return await Ozzie.start(home, project)

    return start_one


async def ask(ozzie: Ozzie, text: str) -> TaskId:
    session = await ozzie.sessions.open("test", title="test", channel="test")
    return (await ozzie.submit(NewTurn(session.session_id, text, Origin(channel="test")))).task_id


async def happens(ozzie: Ozzie, kind: str, task_id: TaskId | None = None) -> None:
    """Return once the feed has shown an event of that name, in that task where one is named."""
    async with asyncio.timeout(WAIT_S), ozzie.feed.subscribe(0, types=frozenset({kind}), task_id=task_id) as events:
        await anext(events)


async def status(ozzie: Ozzie, task_id: TaskId) -> str:
    return str((await ozzie.tasks.get(task_id))["status"])


@pytest.mark.parametrize(
    "cut", ["task.started", "model.call.started", "tool.call.requested", "tool.call.completed", "reply.delta"]
)
async def test_a_turn_goes_on_after_a_stop_wherever_it_came(start: Start, cut: str) -> None:
    first = await start()
    task_id = await ask(first, "How many rows has @data/three.csv?")
    await happens(first, cut, task_id)
    await first.stop()

    second = await start()
    await happens(second, "task.succeeded", task_id)

    bodies = [event.body for event in await second.log.read_stream(task_stream(task_id))]
    assert [body.attempt for body in bodies if isinstance(body, TaskStarted)] == [1, 1], "only a retry is another"
    said = [body for body in bodies if isinstance(body, MessageCompleted)]
    assert ("**3 rows**" in said[-1].text, said[-1].finish) == (True, "stop")
    assert len(said) == 1, "what was half said before the stop is said once, after it"
    cut_off = [body.code for body in bodies if isinstance(body, ModelCallFailed)]
    # The turn goes on until it is told to stop, so the stop may come in the middle of any answer but a streamed one's.
    assert cut_off in ([["interrupted"]] if cut == "reply.delta" else [[], ["interrupted"]])
    calls = [body.call_id for body in bodies if isinstance(body, ModelCallStarted)]
    ends = [body.call_id for body in bodies if isinstance(body, ModelCallCompleted | ModelCallFailed)]
    assert ends == calls, "every call ended, and once"
    last_call = [body for body in bodies if isinstance(body, ModelCallStarted)][-1]
    asked = json.loads(await second.blobs.get(last_call.request_blob))["messages"]
    assert [message["role"] for message in asked][-4:] == ["assistant", "tool", "assistant", "tool"]
    done = [body.call_id for body in bodies if isinstance(body, ToolCallCompleted)]
    assert len(done) == 2, "a step that had an outcome was done again, or one was left out"
    assert (await second.log.verify()).ok
    assert await second.log.dump() == await second.log.rebuild()
    await second.stop()


async def test_turns_that_waited_run_after_it_in_their_order(start: Start) -> None:
    first = await start()
    tasks = [await ask(first, f"What is {number} + 1? Use the calculator.") for number in (1, 2, 3)]
    await happens(first, "model.call.started")
    await first.stop()

    second = await start()
    await happens(second, "task.succeeded", tasks[-1])

    ended = [event.task_id for event in await second.log.read(types=frozenset({"task.succeeded"}))]
    assert ended == tasks
    await second.stop()


async def test_a_turn_that_a_person_stopped_is_not_taken_up_again(start: Start) -> None:
    first = await start()
    task_id = await ask(first, "How many rows has @data/three.csv?")
    await happens(first, "task.started")
    await first.tasks.cancel(task_id, by="ann")
    await happens(first, "task.cancelled")
    await first.stop()

    second = await start()

    assert await status(second, task_id) == "CANCELLED"
    assert not second.busy
    await second.stop()
