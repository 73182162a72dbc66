"""WebSocket frames of three kinds: req, res and event (SPEC.md).

A message of the socket is one frame, or a JSON array of frames that were ready at the same moment. Clients send one
frame a message.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ozzie_server_ext.domain.events import Event, Transient
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode
from ozzie_server_ext.protocol.jsontext import dumps, loads


class Names(NamedTuple):
    """`s0` and `s1` are those documents' WebSocket names; `s4` is OctoAgent's; `sse` FazAI's event type."""

    s0: str = ""
    s1: str = ""
    s4: str = ""
    sse: str = ""


NAMES: dict[str, Names] = {
    "session.created": Names("session.created", "session.created"),
    "session.renamed": Names(),
    "session.model_chosen": Names(),
    "session.resumed": Names(),
    "session.moved": Names(),
    "session.compacted": Names(),
    "session.forked": Names(),
    "session.archived": Names(),
    "session.closed": Names("session.closed", "session.closed"),
    "session.erased": Names(),
    "labels.cleared": Names(),
    "message.received": Names("user.message", "user.message", "USER_MESSAGE"),
    "message.completed": Names("assistant.message", "assistant.message", "", "observe"),
    "message.rejected": Names(),
    "message.sent": Names(),
    "task.created": Names(s4="TASK_CREATED"),
    "task.queued": Names(s4="STATE_TRANSITION"),
    "task.started": Names(s4="STATE_TRANSITION"),
    "task.stopping": Names(),
    "task.updated": Names(),
    "task.waiting_approval": Names(s4="STATE_TRANSITION"),
    "task.waiting_input": Names(s4="STATE_TRANSITION", sse="ask"),
    "task.pausing": Names(),
    "task.paused": Names(s4="STATE_TRANSITION"),
    "task.resumed": Names(s4="STATE_TRANSITION"),
    "task.retried": Names(s4="STATE_TRANSITION"),
    "task.stalled": Names(),
    "task.told": Names(),
    "task.model_chosen": Names(),
    "task.succeeded": Names(s4="STATE_TRANSITION", sse="done"),
    "task.failed": Names(s4="ERROR", sse="error"),
    "task.cancelled": Names(s4="STATE_TRANSITION", sse="error"),
    "model.call.started": Names(),
    "model.call.completed": Names("", "internal.llm.call", "MODEL_CALL"),
    "model.call.failed": Names(s4="ERROR"),
    "budget.reserved": Names(),
    "budget.settled": Names(),
    "budget.exceeded": Names(),
    "budget.raised": Names(),
    "tool.call.requested": Names("tool.call.requested", "tool.call", "TOOL_CALL", "action"),
    "tool.call.decided": Names(),
    "tool.call.started": Names(),
    "tool.call.progressed": Names(),
    "tool.call.completed": Names("tool.call.result", "", "TOOL_RESULT", "observe"),
    "tool.call.failed": Names("tool.call.result", "", "TOOL_RESULT", "observe"),
    "tool.call.cancelled": Names("tool.call.result", "", "TOOL_RESULT", "observe"),
    "tool.call.uncertain": Names(),
    "tool.call.resolved": Names(),
    "approval.requested": Names("tool.call.confirmation", "tool.call.confirmation", "APPROVAL_REQUESTED", "ask"),
    "approval.granted": Names(s4="APPROVED"),
    "approval.rejected": Names(s4="REJECTED"),
    "approval.expired": Names(),
    "approval.refused": Names(),
    "skill.started": Names("", "skill.started"),
    "skill.completed": Names("", "skill.completed"),
    "skill.failed": Names(),
    "skill.skipped": Names(),
    "step.started": Names("", "skill.step.started"),
    "step.completed": Names("", "skill.step.completed"),
    "step.failed": Names(),
    "step.skipped": Names(),
    "checkpoint.saved": Names(s4="CHECKPOINT_SAVED"),
    "artifact.created": Names(s4="ARTIFACT_CREATED"),
    "artifact.superseded": Names(),
    "artifact.erased": Names(),
    "memory.fragment_added": Names(),
    "memory.proposed": Names(),
    "memory.committed": Names(),
    "memory.refused": Names(),
    "memory.superseded": Names(),
    "memory.vault_granted": Names(),
    "schedule.triggered": Names("schedule.trigger", "schedule.trigger"),
    "schedule.misfired": Names(),
    "schedule.changed": Names(),
    "channel.incoming": Names("incoming.message", "incoming.message"),
    "channel.outgoing": Names("outgoing.message", "outgoing.message"),
    "plugin.loaded": Names(),
    "plugin.disabled": Names(),
    "plugin.health_changed": Names(),
    "grant.granted": Names(),
    "grant.revoked": Names(),
    "secret.changed": Names(),
    "incident.opened": Names(),
    "incident.closed": Names(),
    "config.changed": Names(),
    "config.rolled_back": Names(),
    "remote.connected": Names(),
    "remote.telemetry": Names(),
    "worker.started": Names(),
    "worker.lost": Names(),
    "prompt.requested": Names("", "prompt.request"),
    "prompt.answered": Names("", "prompt.response"),
    "agent.delegated": Names("agent.delegation"),
    "toolset.injected": Names(),
    # Transient: through the feed, never in the log.
    "reply.delta": Names("assistant.stream", "assistant.stream", "", "token"),
    "reply.reset": Names(),
    "agent.thinking": Names("agent.thinking", "", "", "observe"),
    "tool.output": Names(sse="exec_log"),
    "task.progress": Names(),
    "status.heartbeat": Names(s4="HEARTBEAT"),
}


def wire_name(canonical: str) -> str:
    """What a WebSocket frame calls an event: the S0 or S1 name where one exists, else the canonical one."""
    names = NAMES[canonical]
    return names.s0 or names.s1 or canonical


MAX_FRAME_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorInfo:
    """A failed request: a stable code, a sentence, and what to do next."""

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    id: str
    method: str
    params: JsonObject = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    id: str
    ok: bool
    payload: JsonObject = field(default_factory=dict[str, Json])
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFrame:
    """`position` is None for what is transient. `ts` is RFC 3339 in UTC, empty for what is transient."""

    event: str
    canonical: str = ""
    position: int | None = None
    payload: JsonObject = field(default_factory=dict[str, Json])
    session_id: str | None = None
    task_id: str | None = None
    ts: str = ""
    labels: tuple[str, ...] = ()


Frame: TypeAlias = Request | Response | EventFrame

_KINDS: dict[str, type[Request] | type[Response] | type[EventFrame]] = {
    "req": Request,
    "res": Response,
    "event": EventFrame,
}
_TYPES: dict[type[object], str] = {kind: name for name, kind in _KINDS.items()}


def event_frame(item: Event | Transient) -> EventFrame:
    """What clients are told of a recorded or a transient event."""
    if isinstance(item, Transient):
        return EventFrame(
            event=wire_name(item.type),
            canonical=item.type,
            payload=item.payload,
            session_id=item.session_id,
            task_id=item.task_id,
        )
    return EventFrame(
        event=wire_name(item.type),
        canonical=item.type,
        position=item.position,
        payload=encode(item.body),
        session_id=item.session_id,
        task_id=item.task_id,
        ts=item.ts.isoformat(),
        labels=item.labels,
    )


def encode_frame(frame: Frame) -> str:
    """The frame as JSON text, without the fields that are empty. An `id` stands there even so: what could not be read
    as a request is answered with an empty one."""
    told = {
        key: value
        for key, value in encode(frame).items()
        if key == "id" or (value is not None and value not in ("", (), []))
    }
    position: JsonObject = {"position": frame.position} if isinstance(frame, EventFrame) else {}
    return dumps({"type": _TYPES[type(frame)], **told, **position})


def decode_frames(text: str | bytes) -> tuple[Frame, ...]:
    """The frames in one message of the socket.

    Raises InvalidJson, InvalidShape.
    """
    value = loads(text, max_bytes=64 * MAX_FRAME_BYTES)
    return tuple(_frame(item) for item in value) if isinstance(value, list) else (_frame(value),)


def decode_request(text: str | bytes) -> Request | EventFrame:
    """The one frame that a client sends: a request, or an event of S0 such as `user.message`.

    Raises InvalidJson, InvalidShape.
    """
    frame = _frame(loads(text, max_bytes=MAX_FRAME_BYTES))
    if isinstance(frame, Response):
        raise InvalidShape("A client sends frames of type req or event.")
    return frame


def _frame(value: Json) -> Frame:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidShape("A frame is a JSON object whose type is req, res or event.")
    return decode(_KINDS[kind], value)
