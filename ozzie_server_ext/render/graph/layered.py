"""Place the nodes of a graph in layers, and route the lines between them.

The steps of Sugiyama, Tagawa and Toda (1981): layers by the longest path, order by medians, coordinates by least
squares, and orthogonal lines in tracks between the layers.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor
from statistics import median
from typing import TypeAlias, TypeVar

from ozzie_server_ext.render.graph.geometry import MARGIN, WIDE_MARGIN, Point, straightened


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """The nodes of each layer in order; `depth` has the layer of each node. `parents` are the needs without those that
    would close a cycle, `is_whole`: there was none."""

    layers: tuple[tuple[int, ...], ...]
    depth: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]
    is_whole: bool


def layered(parents: Sequence[Sequence[int]]) -> Layers:
    """Return layers by the longest path to each node, ordered by the median of its parents, in one pass.

    The same needs always give the same layers. A workflow with a cycle is refused long before it is drawn; here the
    need that closes it is left out, so that the error can be looked at.
    """
    kept: list[tuple[int, ...]] = [()] * len(parents)
    depth = [0] * len(parents)
    for node, needs in _parents_first(parents):
        kept[node] = needs
        depth[node] = max((depth[need] + 1 for need in needs), default=0)
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for node, at in enumerate(depth):
        layers[at].append(node)
    # The place of a node in its layer, as a share of the layer's length, since layers differ in length.
    share = [0.0] * len(parents)
    for layer in layers:
        wanted = {node: median(share[need] for need in kept[node]) if kept[node] else 0.0 for node in layer}
        layer.sort(key=lambda node: (wanted[node], node))
        for place, node in enumerate(layer):
            share[node] = (place + 0.5) / len(layer)
    is_whole = all(len(before) == len(after) for before, after in zip(parents, kept, strict=True))
    return Layers(layers=tuple(map(tuple, layers)), depth=tuple(depth), parents=tuple(kept), is_whole=is_whole)


def _parents_first(parents: Sequence[Sequence[int]]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield each node after all that it needs. Not recursive: a chain may have a thousand steps."""
    new, open_, closed = 0, 1, 2
    seen = [new] * len(parents)
    for root in range(len(parents)):
        if seen[root] != new:
            continue
        seen[root] = open_
        way: list[tuple[int, Iterator[int], list[int]]] = [(root, iter(parents[root]), [])]
        while way:
            node, rest, kept = way[-1]
            need = next(rest, None)
            if need is None:
                way.pop()
                seen[node] = closed
                yield node, tuple(kept)
            elif seen[need] != open_:
                kept.append(need)
                if seen[need] == new:
                    seen[need] = open_
                    way.append((need, iter(parents[need]), []))


def spread(
    wanted: Sequence[float],
    weights: Sequence[float],
    apart: Sequence[float],
    *,
    low: float = float("-inf"),
    high: float = float("inf"),
) -> list[float]:
    """Return the places nearest to `wanted` (least squares) with item n at least `apart[n]` after the one before it,
    the first not below `low`, the last not above `high`. `apart[0]` is ignored.

    Without the distances it is a sequence that must not fall; where it would, neighbours move to their common mean.
    """
    offsets = [0.0] * len(wanted)
    for at in range(1, len(wanted)):
        offsets[at] = offsets[at - 1] + apart[at]
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many items
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, total, count = want - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            earlier, heavy, more = blocks.pop()
            mean = (mean * total + earlier * heavy) / (total + heavy)
            total, count = total + heavy, count + more
        blocks.append((mean, total, count))
    flat = [mean for mean, _, count in blocks for _ in range(count)]
    last = offsets[-1] if offsets else 0.0
    return [max(min(place, high - last), low) + offset for place, offset in zip(flat, offsets, strict=True)]


Lane: TypeAlias = tuple[bool, int]
"""Lines that share lanes start at one node, or (False) end at one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Items row by row: nodes, and lanes with higher numbers. `parents` are an item's in the row before it, `chains`
    the items that a line from one node to another passes, including both ends."""

    rows: list[list[int]]
    parents: list[list[int]]
    chains: dict[tuple[int, int], list[int]]


def wrapped_rows(layers: Sequence[Sequence[int]], sizes: Sequence[int], gap: int, room: int) -> list[list[int]] | None:
    """Break each layer into as many rows as it needs to fit `room`; None if one node alone does not fit."""
    rows: list[list[int]] = []
    for layer in layers:
        rows.append([])
        used = -gap
        for node in layer:
            if sizes[node] > room:
                return None
            used += gap + sizes[node]
            if used > room:
                rows.append([])
                used = sizes[node]
            rows[-1].append(node)
    return rows


def laned(rows: Sequence[Sequence[int]], parents: Sequence[Sequence[int]]) -> Rows:
    """Return the rows with lanes, ordered by the median of their parents.

    A long line shares lanes with the others of its source or, if more of them meet there, of its target: there are
    never more lanes beside a row than nodes before or after it.
    """
    row_of = {node: at for at, row in enumerate(rows) for node in row}
    long = [(need, node) for node, needs in enumerate(parents) for need in needs if row_of[node] - row_of[need] > 1]
    lane_of = hubs(long)
    items = [list(row) for row in rows]
    before: list[list[int]] = [[] for _ in parents]
    chains: dict[tuple[int, int], list[int]] = {}
    lanes: dict[tuple[Lane, int], int] = {}
    for node, needs in enumerate(parents):
        for need in needs:
            chain = [need]
            for at in range(row_of[need] + 1, row_of[node]):
                lane = lane_of[need, node]
                item = lanes.get((lane, at))
                if item is None:
                    item = lanes[lane, at] = len(before)
                    before.append([])
                    items[at].append(item)
                chain.append(item)
            chain.append(node)
            chains[need, node] = chain
            for source, to in pairwise(chain):
                if source not in before[to]:
                    before[to].append(source)
    _order(items, before)
    return Rows(rows=items, parents=before, chains=chains)


def _order(rows: list[list[int]], parents: Sequence[Sequence[int]]) -> None:
    share: dict[int, float] = {}
    for row in rows:
        own = {item: (place + 0.5) / len(row) for place, item in enumerate(row)}
        wanted = {item: median(share[each] for each in parents[item]) if parents[item] else own[item] for item in row}
        row.sort(key=lambda item: (wanted[item], own[item]))
        share |= {item: (place + 0.5) / len(row) for place, item in enumerate(row)}


Key = TypeVar("Key", bound=Hashable)
_CLEAR, _APART = 8, 6


def hubs(pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Lane]:
    """Return which lines between two rows run together: those of the source or, if more meet there, of the target."""
    out, into = Counter(source for source, _ in pairs), Counter(to for _, to in pairs)
    return {(source, to): (True, source) if out[source] >= into[to] else (False, to) for source, to in pairs}


def tracks(pairs: Sequence[tuple[int, int]], place: Mapping[int, int]) -> dict[tuple[int, int], int]:
    """Return the track of each line that turns, from zero: lines that run together share one, others that would overlap
    get different ones."""
    found = hubs(pairs)
    spans: dict[tuple[bool, int], list[int]] = {}
    for (source, to), hub in found.items():
        if place[source] != place[to]:
            spans.setdefault(hub, []).extend((place[source], place[to]))
    numbers = packed({hub: (min(ends), max(ends)) for hub, ends in spans.items()})
    return {pair: numbers[hub] for pair, hub in found.items() if hub in numbers}


def packed(spans: Mapping[Key, tuple[int, int]]) -> dict[Key, int]:
    """Return for each span, from the left, the lowest track in which it touches no other."""
    ends: list[int] = []
    numbers: dict[Key, int] = {}
    for each, (low, high) in sorted(spans.items(), key=lambda item: item[1]):
        number = next((at for at, end in enumerate(ends) if end + _CLEAR <= low), len(ends))
        ends[number : number + 1] = [high]
        numbers[each] = number
    return numbers


def track_count(numbers: Iterable[int]) -> int:
    return max(numbers, default=-1) + 1


def track_place(number: int, count: int, start: int, gap: int) -> int:
    """Return the place of a track in the `gap` px from `start`: around the middle, closer if there are many."""
    apart = min(_APART, (gap - 2 * _CLEAR) / max(count - 1, 1))
    return round(start + gap / 2 + (number - (count - 1) / 2) * apart)


def gap_for(count: int, least: int) -> int:
    """Return the room that `count` tracks need between two rows."""
    return max(least, 2 * _CLEAR + _APART * (count - 1))


MOST_LAYERS_ACROSS = 5
_GAP_ACROSS, _LEAST_GAP = 50, 24
_TALLEST = 640  # a taller graph is too much at a glance; drawn from top to bottom with wrapped rows, it is lower
_LANE_GAP = 10
_LANE_BEGINS, _LANE_GOES_ON = 0.001, 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The upper left corner of each node, the corners of each line, and the total size."""

    corners: tuple[Point, ...]
    lines: dict[tuple[int, int], tuple[Point, ...]]
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The nodes' sizes along the flow and across it, and the gap between two of one row."""

    along: list[int]
    cross: list[int]
    gap: int

    def half(self, item: int) -> float:
        return self.cross[item] / 2 if item < len(self.cross) else 0.0

    def apart(self, one: int, other: int) -> float:
        """Return the distance between the middles of two neighbours in a row."""
        both_nodes = max(one, other) < len(self.cross)
        return self.half(one) + self.half(other) + (self.gap if both_nodes else _LANE_GAP)


def across(layers: Layers, sizes: Sequence[Point], *, gap: int, width: int) -> Flow | None:
    """Draw from left to right, one column per layer; None if there are too many layers, or too much in one."""
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
    """Draw from top to bottom; a layer that is too wide continues in the next row. None if that is not enough, as lines
    that pass a row may leave no room in it."""
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
    """Return the middle of each item along its row: under the median of its parents, as far as neighbours allow. A lane
    gives way where it begins beside a node; further on it stays straight rather than a node does."""
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
    """Return the lines from each row to the next one."""
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
