"""What has to be so of a run: at the moment of its gateway's death, and in the end. The log is held against the
counter, which is the only one that knows."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeVar

from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    Event,
    EventBody,
    PromptAnswered,
    PromptRequested,
    TaskFailed,
    TaskWaitingApproval,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallResolved,
    ToolCallStarted,
    ToolCallUncertain,
)
from tests.integration.crashes.counter import Counted
from tests.integration.crashes.runs import LATE, Kind, Phase, Run, at_death, expected

_OUTCOMES = (ToolCallCompleted, ToolCallFailed, ToolCallCancelled, ToolCallUncertain)
_RESOLVED = {"done": "done", "again": "again", "leave": "left"}

T = TypeVar("T", bound=EventBody)


def check_at_death(run: Run, events: Sequence[Event], counted: Counted) -> None:
    """The run was cut off in its phase, and the log says no more than is so."""
    bodies = [event.body for event in events]
    attempts, effects, intents = at_death(run)
    if run.point == LATE:
        effects = 0  # it may come at any moment now
    outcomes = [body for body in bodies if isinstance(body, _OUTCOMES)]
    assert (len(counted.attempts), len(_of(bodies, ToolCallStarted))) == (attempts, intents), run
    assert run.point == LATE or len(counted.effects) == effects, run
    match run.phase:
        case Phase.AFTER_OUTCOME:
            assert [type(outcome) for outcome in outcomes] == [ToolCallCompleted], run
        case Phase.PENDING:
            assert isinstance(bodies[-1], TaskWaitingApproval), run
            assert outcomes == [], run
        case _:
            assert outcomes == [], run
    assert len(_of(bodies, ApprovalGranted)) == run.is_allowed_before, run


def check_end(run: Run, events: Sequence[Event], counted: Counted) -> None:
    """What came of the run is what was asked for, and the log tells what happened."""
    bodies = [event.body for event in events]
    wanted = expected(run)
    found = {
        "attempts": len(counted.attempts),
        "effects": len(counted.effects),
        "intents": len(_of(bodies, ToolCallStarted)),
        "approvals": len(_of(bodies, ApprovalRequested)),
        "doubts": len(_asked_about(bodies)),
        "end": bodies[-1].type,
    }
    assert found == asdict(wanted), f"{run}: {[body.type for body in bodies]}"
    _check_effects(run, bodies, counted)
    _check_calls(run, bodies, counted)
    _check_answers(run, bodies)


def _check_effects(run: Run, bodies: Sequence[EventBody], counted: Counted) -> None:
    """At most one, unless a person who was asked said again; and nothing was tried again unasked that may not be."""
    said_again = [body for body in _of(bodies, ToolCallResolved) if body.outcome == "again"]
    assert len(counted.effects) <= 1 + len(said_again), run
    if run.kind in (Kind.REVERSIBLE, Kind.IRREVERSIBLE):
        assert len(counted.attempts) <= 1 + len(said_again), run
        order = [type(body) for body in bodies if isinstance(body, ToolCallStarted) or body in said_again]
        assert order in ([], [ToolCallStarted], [ToolCallStarted, ToolCallResolved, ToolCallStarted][: len(order)]), run
    # One key for one call of the model, in every process; and in no process was it tried twice.
    assert len({attempt.key for attempt in counted.attempts}) <= 1, run
    assert len({attempt.pid for attempt in counted.attempts}) == len(counted.attempts), run
    started = [body.call_id for body in _of(bodies, ToolCallStarted)]
    assert len(set(started)) == len(started), run
    tried = [attempt.call for attempt in counted.attempts]
    assert len(set(tried)) == len(tried), run
    assert set(tried) <= set(started), "something was tried without an intent"


def _check_calls(run: Run, bodies: Sequence[EventBody], counted: Counted) -> None:
    """Each call has one outcome, which is true."""
    tried = {attempt.call: attempt for attempt in counted.attempts}
    begun = {body.call_id for body in _of(bodies, ToolCallStarted)}
    for asked in _of(bodies, ToolCallRequested):
        call_id = asked.call_id
        (outcome,) = [body for body in bodies if isinstance(body, _OUTCOMES) and body.call_id == call_id]
        attempt = tried.get(call_id)
        match outcome:
            case ToolCallCompleted():
                assert attempt is not None, run
                assert outcome.ok, run
                assert attempt.answered, run
                if run.kind is not Kind.NONE:
                    (had,) = [effect for effect in counted.effects if outcome.data == {"had": effect}]
                    assert had == call_id or run.kind is Kind.IDEMPOTENT, run
            case ToolCallFailed():
                assert (attempt, outcome.code) == (None, "approval.rejected"), run
            case ToolCallCancelled():
                assert call_id not in begun or run.kind is Kind.NONE, f"{run}: nobody can know that it was not had"
            case ToolCallUncertain(again=True):
                assert run.kind is Kind.IDEMPOTENT, run
                assert call_id in begun, run
            case _:
                assert run.is_doubtful, run
                assert call_id in begun, run


def _check_answers(run: Run, bodies: Sequence[EventBody]) -> None:
    """Each question was put once and answered by a person; what was begun by a yes was begun by one of its own."""
    prompts, answers = _of(bodies, PromptRequested), _of(bodies, PromptAnswered)
    assert [prompt.prompt_id for prompt in prompts] == [answer.prompt_id for answer in answers], run
    assert [answer.option for answer in answers] == ([str(run.doubt)] if run.is_doubtful else []), run
    resolved = _of(bodies, ToolCallResolved)
    assert [body.outcome for body in resolved] == [_RESOLVED[answer.option] for answer in answers], run
    assert [body.call_id for body in resolved] == [body.call_id for body in _asked_about(bodies)], run
    yes = {body.approval_id for body in _of(bodies, ApprovalGranted)}
    assert _of(bodies, ApprovalExpired) == [], run
    assert len(yes) + len(_of(bodies, ApprovalRejected)) == len(_of(bodies, ApprovalRequested)), run
    used = [body.approval_id for body in _of(bodies, ToolCallStarted)]
    assert set(used) <= yes if run.asks else set(used) <= {None}, run
    if run.is_doubtful:
        assert len(set(used)) == len(used) or not run.asks, f"{run}: a yes counted twice"
    if (failed := _of(bodies, TaskFailed)) and (code := failed[-1].code):
        assert code == "tool.uncertain", run


def _asked_about(bodies: Sequence[EventBody]) -> list[ToolCallUncertain]:
    """The doubts that are for a person; the others end by themselves, with a call that is made with the same key."""
    return [body for body in _of(bodies, ToolCallUncertain) if not body.again]


def _of(bodies: Sequence[EventBody], kind: type[T]) -> list[T]:
    return [body for body in bodies if isinstance(body, kind)]
