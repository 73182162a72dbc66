"""The steps of a task, folded from its events: each call of a model and of a tool."""

from msgspec.structs import replace

from ozzie_server_ext.agent.structured_output import UnfitAnswer
from ozzie_server_ext.domain.calls import CallRecord, Calls
from ozzie_server_ext.domain.events import (
    Event,
    MessageRejected,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallUncertain,
)
from ozzie_server_ext.gateway.rest.shapes import TokenUsage
from ozzie_server_ext.gateway.rest.task_shapes import Failure, Step
from ozzie_server_ext.store.codec import time_text


class Steps:
    """Takes events in their order. An outcome of a call without a beginning is skipped."""

    def __init__(self) -> None:
        self._steps: dict[str, Step] = {}
        self._answers: dict[str, str] = {}
        self._calls = Calls()

    def all(self) -> list[Step]:
        """Return the steps so far, in the order in which they began."""
        return list(self._steps.values())

    def take(self, event: Event) -> None:
        body = event.body
        if (call := self._calls.take(body)) is not None:
            if call.requested is not None and not call.requested.step_id:  # a run's own steps have their own page
                begun = self._steps.get(call.call_id)
                self._steps[call.call_id] = _tool_step(
                    call, call.requested, begun.started_at if begun else time_text(event.ts)
                )
            return
        match body:
            case ModelCallStarted():
                self._steps[body.call_id] = _model_step(body, time_text(event.ts))
                if body.purpose == "answer":
                    self._answers[body.reply_id] = body.call_id
            case MessageRejected(reply_id=reply_id) if reply_id in self._answers:
                call_id = self._answers[reply_id]
                error = _failure(UnfitAnswer.code, body.problem)
                self._steps[call_id] = replace(self._steps[call_id], status="rejected", error=error)
            case ModelCallCompleted(call_id=call_id) if call_id in self._steps:
                self._steps[call_id] = replace(
                    self._steps[call_id],
                    status="completed",
                    duration_ms=body.latency_ms,
                    ttft_ms=body.ttft_ms,
                    token_usage=TokenUsage(input=body.usage.input_tokens, output=body.usage.output_tokens),
                    cost=body.cost,
                )
            case ModelCallFailed(call_id=call_id) if call_id in self._steps:
                error = _failure(body.code, body.message)
                self._steps[call_id] = replace(
                    self._steps[call_id], status="failed", duration_ms=body.latency_ms, error=error
                )
            case _:
                pass


def _model_step(body: ModelCallStarted, at: str) -> Step:
    return Step(
        kind="model",
        purpose=body.purpose,
        call_id=body.call_id,
        round=body.round,
        name=body.alias,
        status="running",
        started_at=at,
        duration_ms=None,
        provider=body.provider,
        model=body.model,
        ttft_ms=None,
        token_usage=None,
        cost=None,
        tool_id="",
        arguments=None,
        summary="",
        artifacts=[],
        error=None,
    )


def _tool_step(call: CallRecord, requested: ToolCallRequested, at: str) -> Step:
    step = Step(
        kind="tool",
        purpose="",
        call_id=call.call_id,
        round=requested.round,
        name=requested.name,
        status="requested" if call.started is None else "running",
        started_at=at,
        duration_ms=None,
        provider="",
        model="",
        ttft_ms=None,
        token_usage=None,
        cost=None,
        tool_id=requested.tool_id,
        arguments=requested.args,
        summary="",
        artifacts=[],
        error=None,
    )
    if call.decided is not None and call.decided.decision == "DENY":
        step = replace(step, status="denied", error=_failure(call.decided.rule, call.decided.reason))
    match call.outcome:
        case None:
            return step
        case ToolCallCompleted(duration_ms=duration_ms, summary=summary, artifacts=artifacts):
            return replace(
                step, status="completed", duration_ms=duration_ms, summary=summary, artifacts=list(artifacts)
            )
        case ToolCallFailed(code=code, message=message, duration_ms=duration_ms):
            status = "denied" if step.status == "denied" else "failed"
            return replace(step, status=status, duration_ms=duration_ms, error=step.error or _failure(code, message))
        case ToolCallCancelled(reason=reason):
            return replace(step, status="cancelled", error=_failure("tool.cancelled", reason))
        case ToolCallUncertain(reason=reason):
            step = replace(step, status="uncertain", error=_failure("tool.uncertain", reason))
    match call.resolved and call.resolved.outcome:
        case "done":
            return replace(step, status="completed", summary="done, as a person says", error=None)
        case "again":
            return replace(step, status="cancelled")
        case _:
            return step


def _failure(code: str, message: str) -> Failure:
    return Failure(kind="", code=code, message=message, hint="")
