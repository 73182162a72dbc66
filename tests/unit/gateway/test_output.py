"""What a page that follows a turn is told, and when it is told that there is nothing new."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from ozzie_server_ext.domain.events import MessageCompleted, Transient
from ozzie_server_ext.domain.ids import ReplyId, SessionId, TaskId
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.runs import TaskOutputQuery, get_task_output
from ozzie_server_ext.gateway.rest.task_shapes import TaskOutput
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.observability.clock import FakeClock
from ozzie_server_ext.render.static import TURN_MIME
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tasks.views import FoldedTurns
from tests.unit.tasks.rig import Gate, TaskRig

SESSION = SessionId("s1")


@dataclass
class Gateway:
    """As much of one as is needed here."""

    tasks: TaskService
    log: EventLog
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.feed = Feed(self.log)
        self.turns = FoldedTurns(self.log)

    async def output(self, task_id: TaskId, known: str | None = None) -> TaskOutput | None:
        call = Call(GatewayState(), cast(Services, self), Principal(kind="user", name="ana"))
        return await get_task_output(call, TaskOutputQuery(task_id=task_id, known=known))

    def say(self, task_id: TaskId, kind: Any, **payload: Any) -> None:
        payload = {"reply_id": "r1", **payload}
        self.feed.publish(Transient(type=kind, session_id=SESSION, task_id=task_id, payload=payload))

    def write(self, task_id: TaskId, offset: int, content: str) -> None:
        self.say(task_id, "reply.delta", offset=offset, phase="delta", content=content)


class Turn:
    """One that goes on until it is let go."""

    def __init__(self) -> None:
        self.rig = TaskRig()
        self.gate = Gate()
        self.rig.turns["Count."] = self.gate
        self.gateway = Gateway(self.rig.service, self.rig.log)

    async def begin(self) -> "Turn":
        self.task_id = (await self.rig.submit("Count.")).task_id
        await self.gate.wait()
        self.recorder = Recorder(log=self.rig.log, session_id=SESSION, task_id=self.task_id)
        return self

    async def end(self) -> None:
        self.gate.go_on.set()
        await self.rig.end(self.task_id)

    async def shown(self, known: str | None = None) -> TaskOutput:
        told = await self.gateway.output(self.task_id, known)
        assert told is not None
        return told


@pytest.fixture
async def turn() -> Turn:
    return await Turn().begin()


async def test_a_turn_that_goes_on_is_html_and_one_that_has_ended_an_output(turn: Turn) -> None:
    turn.gateway.write(turn.task_id, 0, "1 2 3")
    going = await turn.shown()
    assert "1 2 3" in going.html
    assert (going.status, going.data, going.metadata) == ("RUNNING", {}, {})

    await turn.end()
    ended = await turn.shown(going.version)
    assert (ended.status, ended.html) == ("SUCCEEDED", "")
    assert cast(Any, ended.data)[TURN_MIME]["status"] == "Done"


async def test_where_nothing_is_new_nothing_is_said_however_late_it_is(turn: Turn) -> None:
    turn.gateway.write(turn.task_id, 0, "1 2 3")
    known = (await turn.shown()).version
    turn.gateway.clock.advance(60)
    assert await turn.gateway.output(turn.task_id, known) is None

    turn.gateway.write(turn.task_id, 5, " 4")
    news = await turn.shown(known)
    assert "1 2 3 4" in news.html
    await turn.end()
    ended = (await turn.shown(news.version)).version
    assert await turn.gateway.output(turn.task_id, ended) is None


async def test_a_reply_that_was_reset_and_is_as_long_again_is_new(turn: Turn) -> None:
    turn.gateway.write(turn.task_id, 0, "north")
    known = (await turn.shown()).version
    turn.gateway.say(turn.task_id, "reply.reset")
    empty = await turn.shown(known)
    assert "north" not in empty.html
    turn.gateway.write(turn.task_id, 0, "south")

    assert "south" in (await turn.shown(known)).html
    assert "south" in (await turn.shown(empty.version)).html


async def test_a_reply_that_is_whole_is_shown_once(turn: Turn) -> None:
    turn.gateway.write(turn.task_id, 0, "half of")
    before = await turn.shown()
    await turn.recorder.append(MessageCompleted(reply_id=ReplyId("r1"), text="half of it", finish="stop"))
    after = await turn.shown(before.version)

    assert after.html.count("half of it") == 1


async def test_another_gateway_on_the_same_log_says_the_same_version(turn: Turn) -> None:
    known = (await turn.shown()).version
    successor = Gateway(turn.rig.service, turn.rig.log)

    assert await successor.output(turn.task_id, known) is None
    await turn.end()
    told = await successor.output(turn.task_id, known)
    assert told is not None
    assert told.status == "SUCCEEDED"
