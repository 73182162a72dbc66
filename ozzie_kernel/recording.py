"""The record of a session, as it is stepped through: what its kernel showed after each event of each turn."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

from ozzie_server_ext.domain.json import Json, JsonObject, objects
from ozzie_server_ext.render.graph.view import GraphView, fold_graph
from ozzie_server_ext.render.turnfold import fold, new_turn
from ozzie_server_ext.render.turnview import TurnView

PAGE = 500
"""Events that are asked for at once."""
MOST_EVENTS = 5_000
"""Events of a turn that can be stepped through: the first ones, as drawing each takes time with all before it."""
MORE = f"This turn has more than {MOST_EVENTS:,} events; the others can't be stepped through."
MARK_EACH = 64
"""Events between two states of a turn that are kept."""
LAST_POSITION = (1 << 63) - 1
MOST_TURNS = 4
"""Turns whose events are kept: stepping back and forth over the end of one asks for nothing again."""
LONGEST_PAUSE_S = 1.0
"""Longer waits are cut while a record is played: nobody wants to wait again for a model, or for a person."""

Ask = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Calls a method of the gateway with the rights of the user. Raises Unavailable, and Refused."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """An event of a session: of the turn with the number `turn` the event with the number `event`, both from 1. The
    event is 0 in a turn that has none, because it was erased."""

    turn: int
    event: int


@dataclass(frozen=True, slots=True)
class Shown:
    """What was on the page: a turn and, of a run of a skill, its graph."""

    view: TurnView
    graph: GraphView | None = None

    def after(self, event: JsonObject) -> "Shown":
        """Return what was on the page after one more event."""
        kind, payload, at = str(event["type"]), event["payload"], _time(event["ts"])
        assert isinstance(payload, Mapping), "every event has one"
        return Shown(fold(self.view, kind, payload, at), fold_graph(self.graph, kind, payload, at))


class RecordedTurn:
    """A turn of a session with its events, none if it was erased."""

    def __init__(self, turn: JsonObject) -> None:
        """`turn`: as the gateway lists it."""
        self.message = str(turn["title"])
        self.began_at = _time(turn["at"])
        self.events: list[JsonObject] = []
        self.is_cut = False
        begin = Shown(new_turn(task_id=str(turn["task_id"]), session_id=str(turn["session_id"])))
        self._marks = [begin]
        self._last = (0, begin)

    def add(self, event: JsonObject) -> None:
        """Take the next event."""
        payload = event["payload"]
        if event["type"] == "message.received" and not self.events and isinstance(payload, Mapping):
            self.message = str(payload["text"])
        self.events.append(event)
        if len(self.events) % MARK_EACH == 0:
            self._marks.append(self.shown_at(len(self.events)))

    def shown_at(self, event: int) -> Shown:
        """Return what was on the page after so many events. It is folded on from the last one that was asked for, or
        from a mark: to keep it for each event would take memory with the square of a turn."""
        mark = min(event // MARK_EACH, len(self._marks) - 1)
        begin, shown = mark * MARK_EACH, self._marks[mark]
        if begin <= self._last[0] <= event:
            begin, shown = self._last
        shown = reduce(Shown.after, self.events[begin:event], shown)
        self._last = (event, shown)
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What was on the page when the event at `place`, of so many `turns` and `events` of this turn, was recorded. In a
    turn that was erased, there is neither a name nor a view. `is_cut`: the turn has more than can be stepped through.
    """

    place: Place
    turns: int
    events: int
    is_cut: bool
    at: datetime
    name: str
    message: str
    view: TurnView | None
    graph: GraphView | None


class Recording:
    """The record of one session. Turns that are added later are not in it. Every method raises as `ask`."""

    def __init__(self, session_id: str, title: str, turns: Sequence[JsonObject], ask: Ask) -> None:
        """`turns`: those of the session, as the gateway lists them."""
        self.session_id = session_id
        self.title = title
        self._turns = turns
        self._ask = ask
        self._read: OrderedDict[int, RecordedTurn] = OrderedDict()

    @property
    def turns(self) -> int:
        """How many turns there are."""
        return len(self._turns)

    @property
    def titles(self) -> list[str]:
        """The beginning of the message of each turn."""
        return ["(erased)" if turn["task_id"] is None else str(turn["title"]) for turn in self._turns]

    async def moment(self, place: Place) -> Moment:
        """Return what was on the page at a place. One behind the end of its turn is its end."""
        turn = await self._turn(place.turn)
        event = min(place.event, len(turn.events))
        common: dict[str, Any] = {"turns": self.turns, "events": len(turn.events), "is_cut": turn.is_cut}
        if not event:
            nothing = Place(place.turn, 0)
            return Moment(place=nothing, at=turn.began_at, name="", message="", view=None, graph=None, **common)
        recorded, shown = turn.events[event - 1], turn.shown_at(event)
        return Moment(
            place=Place(place.turn, event),
            at=_time(recorded["ts"]),
            name=str(recorded["name"]),
            message=turn.message,
            view=shown.view,
            graph=shown.graph,
            **common,
        )

    async def begin_of(self, turn: int) -> Place:
        """Return the first place of a turn."""
        return Place(turn, min(1, len((await self._turn(turn)).events)))

    async def end_of(self, turn: int) -> Place:
        """Return the last place of a turn."""
        return Place(turn, len((await self._turn(turn)).events))

    async def after(self, place: Place) -> Place | None:
        """Return the next place; None at the end of the session."""
        if place < await self.end_of(place.turn):
            return Place(place.turn, place.event + 1)
        return await self.begin_of(place.turn + 1) if place.turn < self.turns else None

    async def before(self, place: Place) -> Place | None:
        """Return the previous place; None at the beginning of the session."""
        if place > await self.begin_of(place.turn):
            return Place(place.turn, place.event - 1)
        return await self.end_of(place.turn - 1) if place.turn > 1 else None

    async def next_turn(self, place: Place) -> Place:
        """Return the beginning of the next turn; in the last turn, its end."""
        if place.turn == self.turns:
            return await self.end_of(place.turn)
        return await self.begin_of(place.turn + 1)

    async def _turn(self, number: int) -> RecordedTurn:
        turn = self._read.pop(number, None) or await self._load(self._turns[number - 1])
        self._read[number] = turn  # the last that was used is last
        while len(self._read) > MOST_TURNS:
            self._read.popitem(last=False)
        return turn

    async def _load(self, turn: JsonObject) -> RecordedTurn:
        recorded = RecordedTurn(turn)
        if turn["task_id"] is None:
            return recorded
        last = LAST_POSITION if turn["until"] is None else int(str(turn["until"]))
        wanted: dict[str, Json] = {"task_id": turn["task_id"], "limit": PAGE}
        while True:
            page = await self._ask("event.list", wanted)
            for event in objects(page["items"]):
                if int(str(event["position"])) > last:
                    return recorded  # what came then is not part of a fork
                if len(recorded.events) == MOST_EVENTS:
                    recorded.is_cut = True
                    return recorded
                recorded.add(event)
            if page["next"] is None:
                return recorded
            wanted["cursor"] = page["next"]
            await asyncio.sleep(0)  # folding takes time


def pause_between(before: Moment, after: Moment) -> float:
    """Return how long to wait between two events in real time, in seconds."""
    return min(max((after.at - before.at).total_seconds(), 0.0), LONGEST_PAUSE_S)


def _time(value: Json) -> datetime:
    return datetime.fromisoformat(str(value))
