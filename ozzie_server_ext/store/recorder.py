"""Appending facts about one task, with all that their envelopes have in common."""

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
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.tasks import Claim

BRINGING = (ApprovalRequested, ToolCallCompleted, ToolCallFailed, ToolCallUncertain)
"""Facts that say themselves what they bring in from outside."""


class Appends(Protocol):
    """As much of an `EventLog` as it takes to record."""

    async def append(
        self,
        stream: str,
        drafts: Sequence[Draft],
        *,
        expected_version: int | None = None,
        claim: Claim | None = None,
    ) -> tuple[Event, ...]:
        """See `EventLog.append`."""
        ...


class Recorder(msgspec.Struct, frozen=True, kw_only=True):
    """Writes to one task's stream. `read` tells what the task has read so far, whose labels all of it bears;
    with a `claim`, nothing is recorded once the task is another attempt's."""

    log: Appends
    session_id: SessionId
    task_id: TaskId
    trace_id: str = ""
    actor: Actor = "kernel"
    source: str = "agent"
    read: Callable[[], Content] = lambda: CLEAN
    claim: Claim | None = None

    @property
    def content(self) -> Content:
        """What is recorded now is made from this."""
        return self.read()

    def made_from(self, content: Content) -> "Recorder":
        """The same, for what is made from that, whatever else comes to be read meanwhile."""
        return msgspec.structs.replace(self, read=lambda: content)

    async def append(
        self,
        *bodies: EventBody,
        actor: Actor | None = None,
        expected_version: int | None = None,
        key: str | None = None,
    ) -> tuple[Event, ...]:
        """Append the facts together: all are committed, or none. With a `key`, of one fact alone, a repeat is none.
        Raises as `EventLog.append`."""
        content = self.read()
        drafts = [self._draft(body, content, actor, key) for body in bodies]
        stream = task_stream(self.task_id)
        return await self.log.append(stream, drafts, claim=self.claim, expected_version=expected_version)

    async def append_each(self, facts: Iterable[tuple[EventBody, Content]]) -> tuple[Event, ...]:
        """As `append`, of facts that are made from different things."""
        drafts = [self._draft(body, content) for body, content in facts]
        return await self.log.append(task_stream(self.task_id), drafts, claim=self.claim)

    def _draft(self, body: EventBody, content: Content, actor: Actor | None = None, key: str | None = None) -> Draft:
        if isinstance(body, BRINGING):  # what it says that it quotes, it bears
            content |= Content.from_sources(body.brought)
        return Draft(
            body=body,
            actor=actor or self.actor,
            source=self.source,
            session_id=self.session_id,
            task_id=self.task_id,
            trace_id=self.trace_id,
            labels=content.labels,
            sources=content.sources,
            idempotency_key=key,
        )
