"""After a restart: what was running goes on, what was queued runs, nothing is lost or done twice.

A turn goes on from what the log says was done. What it was in the middle of gets an honest end first: a call of a model
failed, and is asked anew; a call of a tool that only reads is made again; of one that may have had an effect, the tool
itself looks whether it did, and where it can't say, the call is uncertain: made again where it has a key, and else
a person is asked what is to become of it. docs/adr/0012-recovery.md has the whole table.
"""

import asyncio
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from ozzie_server_ext.agent.questions import uncertain_prompt
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
from ozzie_server_ext.domain.ids import CallId, PromptId, ReplyId, SessionId, TaskId, task_stream, worker_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import FINAL, HELD, OPEN, Task, TaskStatus
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.identity import ProcessMark, see_off
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.tasks import task_from
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.delegated import with_delegated
from ozzie_server_ext.tasks.pauses import hand_down, wished
from ozzie_server_ext.tasks.reconciliation import (
    NO_RECONCILER,
    Reconciler,
    Unfinished,
    cut_off,
    end_of,
    made_again,
    not_again,
    stopped,
    unfinished,
)
from ozzie_server_ext.tasks.service import Runner
from ozzie_server_ext.tasks.times import RECOVERY

log = logger(__name__)

MAX_ATTEMPTS = 3
"""A turn that was at work at each of so many deaths of the gateway may be what kills it. One that waited for what it
had handed over is not: it may wait for a person over any number of restarts."""

MAX_DELEGATED_ATTEMPTS = 10
"""Steps run side by side, and most die of others. The run that they are part of is never what kills: all that it does,
it does by them."""

_CUT_OFF = "Ozzie's gateway ended in the middle of it."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What becomes of one task: the facts to record, and whether it is to run."""

    facts: tuple[EventBody, ...]
    runs: bool


async def recover(
    event_log: EventLog,
    runner: Runner,
    *,
    ids: IdSource,
    reconciler: Reconciler = NO_RECONCILER,
    publish: Callable[[Transient], None] = lambda transient: None,
) -> int:
    """Take up every unfinished task, in the order in which they were created; returns how many run.

    The caller owns the log. It waits first, in bounded time, until the child processes of dead gateways are gone.
    `publish` tells those who follow which replies begin again.
    """
    await _see_off_workers(event_log)
    await _end_the_abandoned(event_log)
    await hand_down(event_log, RECOVERY)
    taken: list[tuple[Task, SessionId, bool]] = []
    for row in await event_log.rows("tasks", where={"status": [str(status) for status in HELD]}):
        waiting = task_from(row)
        if waiting.session_id is not None:  # it stays as it is, and what was asked after it comes after it
            runner.hold(waiting.task_id, waiting.session_id, delegated=row["parent_id"] is not None)
            await _end_calls(event_log, waiting)
    open_states: list[Json] = [TaskStatus.CREATED, TaskStatus.QUEUED, TaskStatus.RUNNING]
    for row in await event_log.rows("tasks", where={"status": open_states}, order_by="task_id"):
        task = task_from(row)
        if task.session_id is None:
            log.error("a task without a session can't be taken up", extra={"task_id": task.task_id})
            continue
        recorder = Recorder(log=event_log, session_id=task.session_id, task_id=task.task_id, source=RECOVERY)
        events = await event_log.read_stream(task_stream(task.task_id))
        left = unfinished(events)
        done = {tool.call_id: await reconciler.was_done(tool) for tool in left.tools}
        keyed = {tool.call_id for tool in left.tools if reconciler.has_key(tool)}
        most = MAX_ATTEMPTS if row["parent_id"] is None else MAX_DELEGATED_ATTEMPTS
        verdict = _judge(
            task,
            left,
            done,
            keyed,
            PromptId(ids.new()) if row["attended"] else None,
            gives_up=task.mode != "GRAPH" and left.works and left.recoveries + 1 >= most,
            wish=wished(events),
        )
        if verdict.facts and isinstance(verdict.facts[-1], TaskPaused | TaskWaitingInput):
            # Before that is recorded: who hears of it in the log can't know that the task was delegated.
            runner.hold(task.task_id, task.session_id, delegated=row["parent_id"] is not None)
        try:
            if verdict.facts:  # why something ended may quote what was read before
                facts = await with_delegated(event_log, task.task_id, verdict.facts)
                await recorder.made_from(content_of(events)).append(*facts)
        except Conflict:
            log.warning("a task changed while it was recovered", extra={"task_id": task.task_id})
            continue
        log.info(
            "task %s was %s: %s",
            task.task_id,
            task.status.lower(),
            ", ".join(fact.type for fact in verdict.facts) or "goes on",
        )
        if verdict.runs:
            for reply_id in left.replies:
                publish(_reset(reply_id, task.session_id, task.task_id))
            taken.append((task, task.session_id, row["parent_id"] is not None))
    # A run looks at its steps first: what they were in the middle of has its end in the log by then.
    for task, session_id, delegated in taken:
        runner.enqueue(task.task_id, session_id, delegated=delegated)
    return len(taken)


async def _end_the_abandoned(event_log: EventLog) -> None:
    """A gateway that died between the end of a run and the ends of its steps left those: nobody waits for them."""
    open_states: list[Json] = [str(status) for status in OPEN]
    for row in await event_log.rows("tasks", where={"status": open_states}, order_by="task_id"):
        if row["parent_id"] is None:
            continue
        above = await event_log.rows("tasks", where={"task_id": row["parent_id"]}, limit=1)
        if above and above[0]["status"] in FINAL:
            task = task_from(row)
            assert task.session_id is not None, "what is delegated has the session of who delegates"
            recorder = Recorder(log=event_log, session_id=task.session_id, task_id=task.task_id, source=RECOVERY)
            events = await event_log.read_stream(task_stream(task.task_id))
            left = unfinished(events)
            ends: list[EventBody] = [cut_off(call, INTERRUPTED, _CUT_OFF) for call in left.models]
            ends += [*stopped(left.tools), TaskCancelled(by="kernel", reason="The run that it was part of has ended.")]
            facts = await with_delegated(event_log, task.task_id, ends)
            await recorder.made_from(content_of(events)).append(*facts)


async def _end_calls(event_log: EventLog, waiting: Task) -> None:
    """A gateway that ended between a question and the end of the call before it left that open."""
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
    gives_up: bool,
    wish: TaskPaused | None,
) -> _Verdict:
    """`keyed` are the calls that can be made again with their key; `wish` is the pause that somebody asked for;
    `prompt_id` is that of a question, where somebody is there to be asked; `gives_up`: it was at work at as many deaths
    as what may be what kills."""
    given_up = task.status is TaskStatus.RUNNING and gives_up
    goes_on = not task.stop_by and not given_up
    ends: list[EventBody] = [cut_off(call, INTERRUPTED, _CUT_OFF) for call in left.models]
    unknown: list[CallRecord] = []
    for tool in left.tools:
        if done[tool.call_id] is None and goes_on and tool.call_id in keyed:
            ends.append(made_again(tool, _CUT_OFF))
            continue
        ends.append(end_of(tool, done[tool.call_id], _CUT_OFF))
        if done[tool.call_id] is None:
            unknown.append(tool)
    if given_up and not task.stop_by:  # what was to be made again is not; after a stop, it is where that is retried
        ends += [end_of(tool, None, tool.doubt) for tool in left.in_doubt]
        unknown += left.in_doubt
    if task.stop_by:
        return _Verdict(facts=(*ends, TaskCancelled(by=task.stop_by, reason=task.reason)), runs=False)
    if unknown or left.uncertain:
        end = not_again([*left.uncertain, *unknown])
        if prompt_id is not None and task.status is TaskStatus.RUNNING:
            return _Verdict(facts=(*ends, *uncertain_prompt(prompt_id, end.message)), runs=False)
        return _Verdict(facts=(*ends, end), runs=False)
    if given_up:
        return _Verdict(facts=(*ends, _given_up()), runs=False)
    if wish is not None and task.status is TaskStatus.RUNNING:
        return _Verdict(facts=(*ends, wish), runs=False)
    if task.status is TaskStatus.QUEUED:
        return _Verdict(facts=tuple(ends), runs=True)
    return _Verdict(facts=(*ends, TaskQueued(reason="recovered")), runs=True)


def _given_up() -> TaskFailed:
    return TaskFailed(
        kind="system",
        code="task.interrupted",
        message=f"This turn was interrupted by a restart {MAX_ATTEMPTS} times and was not taken up again.",
        hint="Run the cell again. Your message is kept.",
    )


def _reset(reply_id: ReplyId, session_id: SessionId, task_id: TaskId) -> Transient:
    return Transient(type="reply.reset", session_id=session_id, task_id=task_id, payload={"reply_id": reply_id})


async def _see_off_workers(event_log: EventLog) -> None:
    """Whatever a dead gateway's children were asked to do, they do it no more after this."""
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
    """Records for one plane what its supervisor tells. A log that can't be written keeps no worker from running."""

    def __init__(self, event_log: EventLog, plane: str) -> None:
        self._log = event_log
        self._plane = plane
        self._losses: set[asyncio.Task[None]] = set()

    async def started(self, mark: ProcessMark) -> None:
        """See `planes.supervisor`; durable when it returns, if it can be."""
        await self._record(WorkerStarted(plane=self._plane, pid=mark.pid, started=mark.started, boot=mark.boot))

    def lost(self, pid: int, reason: str) -> None:
        """See `planes.supervisor`, which does not wait for it."""
        task = asyncio.create_task(self._record(WorkerLost(plane=self._plane, pid=pid, reason=reason)))
        self._losses.add(task)
        task.add_done_callback(self._losses.discard)

    async def settle(self) -> None:
        """Wait until what was told is recorded."""
        await asyncio.gather(*self._losses, return_exceptions=True)

    async def _record(self, body: EventBody) -> None:
        draft = Draft(body=body, actor="system", source="planes")
        try:
            await self._log.append(worker_stream(self._plane), [draft])
        except OzzieError as error:
            log.error("%s of the %s plane was not recorded: %s", body.type, self._plane, error)
