"""The picture of more steps than anybody reads: a box for each skill or layer with a dot for each step (UX §3)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from ozzie_server_ext.render.graphflow import Flow, across, down
from ozzie_server_ext.render.graphgroups import Groups, grouped
from ozzie_server_ext.render.graphlayers import Layers, layered
from ozzie_server_ext.render.graphletters import PLAIN, SMALL, fitted, text_width
from ozzie_server_ext.render.graphshapes import NAME_WIDTH, Dot, Edge, Layout, Node, Point
from ozzie_server_ext.render.graphview import GraphStep

MOST_BOXES = 12
HEAD, GRID, PAD = 38, 13, 14
"""From the top of a box to the middle of its first dots; from dot to dot; from the sides."""
HEAD_PAD, HEAD_ROOM = 10, 140
"""Of the line of text above the dots: from the sides, and for the name."""
_LEAST_ROWS, _MOST_ROWS, _MOST_COLUMNS, _GAP = 4, 16, 48, 22
_ROOM_FOR_LANES = 12 * 10 + 2 * PAD
_BETWEEN = 12


def boxes(steps: Sequence[GraphStep], needs: Sequence[tuple[int, ...]]) -> Groups:
    """One group for each skill, where every step has one, there are few and none waits for itself by way of another;
    else one for each layer, neighbouring layers together where there are many. A layer whose steps all have one skill
    is called by it."""
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
    """The boxes in one row from left to right, all of one height, with the fewest rows of dots that let them fit; else
    from top to bottom, each as wide as its dots need."""
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
    assert flow is not None, "at most twelve boxes, none wider than the picture without twelve lanes"
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
    edges = tuple(
        Edge(source=nodes[source].node_id, to=nodes[to].node_id, points=points)
        for (source, to), points in flow.lines.items()
    )
    return Layout(form="dots", width=flow.width, height=flow.height, nodes=tuple(nodes), edges=edges)


def _name(skills: set[str], first: int, band: int, deepest: int) -> str:
    if len(skills) == 1 and "" not in skills:
        return next(iter(skills))
    last = min(first + band - 1, deepest)
    return f"layer {first + 1}" if first == last else f"layers {first + 1}–{last + 1}"


def _head_width(name: str, count: int) -> int:
    """Room for the name, and for the longest count that can stand beside it."""
    named = fitted(name, HEAD_ROOM, PLAIN, most=NAME_WIDTH)
    counted = text_width(f"{count:,} of {count:,}", SMALL)
    return ceil(text_width(named, PLAIN) + counted) + _BETWEEN + 2 * HEAD_PAD


def _box_width(columns: int, least: int) -> int:
    wide = max(2 * PAD + GRID * (columns - 1), least)
    return wide + wide % 2


def _box_height(rows: int) -> int:
    high = HEAD + GRID * (rows - 1) + PAD + 2
    return high + high % 2
