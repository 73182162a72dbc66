"""The picture of a state machine: its states in the order in which they are first reached, ways back beside them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ozzie_server_ext.render.graphletters import SMALL, fitted, text_width
from ozzie_server_ext.render.graphneeds import reached
from ozzie_server_ext.render.graphshapes import (
    COMPACT,
    FULL,
    MARGIN,
    NAME_WIDTH,
    WIDE_MARGIN,
    Edge,
    Form,
    Layout,
    Node,
    Point,
    straightened,
)
from ozzie_server_ext.render.graphview import GraphView, Move

Way: TypeAlias = tuple[int, int]
"""From which state to which, each by its turn in the row or column."""

_LEAST_GAP, _MOST_GAP, _GAP_BELOW = 40, 72, 30
_NEAR, _APART, _APART_BESIDE = 20, 18, 8
_PORTS, _LONGEST_LABEL, _LABEL_RISE, _LABEL_HEIGHT = 16, 90, 4, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """States in a row or a column. Of a point, `main` runs along it from the first state, `cross` away from it, from
    `top`, which is the upper or the left side of the states."""

    starts: tuple[int, ...]
    long: int  # one state, along the line
    thick: int
    top: int
    is_row: bool

    def point(self, main: int, cross: int) -> Point:
        return (main, cross) if self.is_row else (cross, main)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """The ways on one side of the line: the track of each, and how far from the states every track runs. `depth` is
    what all of them take."""

    tracks: Mapping[Way, int]
    away: Sequence[int]
    depth: int


def machine_layout(view: GraphView, *, form: Form, width: int) -> Layout:
    """A row of states where it fits, else a column. Ways to the next state go straight; longer ones forward run above
    the row, ways back, and those of a state to itself, below it; left and right of a column."""
    steps = [view.steps[index] for index in reached(view.steps, view.moves)]
    w, h = FULL if form == "full" else COMPACT
    room = width - MARGIN - WIDE_MARGIN
    free = (room - w * len(steps)) // max(len(steps) - 1, 1)
    is_row = form == "full" and (free >= _LEAST_GAP or len(steps) == 1)
    long, thick, gap, first = (w, h, min(free, _MOST_GAP), MARGIN) if is_row else (h, w, _GAP_BELOW, WIDE_MARGIN)
    labels = {
        way: _label(way, said, gap - 6 if is_row else thick // 2 - _LABEL_HEIGHT, (room - w) // 2 - 4 * _APART_BESIDE)
        for way, said in _labels(view.moves, {step.step_id: at for at, step in enumerate(steps)}).items()
    }
    ahead, back = (
        _side({way: said for way, said in labels.items() if _is_beside(way, is_back)}, is_row, (room - w) // 2)
        for is_back in (False, True)
    )
    top = (WIDE_MARGIN if is_row else MARGIN) + ahead.depth
    starts = tuple(first + at * (long + gap) for at in range(len(steps)))
    line = _Line(starts=starts, long=long, thick=thick, top=top, is_row=is_row)
    ports = _ports(line, (*ahead.tracks, *back.tracks))
    edges = [
        Edge(
            source=steps[way[0]].step_id,
            to=steps[way[1]].step_id,
            points=straightened([line.point(*corner) for corner in corners]),
            is_back=way in back.tracks,
            label=said,
            label_at=label_at,
        )
        for way, said in labels.items()
        for corners, label_at in [
            _around(line, way, said, ports, ahead, back)
            if way in ahead.tracks or way in back.tracks
            else _straight(line, way, said)
        ]
    ]
    nodes = [
        Node(node_id=step.step_id, step_ids=(step.step_id,), x=x, y=y, w=w, h=h, layer=at)
        for at, step in enumerate(steps)
        for x, y in [line.point(starts[at], top)]
    ]
    end, side = starts[-1] + long, top + thick + back.depth
    size = (end + WIDE_MARGIN, side + MARGIN) if is_row else (side + WIDE_MARGIN, end + MARGIN)
    return Layout(form=form, width=size[0], height=size[1], nodes=tuple(nodes), edges=tuple(edges))


def _is_beside(way: Way, is_back: bool) -> bool:
    return way[1] <= way[0] if is_back else way[1] > way[0] + 1


def _labels(moves: Sequence[Move], at: Mapping[str, int]) -> dict[Way, str]:
    """What is written at each way; several moves on one way share it."""
    labels: dict[Way, list[str]] = defaultdict(list)
    for move in moves:
        if move.source in at and move.to in at:
            said = labels[at[move.source], at[move.to]]
            if move.label and move.label not in said:
                said.append(move.label)
    return {way: ", ".join(said) for way, said in labels.items()}


def _label(way: Way, said: str, between: int, beside: int) -> str:
    room = between if way[1] == way[0] + 1 else min(_LONGEST_LABEL, beside)
    return fitted(said, room, SMALL, most=NAME_WIDTH) if said else ""


def _side(labels: Mapping[Way, str], is_row: bool, room: int) -> _Side:
    """Beside a column the labels stand between the states and the first track, along a row each at its track."""
    if not labels:
        return _Side(tracks={}, away=(), depth=0)
    tracks = _tracks(list(labels))
    near, apart, end = _NEAR, float(_APART), _LABEL_HEIGHT
    count = max(tracks.values()) + 1
    if not is_row:
        words = round(max(text_width(said, SMALL) for said in labels.values()))
        near, end = max(words + _LABEL_HEIGHT, _NEAR), 2
        apart = min(_APART_BESIDE, (room - near - end) / max(count - 1, 1))
    away = [near + int(apart * at) for at in range(count)]
    return _Side(tracks=tracks, away=away, depth=away[-1] + end)


def _tracks(ways: Sequence[Way]) -> dict[Way, int]:
    """The track of each way, from the states outwards: short ways near them, none over another one."""
    taken: list[list[Way]] = []
    tracks: dict[Way, int] = {}
    for way in sorted(ways, key=lambda way: (abs(way[0] - way[1]), way)):
        low, high = min(way), max(way)
        for number, others in enumerate([*taken, []]):
            if all(high < first or last < low for first, last in others):
                tracks[way] = number
                taken[number:] = [[*others, (low, high)], *taken[number + 1 :]]
                break
    return tracks


def _ports(line: _Line, ways: Sequence[Way]) -> dict[tuple[Way, int], int]:
    """Where along the line each way leaves (0) and ends (1). Those of one state and side are ordered so that they do
    not cross: what goes to the left is left of what goes to the right, and of either the longest is in the middle."""
    ends: dict[tuple[int, bool], list[tuple[Way, int]]] = defaultdict(list)
    for way in ways:
        for end in (0, 1):
            ends[way[end], way[1] > way[0]].append((way, end))
    found: dict[tuple[Way, int], int] = {}
    for (index, _), many in ends.items():
        apart = min(_PORTS, line.long // (len(many) + 1))
        many.sort(key=lambda each: _port_order(index, each[0][1 - each[1]]))
        for at, each in enumerate(many):
            found[each] = round(line.starts[index] + line.long // 2 + (at - (len(many) - 1) / 2) * apart)
    return found


def _port_order(index: int, other: int) -> tuple[int, int]:
    return ((other > index) - (other < index), -other)


def _straight(line: _Line, way: Way, said: str) -> tuple[list[tuple[int, int]], Point]:
    """From one state to the next, and where the label of that stands."""
    across = line.top + line.thick // 2
    start, end = line.starts[way[0]] + line.long, line.starts[way[1]]
    middle = (start + end) // 2
    half = round(text_width(said, SMALL) / 2)
    at = (middle, across - _LABEL_RISE) if line.is_row else (across + half + 6, middle + _LABEL_RISE)
    return [(start, across), (end, across)], at


def _around(
    line: _Line, way: Way, said: str, ports: Mapping[tuple[Way, int], int], ahead: _Side, back: _Side
) -> tuple[list[tuple[int, int]], Point]:
    """From a state by way of a track to any other one, or to itself, and where the label of that stands."""
    is_ahead = way in ahead.tracks
    side = line.top if is_ahead else line.top + line.thick
    track = side - ahead.away[ahead.tracks[way]] if is_ahead else side + back.away[back.tracks[way]]
    start, end = ports[way, 0], ports[way, 1]
    if line.is_row:
        at = ((start + end) // 2, track + _LABEL_HEIGHT if way[0] == way[1] else track - _LABEL_RISE)
    else:
        half = round(text_width(said, SMALL) / 2) + 6
        at = (side - half if is_ahead else side + half, start - _LABEL_RISE)
    return [(start, side), (start, track), (end, track), (end, side)], at
