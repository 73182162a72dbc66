"""Turns as they are seen, each folded from the log only as far as there is news: a page that follows one asks again and
again."""

import asyncio
from dataclasses import dataclass, field, replace

from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.domain.ids import EventId, SessionId, TaskId
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.render.graph.view import GraphView, fold_graph
from ozzie_server_ext.render.live import LiveTurn
from ozzie_server_ext.render.turn import fold, new_turn
from ozzie_server_ext.render.turnview import TurnView
from ozzie_server_ext.store.log import EventLog

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
