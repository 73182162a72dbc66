"""The fold of a call: each state keeps its event, an outcome is final, and any order of events can be folded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.calls import CallRecord, Calls, fold_calls
from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    EventBody,
    PromptRequested,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallResolved,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import ApprovalId, CallId, PromptId
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect

A, B = CallId("a"), CallId("b")
APPROVAL = ApprovalRequested(
    approval_id=ApprovalId("a1"),
    call_id=A,
    tool_id="t",
    name="t",
    sentence="",
    proof="",
    shown="",
    whole=None,
    reason="",
    rule="",
    place="",
    side_effect=SideEffect.REVERSIBLE,
    risk_level=RiskLevel.LOW,
    undo="",
    binds="",
    needs=AuthStrength.RELAY,
    cover=None,
    expires_at="",
    key="",
)
GRANTED = ApprovalGranted(approval_id=APPROVAL.approval_id, by="ann", way=AuthStrength.RELAY, extent="once")
PROMPT = PromptRequested(
    prompt_id=PromptId("p"), kind="question", question="Where?", notes=(), options=(), call_id=CallId("a")
)
REQUESTED = ToolCallRequested(call_id=A, use_id="u", tool_id="t", name="t", version="1", args={}, round=1, index=2)
DECIDED = ToolCallDecided(call_id=A, decision="ALLOW", rule="r", reason="")
STARTED = ToolCallStarted(call_id=A)
AGAIN = ToolCallUncertain(call_id=A, reason="cut off", again=True)
UNCERTAIN = ToolCallUncertain(call_id=A, reason="unknown")
COMPLETED = ToolCallCompleted(call_id=A, ok=True, data=1, summary="", duration_ms=1.0)
FAILED = ToolCallFailed(call_id=A, code="c", message="m", duration_ms=1.0)
CANCELLED = ToolCallCancelled(call_id=A, reason="stopped")


def resolved(outcome: str) -> ToolCallResolved:
    assert outcome in ("done", "again", "left")
    return ToolCallResolved(call_id=A, outcome=outcome, by="ann")


FACTS: tuple[EventBody, ...] = (
    REQUESTED,
    DECIDED,
    APPROVAL,
    replace(APPROVAL, approval_id=ApprovalId("a2")),
    GRANTED,
    ApprovalRejected(approval_id=ApprovalId("a2"), comment="", by="ann", way=AuthStrength.CLI),
    ApprovalExpired(approval_id=ApprovalId("unknown"), why="time"),
    PROMPT,
    STARTED,
    AGAIN,
    UNCERTAIN,
    COMPLETED,
    FAILED,
    CANCELLED,
    resolved("left"),
    resolved("done"),
    replace(REQUESTED, call_id=B),
    replace(STARTED, call_id=B),
    replace(COMPLETED, call_id=B),
)


def call_of(*facts: EventBody) -> CallRecord:
    (call,) = fold_calls(facts).values()
    return call


def test_each_state_keeps_its_event() -> None:
    calls = fold_calls([REQUESTED, DECIDED, APPROVAL, GRANTED, STARTED, COMPLETED, replace(REQUESTED, call_id=B)])

    assert list(calls) == [A, B], "in the order in which they began"
    assert calls[A] == CallRecord(
        call_id=A,
        requested=REQUESTED,
        decided=DECIDED,
        approval=APPROVAL,
        answer=GRANTED,
        started=STARTED,
        outcome=COMPLETED,
    )
    assert [call.is_open for call in calls.values()] == [False, True]
    assert [call.position for call in calls.values()] == [(1, 2), (1, 2)]


@pytest.mark.parametrize(
    ("facts", "waits_for"),
    [
        ([REQUESTED], ""),
        ([REQUESTED, APPROVAL], "a yes"),
        ([REQUESTED, APPROVAL, GRANTED], ""),
        ([REQUESTED, APPROVAL, ApprovalExpired(approval_id=APPROVAL.approval_id, why="time")], "a yes"),
        ([REQUESTED, APPROVAL, GRANTED, replace(APPROVAL, approval_id=ApprovalId("a2"))], "a yes"),
        ([REQUESTED, APPROVAL, replace(APPROVAL, approval_id=ApprovalId("a2")), GRANTED], "a yes"),
        ([REQUESTED, PROMPT], "an answer"),
    ],
    ids=["nothing", "approval", "granted", "expired", "requested again", "late yes to the old one", "question"],
)
def test_an_open_call_tells_what_it_needs_from_a_person(facts: list[EventBody], waits_for: str) -> None:
    assert call_of(*facts).waits_for == waits_for


def test_a_call_whose_request_was_erased_has_its_outcome() -> None:
    call = call_of(COMPLETED)
    assert (call.requested, call.position, call.is_final, call.is_open) == (None, None, True, False)
    assert call_of(STARTED).is_open, "it may have had an effect"
    assert not call_of(DECIDED).is_open


def test_a_repeated_call_may_get_another_outcome() -> None:
    again = call_of(REQUESTED, STARTED, AGAIN)
    assert (again.is_repeated, again.is_uncertain, again.is_final, again.doubt) == (True, False, False, "cut off")
    assert call_of(REQUESTED, STARTED, AGAIN, COMPLETED).outcome == COMPLETED


@pytest.mark.parametrize(
    ("words", "kept", "is_settled"),
    [
        (["done"], "done", True),
        (["left"], "left", False),
        (["left", "again"], "again", True),
        (["again", "done"], "again", True),
    ],
)
def test_a_person_resolves_an_uncertain_call_once(words: list[str], kept: str, is_settled: bool) -> None:
    call = call_of(REQUESTED, STARTED, UNCERTAIN, *map(resolved, words))
    assert call.resolved == resolved(kept)
    assert call.is_settled == is_settled
    assert call_of(REQUESTED, STARTED, COMPLETED, resolved("again")).resolved is None, "it is known what it did"


def test_a_forgotten_call_leaves_nothing_behind() -> None:
    calls = Calls()
    for fact in (REQUESTED, APPROVAL, GRANTED, COMPLETED):
        calls.take(fact)
    calls.forget(A)
    assert len(calls) == 0
    assert calls.take(GRANTED) is None


@given(st.lists(st.sampled_from(FACTS)))
def test_any_order_of_events_folds_and_an_outcome_is_final(facts: list[EventBody]) -> None:
    final: dict[CallId, object] = {}
    calls = Calls()
    for fact in facts:
        changed = calls.take(fact)
        assert changed is None or calls[changed.call_id] is changed
        for call_id, outcome in final.items():
            assert calls[call_id].outcome == outcome
        final = {call.call_id: call.outcome for call in calls.values() if call.is_final}
    assert dict(calls) == dict(fold_calls(facts))
