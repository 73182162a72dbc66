"""WebSocket frames: S0's three kinds, req, res and event, as DESIGN §8 completes them (GW-2).

A message of the socket is one frame, or a JSON array of frames that were ready at the same moment. Clients send one
frame a message.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from ozzie_server_ext.domain.events import Event, Transient
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode
from ozzie_server_ext.protocol.jsontext import dumps, loads
from ozzie_server_ext.protocol.names import wire_name

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
