"""The steps of a task, folded from its events: each call of a model and of a tool."""

from dataclasses import replace

from ozzie_server_ext.agent.structured_output import UnfitAnswer
from ozzie_server_ext.domain.events import (
    Event,
    MessageRejected,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallResolved,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.gateway.rest.shapes import TokenUsage
from ozzie_server_ext.gateway.rest.task_shapes import Failure, Step
from ozzie_server_ext.store.codec import time_text


class Steps:
    """Takes events in their order. An outcome of a call that never began is passed over."""

    def __init__(self) -> None:
        self._steps: dict[str, Step] = {}
        self._answers: dict[str, str] = {}

    def all(self) -> list[Step]:
        """The steps so far, in the order in which they began."""
        return list(self._steps.values())

    def take(self, event: Event) -> None:
        body = event.body
        if isinstance(body, ModelCallStarted):
            self._steps[body.call_id] = _model_step(body, time_text(event.ts))
            if body.purpose == "answer":
                self._answers[body.reply_id] = body.call_id
        elif isinstance(body, MessageRejected) and body.reply_id in self._answers:
            call_id = self._answers[body.reply_id]
            why = _failure(UnfitAnswer.code, body.problem)
            self._steps[call_id] = replace(self._steps[call_id], status="rejected", error=why)
        elif isinstance(body, ToolCallRequested):
            self._steps[body.call_id] = _tool_step(body, time_text(event.ts))
        elif (
            isinstance(
                body,
                ModelCallCompleted
                | ModelCallFailed
                | ToolCallDecided
                | ToolCallStarted
                | ToolCallCompleted
                | ToolCallFailed
                | ToolCallCancelled
                | ToolCallUncertain
                | ToolCallResolved,
            )
            and body.call_id in self._steps
        ):
            self._steps[body.call_id] = _after(self._steps[body.call_id], body)


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


def _tool_step(body: ToolCallRequested, at: str) -> Step:
    return Step(
        kind="tool",
        purpose="",
        call_id=body.call_id,
        round=body.round,
        name=body.name,
        status="requested",
        started_at=at,
        duration_ms=None,
        provider="",
        model="",
        ttft_ms=None,
        token_usage=None,
        cost=None,
        tool_id=body.tool_id,
        arguments=body.args,
        summary="",
        artifacts=[],
        error=None,
    )


def _after(
    step: Step,
    body: ModelCallCompleted
    | ModelCallFailed
    | ToolCallDecided
    | ToolCallStarted
    | ToolCallCompleted
    | ToolCallFailed
    | ToolCallCancelled
    | ToolCallUncertain
    | ToolCallResolved,
) -> Step:
    match body:
        case ModelCallCompleted():
            return replace(
                step,
                status="completed",
                duration_ms=body.latency_ms,
                ttft_ms=body.ttft_ms,
                token_usage=TokenUsage(input=body.usage.input_tokens, output=body.usage.output_tokens),
                cost=body.cost,
            )
        case ModelCallFailed():
            return replace(step, status="failed", duration_ms=body.latency_ms, error=_failure(body.code, body.message))
        case ToolCallDecided(decision="DENY"):
            return replace(step, status="denied", error=_failure(body.rule, body.reason))
        case ToolCallDecided():
            return step
        case ToolCallStarted():
            return replace(step, status="running")
        case ToolCallCompleted():
            return replace(
                step,
                status="completed",
                duration_ms=body.duration_ms,
                summary=body.summary,
                artifacts=list(body.artifacts),
            )
        case ToolCallFailed():
            status = "denied" if step.status == "denied" else "failed"
            error = step.error or _failure(body.code, body.message)
            return replace(step, status=status, duration_ms=body.duration_ms, error=error)
        case ToolCallCancelled():
            return replace(step, status="cancelled", error=_failure("tool.cancelled", body.reason))
        case ToolCallUncertain():
            return replace(step, status="uncertain", error=_failure("tool.uncertain", body.reason))
        case ToolCallResolved(outcome="done"):
            return replace(step, status="completed", summary="done, as a person says", error=None)
        case ToolCallResolved(outcome="again"):
            return replace(step, status="cancelled")
        case ToolCallResolved():
            return step


def _failure(code: str, message: str) -> Failure:
    return Failure(kind="", code=code, message=message, hint="")
