"""How strong an answer is, is told by who gives it, and by nothing that is said."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.errors import InputError, NotFound, PolicyError
from ozzie_server_ext.domain.events import (
    ApprovalRefused,
    ApprovalRequested,
    Draft,
    EventBody,
    Limits,
    TaskCreated,
    TaskQueued,
    TaskStarted,
    TaskWaitingApproval,
)
from ozzie_server_ext.domain.ids import APPROVALS_STREAM, ApprovalId, CallId, MessageId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect
from ozzie_server_ext.gateway.access import AccessTokens, Principal, answerer_of, behalf_headers
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.routes import METHODS
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.observability.clock import FakeClock, UlidSource
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.approvals import Approvals

OWN = SessionId("sess_own")
KERNEL = Principal(kind="kernel", name="ana", kernel_id="k", session_id=OWN)
PROGRAM = Principal(kind="local", name="ana")
RELAYED = Principal(kind="local", name="ana", root=Path("/notebooks"))
PAGE = Principal(kind="user", name="ana")


@pytest.mark.parametrize(
    ("principal", "way", "session_id"),
    [
        (KERNEL, AuthStrength.RELAY, OWN),
        (PROGRAM, AuthStrength.CLI, None),
        (RELAYED, AuthStrength.BROWSER, None),
        (PAGE, AuthStrength.BROWSER, None),
    ],
)
def test_each_caller_has_one_way(principal: Principal, way: AuthStrength, session_id: SessionId | None) -> None:
    answerer = answerer_of(principal)

    assert (answerer.name, answerer.way, answerer.session_id) == ("ana", way, session_id)


@pytest.mark.parametrize("principal", [KERNEL, PROGRAM, RELAYED, PAGE])
def test_nobody_from_outside_answers_as_a_second_model_does(principal: Principal) -> None:
    named = replace(principal, name="cheap (model)")

    assert answerer_of(named).way.strength > AuthStrength.MODEL.strength


def test_a_kernel_that_speaks_for_an_attached_server_stays_a_kernel() -> None:
    access = AccessTokens()
    token = access.issue_kernel_token("kernel-1", OWN)
    said = list(behalf_headers("root", Path("/")).values())
    holder = access.holder(f"token {token}", on_behalf_of=said[0], root=said[1])

    assert holder is not None
    assert answerer_of(holder).way is AuthStrength.RELAY


@dataclass
class Asked:
    """The part of the services that answers go to."""

    approvals: Approvals


class Bench:
    """One approval of the session `OWN` that needs a way, and answers to it over the WebSocket."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.ids = UlidSource(self.clock)
        self.log = InMemoryEventLog(self.clock, self.ids)
        self.approval_id = ApprovalId(self.ids.new())
        self.ozzie: Any = Asked(Approvals(self.log, self.clock))

    async def ask(self, needs: AuthStrength) -> "Bench":
        task_id = TaskId(self.ids.new())
        requested = ApprovalRequested(
            approval_id=self.approval_id,
            call_id=CallId(self.ids.new()),
            tool_id="a.b",
            name="a",
            sentence="Run `a`?",
            proof="",
            shown="",
            whole=None,
            reason="",
            rule="",
            place="",
            side_effect=SideEffect.IRREVERSIBLE,
            risk_level=RiskLevel.LOW,
            undo="",
            binds="0" * 64,
            needs=needs,
            cover=None,
            key="",
            expires_at="2100-01-01T00:00:00.000000Z",
        )
        bodies: list[EventBody] = [
            TaskCreated(title="t", mode="FREE", message_id=MessageId(self.ids.new()), limits=Limits()),
            TaskQueued(reason="created"),
            TaskStarted(attempt=1, epoch="e"),
            requested,
            TaskWaitingApproval(approval_id=self.approval_id),
        ]
        drafts = [Draft(body=body, actor="user", source="hub", session_id=OWN, task_id=task_id) for body in bodies]
        await self.log.append(task_stream(task_id), drafts)
        return self

    async def answer(self, principal: Principal, answer: str = "approve", **said: Any) -> tuple[str, str]:
        """The status and the way behind it."""
        params: JsonObject = {"approval_id": self.approval_id, "answer": answer, **said}
        await METHODS["approval.answer"].payload_for(Call(GatewayState(), self.ozzie, principal), params)
        return await self.state()

    async def state(self) -> tuple[str, str]:
        (row,) = await self.log.rows("approvals")
        return str(row["status"]), str(row["way"])

    async def refusals(self) -> list[tuple[str, str, AuthStrength]]:
        bodies = [event.body for event in await self.log.read_stream(APPROVALS_STREAM)]
        return [(body.answer, body.why, body.way) for body in bodies if isinstance(body, ApprovalRefused)]


@pytest.mark.parametrize("needs", AuthStrength)
@pytest.mark.parametrize("principal", [KERNEL, PROGRAM, RELAYED, PAGE])
async def test_a_yes_counts_from_a_way_that_is_strong_enough_and_from_no_other(
    needs: AuthStrength, principal: Principal
) -> None:
    bench, way = await Bench().ask(needs), answerer_of(principal).way
    if way.strength >= needs.strength:
        assert await bench.answer(principal) == ("granted", way)
        return
    with pytest.raises(PolicyError):
        await bench.answer(principal)
    assert (await bench.state(), await bench.refusals()) == (("pending", ""), [("approve", "way", way)])


@pytest.mark.parametrize("needs", AuthStrength)
async def test_a_no_counts_from_everywhere(needs: AuthStrength) -> None:
    bench = await Bench().ask(needs)

    assert await bench.answer(KERNEL, "reject", comment="no") == ("rejected", "relay")


@pytest.mark.parametrize("answer", ["approve", "reject", "renew"])
async def test_a_kernel_of_another_session_answers_nothing_and_that_is_kept(answer: str) -> None:
    bench = await Bench().ask(AuthStrength.RELAY)
    stranger = Principal(kind="kernel", name="eve", kernel_id="k2", session_id=SessionId("sess_other"))
    with pytest.raises(PolicyError, match="own session"):
        await bench.answer(stranger, answer)

    assert (await bench.state(), await bench.refusals()) == (("pending", ""), [(answer, "session", AuthStrength.RELAY)])


async def test_what_a_client_says_of_itself_does_not_count() -> None:
    bench = await Bench().ask(AuthStrength.BROWSER)
    with pytest.raises(PolicyError):
        await bench.answer(KERNEL, way="step_up", by="root", session_id=None, needs="relay", approved=True)

    assert await bench.state() == ("pending", "")


async def test_an_id_that_names_nothing_is_kept_too() -> None:
    bench = await Bench().ask(AuthStrength.RELAY)
    with pytest.raises(NotFound):
        await bench.answer(KERNEL, approval_id="01M800000000000000000000ZZ")

    assert await bench.refusals() == [("approve", "unknown", AuthStrength.RELAY)]


async def test_what_can_be_no_id_is_refused_before_anything_is_kept() -> None:
    bench = await Bench().ask(AuthStrength.RELAY)
    with pytest.raises(NotFound):
        await bench.answer(KERNEL, approval_id="x" * 400)

    assert await bench.refusals() == []


async def test_an_endless_comment_is_refused() -> None:
    bench = await Bench().ask(AuthStrength.RELAY)
    with pytest.raises(InputError, match="at most 2,000"):
        await bench.answer(KERNEL, "reject", comment="x" * 2001)

    assert await bench.state() == ("pending", "")
