"""WebSocket frames of three kinds, req, res and event (SPEC.md), and what events are called in them.

A socket message is one frame, or a JSON array of frames that were ready at the same moment. Clients send one frame per
message.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple, TypeAlias, get_args

import msgspec

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import EVENT_CLASSES, Event, Transient, TransientType
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode
from ozzie_server_ext.protocol.jsontext import dumps, loads


class Names(NamedTuple):
    """What the documents of docs/documents.md call an event: S0 and S1 in a frame of the WebSocket, S4 (OctoAgent) in
    its log, S2 (FazAI) in server-sent events."""

    s0: str = ""
    s1: str = ""
    s4: str = ""
    sse: str = ""


NAMES: dict[str, Names] = {
    "session.created": Names("session.created", "session.created"),
    "session.closed": Names("session.closed", "session.closed"),
    "message.received": Names("user.message", "user.message", "USER_MESSAGE"),
    "message.completed": Names("assistant.message", "assistant.message", "", "observe"),
    "task.created": Names(s4="TASK_CREATED"),
    "task.queued": Names(s4="STATE_TRANSITION"),
    "task.started": Names(s4="STATE_TRANSITION"),
    "task.waiting_approval": Names(s4="STATE_TRANSITION"),
    "task.waiting_input": Names(s4="STATE_TRANSITION", sse="ask"),
    "task.paused": Names(s4="STATE_TRANSITION"),
    "task.resumed": Names(s4="STATE_TRANSITION"),
    "task.retried": Names(s4="STATE_TRANSITION"),
    "task.succeeded": Names(s4="STATE_TRANSITION", sse="done"),
    "task.failed": Names(s4="ERROR", sse="error"),
    "task.cancelled": Names(s4="STATE_TRANSITION", sse="error"),
    "model.call.completed": Names("", "internal.llm.call", "MODEL_CALL"),
    "model.call.failed": Names(s4="ERROR"),
    "tool.call.requested": Names("tool.call.requested", "tool.call", "TOOL_CALL", "action"),
    "tool.call.completed": Names("tool.call.result", "", "TOOL_RESULT", "observe"),
    "tool.call.failed": Names("tool.call.result", "", "TOOL_RESULT", "observe"),
    "tool.call.cancelled": Names("tool.call.result", "", "TOOL_RESULT", "observe"),
    "approval.requested": Names("tool.call.confirmation", "tool.call.confirmation", "APPROVAL_REQUESTED", "ask"),
    "approval.granted": Names(s4="APPROVED"),
    "approval.rejected": Names(s4="REJECTED"),
    "skill.started": Names("", "skill.started"),
    "skill.completed": Names("", "skill.completed"),
    "step.started": Names("", "skill.step.started"),
    "step.completed": Names("", "skill.step.completed"),
    "checkpoint.saved": Names(s4="CHECKPOINT_SAVED"),
    "artifact.created": Names(s4="ARTIFACT_CREATED"),
    "schedule.triggered": Names("schedule.trigger", "schedule.trigger"),
    "channel.incoming": Names("incoming.message", "incoming.message"),
    "channel.outgoing": Names("outgoing.message", "outgoing.message"),
    "prompt.requested": Names("", "prompt.request"),
    "prompt.answered": Names("", "prompt.response"),
    "agent.delegated": Names("agent.delegation"),
    # Transient: sent through the feed, never logged.
    "reply.delta": Names("assistant.stream", "assistant.stream", "", "token"),
    "agent.thinking": Names("agent.thinking", "", "", "observe"),
    "tool.output": Names(sse="exec_log"),
    "status.heartbeat": Names(s4="HEARTBEAT"),
}
"""The events that have other names."""


def wire_name(canonical: str) -> str:
    """Return the name of an event in a WebSocket frame: that of S0 or S1 if there is one, else the canonical one."""
    names = NAMES.get(canonical, Names())
    return names.s0 or names.s1 or canonical


STORED_NAMES = frozenset(name for cls in EVENT_CLASSES for name in (cls.type, wire_name(cls.type)))
"""All names of events in the log, canonical and in frames."""
_CANONICAL: dict[str, set[str]] = {}
"""The canonical names for each name, of transients too: frames call three outcomes of a tool `tool.call.result`."""
for _name in (*(cls.type for cls in EVENT_CLASSES), *get_args(TransientType)):
    _CANONICAL.setdefault(_name, set()).add(_name)
    _CANONICAL.setdefault(wire_name(_name), set()).add(_name)


def canonical_names(names: Iterable[str]) -> frozenset[str]:
    """Return the canonical names for these, each canonical or as in frames. Raises InputError for an unknown one."""
    found: set[str] = set()
    for name in names:
        if name not in _CANONICAL:
            near = get_close_matches(name, _CANONICAL, n=3)
            hint = f"The nearest are: {', '.join(near)}." if near else "docs/events.md lists all names."
            raise InputError(f"There is no event {name[:60]}.", hint=hint, code="input.event")
        found |= _CANONICAL[name]
    return frozenset(found)


MAX_FRAME_BYTES = 1 << 20


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A failed request: a stable code, a sentence, and what to do next."""

    code: str
    message: str
    hint: str = ""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    method: str
    params: JsonObject = msgspec.field(default_factory=dict[str, Json])


class Response(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    ok: bool
    payload: JsonObject = msgspec.field(default_factory=dict[str, Json])
    error: ErrorInfo | None = None


class EventFrame(msgspec.Struct, frozen=True, kw_only=True):
    """`position` is None and `ts` empty for a transient; else `ts` is RFC 3339 in UTC."""

    event: str
    canonical: str = ""
    position: int | None = None
    payload: JsonObject = msgspec.field(default_factory=dict[str, Json])
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
    """Return the frame that tells clients of an event."""
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
    """Return the frame as JSON text, without empty fields. An `id` is always there: what could not be read as a request
    is answered with an empty one."""
    fields = {
        key: value
        for key, value in encode(frame).items()
        if key == "id" or (value is not None and value not in ("", (), []))
    }
    position: JsonObject = {"position": frame.position} if isinstance(frame, EventFrame) else {}
    return dumps({"type": _TYPES[type(frame)], **fields, **position})


def decode_frames(text: str | bytes) -> tuple[Frame, ...]:
    """Return the frames in one socket message. Raises InvalidJson, InvalidShape."""
    value = loads(text, max_bytes=64 * MAX_FRAME_BYTES)
    return tuple(_frame(item) for item in value) if isinstance(value, list) else (_frame(value),)


def decode_request(text: str | bytes) -> Request | EventFrame:
    """Return the one frame that a client sends: a request, or an event of S0 such as `user.message`. Raises
    InvalidJson, InvalidShape."""
    frame = _frame(loads(text, max_bytes=MAX_FRAME_BYTES))
    if isinstance(frame, Response):
        raise InvalidShape("A client sends frames of type req or event.")
    return frame


def id_of(text: str | bytes) -> str:
    """Return the id in a client's bad frame, so that the client finds the request that its answer belongs to; empty if
    there is none."""
    try:
        value = loads(text, max_bytes=MAX_FRAME_BYTES)
    except InputError:
        return ""
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _frame(value: Json) -> Frame:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidShape("A frame is a JSON object whose type is req, res or event.")
    return decode(_KINDS[kind], value)
