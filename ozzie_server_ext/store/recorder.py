"""Appends the facts of one task, with the envelope fields that they share."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.events import (
    Actor,
    ApprovalRequested,
    Draft,
    Event,
    EventBody,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import GATEWAY, EventId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.tasks import Claim

BRINGING = (ApprovalRequested, ToolCallCompleted, ToolCallFailed, ToolCallUncertain)
"""Facts that name their outside sources themselves."""


class Appends(Protocol):
    """The part of an `EventLog` that recording needs."""

    async def append(
        self, stream: str, drafts: Sequence[Draft], *, expected_version: int | None = None, claim: Claim | None = None
    ) -> tuple[Event, ...]:
        """See `EventLog.append`."""
        ...


class Recorder(msgspec.Struct, frozen=True, kw_only=True):
    """Writes to one task's stream. `content_now` returns the provenance of what the task has read so far: all its facts
    carry those labels. With a `claim`, nothing is recorded once somebody else has claimed the task. `cause` is the
    event that led to the first fact of an append and to each tool call requested in it; without one, and for all other
    facts, that is the previous event of the stream.

    The driver makes a task's recorder with its claim. A turn adds what it has read, and for calls the answer that led
    to them; the broker, for what a call records, the yes, the intent, and what the call read beyond the turn."""

    log: Appends
    session_id: SessionId
    task_id: TaskId
    actor: Actor = GATEWAY
    source: str = "agent"
    content_now: Callable[[], Content] = lambda: CLEAN
    claim: Claim | None = None
    cause: EventId | None = None

    @property
    def content(self) -> Content:
        """What facts recorded now are made from."""
        return self.content_now()

    def made_from(self, content: Content) -> "Recorder":
        """Return a recorder for facts made from `content`, whatever else is read meanwhile."""
        return msgspec.structs.replace(self, content_now=lambda: content)

    def caused_by(self, event_id: EventId | None) -> "Recorder":
        """Return a recorder for facts that this event led to."""
        return msgspec.structs.replace(self, cause=event_id)

    def from_source(self, source: str) -> "Recorder":
        """Return a recorder for facts of another source, that nothing here led to."""
        return msgspec.structs.replace(self, source=source, cause=None)

    async def append(
        self,
        *bodies: EventBody,
        actor: Actor | None = None,
        expected_version: int | None = None,
        key: str | None = None,
    ) -> tuple[Event, ...]:
        """Append the facts, all or none. With a `key`, for one fact only, a repeat adds nothing. Raises like
        `EventLog.append`."""
        content = self.content
        drafts = [
            self._draft(body, content, actor, key, cause=self._cause_of(body, is_first=index == 0))
            for index, body in enumerate(bodies)
        ]
        stream = task_stream(self.task_id)
        return await self.log.append(stream, drafts, claim=self.claim, expected_version=expected_version)

    async def append_each(self, facts: Iterable[tuple[EventBody, Content]]) -> tuple[Event, ...]:
        """Like `append`, for facts that are made from different content."""
        drafts = [
            self._draft(body, content, cause=self._cause_of(body, is_first=index == 0))
            for index, (body, content) in enumerate(facts)
        ]
        return await self.log.append(task_stream(self.task_id), drafts, claim=self.claim)

    def _cause_of(self, body: EventBody, *, is_first: bool) -> EventId | None:
        return self.cause if is_first or isinstance(body, ToolCallRequested) else None

    def _draft(
        self,
        body: EventBody,
        content: Content,
        actor: Actor | None = None,
        key: str | None = None,
        *,
        cause: EventId | None,
    ) -> Draft:
        if isinstance(body, BRINGING):  # it carries the labels of what it quotes
            content |= Content.from_sources(body.brought)
        return Draft(
            body=body,
            actor=actor or self.actor,
            source=self.source,
            session_id=self.session_id,
            task_id=self.task_id,
            causation_id=cause,
            labels=content.labels,
            sources=content.sources,
            idempotency_key=key,
        )
