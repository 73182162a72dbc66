"""What a caller of the WebSocket's methods may do."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from ozzie_server_ext.domain.errors import PolicyError
from ozzie_server_ext.domain.events import Draft, Limits, TaskCreated
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId, task_stream
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.methods import METHODS, Call, task_cancel
from ozzie_server_ext.observability.clock import FakeClock, UlidSource
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tasks.sessions import Sessions
from ozzie_server_ext.tasks.today import TodaysUsage

KERNEL = Principal(kind="kernel", name="ana", kernel_id="k", session_id=SessionId("sess_own"))
USER = Principal(kind="user", name="ana")


class Idle:
    """Carries out nothing."""

    def enqueue(self, task_id: TaskId, session_id: SessionId) -> int:
        return 0

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> SessionId | None:
        return None


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
    await task_cancel(Call(ozzie, principal, {"task_id": task_id}))
    return str((await service.get(task_id))["status"])


@pytest.mark.parametrize("session_id", [None, SessionId("sess_other")])
async def test_a_kernel_can_not_stop_a_task_outside_its_session(session_id: SessionId | None) -> None:
    with pytest.raises(PolicyError, match="its own session"):
        await cancel(KERNEL, session_id)


async def test_a_kernel_can_stop_a_task_of_its_session() -> None:
    assert await cancel(KERNEL, KERNEL.session_id) == "CANCELLED"


@pytest.mark.parametrize("session_id", [None, SessionId("sess_other")])
async def test_a_user_can_stop_any_task(session_id: SessionId | None) -> None:
    assert await cancel(USER, session_id) == "CANCELLED"


@dataclass
class Known:
    """The parts of the services that know of sessions."""

    sessions: Sessions
    log: InMemoryEventLog
    today: TodaysUsage


async def known() -> Any:
    clock = FakeClock()
    ids = UlidSource(clock)
    log = InMemoryEventLog(clock, ids)
    return Known(Sessions(log, ids), log, TodaysUsage(log, clock))


@pytest.mark.parametrize(("method", "params"), [("session.list", {}), ("session.find", {"text": "a"})])
async def test_a_kernel_is_told_of_no_other_session(method: str, params: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match="its own session"):
        await METHODS[method](Call(await known(), KERNEL, params))


@pytest.mark.parametrize("method", ["session.rename", "session.archive", "session.close", "session.costs"])
async def test_a_kernel_can_change_its_own_session_and_no_other(method: str) -> None:
    ozzie = await known()
    own, other = [
        (await ozzie.sessions.open(key, title=key, channel="notebook")).session_id for key in ("own", "other")
    ]
    kernel = replace(KERNEL, session_id=own)

    await METHODS[method](Call(ozzie, kernel, {"title": "new"}))
    with pytest.raises(PolicyError, match="its own session"):
        await METHODS[method](Call(ozzie, kernel, {"title": "new", "session_id": other}))
    assert (await ozzie.sessions.get(other)).title == "other"


async def test_a_user_finds_lists_and_changes_any_session() -> None:
    ozzie = await known()
    session_id = (await ozzie.sessions.open("a", title="Plans", channel="notebook")).session_id

    async def ask(method: str, **params: Any) -> Any:
        return await METHODS[method](Call(ozzie, USER, params))

    assert (await ask("session.find", text="plans"))["session_id"] == session_id
    assert (await ask("session.rename", session_id=session_id, title="Sums"))["title"] == "Sums"
    assert [row["title"] for row in (await ask("session.list", limit=5000))["items"]] == ["Sums"]
    assert (await ask("session.archive", session_id=session_id))["status"] == "archived"
    assert [row["title"] for row in (await ask("session.list", archived=True))["items"]] == ["Sums"]
    assert (await ask("session.close", session_id=session_id))["status"] == "closed"
    opened = await ask("session.open", session_id=session_id)
    assert (opened["cost"], opened["cost_known"], opened["input_tokens"]) == (0, True, 0)
