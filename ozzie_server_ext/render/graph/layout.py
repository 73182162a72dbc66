"""The layout of a workflow's picture: as nodes, as dots, or as a state machine.

`graph_layout` is the only entry. The page and the SVG both draw its result, so that they agree.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeAlias

from ozzie_server_ext.render.graph.geometry import (
    COMPACT,
    FULL,
    MARGIN,
    NAME_WIDTH,
    PLAIN,
    SMALL,
    WIDE_MARGIN,
    WIDTH,
    Dot,
    Edge,
    Form,
    Layout,
    Node,
    Point,
    fitted,
    straightened,
    text_width,
)
from ozzie_server_ext.render.graph.layered import Flow, Layers, across, down, layered
from ozzie_server_ext.render.graph.view import GraphStep, GraphView, Groups, Move, grouped, needs_of, reached, stacked

MOST_BOXES = 12
HEAD, GRID, PAD = 38, 13, 14
"""From the top of a box to the middle of its first dots; between dots; from the sides."""
HEAD_PAD, HEAD_ROOM = 10, 140
"""For the line of text above the dots: distance from the sides, and room for the name."""
_LEAST_ROWS, _MOST_ROWS, _MOST_COLUMNS, _GAP = 4, 16, 48, 22
_ROOM_FOR_LANES = 12 * 10 + 2 * PAD
_BETWEEN = 12


def boxes(steps: Sequence[GraphStep], needs: Sequence[tuple[int, ...]]) -> Groups:
    """Group by skill if every step has one, there are few, and none waits for itself through another; else by layer,
    several layers together if there are many. A layer whose steps all have one skill is named after it."""
    skills = [step.skill for step in steps]
    if all(skills) and len(set(skills)) <= MOST_BOXES:
        by_skill = grouped(steps, needs, skills)
        if layered(by_skill.parents).is_whole:
            return replace(by_skill, names=tuple(dict.fromkeys(skills)))
    depth = layered(needs).depth
    band = ceil((max(depth, default=0) + 1) / MOST_BOXES)
    bands = [each // band for each in depth]
    found: dict[int, set[str]] = defaultdict(set)
    for skill, each in zip(skills, bands, strict=True):
        found[each].add(skill)
    by_layer = grouped(steps, needs, bands)
    return replace(by_layer, names=tuple(_name(used, at * band, band, max(depth)) for at, used in found.items()))


def dots_layout(groups: Groups, layers: Layers, width: int) -> Layout:
    """Lay out boxes of equal height from left to right, with the fewest rows of dots that let them fit; else from top
    to bottom, each as wide as its dots need."""
    counts = [len(ids) for ids in groups.steps]
    least = [_head_width(name, count) for name, count in zip(groups.names, counts, strict=True)]
    flow: Flow | None = None
    sizes: list[Point] = []
    columns: list[int] = []
    for rows in range(_LEAST_ROWS, _MOST_ROWS + 1):
        columns = [ceil(count / rows) for count in counts]
        sizes = [(_box_width(each, head), _box_height(rows)) for each, head in zip(columns, least, strict=True)]
        flow = across(layers, sizes, gap=_GAP, width=width)
        if flow is not None:
            break
    if flow is None:
        most = min(_MOST_COLUMNS, (width - _ROOM_FOR_LANES) // GRID)
        columns = [min(ceil(count / _LEAST_ROWS), most) for count in counts]
        heights = [_box_height(ceil(count / each)) for count, each in zip(counts, columns, strict=True)]
        widths = [_box_width(each, head) for each, head in zip(columns, least, strict=True)]
        sizes = list(zip(widths, heights, strict=True))
        flow = down(layers, sizes, gap=_GAP, width=width)
    assert flow is not None, "there are at most twelve boxes, all narrower than the picture without twelve lanes"
    fits = [(w - 2 * PAD) // GRID + 1 for w, _ in sizes]
    nodes = [
        Node(
            node_id=ids[0],
            step_ids=ids,
            name=name,
            x=x,
            y=y,
            w=w,
            h=h,
            layer=layer,
            dots=tuple(
                Dot(step_id=each, x=x + PAD + GRID * (at % fit), y=y + HEAD + GRID * (at // fit))
                for at, each in enumerate(ids)
            ),
        )
        for ids, name, (x, y), (w, h), layer, fit in zip(
            groups.steps, groups.names, flow.corners, sizes, layers.depth, fits, strict=True
        )
    ]
    return Layout(form="dots", width=flow.width, height=flow.height, nodes=tuple(nodes), edges=_edges(nodes, flow))


def _name(skills: set[str], first: int, band: int, deepest: int) -> str:
    if len(skills) == 1 and "" not in skills:
        return next(iter(skills))
    last = min(first + band - 1, deepest)
    return f"layer {first + 1}" if first == last else f"layers {first + 1}–{last + 1}"


def _head_width(name: str, count: int) -> int:
    """Return the room for the name and the longest count beside it."""
    named = fitted(name, HEAD_ROOM, PLAIN, most=NAME_WIDTH)
    counted = text_width(f"{count:,} of {count:,}", SMALL)
    return ceil(text_width(named, PLAIN) + counted) + _BETWEEN + 2 * HEAD_PAD


def _box_width(columns: int, least: int) -> int:
    wide = max(2 * PAD + GRID * (columns - 1), least)
    return wide + wide % 2


def _box_height(rows: int) -> int:
    high = HEAD + GRID * (rows - 1) + PAD + 2
    return high + high % 2


Transition: TypeAlias = tuple[int, int]
"""From which state to which, each by its index in the row or column."""

_LEAST_GAP, _MOST_GAP, _GAP_BELOW = 40, 72, 30
_NEAR, _APART, _APART_BESIDE = 20, 18, 8
_PORTS, _LONGEST_LABEL, _LABEL_RISE, _LABEL_HEIGHT = 16, 90, 4, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """States in a row or a column. `main` runs along it from the first state, `cross` away from it, from `top`, the
    upper or left side of the states."""

    starts: tuple[int, ...]
    long: int  # one state, along the line
    thick: int
    top: int
    is_row: bool

    def point(self, main: int, cross: int) -> Point:
        return (main, cross) if self.is_row else (cross, main)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """The transitions on one side of the line: the track of each, and each track's distance from the states. `depth` is
    the room of all."""

    tracks: Mapping[Transition, int]
    away: Sequence[int]
    depth: int


def machine_layout(view: GraphView, *, form: Form, width: int) -> Layout:
    """Lay out the states in a row if that fits, else in a column. Transitions to the next state are straight; longer
    ones forward run above the row, ways back and loops below it; or left and right of a column."""
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


def _is_beside(way: Transition, is_back: bool) -> bool:
    return way[1] <= way[0] if is_back else way[1] > way[0] + 1


def _labels(moves: Sequence[Move], at: Mapping[str, int]) -> dict[Transition, str]:
    """Return the label of each transition; several moves share it."""
    labels: dict[Transition, list[str]] = defaultdict(list)
    for move in moves:
        if move.source in at and move.to in at:
            words = labels[at[move.source], at[move.to]]
            if move.label and move.label not in words:
                words.append(move.label)
    return {way: ", ".join(words) for way, words in labels.items()}


def _label(way: Transition, said: str, between: int, beside: int) -> str:
    room = between if way[1] == way[0] + 1 else min(_LONGEST_LABEL, beside)
    return fitted(said, room, SMALL, most=NAME_WIDTH) if said else ""


def _side(labels: Mapping[Transition, str], is_row: bool, room: int) -> _Side:
    """Return one side. Beside a column, labels are between the states and the first track; along a row, at each
    track."""
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


def _tracks(ways: Sequence[Transition]) -> dict[Transition, int]:
    """Return the track of each transition, outwards: short ones near the states, without overlap."""
    taken: list[list[Transition]] = []
    tracks: dict[Transition, int] = {}
    for way in sorted(ways, key=lambda way: (abs(way[0] - way[1]), way)):
        low, high = min(way), max(way)
        for number, others in enumerate([*taken, []]):
            if all(high < first or last < low for first, last in others):
                tracks[way] = number
                taken[number:] = [[*others, (low, high)], *taken[number + 1 :]]
                break
    return tracks


def _ports(line: _Line, ways: Sequence[Transition]) -> dict[tuple[Transition, int], int]:
    """Return where along the line each transition leaves (0) and ends (1). Those of one state and side are ordered so
    that they do not cross: left-going ones left of right-going ones, the longest of either in the middle."""
    ends: dict[tuple[int, bool], list[tuple[Transition, int]]] = defaultdict(list)
    for way in ways:
        for end in (0, 1):
            ends[way[end], way[1] > way[0]].append((way, end))
    found: dict[tuple[Transition, int], int] = {}
    for (index, _), many in ends.items():
        apart = min(_PORTS, line.long // (len(many) + 1))
        many.sort(key=lambda each: _port_order(index, each[0][1 - each[1]]))
        for at, each in enumerate(many):
            found[each] = round(line.starts[index] + line.long // 2 + (at - (len(many) - 1) / 2) * apart)
    return found


def _port_order(index: int, other: int) -> tuple[int, int]:
    return ((other > index) - (other < index), -other)


def _straight(line: _Line, way: Transition, said: str) -> tuple[list[tuple[int, int]], Point]:
    """Return the line to the next state, and the place of its label."""
    across = line.top + line.thick // 2
    start, end = line.starts[way[0]] + line.long, line.starts[way[1]]
    middle = (start + end) // 2
    half = round(text_width(said, SMALL) / 2)
    at = (middle, across - _LABEL_RISE) if line.is_row else (across + half + 6, middle + _LABEL_RISE)
    return [(start, across), (end, across)], at


def _around(
    line: _Line, way: Transition, said: str, ports: Mapping[tuple[Transition, int], int], ahead: _Side, back: _Side
) -> tuple[list[tuple[int, int]], Point]:
    """Return the line from a state over a track to any other one or itself, and the place of its label."""
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


MOST_FULL, MOST_COMPACT, MOST_LINES = 12, 60, 400
LEAST_WIDTH = 320
"""In a narrower cell, this picture is shrunk."""
_GAPS_FULL, _GAPS_COMPACT = (24, 20), (10, 8)  # between two nodes of a column, of a row


def graph_layout(view: GraphView, *, width: int = WIDTH) -> Layout:
    """Lay out `view` in at most `width` px. The result depends only on ids, needs, moves and skills, so a node never
    moves once it is drawn.

    A stack counts as one node. Up to 12 nodes are full, up to 60 compact, more become dots in boxes. They flow from
    left to right if there are two to five layers that fit beside each other (four full ones in a usual cell) and are
    not so high that one would scroll within the picture; else from top to bottom, with wide layers wrapped. If the
    lines that pass a row leave no room in it, full nodes become compact and compact ones dots; more than 400 lines also
    become dots, as nobody could follow them. A state machine is one row or column, or dots without its ways back.
    """
    width = max(width, LEAST_WIDTH)
    if not view.steps:
        return Layout(form="full", width=MARGIN, height=MARGIN, nodes=(), edges=())
    needs = needs_of(view)
    if view.kind == "fsm" and len(view.steps) <= MOST_COMPACT and len(view.moves) <= MOST_LINES:
        return machine_layout(view, form="full" if len(view.steps) <= MOST_FULL else "compact", width=width)
    if view.kind == "dag":
        groups = stacked(view.steps, needs)
        layers = layered(groups.parents)
        layout = _nodes(groups, layers, "full", width) if len(groups.steps) <= MOST_FULL else None
        if layout is None and len(groups.steps) <= MOST_COMPACT and sum(map(len, groups.parents)) <= MOST_LINES:
            layout = _nodes(groups, layers, "compact", width)
        if layout is not None:
            return layout
    found = boxes(view.steps, needs)
    return dots_layout(found, layered(found.parents), width)


def _nodes(groups: Groups, layers: Layers, form: Form, width: int) -> Layout | None:
    (w, h), (beside, below) = (FULL, _GAPS_FULL) if form == "full" else (COMPACT, _GAPS_COMPACT)
    sizes = [(w, h)] * len(groups.steps)
    flow = across(layers, sizes, gap=beside, width=width) or down(layers, sizes, gap=below, width=width)
    if flow is None:
        return None
    nodes = tuple(
        Node(node_id=ids[0], step_ids=ids, name=name, x=x, y=y, w=w, h=h, layer=layer)
        for ids, name, (x, y), layer in zip(groups.steps, groups.names, flow.corners, layers.depth, strict=True)
    )
    return Layout(form=form, width=flow.width, height=flow.height, nodes=nodes, edges=_edges(nodes, flow))


def _edges(nodes: Sequence[Node], flow: Flow) -> tuple[Edge, ...]:
    return tuple(
        Edge(source=nodes[source].node_id, to=nodes[to].node_id, points=points)
        for (source, to), points in flow.lines.items()
    )
