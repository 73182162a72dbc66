"""A session as lines of JSON: one event each, as `GET /events` shows it, for programs."""

from typing import Any

from ozzie_server_ext.domain.events import Erased, Event
from ozzie_server_ext.export.session import Extent, events_before
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.log import EventLog


async def lines_of(log: EventLog, extent: Extent) -> list[dict[str, Any]]:
    """Return all events of a session, with those of delegated tasks, in order. Erased ones have no payload."""
    return [
        _line(event)
        for session_id, before in extent.spans
        for event in await events_before(log, before, session_id=session_id)
    ]


def _line(event: Event) -> dict[str, Any]:
    return {
        "position": event.position,
        "id": event.event_id,
        "type": event.type,
        "ts": time_text(event.ts),
        "actor": event.actor,
        "source": event.source,
        "session_id": event.session_id,
        "task_id": event.task_id,
        "labels": [*event.labels],
        "payload": None if isinstance(event.body, Erased) else encode(event.body),
        "hash": event.hash,
    }
