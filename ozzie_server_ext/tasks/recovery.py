"""Recovery after a restart: running and queued tasks go on, and nothing is lost or done twice.

A turn resumes from the log. Its open calls get an outcome first. A model call has failed and is repeated. A tool call
that only reads is repeated; for another one, the tool checks whether it took effect. If it can't tell, the call is
uncertain: repeated if it has a key, otherwise a person is asked. docs/adr/0012-recovery.md has the whole table.
"""

import asyncio
from collections.abc import Callable, Mapping, Set

from ozzie_server_ext.agent.questions import uncertain_question
from ozzie_server_ext.domain.calls import CallRecord
from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import Conflict, OzzieError
from ozzie_server_ext.domain.events import (
    INTERRUPTED,
    Draft,
    EventBody,
    TaskCancelled,
    TaskFailed,
    TaskPaused,
    TaskQueued,
    TaskWaitingInput,
    Transient,
    WorkerLost,
    WorkerStarted,
    content_of,
)
from ozzie_server_ext.domain.ids import GATEWAY, CallId, PromptId, SessionId, TaskId, task_stream, worker_stream
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.tasks import FINAL, HELD, Task, TaskStatus
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.identity import ProcessMark, see_off
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.tasks import task_from
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.pauses import pending_pause, propagate_requests
from ozzie_server_ext.tasks.reconciliation import (
    ReconcilerOf,
    Unfinished,
    cut_off,
    end_of,
    made_again,
    not_again,
    nothing_is_known,
    stopped,
    unfinished,
)
from ozzie_server_ext.tasks.rows import find_task, has_own_thread, open_tasks, with_delegated
from ozzie_server_ext.tasks.service import TaskQueue
from ozzie_server_ext.tasks.times import RECOVERY

log = logger(__name__)

MAX_DEATHS = 3
"""A turn that was working at so many deaths of the gateway may be their cause. Turns that waited for delegated tasks
don't count: they may wait for a person across any number of restarts."""

MAX_DELEGATED_DEATHS = 10
"""The same for steps: more, because steps run in parallel and most are not the cause. Runs are never the cause: all
their work is in their steps."""

_CUT_OFF = "Ozzie's gateway ended in the middle of it."


async def recover(
    event_log: EventLog,
    queue: TaskQueue,
    *,
    ids: IdSource,
    reconciler_of: ReconcilerOf = nothing_is_known,
    publish: Callable[[Transient], None] = lambda transient: None,
) -> int:
    """Recover all unfinished tasks in the order of their creation; return how many run.

    The caller owns the log. Wait first, for a limited time, until the child processes of dead gateways are gone.
    `publish` sends live messages about replies that begin again.
    """
    await _end_orphaned_workers(event_log)
    await _end_orphaned_tasks(event_log)
    await propagate_requests(event_log, RECOVERY)
    recovered: list[tuple[TaskId, SessionId, bool]] = []
    for row in await event_log.rows("tasks", where={"status": [str(status) for status in HELD]}):
        waiting = task_from(row)
        if waiting.session_id is not None:  # it stays as it is, and blocks later tasks of its session
            queue.hold(waiting.task_id, waiting.session_id, delegated=has_own_thread(row))
            await _end_model_calls(event_log, waiting)
    open_states: list[Json] = [TaskStatus.CREATED, TaskStatus.QUEUED, TaskStatus.RUNNING]
    for row in await event_log.rows("tasks", where={"status": open_states}, order_by="task_id"):
        task, is_delegated = task_from(row), has_own_thread(row)
        if task.session_id is None:
            log.error("a task without a session can't be recovered", extra={"task_id": task.task_id})
            continue
        recorder = Recorder(log=event_log, session_id=task.session_id, task_id=task.task_id, source=RECOVERY)
        events = await event_log.read_stream(task_stream(task.task_id))
        left = unfinished(events)
        reconciler = await reconciler_of(task.session_id)
        done = {tool.call_id: await reconciler.was_done(tool) for tool in left.tools}
        keyed = {tool.call_id for tool in left.tools if reconciler.has_key(tool)}
        most = MAX_DELEGATED_DEATHS if is_delegated else MAX_DEATHS
        facts, runs = _judge(
            task,
            left,
            done,
            keyed,
            PromptId(ids.new()) if row["attended"] else None,
            deaths=left.recoveries + 1,
            gives_up=task.mode != "GRAPH" and left.works and left.recoveries + 1 >= most,
            pause=pending_pause(events),
        )
        if facts and isinstance(facts[-1], TaskPaused | TaskWaitingInput):
            # Before it is recorded, because the driver can't know from the log that the task was delegated.
            queue.hold(task.task_id, task.session_id, delegated=is_delegated)
        try:
            if facts:  # the reason of an end may quote anything that the task read
                facts = await with_delegated(event_log, task.task_id, facts)
                await recorder.made_from(content_of(events)).append(*facts)
        except Conflict:
            log.warning("a task changed while it was recovered", extra={"task_id": task.task_id})
            continue
        types = ", ".join(fact.type for fact in facts) or "goes on"
        log.info("task %s was %s: %s", task.task_id, task.status.lower(), types)
        if runs:
            for reply_id in left.replies:
                reset: JsonObject = {"reply_id": reply_id}
                publish(Transient(type="reply.reset", session_id=task.session_id, task_id=task.task_id, payload=reset))
            recovered.append((task.task_id, task.session_id, is_delegated))
    # Enqueue at the end: a run checks its steps first, whose interrupted calls have their ends in the log by now.
    for task_id, session_id, delegated in recovered:
        queue.enqueue(task_id, session_id, delegated=delegated)
    return len(recovered)


async def _end_orphaned_tasks(event_log: EventLog) -> None:
    """Cancel the open tasks whose parent has ended: a gateway died between the end of a run and the ends of its
    steps."""
    for row in await open_tasks(event_log):
        above = None if row["parent_id"] is None else await find_task(event_log, str(row["parent_id"]))
        if above is not None and above["status"] in FINAL:
            task = task_from(row)
            assert task.session_id is not None, "a delegated task has its parent's session"
            recorder = Recorder(log=event_log, session_id=task.session_id, task_id=task.task_id, source=RECOVERY)
            events = await event_log.read_stream(task_stream(task.task_id))
            left = unfinished(events)
            ends: list[EventBody] = [cut_off(call, INTERRUPTED, _CUT_OFF) for call in left.models]
            ends += [*stopped(left.tools), TaskCancelled(by=GATEWAY, reason="The run that it was part of has ended.")]
            facts = await with_delegated(event_log, task.task_id, ends)
            await recorder.made_from(content_of(events)).append(*facts)


async def _end_model_calls(event_log: EventLog, waiting: Task) -> None:
    """Record the end of model calls that a gateway left open when it died right after a question."""
    left = unfinished(await event_log.read_stream(task_stream(waiting.task_id)))
    if left.models and waiting.session_id is not None:
        recorder = Recorder(log=event_log, session_id=waiting.session_id, task_id=waiting.task_id, source=RECOVERY)
        await recorder.append(*(cut_off(call, INTERRUPTED, _CUT_OFF) for call in left.models))


def _judge(
    task: Task,
    left: Unfinished,
    done: Mapping[CallId, bool | None],
    keyed: Set[CallId],
    prompt_id: PromptId | None,
    *,
    deaths: int,
    gives_up: bool,
    pause: TaskPaused | None,
) -> tuple[list[EventBody], bool]:
    """Return the facts to record for a task, and whether it runs.

    `done`: whether each open call took effect; `keyed`: the calls that can be repeated with their key; `prompt_id`: for
    a question, if a person can be asked; `deaths`: of gateways while it ran; `gives_up`: it may be what kills them;
    `pause`: the requested one.
    """
    given_up = task.status is TaskStatus.RUNNING and gives_up
    goes_on = not task.stop_by and not given_up
    ends: list[EventBody] = [cut_off(call, INTERRUPTED, _CUT_OFF) for call in left.models]
    unresolved: list[CallRecord] = []
    for tool in left.tools:
        if done[tool.call_id] is None and goes_on and tool.call_id in keyed:
            ends.append(made_again(tool, _CUT_OFF))
            continue
        ends.append(end_of(tool, done[tool.call_id], _CUT_OFF))
        if done[tool.call_id] is None:
            unresolved.append(tool)
    if given_up and not task.stop_by:  # not repeated now; after a cancellation they are, if the task is retried
        ends += [end_of(tool, None, tool.doubt) for tool in left.to_repeat]
        unresolved += left.to_repeat
    if task.stop_by:
        return [*ends, TaskCancelled(by=task.stop_by, reason=task.reason)], False
    if unresolved or left.uncertain:
        end = not_again([*left.uncertain, *unresolved])
        if prompt_id is not None and task.status is TaskStatus.RUNNING:
            return [*ends, *uncertain_question(prompt_id, end.message)], False
        return [*ends, end], False
    if given_up:
        failed = TaskFailed(
            kind="system",
            code="task.interrupted",
            message=f"This turn was interrupted by a restart {deaths} times and was not resumed.",
            hint="Run the cell again. Your message is kept.",
        )
        return [*ends, failed], False
    if pause is not None and task.status is TaskStatus.RUNNING:
        return [*ends, pause], False
    if task.status is TaskStatus.QUEUED:
        return ends, True
    return [*ends, TaskQueued(reason="recovered")], True


async def _end_orphaned_workers(event_log: EventLog) -> None:
    """End the child processes of dead gateways, and record that."""
    rows = await event_log.rows("workers", where={"status": "running"})
    planes = {
        ProcessMark(pid=int(str(row["pid"])), started=str(row["started"]), boot=str(row["boot"])): str(row["plane"])
        for row in rows
    }
    fates = await see_off(tuple(planes))
    for mark, fate in fates.items():
        log.info("process %d of the %s plane: %s", mark.pid, planes[mark], fate)
        lost = WorkerLost(plane=planes[mark], pid=mark.pid, reason=f"Its gateway is gone. {fate}")
        await event_log.append(worker_stream(planes[mark]), [Draft(body=lost, actor="system", source=RECOVERY)])


class WorkerRecord:
    """Records the starts and losses of a plane's processes. If the log can't be written, they run all the same."""

    def __init__(self, event_log: EventLog, plane: str) -> None:
        self._log = event_log
        self._plane = plane
        self._losses: set[asyncio.Task[None]] = set()

    async def started(self, mark: ProcessMark) -> None:
        """See `planes.supervisor`. Durable when it returns, unless the log fails."""
        await self._record(WorkerStarted(plane=self._plane, pid=mark.pid, started=mark.started, boot=mark.boot))

    def lost(self, pid: int, reason: str) -> None:
        """See `planes.supervisor`, which does not wait for the recording."""
        task = asyncio.create_task(self._record(WorkerLost(plane=self._plane, pid=pid, reason=reason)))
        self._losses.add(task)
        task.add_done_callback(self._losses.discard)

    async def settle(self) -> None:
        """Wait until all losses are recorded."""
        await asyncio.gather(*self._losses, return_exceptions=True)

    async def _record(self, body: EventBody) -> None:
        draft = Draft(body=body, actor="system", source="planes")
        try:
            await self._log.append(worker_stream(self._plane), [draft])
        except OzzieError as error:
            log.error("%s of the %s plane was not recorded: %s", body.type, self._plane, error)
