"""Saying more to what goes on already (AG-5, S4 UPDATE): a turn reads it at its next call of a model, a run hands it on
to the steps that run and to those that begin."""

import contextlib
from collections.abc import Iterable, Sequence

from ozzie_server_ext.domain.errors import Conflict, InputError, VersionConflict
from ozzie_server_ext.domain.events import Draft, Event, TaskCreated, TaskUpdated
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import FINAL, OPEN
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.delegation import handed_on
from ozzie_server_ext.tasks.judging import VERDICT
from ozzie_server_ext.tasks.service import TaskService

MOST_CHARS = 20_000


class Updates:
    """Takes the words in. They are a person's own, and so nothing that is said here has labels."""

    def __init__(self, log: EventLog, tasks: TaskService) -> None:
        self._log = log
        self._tasks = tasks

    async def update(self, task_id: TaskId, text: str, *, by: str, key: str = "") -> None:
        """Say something more to a task that has not ended. It is durable when this returns. With a `key`, it is said
        once, however often this is called, also where the task has ended since.

        Raises NotFound, InputError for nothing or too much, and Conflict for a task that has ended, or that makes one
        call and reads nothing.
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
        session_id = SessionId(str((await self._tasks.get(task_id))["session_id"]))
        fact = TaskUpdated(text=words, by=by)
        draft = Draft(
            body=fact,
            actor="user",
            source="hub",
            session_id=session_id,
            task_id=task_id,
            idempotency_key=f"updated:{key}" if key else None,
        )
        await self._to_those_below(task_id, [await self._say(draft, task_id)])

    async def said_to(self, task_id: TaskId) -> list[Event]:
        """What was said to a task while it went on."""
        if not (await self._tasks.get(task_id))["updates"]:
            return []
        return [event for event in await self._log.read_stream(task_stream(task_id)) if event.type == TaskUpdated.type]

    async def hand_on(self, run: TaskId, step: TaskId, but: Sequence[Event]) -> None:
        """Say to the task of a step what was said to its run, but what it was begun with: it may have been said in the
        moment in which the step began."""
        known = {event.event_id for event in but}
        if said := [event for event in await self.said_to(run) if event.event_id not in known]:
            await self._to_one_below(await self._tasks.get(step), said)

    async def hand_on_the_rest(self) -> None:
        """Say to all tasks what was said to those above them and what a gateway that died had not handed on. Before
        anything runs: it would end without that."""
        is_open: list[Json] = [str(status) for status in OPEN]
        for row in await self._log.rows("tasks", where={"status": is_open}, order_by="task_id"):
            if not row["updates"]:
                continue
            said = await self.said_to(TaskId(str(row["task_id"])))
            for below in await self._log.rows("tasks", where={"parent_id": row["task_id"], "status": is_open}):
                begun = (await self._log.read_stream(task_stream(TaskId(str(below["task_id"])))))[0].position
                # What an agent was told before it handed work over, that does not know; a step knows all.
                await self._to_one_below(below, [e for e in said if row["mode"] == "GRAPH" or e.position > begun])

    async def _to_those_below(self, task_id: TaskId, said: list[Event]) -> None:
        is_open: list[Json] = [str(status) for status in OPEN]
        for row in await self._log.rows("tasks", where={"parent_id": task_id, "status": is_open}):
            await self._to_one_below(row, said)

    async def _to_one_below(self, row: Row, said: list[Event]) -> None:
        with contextlib.suppress(Conflict):  # it has ended by now, or reads nothing
            task_id = TaskId(str(row["task_id"]))
            heard = [await self._say(handed_on(event, task_id), task_id) for event in said]
            if row["mode"] == "GRAPH":
                await self._to_those_below(task_id, heard)

    async def _say(self, draft: Draft, task_id: TaskId) -> Event:
        """Record it, once where it has a key; the event of it. Raises Conflict."""
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
                    hint="Send it as a new message: what was done is known in its session.",
                    code="task.ended",
                )
            if not _reads(events):
                raise Conflict(
                    "The task makes one call that was given to it, and reads nothing more.",
                    hint="Say it to the run that it is a part of.",
                    code="task.one_call",
                )
            with contextlib.suppress(VersionConflict):  # somebody had something to say meanwhile: look again
                (said,) = await self._log.append(task_stream(task_id), [draft], expected_version=events[-1].version)
                return said


def _reads(events: Iterable[Event]) -> bool:
    """Whether a task of these events has a model that may hear of it: who judges sees the result and nothing else."""
    created = next((event.body for event in events if isinstance(event.body, TaskCreated)), None)
    return created is None or (created.call is None and created.answer_schema != VERDICT)
