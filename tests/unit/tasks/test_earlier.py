"""What a notebook's cells did before, as it is told before they are run again."""

import pytest

from ozzie_server_ext.domain.events import Draft, EventBody, MessageReceived, Origin, ToolCallRequested, ToolCallStarted
from ozzie_server_ext.domain.ids import CallId, MessageId, SessionId, TaskId
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.sessions import EarlierRuns, EarlierWork
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry

SESSION = SessionId("sess_01AAAAAAAAAAAAAAAAAAAAAAAA")
OTHER = SessionId("sess_01BBBBBBBBBBBBBBBBBBBBBBBB")


class History:
    def __init__(self) -> None:
        self.log = InMemoryEventLog(FakeClock(), CountingIds())
        self.runs = EarlierRuns(self.log, ToolRegistry(builtin_tools()))
        self._calls = 0

    async def ran(self, cell_id: str, *tools: str, task: str, session: SessionId = SESSION, begun: bool = True) -> None:
        origin = Origin(channel="notebook", cell_id=cell_id)
        bodies: list[EventBody] = [MessageReceived(message_id=MessageId(task), text="x", origin=origin)]
        for tool_id in tools:
            self._calls += 1
            call_id = CallId(str(self._calls))
            name = {"fs.write": "write_file"}.get(tool_id, tool_id)
            bodies.append(
                ToolCallRequested(
                    call_id=call_id, use_id="u", tool_id=tool_id, name=name, version="1", args={}, round=1, index=0
                )
            )
            if begun:
                bodies.append(ToolCallStarted(call_id=call_id))
        drafts = [
            Draft(body=body, actor="user", source="test", session_id=session, task_id=TaskId(task)) for body in bodies
        ]
        await self.log.append(f"task:{task}", drafts)


@pytest.fixture
def history() -> History:
    return History()


async def test_a_cell_that_was_not_run_in_the_session_is_told_nothing(history: History) -> None:
    await history.ran("a", "fs.write", task="1")
    await history.ran("b", "fs.write", task="2", session=OTHER)

    assert await history.runs.of_cell(SESSION, "b") is None


async def test_turns_that_only_read_are_counted_and_have_no_effects(history: History) -> None:
    await history.ran("a", "fs.read", "calc.eval", task="1")
    await history.ran("b", task="2")
    await history.ran("", task="3")  # from a terminal

    found = await history.runs.of_cell(SESSION, "a")

    assert isinstance(found, EarlierWork)
    assert (found.turns, found.effects) == (2, {})
    assert found.last_at.startswith("20")


async def test_what_changed_something_is_named_with_how_often_it_was_begun(history: History) -> None:
    await history.ran("a", "fs.write", "fs.read", task="1")
    await history.ran("b", "fs.write", task="2")
    await history.ran("c", "fs.write", task="3", begun=False)  # asked for, and never begun
    await history.ran("", "fs.write", task="4")  # from a terminal: no cell does that again

    found = await history.runs.of_cell(SESSION, "c")

    assert found is not None
    assert found.effects == {"write_file": 2}


async def test_a_tool_that_is_here_no_more_may_have_changed_something(history: History) -> None:
    await history.ran("a", "plugin.gone", task="1")

    found = await history.runs.of_cell(SESSION, "a")

    assert found is not None
    assert found.effects == {"plugin.gone": 1}


async def test_a_call_whose_request_was_erased_may_have_changed_something(history: History) -> None:
    await history.ran("a", "fs.read", task="1")
    (asked,) = await history.log.read(types=frozenset({ToolCallRequested.type}))
    del history.log.bodies[asked.position]

    found = await history.runs.of_cell(SESSION, "a")

    assert found is not None
    assert found.effects == {"a tool that is not known any more": 1}
