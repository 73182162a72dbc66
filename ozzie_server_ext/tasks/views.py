"""Views of turns and runs, folded incrementally from the log."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import cast

from ozzie_server_ext.domain.events import ERASURE_TYPES, Event
from ozzie_server_ext.domain.ids import EventId, SessionId, TaskId
from ozzie_server_ext.domain.tasks import FINAL, TaskStatus
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.render.graph.view import GraphStep, GraphView, StepState, fold_graph
from ozzie_server_ext.render.live import LiveTurn
from ozzie_server_ext.render.turnfold import fold, new_turn
from ozzie_server_ext.render.turnview import TurnView
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import waiting_below
from ozzie_server_ext.tasks.workflows.executor import FailedAttempt, Succeeded
from ozzie_server_ext.tasks.workflows.skill_log import load_run
from ozzie_server_ext.tasks.workflows.step_ends import HeldStep, held_steps, may_be_held

MOST_TURNS = 8
"""The size of the cache."""

IDLE_S = 30.0
"""Views that nobody has requested for so long are dropped: the turn has ended, or its pages were closed."""

_PAGE = 500
"""The number of events that are folded before other tasks of the event loop get a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedTurn:
    """A turn up to its event `event_id` at `position`; None and 0 before the first. `graph` is set for runs; `live`
    draws the turn and caches the drawing."""

    view: TurnView
    graph: GraphView | None = None
    position: int = 0
    event_id: EventId | None = None
    live: LiveTurn = field(default_factory=LiveTurn)


class FoldedTurns:
    """A cache of the turns that are being watched."""

    def __init__(self, log: EventLog, *, most: int = MOST_TURNS, idle_s: float = IDLE_S) -> None:
        self._log = log
        self._most = most
        self._idle_s = idle_s
        self._kept: dict[TaskId, FoldedTurn] = {}  # the last requested is last
        self._timers: dict[TaskId, asyncio.TimerHandle] = {}
        log.on_commit(self._forget, types=ERASURE_TYPES)

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, task_id: TaskId, session_id: SessionId | None) -> FoldedTurn:
        """Return the turn by the current log. Raises what reading the log raises."""
        begun = FoldedTurn(view=new_turn(task_id=task_id, session_id=session_id or ""))
        turn = self._kept.get(task_id, begun)
        while True:
            # The last event is read again: if it is gone, content was erased and the view must be folded again.
            page = await self._log.read(after=max(turn.position - 1, 0), limit=_PAGE, task_id=task_id)
            if turn.position and not (page and page[0].event_id == turn.event_id):
                self._let_go(task_id)
                turn = begun
                continue
            turn = fold_events(turn, page[1:] if turn.position else page)
            if len(page) < _PAGE:
                break
        self._keep(task_id, turn)
        return turn

    def _keep(self, task_id: TaskId, turn: FoldedTurn) -> None:
        other = self._kept.get(task_id)
        self._let_go(task_id)
        # Of two concurrent requests, the slower one may have read less.
        self._kept[task_id] = other if other and other.position > turn.position else turn
        self._timers[task_id] = asyncio.get_running_loop().call_later(self._idle_s, self._let_go, task_id)
        if len(self._kept) > self._most:
            self._let_go(next(iter(self._kept)))

    def _forget(self, events: tuple[Event, ...]) -> None:
        for task_id in list(self._kept):
            self._let_go(task_id)

    def _let_go(self, task_id: TaskId) -> None:
        self._kept.pop(task_id, None)
        timer = self._timers.pop(task_id, None)
        if timer is not None:
            timer.cancel()


def fold_events(turn: FoldedTurn, events: Sequence[Event]) -> FoldedTurn:
    """Return the turn after these events of its task."""
    view, graph = turn.view, turn.graph
    for event in events:
        payload = encode(event.body)
        view = fold(view, event.type, payload, event.ts)
        graph = fold_graph(graph, event.type, payload, event.ts)
    if not events:
        return turn
    return replace(turn, view=view, graph=graph, position=events[-1].position, event_id=events[-1].event_id)


_ASKS: Mapping[TaskStatus, StepState] = {
    TaskStatus.WAITING_APPROVAL: "Waiting for you",
    TaskStatus.WAITING_INPUT: "Waiting for your answer",
}


@dataclass(frozen=True, slots=True)
class RunTasks:
    """The delegated tasks of a run by step, and the tasks that wait for a person by each task above them: a step that
    is a run waits if a step of that does."""

    by_step: Mapping[str, Sequence[Row]]
    waiting: Mapping[str, Sequence[Row]]

    @classmethod
    async def of(cls, log: EventLog, task_id: TaskId) -> "RunTasks":
        found: dict[str, list[Row]] = defaultdict(list)
        for row in await log.rows("tasks", where={"parent_id": task_id}, order_by="task_id"):
            found[str(row["step_id"])].append(row)
        return cls(found, await waiting_below(log))

    @property
    def version(self) -> str:
        """A value that changes whenever any of them changes."""
        own = [str(row["latest_event_id"]) for rows in self.by_step.values() for row in rows]
        below = [f"{row['task_id']}{row['status']}" for rows in self.waiting.values() for row in rows]
        return " ".join([*own, *sorted(below)])

    async def add_to(self, view: GraphView, run: Row, log: EventLog, blobs: BlobStore) -> GraphView:
        """Return a run's `view` with the costs and models of its steps, those that wait for a person and, if the run is
        paused, the ends that it has not recorded."""
        held = await self._held(view, run, log, blobs)
        steps = tuple(self._step(step, held.get(step.step_id)) for step in view.steps)
        is_held = run["status"] == TaskStatus.PAUSED
        return replace(view, steps=steps, is_held=is_held)

    async def _held(self, view: GraphView, run: Row, log: EventLog, blobs: BlobStore) -> Mapping[str, HeldStep]:
        going_on = [step for step in view.steps if step.state == "Working" and step.task_id]
        own = {step.step_id: self._own(step) for step in going_on}
        asked = {step_id: row for step_id, row in own.items() if may_be_held(run, row)}
        if not asked:
            return {}
        loaded = await load_run(log, blobs, TaskId(str(run["task_id"])))
        return await held_steps(loaded, run, asked, log, blobs)

    def _own(self, step: GraphStep) -> Row | None:
        """Return the row of the task of its latest attempt, or None."""
        return next((row for row in self.by_step.get(step.step_id, ()) if row["task_id"] == step.task_id), None)

    def _step(self, step: GraphStep, held: HeldStep | None) -> GraphStep:
        rows = self.by_step.get(step.step_id, ())
        if not rows:
            return _as_held(step, held) if held else step
        latest = self._own(step) or rows[-1]
        if step.state == "Working":
            asking = [latest, *self.waiting.get(str(latest["task_id"]), ())]
            state = next((_ASKS[status] for status in _ASKS if any(row["status"] == status for row in asking)), None)
            step = _as_held(step, held) if held and state is None else replace(step, state=state or step.state)
        return replace(
            step,
            finished_at=self._finished_at(step, latest),
            model=step.model or str(latest["model"]),
            cost=sum(cast(int, row["cost"]) for row in rows),
            cost_known=all(row["cost_known"] for row in rows),
        )

    def _finished_at(self, step: GraphStep, latest: Row) -> datetime | None:
        """Return when the last of its tasks ended: a paused run may have recorded that later."""
        if latest["status"] not in FINAL or step.state == "Working":
            return step.finished_at
        rows = self.by_step[step.step_id]
        own = [row["finished_at"] for row in rows if str(row["task_id"]) >= str(latest["task_id"])]
        ended = max((datetime.fromisoformat(str(at)) for at in own if at is not None), default=None)
        return ended if step.finished_at is None or ended is None else min(ended, step.finished_at)


def _as_held(step: GraphStep, held: HeldStep) -> GraphStep:
    match held.outcome:
        case None:
            return replace(step, state="Paused")
        case Succeeded() if held.next:
            return replace(step, state="Paused", note="to be checked")
        case Succeeded(event=event):
            return replace(step, state="Done", note="" if event == "done" else event)
        case FailedAttempt(message=message) if held.next:
            attempts = max(step.attempts, step.attempt + 1)
            return replace(step, state="Paused", note="to be tried again", problem=message, attempts=attempts)
        case FailedAttempt(message=message):
            return replace(step, state="Failed", problem=message)
