"""Encode events for storage and decode them: typed bodies as canonical JSON, envelopes as columns."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

import msgspec

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import EVENT_CLASSES, Actor, Erased, Event, EventBody, Fact
from ozzie_server_ext.domain.ids import EventId, SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.jsontext import canonical_bytes, dumps
from ozzie_server_ext.store.chain import Envelope, StoredBody
from ozzie_server_ext.store.log import DamagedStore, NewerStore

Upcast = Callable[[JsonObject], JsonObject]
"""Turns a body of one schema version into the next; may change its argument."""

UPCASTS: Mapping[tuple[str, int], Upcast] = {}
"""By event type and the schema version that the function takes. An entry stays as long as such logs exist."""


def upcast(
    type_: str, body: JsonObject, stored: int, present: int, *, registry: Mapping[tuple[str, int], Upcast] = UPCASTS
) -> JsonObject:
    """Return `body`, stored with schema `stored`, as schema `present`. Raises DamagedStore if a step is missing."""
    for schema in range(stored, present):
        step = registry.get((type_, schema))
        if step is None:
            raise DamagedStore(f"Version {schema} of {type_} can't be upgraded to version {present}.")
        body = step(body)
    return body


MAX_BODY_BYTES = 8 << 20
"""The largest body. Larger content belongs in a blob, referenced from the body."""


class BodyCodec:
    """Encodes the bodies of a catalogue of facts as canonical JSON, and decodes them into their present shape."""

    def __init__(
        self, classes: tuple[type[Fact], ...] = EVENT_CLASSES, upcasts: Mapping[tuple[str, int], Upcast] = UPCASTS
    ) -> None:
        self._classes = {cls.type: cls for cls in classes}
        self._decoders = {cls.type: msgspec.json.Decoder(cls) for cls in classes}
        self._encoder = msgspec.json.Encoder(order="sorted")
        self._upcasts = upcasts

    def encode(self, body: Fact) -> tuple[bytes, EventBody]:
        """Return the JSON of `body` with sorted keys, and the body that a reader will get from it. Decoding what was
        just encoded keeps unreadable bodies out of the log. Raises InputError."""
        decoder = self._decoders.get(body.type)
        if decoder is None or self._classes[body.type] is not type(body):
            raise InputError(f"{type(body).__name__} is not in the catalogue of events.")
        raw, read = self._round_trip(body, decoder) or self._strictly(body, decoder)
        if len(raw) > MAX_BODY_BYTES:
            raise InputError(
                f"The body of {body.type} has {len(raw):,} bytes, more than {MAX_BODY_BYTES:,}.",
                hint="Put the content into a blob.",
            )
        return raw, cast(EventBody, read)

    def _round_trip(self, body: Fact, decoder: msgspec.json.Decoder[Any]) -> tuple[bytes, Any] | None:
        """Try the quick way; None if the body changes on the way, as NaN does, which msgspec writes as null."""
        try:
            raw = self._encoder.encode(body)
            read = decoder.decode(raw)
        except (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, RecursionError):
            return None
        return (raw, read) if read == body else None

    def _strictly(self, body: Fact, decoder: msgspec.json.Decoder[Any]) -> tuple[bytes, Any]:
        """Encode so that errors say what is wrong with a body; also takes tuples within JSON."""
        try:
            raw = canonical_bytes(msgspec.to_builtins(body))
            return raw, decoder.decode(raw)
        except (msgspec.MsgspecError, TypeError, RecursionError) as error:
            raise InputError(f"The body of {body.type} can't be stored: {error}.") from None

    def decode(self, type_: str, schema: int, raw: bytes, *, position: int) -> EventBody:
        """Return the body of the event at `position`. Raises NewerStore, DamagedStore."""
        cls = self._classes.get(type_)
        if cls is None or schema > cls.schema:
            raise NewerStore(f"The event at position {position} ({type_}, version {schema})")
        try:
            if schema == cls.schema:
                return cast(EventBody, self._decoders[type_].decode(raw))
            old = cast("dict[str, Any]", msgspec.json.decode(raw))
            body = upcast(type_, old, schema, cls.schema, registry=self._upcasts)
            return cast(EventBody, msgspec.convert(body, cls))
        except (msgspec.MsgspecError, TypeError) as error:  # TypeError: in a damaged page, a body may be NULL
            raise DamagedStore(f"The body at position {position} can't be read: {error}.") from None


BODIES = BodyCodec()


def decode(envelope: Envelope, stored: StoredBody | None) -> Event:
    """Return a stored event; if its body was erased, with `Erased` in its place. Raises NewerStore, DamagedStore."""
    if stored is None:
        return event_from(envelope, Erased(), 0)
    body = BODIES.decode(envelope.type, envelope.schema, stored.body, position=envelope.position)
    return event_from(envelope, body, len(stored.body))


def event_from(envelope: Envelope, body: EventBody, body_bytes: int) -> Event:
    """Return the event of an envelope and its decoded body, which has so many bytes as stored."""
    return Event(
        position=envelope.position,
        event_id=EventId(envelope.event_id),
        stream=envelope.stream,
        version=envelope.version,
        ts=datetime.fromisoformat(envelope.ts),
        body=body,
        body_bytes=body_bytes,
        actor=cast(Actor, envelope.actor),
        source=envelope.source,
        session_id=None if envelope.session_id is None else SessionId(envelope.session_id),
        task_id=None if envelope.task_id is None else TaskId(envelope.task_id),
        trace_id=envelope.trace_id,
        span_id=envelope.span_id,
        causation_id=None if envelope.causation_id is None else EventId(envelope.causation_id),
        idempotency_key=envelope.idempotency_key,
        labels=_tuple(envelope.labels),
        sources=_tuple(envelope.sources),
        commitment=envelope.commitment,
        prev_hash=envelope.prev_hash,
        hash=envelope.hash,
    )


@lru_cache(maxsize=256)  # each of an event's folds writes its time
def time_text(ts: datetime) -> str:
    """Return RFC 3339 in UTC with microseconds, which sorts as text."""
    at = ts if ts.tzinfo is UTC else ts.astimezone(UTC)
    return at.isoformat(timespec="microseconds")[:26] + "Z"


@lru_cache(maxsize=256)  # those of one event are those of the next
def strings_text(values: tuple[str, ...]) -> str:
    """Return a tuple of strings as a JSON list."""
    return dumps(values) if values else "[]"


@lru_cache(maxsize=256)
def _tuple(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(json.loads(text))
