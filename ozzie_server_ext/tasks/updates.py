"""Updates: further messages to running tasks, which their models read."""

import contextlib
from collections.abc import Iterable, Sequence

from ozzie_server_ext.domain.errors import Conflict, InputError, VersionConflict
from ozzie_server_ext.domain.events import HUB, Draft, Event, TaskCreated, TaskUpdated
from ozzie_server_ext.domain.ids import MessageId, TaskId, task_stream
from ozzie_server_ext.domain.tasks import FINAL
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import open_tasks, session_of, task_of
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tasks.workflows.delegation import forwarded
from ozzie_server_ext.tasks.workflows.judging import VERDICT

MOST_CHARS = 20_000


class UpdateIntake:
    """Records updates of tasks, and forwards them to delegated tasks. They have no labels, since a person writes
    them."""

    def __init__(self, log: EventLog, tasks: TaskService) -> None:
        self._log = log
        self._tasks = tasks

    async def update(
        self, task_id: TaskId, text: str, *, by: str, key: str = "", message_id: MessageId | None = None
    ) -> Event:
        """Send a further message to an open task; return its event, which is durable. With a `key`, repeated calls
        record it once, even if the task has ended since. `message_id` is that of a message to the session.

        Raises NotFound, InputError if the text is empty or too long, and Conflict if the task has ended or has no
        model.
        """
        words = text.strip()
        if not words:
            raise InputError("The update is empty.", hint="Write what the task is to know.", code="update.empty")
        if len(words) > MOST_CHARS:
            raise InputError(
                f"The update has {len(words):,} characters; at most {MOST_CHARS:,} are taken.",
                hint="Put the text into a file of the project and name the file.",
                code="update.too_long",
            )
        session_id = session_of(await self._tasks.get(task_id))
        fact = TaskUpdated(text=words, by=by, message_id=message_id)
        draft = Draft(
            body=fact,
            actor="user",
            source=HUB,
            session_id=session_id,
            task_id=task_id,
            idempotency_key=f"updated:{key}" if key else None,
        )
        update = await self._record(draft, task_id)
        await self._forward_below(task_id, [update])
        return update

    async def updates_of(self, task_id: TaskId) -> list[Event]:
        """Return the updates of a task."""
        if not (await self._tasks.get(task_id))["updates"]:
            return []
        return [event for event in await self._log.read_stream(task_stream(task_id)) if event.type == TaskUpdated.type]

    async def forward(self, run: TaskId, step: TaskId, known: Sequence[Event]) -> None:
        """Forward the updates of a run to the task of a step, except those that it was created with. An update may have
        come while the step started."""
        known_ids = {event.event_id for event in known}
        if updates := [event for event in await self.updates_of(run) if event.event_id not in known_ids]:
            await self._forward_to(await self._tasks.get(step), updates)

    async def forward_missed(self) -> None:
        """Forward all updates that a dead gateway had not forwarded. Call it before any task runs and could end without
        them."""
        for row in await open_tasks(self._log):
            if not row["updates"]:
                continue
            updates = await self.updates_of(task_of(row))
            for below in await open_tasks(self._log, parent_id=row["task_id"]):
                created = (await self._log.read_stream(task_stream(task_of(below))))[0].position
                # Steps get all updates of their run; a task delegated by an agent only those after its creation.
                await self._forward_to(below, [e for e in updates if row["mode"] == "GRAPH" or e.position > created])

    async def _forward_below(self, task_id: TaskId, updates: list[Event]) -> None:
        for row in await open_tasks(self._log, parent_id=task_id):
            await self._forward_to(row, updates)

    async def _forward_to(self, row: Row, updates: list[Event]) -> None:
        with contextlib.suppress(Conflict):  # it has ended, or has no model
            task_id = task_of(row)
            recorded = [await self._record(forwarded(event, task_id), task_id) for event in updates]
            if row["mode"] == "GRAPH":
                await self._forward_below(task_id, recorded)

    async def _record(self, draft: Draft, task_id: TaskId) -> Event:
        """Record an update, once per key, and return its event. Raises Conflict."""
        while True:
            events = await self._log.read_stream(task_stream(task_id))
            if (key := draft.idempotency_key) is not None:
                for event in events:
                    if event.idempotency_key == key:
                        return event
            row = await self._tasks.get(task_id)
            if row["status"] in FINAL:
                raise Conflict(
                    f"The task has ended already: {str(row['status']).lower()}.",
                    hint="Send it as a new message: its session knows what was done.",
                    code="task.ended",
                )
            if row["stop_by"]:
                raise Conflict("The task is being stopped.", hint="Send it as a new message.", code="task.stopping")
            if not _reads(events):
                raise Conflict(
                    "The task makes one call and reads nothing more.",
                    hint="Send it to the run that it is part of.",
                    code="task.one_call",
                )
            with contextlib.suppress(VersionConflict):  # the task has changed meanwhile: check again
                (event,) = await self._log.append(task_stream(task_id), [draft], expected_version=events[-1].version)
                return event


def _reads(events: Iterable[Event]) -> bool:
    """Whether a task of these events has a model that reads updates. A judge of a step's result does not."""
    created = next((event.body for event in events if isinstance(event.body, TaskCreated)), None)
    return created is None or (created.call is None and created.answer_schema != VERDICT)
