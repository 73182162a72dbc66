"""What carries a fact through the log, and what is too fleeting for it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.events.catalogue import EventBody
from ozzie_server_ext.domain.events.fact import Actor
from ozzie_server_ext.domain.ids import EventId, SessionId, TaskId
from ozzie_server_ext.domain.json import Json, JsonObject


class Draft(NamedTuple):
    """A fact on its way to the log, before it has a place there. There are several for each call of a tool, and a tuple
    is made in a third of the time.

    `source` is the emitting part (S1: agent, hub, ws, plugin, skill …). `labels` and `sources` say what kind of
    outside content the fact is made from, and where that came from (DESIGN §2.9).
    """

    body: EventBody
    actor: Actor
    source: str
    session_id: SessionId | None = None
    task_id: TaskId | None = None
    trace_id: str = ""
    span_id: str = ""
    causation_id: EventId | None = None
    idempotency_key: str | None = None
    labels: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    event_id: EventId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact in the log (DESIGN §4). `position` is the global order from 1; `version` the one of its stream from 1."""

    position: int
    event_id: EventId
    stream: str
    version: int
    ts: datetime
    body: EventBody
    actor: Actor
    source: str
    session_id: SessionId | None
    task_id: TaskId | None
    trace_id: str
    span_id: str
    causation_id: EventId | None
    idempotency_key: str | None
    labels: tuple[str, ...]
    sources: tuple[str, ...]
    commitment: str
    prev_hash: str
    hash: str

    @property
    def type(self) -> str:
        return self.body.type

    @property
    def schema(self) -> int:
        return self.body.schema

    @property
    def content(self) -> Content:
        """What the fact is made from."""
        return Content(labels=self.labels, sources=self.sources) if self.labels else CLEAN


def content_of(events: Iterable[Event]) -> Content:
    """Return the union of what these events are made from: the labels of whatever may quote one of them."""
    return Content.of_all(event.content for event in events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transient:
    """Something worth seeing at once and not worth keeping: through the feed, never in the log (DESIGN §2.2)."""

    type: Literal[
        "reply.delta",
        "reply.reset",
        "agent.thinking",
        "tool.output",
        "tool.call.progressed",
        "task.progress",
        "status.heartbeat",
    ]
    session_id: SessionId | None
    task_id: TaskId | None
    payload: JsonObject = field(default_factory=dict["str", "Json"])
