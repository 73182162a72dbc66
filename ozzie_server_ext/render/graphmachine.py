"""The picture of a state machine: its states in the order in which they are first reached, ways back beside them."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from ozzie_server_ext.render.graphletters import SMALL, fitted, text_width
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
from ozzie_server_ext.render.graphview import GraphStep, GraphView, Move

_LEAST_GAP, _MOST_GAP, _GAP_BELOW = 40, 72, 30
_NEAR, _APART, _APART_BESIDE = 20, 18, 8
_PORTS, _LONGEST_LABEL, _LABEL_RISE = 16, 90, 4
_TEXT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """States along a line, in `main` from `starts`; everything beside it in `cross`."""

    starts: tuple[int, ...]
    long: int  # of a state, along the line
    thick: int
    is_row: bool

    def point(self, main: int, cross: int) -> Point:
        return (main, cross) if self.is_row else (cross, main)

    def middle(self, index: int) -> int:
        return self.starts[index] + self.long // 2


Way = tuple[int, int]


def machine_layout(view: GraphView, *, form: Form, width: int) -> Layout:
    """A row of states where it fits, else a column. Ways to the next state go straight; longer ones forward run above
    the row, ways back, and those of a state to itself, below it; left and right of a column."""
    order = reached(view.steps, view.moves)
    labels = _labels(view.moves, {view.steps[index].step_id: at for at, index in enumerate(order)})
    ahead = _tracks([way for way in labels if way[1] > way[0] + 1])
    back = _tracks([way for way in labels if way[1] <= way[0]])
    w, h = FULL if form == "full" else COMPACT
    free = (width - MARGIN - WIDE_MARGIN - w * len(order)) // max(len(order) - 1, 1)
    is_row = form == "full" and (free >= _LEAST_GAP or len(order) == 1)
    long, thick = (w, h) if is_row else (h, w)
    gap = min(free, _MOST_GAP) if is_row else _GAP_BELOW
    first = MARGIN if is_row else WIDE_MARGIN
    line = _Line(
        starts=tuple(first + at * (long + gap) for at in range(len(order))), long=long, thick=thick, is_row=is_row
    )
    room = gap - 6 if is_row else thick / 2 - _TEXT
    beside = min(_LONGEST_LABEL, (width - MARGIN - WIDE_MARGIN - w) / 2 - 4 * _APART_BESIDE)
    cut = {
        way: fitted(text, room if way[1] == way[0] + 1 else beside, SMALL, most=NAME_WIDTH) if text else ""
        for way, text in labels.items()
    }
    before = _zone(ahead, cut, is_row, width, w)
    after = _zone(back, cut, is_row, width, w)
    top = (WIDE_MARGIN if is_row else MARGIN) + before[-1] if ahead else (WIDE_MARGIN if is_row else MARGIN)
    ports = _ports(line, (*ahead, *back))
    edges: list[Edge] = []
    for way in labels:
        source, to = (view.steps[order[end]].step_id for end in way)
        if way in ahead or way in back:
            side, at = (
                (top, top - before[ahead[way]]) if way in ahead else (top + thick, top + thick + after[back[way]])
            )
            start, end = ports[way, 0], ports[way, 1]
            corners = [(start, side), (start, at), (end, at), (end, side)]
            if is_row:
                label_at = ((start + end) // 2, at + _TEXT if way[0] == way[1] else at - _LABEL_RISE)
            else:
                wide = round(text_width(cut[way], SMALL) / 2) + 6
                label_at = (side - wide if way in ahead else side + wide, start - _LABEL_RISE)
        else:
            across = top + thick // 2
            start, end = line.starts[way[0]] + long, line.starts[way[1]]
            corners = [(start, across), (end, across)]
            half = round(text_width(cut[way], SMALL) / 2)
            between = (start + end) // 2
            label_at = (between, across - _LABEL_RISE) if is_row else (across + half + 6, between + _LABEL_RISE)
        points = straightened([line.point(main, cross) for main, cross in corners])
        edges.append(Edge(source=source, to=to, points=points, is_back=way in back, label=cut[way], label_at=label_at))
    nodes = tuple(
        Node(node_id=step.step_id, step_ids=(step.step_id,), x=x, y=y, w=w, h=h, layer=at)
        for at, step, (x, y) in (
            (at, view.steps[index], line.point(line.starts[at], top)) for at, index in enumerate(order)
        )
    )
    end, side = line.starts[-1] + long, top + thick + (after[-1] if back else 0)
    size = (end + WIDE_MARGIN, side + MARGIN) if is_row else (side + WIDE_MARGIN, end + MARGIN)
    return Layout(form=form, width=size[0], height=size[1], nodes=nodes, edges=tuple(edges))


def reached(steps: Sequence[GraphStep], moves: Sequence[Move]) -> list[int]:
    """The places of the states, in the order in which the first one's moves come to them; then those that none does."""
    place = {step.step_id: index for index, step in reversed(list(enumerate(steps)))}
    ways: dict[int, list[int]] = defaultdict(list)
    for move in moves:
        if move.source in place and move.to in place:
            ways[place[move.source]].append(place[move.to])
    found: dict[int, None] = {}
    for root in range(len(steps)):
        waiting = deque([root])
        while waiting:
            index = waiting.popleft()
            if index not in found:
                found[index] = None
                waiting.extend(ways[index])
    return list(found)


def _labels(moves: Sequence[Move], at: dict[str, int]) -> dict[Way, str]:
    """What is written at each way; several moves on one way share it."""
    labels: dict[Way, list[str]] = defaultdict(list)
    for move in moves:
        if move.source in at and move.to in at:
            said = labels[at[move.source], at[move.to]]
            if move.label and move.label not in said:
                said.append(move.label)
    return {way: ", ".join(said) for way, said in labels.items()}


def _tracks(ways: Sequence[Way]) -> dict[Way, int]:
    """The track of each way, from the states outwards: short ways near them, none over another one."""
    taken: list[list[Way]] = []
    tracks: dict[Way, int] = {}
    for way in sorted(ways, key=lambda way: (abs(way[0] - way[1]), way)):
        low, high = min(way), max(way)
        number = next(
            (at for at, others in enumerate(taken) if all(high < a or b < low for a, b in others)), len(taken)
        )
        taken[number : number + 1] = [[*(taken[number] if number < len(taken) else ()), (low, high)]]
        tracks[way] = number
    return tracks


def _zone(tracks: dict[Way, int], cut: dict[Way, str], is_row: bool, width: int, w: int) -> list[int]:
    """How far each track is from the states; the last entry is what all of them take."""
    count = max(tracks.values(), default=-1) + 1
    if is_row:
        return [*(_NEAR + _APART * at for at in range(count)), _NEAR + _APART * (count - 1) + _TEXT]
    words = round(max((text_width(cut[way], SMALL) for way in tracks), default=0.0))
    near = words + _TEXT if words else _NEAR
    apart = min(_APART_BESIDE, ((width - MARGIN - WIDE_MARGIN - w) // 2 - near - 2) / max(count - 1, 1))
    return [*(near + int(apart * at) for at in range(count)), near + int(apart * (count - 1)) + 2]


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
            found[each] = round(line.middle(index) + (at - (len(many) - 1) / 2) * apart)
    return found


def _port_order(index: int, other: int) -> tuple[int, int]:
    return ((other > index) - (other < index), -other)
