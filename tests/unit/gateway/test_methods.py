"""What a caller of the WebSocket's methods may do."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.loader import Config, load
from ozzie_server_ext.domain.budget import Scope
from ozzie_server_ext.domain.errors import PolicyError
from ozzie_server_ext.domain.events import (
    BudgetExceeded,
    Draft,
    EventBody,
    Limits,
    Origin,
    PromptOption,
    PromptRequested,
    TaskCreated,
    TaskQueued,
    TaskStarted,
    TaskWaitingInput,
)
from ozzie_server_ext.domain.ids import MessageId, PromptId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.messages import Channel
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.routes import METHODS
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.models.ledger import Ledger
from ozzie_server_ext.observability.clock import FakeClock, UlidSource
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.answers import Answers
from ozzie_server_ext.tasks.budgets import TodaysUsage, balance_of
from ozzie_server_ext.tasks.service import NewTurn, Submitted, TaskService
from ozzie_server_ext.tasks.sessions import Sessions

OWN = SessionId("sess_01M800000000000000000000AA")
OTHER = SessionId("sess_01M800000000000000000000BB")
KERNEL = Principal(kind="kernel", name="ana", kernel_id="k", session_id=OWN)
USER = Principal(kind="user", name="ana")


async def ask(ozzie: Any, principal: Principal, method: str, **params: Any) -> Any:
    """The payload of the answer."""
    return await METHODS[method].payload_for(Call(GatewayState(), ozzie, principal), params)


class Idle:
    """Carries out nothing."""

    def enqueue(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> int:
        return 0

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> SessionId | None:
        return None

    def hold(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> None:
        raise AssertionError("nothing waits here")


@dataclass
class Tasks:
    """The part of the services that is asked here."""

    tasks: TaskService


async def cancel(principal: Principal, session_id: SessionId | None) -> str:
    """The status of a task of that session behind `principal`'s request to stop it."""
    clock = FakeClock()
    ids = UlidSource(clock)
    log = InMemoryEventLog(clock, ids)
    service, task_id = TaskService(log, ids, Idle()), TaskId(ids.new())
    created = TaskCreated(title="t", mode="FREE", message_id=MessageId(ids.new()), limits=Limits())
    draft = Draft(body=created, actor="user", source="hub", session_id=session_id, task_id=task_id)
    await log.append(task_stream(task_id), [draft])
    ozzie: Any = Tasks(service)
    await ask(ozzie, principal, "task.cancel", task_id=task_id)
    return str((await service.get(task_id))["status"])


@pytest.mark.parametrize("session_id", [None, OTHER])
async def test_a_kernel_can_not_stop_a_task_outside_its_session(session_id: SessionId | None) -> None:
    with pytest.raises(PolicyError, match="its own session"):
        await cancel(KERNEL, session_id)


async def test_a_kernel_can_stop_a_task_of_its_session() -> None:
    assert await cancel(KERNEL, KERNEL.session_id) == "CANCELLED"


@pytest.mark.parametrize("session_id", [None, OTHER])
async def test_a_user_can_stop_any_task(session_id: SessionId | None) -> None:
    assert await cancel(USER, session_id) == "CANCELLED"


async def answer(principal: Principal, session_id: SessionId, scope: Scope, option: str) -> str:
    """The status of a task of that session, whose budget of that scope asked something, behind `principal`'s answer."""
    clock = FakeClock()
    ids = UlidSource(clock)
    log = InMemoryEventLog(clock, ids)
    tasks, task_id = TaskService(log, ids, Idle()), TaskId(ids.new())
    ozzie: Any = Asked(tasks, Answers(log, tasks, Ledger(lambda account: balance_of(log, account)), FakeClock()))
    bodies: list[EventBody] = [
        TaskCreated(title="t", mode="FREE", message_id=MessageId(ids.new()), limits=Limits()),
        TaskQueued(reason="created"),
        TaskStarted(attempt=1, epoch="e"),
        BudgetExceeded(scope=scope, key="k", measure="tokens", limit=9, used=9, wanted=5, action="ask"),
        PromptRequested(
            prompt_id=PromptId(ids.new()),
            kind="budget",
            question="More?",
            notes=(),
            options=(
                PromptOption(name="allow", label="Allow", amount=5, unit="tokens"),
                PromptOption(name="stop", label="Stop"),
            ),
        ),
        TaskWaitingInput(question="More?"),
    ]
    drafts = [Draft(body=body, actor="user", source="hub", session_id=session_id, task_id=task_id) for body in bodies]
    await log.append(task_stream(task_id), drafts)
    await ask(ozzie, principal, "task.answer", task_id=task_id, option=option)
    (row,) = await log.rows("tasks")
    return str(row["status"])


@dataclass
class Asked:
    """The parts of the services that questions need."""

    tasks: TaskService
    answers: Answers


@pytest.mark.parametrize(("option", "status"), [("allow", "RUNNING"), ("stop", "CANCELLED")])
@pytest.mark.parametrize("scope", ["task", "session"])
async def test_a_kernel_may_answer_what_its_own_session_asks(scope: Scope, option: str, status: str) -> None:
    assert await answer(KERNEL, OWN, scope, option) == status


@pytest.mark.parametrize("scope", ["project", "day"])
async def test_a_kernel_may_not_raise_what_other_sessions_share_but_it_may_stop(scope: Scope) -> None:
    with pytest.raises(PolicyError, match="other sessions share it"):
        await answer(KERNEL, OWN, scope, "allow")
    assert await answer(KERNEL, OWN, scope, "stop") == "CANCELLED"
    assert await answer(USER, OWN, scope, "allow") == "RUNNING"


@pytest.mark.parametrize("option", ["allow", "stop"])
async def test_a_kernel_may_answer_nothing_of_another_session(option: str) -> None:
    with pytest.raises(PolicyError, match="its own session"):
        await answer(KERNEL, OTHER, "task", option)


@dataclass
class Known:
    """The parts of the services that know of sessions."""

    sessions: Sessions
    log: InMemoryEventLog
    today: TodaysUsage
    config: Config

    @property
    def projects(self) -> "Known":
        return self

    async def of(self, session_id: SessionId) -> Any:
        return SimpleNamespace(root=Path("/p"), config=self.config, configuration=self)

    async def refresh(self) -> Config:
        return self.config

    async def at(self, root: Path | None) -> Any:
        return await self.of(SessionId(""))


async def known() -> Any:
    clock = FakeClock()
    ids = UlidSource(clock)
    log = InMemoryEventLog(clock, ids)
    config = load(Home(Path("/nonexistent")), env={}, system_file=Path("/nonexistent"))
    return Known(Sessions(log, ids), log, TodaysUsage(log, clock), config)


@pytest.mark.parametrize(("method", "params"), [("session.list", {}), ("session.find", {"text": "a"})])
async def test_a_kernel_is_told_of_no_other_session(method: str, params: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match="its own session"):
        await ask(await known(), KERNEL, method, **params)


@pytest.mark.parametrize("method", ["session.rename", "session.archive", "session.close", "session.costs"])
async def test_a_kernel_can_change_its_own_session_and_no_other(method: str) -> None:
    ozzie = await known()
    own, other = [
        (await ozzie.sessions.open(key, title=key, channel="notebook")).session_id for key in ("own", "other")
    ]
    kernel = replace(KERNEL, session_id=own)

    await ask(ozzie, kernel, method, title="new")
    with pytest.raises(PolicyError, match="its own session"):
        await ask(ozzie, kernel, method, title="new", session_id=other)
    assert (await ozzie.sessions.get(other)).title == "other"


@pytest.mark.parametrize("session_id", [OTHER, None])
@pytest.mark.parametrize("method", ["session.open", "feed.subscribe"])
async def test_a_kernel_can_not_get_around_its_session_where_one_may_be_left_out(method: str, session_id: Any) -> None:
    with pytest.raises(PolicyError, match="its own session"):
        await ask(await known(), KERNEL, method, session_id=session_id)


@dataclass
class Taken:
    """Takes messages, and tells where they came from."""

    origins: list[Origin] = field(default_factory=list[Origin])

    async def submit(self, turn: NewTurn) -> Submitted:
        self.origins.append(turn.origin)
        return Submitted(
            task_id=TaskId("task"),
            message_id=MessageId("message"),
            session_id=turn.session_id,
            position=1,
            ahead=0,
        )


@pytest.mark.parametrize(
    ("principal", "channel"),
    [
        (KERNEL, Channel.NOTEBOOK),
        (USER, Channel.PAGE),
        (Principal(kind="local", name="ana"), Channel.CLI),
        (Principal(kind="local", name="ana", root=Path("/home/ana")), Channel.PAGE),
    ],
)
async def test_a_message_says_by_which_channel_it_came(principal: Principal, channel: Channel) -> None:
    ozzie: Any = Taken()

    await ask(ozzie, principal, "message.send", content="hello", session_id=OWN)

    assert [origin.channel for origin in ozzie.origins] == [channel]


async def test_a_user_finds_lists_and_changes_any_session() -> None:
    ozzie = await known()
    session_id = (await ozzie.sessions.open("a", title="Plans", channel="notebook")).session_id

    assert (await ask(ozzie, USER, "session.find", text="plans"))["session_id"] == session_id
    assert (await ask(ozzie, USER, "session.rename", session_id=session_id, title="Sums"))["title"] == "Sums"
    assert [row["title"] for row in (await ask(ozzie, USER, "session.list", limit=500))["items"]] == ["Sums"]
    assert (await ask(ozzie, USER, "session.archive", session_id=session_id))["status"] == "archived"
    assert [row["title"] for row in (await ask(ozzie, USER, "session.list", archived=True))["items"]] == ["Sums"]
    assert (await ask(ozzie, USER, "session.close", session_id=session_id))["status"] == "closed"
    opened = await ask(ozzie, USER, "session.open", session_id=session_id)
    assert (opened["cost"], opened["cost_known"], opened["input_tokens"]) == (0, True, 0)
