"""Turns and runs as they are drawn, folded from the log only as far as there is news."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import cast

from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.domain.ids import EventId, SessionId, TaskId
from ozzie_server_ext.domain.tasks import FINAL, TaskStatus
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.render.graph.view import GraphStep, GraphView, StepState, fold_graph
from ozzie_server_ext.render.live import LiveTurn
from ozzie_server_ext.render.turn import fold, new_turn
from ozzie_server_ext.render.turnview import TurnView
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import waiting_below
from ozzie_server_ext.tasks.workflows.executor import FailedAttempt, Succeeded
from ozzie_server_ext.tasks.workflows.skill_log import load_run
from ozzie_server_ext.tasks.workflows.step_ends import HeldStep, held_steps, may_be_held

MOST_TURNS = 8
"""Turns that are kept folded; of more, those that were asked for last."""

IDLE_S = 30.0
"""One that nobody has asked for so long is let go: it has ended, or its pages were closed."""

_PAGE = 500
"""Events read and folded at a time; in between, others have their turn on the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedTurn:
    """A turn up to its event at `position`, which is `event_id`; 0 and None before the first. `graph` is that of a run
    of a skill that has one; `live` draws the turn, and keeps what it has drawn."""

    view: TurnView
    graph: GraphView | None = None
    position: int = 0
    event_id: EventId | None = None
    live: LiveTurn = field(default_factory=LiveTurn)


class FoldedTurns:
    """Keeps the turns of one log that are being watched. Nothing of it outlives the gateway: the next owner of the home
    folds anew."""

    def __init__(self, log: EventLog, *, most: int = MOST_TURNS, idle_s: float = IDLE_S) -> None:
        self._log = log
        self._most = most
        self._idle_s = idle_s
        self._kept: dict[TaskId, FoldedTurn] = {}  # the one that was asked for last stands last
        self._timers: dict[TaskId, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._kept)

    async def get(self, task_id: TaskId, session_id: SessionId | None) -> FoldedTurn:
        """The turn as the log has it now. Raises what reading the log raises."""
        begun = FoldedTurn(view=new_turn(task_id=task_id, session_id=session_id or ""))
        turn = self._kept.get(task_id, begun)
        while True:
            # The last event is read once more: where it is gone, its content was erased, and with it goes the view.
            page = await self._log.read(after=max(turn.position - 1, 0), limit=_PAGE, task_id=task_id)
            if turn.position and not (page and page[0].event_id == turn.event_id):
                self._let_go(task_id)
                turn = begun
                continue
            turn = _folded(turn, page[1:] if turn.position else page)
            if len(page) < _PAGE:
                break
        self._keep(task_id, turn)
        return turn

    def _keep(self, task_id: TaskId, turn: FoldedTurn) -> None:
        other = self._kept.get(task_id)
        self._let_go(task_id)
        # Of two that were asked for at once, the one that was slower may know less.
        self._kept[task_id] = other if other and other.position > turn.position else turn
        self._timers[task_id] = asyncio.get_running_loop().call_later(self._idle_s, self._let_go, task_id)
        if len(self._kept) > self._most:
            self._let_go(next(iter(self._kept)))

    def _let_go(self, task_id: TaskId) -> None:
        self._kept.pop(task_id, None)
        timer = self._timers.pop(task_id, None)
        if timer is not None:
            timer.cancel()


def _folded(turn: FoldedTurn, events: tuple[Event, ...]) -> FoldedTurn:
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
    """The tasks that a run has delegated, by step, and those that wait for a person, by the task of the run above them:
    a step that runs another skill waits where a step of that does."""

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
        """Another one whenever anything of theirs has changed."""
        own = [str(row["latest_event_id"]) for rows in self.by_step.values() for row in rows]
        below = [f"{row['task_id']}{row['status']}" for rows in self.waiting.values() for row in rows]
        return " ".join([*own, *sorted(below)])

    async def told(self, view: GraphView, run: Row, log: EventLog, blobs: BlobStore) -> GraphView:
        """`view` of the run of that row with what its steps have cost, who answers in them, which of them wait for a
        person, and, where the run is held, how those ended that it has not recorded."""
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
        """The row of the task that carries out its latest attempt; none where that was not created."""
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
        """When the last of what it delegated ended: the run may have recorded that later, for it was held."""
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
