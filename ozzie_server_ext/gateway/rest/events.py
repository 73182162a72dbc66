"""`events`: the log, by position, time, type, session and task."""

from datetime import datetime

import msgspec

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.clock import moment_in
from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.gateway.operation import BadParameter, Call
from ozzie_server_ext.gateway.rest import shapes
from ozzie_server_ext.gateway.rest.shapes import (
    EventRecord,
    EventType,
    Limit,
    Moment,
    NumberCursor,
    Page,
    Position,
    SessionId,
    TaskId,
)
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.frames import canonical_names, wire_name
from ozzie_server_ext.store.codec import time_text


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`since` is the first moment included, `until` the first one excluded."""

    type: tuple[EventType, ...] = ()
    session_id: SessionId | None = None
    task_id: TaskId | None = None
    since: Moment | None = None
    until: Moment | None = None
    after: Position = 0
    newest_first: bool = False
    limit: Limit = 100
    cursor: NumberCursor | None = None


async def list_events(call: Call, request: EventsQuery) -> Page[EventRecord]:
    """List the events after the position `after`, in order or newest first. `type` may be repeated. Events whose
    content was erased are left out."""
    cursor = None if request.cursor is None else int(request.cursor)
    forwards = not request.newest_first and cursor is not None
    found = await call.ozzie.log.read(
        after=max(request.after, cursor) if forwards and cursor is not None else request.after,
        before=cursor if request.newest_first else None,
        newest_first=request.newest_first,
        limit=request.limit + 1,
        types=canonical_names(request.type) or None,
        session_id=None if request.session_id is None else ids.SessionId(request.session_id),
        task_id=None if request.task_id is None else ids.TaskId(request.task_id),
        since=moment("since", request.since),
        until=moment("until", request.until),
    )
    return shapes.page(found, request.limit, event_shape, lambda event: event.position)


def event_shape(event: Event) -> EventRecord:
    """Return an event as clients see it."""
    return EventRecord(
        position=event.position,
        event_id=event.event_id,
        stream=event.stream,
        version=event.version,
        ts=time_text(event.ts),
        type=event.type,
        name=wire_name(event.type),
        schema=event.schema,
        actor=event.actor,
        source=event.source,
        session_id=event.session_id,
        task_id=event.task_id,
        trace_id=event.trace_id,
        span_id=event.span_id,
        causation_id=event.causation_id,
        idempotency_key=event.idempotency_key,
        labels=list(event.labels),
        sources=list(event.sources),
        payload=encode(event.body),
        commitment=event.commitment,
        prev_hash=event.prev_hash,
        hash=event.hash,
    )


def moment(name: str, text: str | None) -> datetime | None:
    """Return the moment. Raises BadParameter unless it is a day, or a moment with an offset."""
    if text is None:
        return None
    try:
        return moment_in(text)
    except ValueError:
        pass
    raise BadParameter(f"{name} must be a day such as 2026-01-31, or a moment such as 2026-01-31T12:00:00Z.")
