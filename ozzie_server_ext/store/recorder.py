"""Appending facts about one task, with all that their envelopes have in common."""

from dataclasses import dataclass

from ozzie_server_ext.domain.events import Actor, Draft, Event, EventBody
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.tasks import Claim
from ozzie_server_ext.store.log import EventLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Writes to one task's stream. `labels` and `sources` are those of what the task has read so far; with a `claim`,
    nothing is recorded once the task is another attempt's."""

    log: EventLog
    session_id: SessionId
    task_id: TaskId
    trace_id: str = ""
    actor: Actor = "kernel"
    source: str = "agent"
    labels: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    claim: Claim | None = None

    async def append(
        self, *bodies: EventBody, actor: Actor | None = None, expected_version: int | None = None
    ) -> tuple[Event, ...]:
        """Append the facts together: all are committed, or none. Raises as `EventLog.append`."""
        return await self.log.append(
            task_stream(self.task_id),
            [
                Draft(
                    body=body,
                    actor=actor or self.actor,
                    source=self.source,
                    session_id=self.session_id,
                    task_id=self.task_id,
                    trace_id=self.trace_id,
                    labels=self.labels,
                    sources=self.sources,
                )
                for body in bodies
            ],
            claim=self.claim,
            expected_version=expected_version,
        )
