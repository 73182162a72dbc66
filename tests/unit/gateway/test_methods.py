"""What a caller of the WebSocket's methods may do."""

from dataclasses import dataclass
from typing import Any

import pytest

from ozzie_server_ext.domain.errors import PolicyError
from ozzie_server_ext.domain.events import Draft, Limits, TaskCreated
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId, task_stream
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.methods import Call, task_cancel
from ozzie_server_ext.observability.clock import FakeClock, UlidSource
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.service import TaskService

KERNEL = Principal(kind="kernel", name="ana", kernel_id="k", session_id=SessionId("sess_own"))
USER = Principal(kind="user", name="ana")


class Idle:
    """Carries out nothing."""

    def enqueue(self, task_id: TaskId, session_id: SessionId) -> int:
        return 0

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> bool:
        return False


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
