"""Nodes of any size and the lines between them, placed layer by layer, left to right or top to bottom."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor
from statistics import median

from ozzie_server_ext.render.graphlayers import Layers
from ozzie_server_ext.render.graphplaces import spread
from ozzie_server_ext.render.graphroutes import gap_for, track_count, track_place, tracks
from ozzie_server_ext.render.graphrows import Rows, laned, wrapped_rows
from ozzie_server_ext.render.graphshapes import MARGIN, WIDE_MARGIN, Point, straightened

MOST_LAYERS_ACROSS = 5
_GAP_ACROSS, _LEAST_GAP = 50, 24
_TALLEST = 640  # more than one looks over at once: the same graph from top to bottom, its rows wrapped, is lower
_LANE_GAP = 10
_LANE_BEGINS, _LANE_GOES_ON = 0.001, 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The left upper corner of each node, the corners of each line, and what both need."""

    corners: tuple[Point, ...]
    lines: dict[tuple[int, int], tuple[Point, ...]]
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The nodes' sizes along the flow and across it, and how far apart two of one row are."""

    along: list[int]
    cross: list[int]
    gap: int

    def half(self, item: int) -> float:
        return self.cross[item] / 2 if item < len(self.cross) else 0.0

    def apart(self, one: int, other: int) -> float:
        """From middle to middle of two neighbours in a row."""
        both_nodes = max(one, other) < len(self.cross)
        return self.half(one) + self.half(other) + (self.gap if both_nodes else _LANE_GAP)


def across(layers: Layers, sizes: Sequence[Point], *, gap: int, width: int) -> Flow | None:
    """From left to right, one column a layer; None where there are too many layers, or too much in one."""
    if not 1 < len(layers.layers) <= MOST_LAYERS_ACROSS:
        return None
    flow = _Sizes([w for w, _ in sizes], [h for _, h in sizes], gap)
    rows = laned(layers.layers, layers.parents)
    along = [max(flow.along[item] for item in layer) for layer in layers.layers]
    free = (width - MARGIN - WIDE_MARGIN - sum(along)) // (len(along) - 1)
    if free < _LEAST_GAP or max(_length(row, flow) for row in rows.rows) > _TALLEST:
        return None
    places = _places(rows, flow, None)
    gaps = [min(free, _GAP_ACROSS)] * (len(along) - 1)
    return _drawn(rows, flow, places, along, gaps, is_down=False)


def down(layers: Layers, sizes: Sequence[Point], *, gap: int, width: int) -> Flow | None:
    """From top to bottom; a layer that is too wide goes on in the next row. None where that is not enough: where lines
    that pass a row leave no room in it."""
    flow = _Sizes([h for _, h in sizes], [w for w, _ in sizes], gap)
    room = width - MARGIN - WIDE_MARGIN
    for taken in range(0, room, 2 * _LANE_GAP):
        wrapped = wrapped_rows(layers.layers, flow.cross, gap, room - taken)
        if wrapped is None:
            return None
        rows = laned(wrapped, layers.parents)
        if max(_length(row, flow) for row in rows.rows) <= room:
            places = _places(rows, flow, room)
            along = [max(flow.along[item] for item in row) for row in wrapped]
            counts = [track_count(tracks(pairs, places).values()) for pairs in _between(rows)]
            gaps = [gap_for(count, _LEAST_GAP) for count in counts]
            return _drawn(rows, flow, places, along, gaps, is_down=True)
    return None


def _length(row: Sequence[int], sizes: _Sizes) -> float:
    between = sum(sizes.apart(one, other) for one, other in pairwise(row))
    return between + sizes.half(row[0]) + sizes.half(row[-1])


def _places(rows: Rows, sizes: _Sizes, room: int | None) -> dict[int, int]:
    """The middle of each item along its row: under the median of its parents, as far as its neighbours let it. A lane
    gives way where it begins beside a node, and from there on goes straight rather than a node does."""
    count = len(sizes.cross)
    places: dict[int, int] = {}
    for row in rows.rows:
        wanted: list[float] = []
        weights: list[float] = []
        for item in row:
            parents = rows.parents[item]
            nodes = [each for each in parents if each < count]
            wanted.append(median(places[each] for each in nodes or parents) if parents else (room or 0) / 2)
            weights.append(1.0 if item < count else _LANE_BEGINS if nodes else _LANE_GOES_ON)
        apart = [0.0, *(sizes.apart(one, other) for one, other in pairwise(row))]
        bounds = {} if room is None else {"low": sizes.half(row[0]), "high": room - sizes.half(row[-1])}
        found = spread(wanted, weights, apart, **bounds)
        places |= {item: floor(place + 0.5) for item, place in zip(row, found, strict=True)}
    return places


def _between(rows: Rows) -> list[list[tuple[int, int]]]:
    """The lines from each row to the next one."""
    return [[(need, item) for item in row for need in rows.parents[item]] for row in rows.rows[1:]]


def _drawn(
    rows: Rows, sizes: _Sizes, places: dict[int, int], along: Sequence[int], gaps: Sequence[int], *, is_down: bool
) -> Flow:
    starts = [WIDE_MARGIN if is_down else MARGIN]
    for size, gap in zip(along, gaps, strict=False):
        starts.append(starts[-1] + size + gap)
    row_of = {item: at for at, row in enumerate(rows.rows) for item in row}
    turns: dict[tuple[int, int], int] = {}
    for at, pairs in enumerate(_between(rows)):
        numbers = tracks(pairs, places)
        count, start = track_count(numbers.values()), starts[at] + along[at]
        turns |= {pair: track_place(number, count, start, gaps[at]) for pair, number in numbers.items()}
    nodes = range(len(sizes.cross))
    shift = (MARGIN if is_down else WIDE_MARGIN) - floor(min(places[item] - sizes.half(item) for item in row_of))
    high = shift + ceil(max(places[item] + sizes.half(item) for item in row_of))

    def point(main: int, place: int) -> Point:
        return (place + shift, main) if is_down else (main, place + shift)

    lines = {
        (source, to): straightened(
            [
                point(starts[row_of[source]] + sizes.along[source], places[source]),
                *(point(turns[pair], places[end]) for pair in pairwise(chain) if pair in turns for end in pair),
                point(starts[row_of[to]], places[to]),
            ]
        )
        for (source, to), chain in rows.chains.items()
    }
    corners = tuple(point(starts[row_of[node]], floor(places[node] - sizes.half(node))) for node in nodes)
    end = starts[-1] + along[-1]
    size = (high + WIDE_MARGIN, end + MARGIN) if is_down else (end + WIDE_MARGIN, high + MARGIN)
    return Flow(corners=corners, lines=lines, width=size[0], height=size[1])
