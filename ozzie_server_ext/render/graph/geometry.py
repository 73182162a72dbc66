"""Sizes and shapes in the picture of a workflow, and the width of its text."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ozzie_server_ext.render.text import cut_columns, visible_label

Form: TypeAlias = Literal["full", "compact", "dots"]
"""Nodes with a line of figures, nodes with a name, boxes with a dot for each step."""
Point: TypeAlias = tuple[int, int]

WIDTH = 846
"""The width of a cell's output in Lab."""
NAME_WIDTH = 16
"""Characters of a name that are shown."""
FULL, COMPACT = (164, 44), (132, 26)
MARGIN, WIDE_MARGIN = 6, 10
"""Room for the outline of a selected node; more above and to the right, where the plates of a stack stand out."""
RADIUS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """The middle of one step's dot."""

    step_id: str
    x: int
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A box for one step, for a stack of steps, or with a dot for each of its steps. `node_id` is the id of its first
    step; `name` that of a stack or a box, else empty; `layer` the number of nodes that must come before it."""

    node_id: str
    step_ids: tuple[str, ...]
    name: str = ""
    x: int
    y: int
    w: int
    h: int
    layer: int
    dots: tuple[Dot, ...] = ()

    @property
    def is_stack(self) -> bool:
        return len(self.step_ids) > 1 and not self.dots


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A line between nodes with right-angled corners `points`. `label_at` is the middle of its label's base line."""

    source: str
    to: str
    points: tuple[Point, ...]
    is_back: bool = False
    label: str = ""
    label_at: Point = (0, 0)

    @property
    def path(self) -> str:
        """The SVG path, with rounded corners."""
        return rounded(self.points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Everything that is drawn, within `width` × `height` px."""

    form: Form
    width: int
    height: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def straightened(points: Sequence[Point]) -> tuple[Point, ...]:
    """Drop the points that are no corner."""
    kept: list[Point] = []
    for point in points:
        if kept and kept[-1] == point:
            continue
        if len(kept) > 1 and any(kept[-2][axis] == kept[-1][axis] == point[axis] for axis in (0, 1)):
            kept[-1] = point
        else:
            kept.append(point)
    return tuple(kept)


def rounded(points: Sequence[Point]) -> str:
    """Return the SVG path along `points`; a corner with little room gets a smaller radius."""
    first, *rest = points
    drawn = [f"M{first[0]} {first[1]}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        radius = min(RADIUS, _apart(before, corner) / 2, _apart(corner, after) / 2)
        drawn += [f"L{_towards(corner, before, radius)}", f"Q{corner[0]} {corner[1]} {_towards(corner, after, radius)}"]
    return "".join([*drawn, *(f"L{x} {y}" for x, y in rest[-1:])])


def _apart(one: Point, other: Point) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def _towards(start: Point, end: Point, by: float) -> str:
    """Return the point `by` px from `start` towards `end`."""
    x, y = (at + (to > at) * by - (to < at) * by for at, to in zip(start, end, strict=True))
    return f"{x:g} {y:g}"


SMALL, PLAIN = 11, 13
"""Sizes in px: of figures and labels, of names."""
# In hundredths of the size, for the widest font that a viewer is likely to use.
_WIDE = {
    **dict.fromkeys("ijl.,:;'|!()[] ·", 33),
    **dict.fromkeys('ftrI/\\-"', 43),
    **dict.fromkeys("abdeghnopqu0123456789$_–", 63),
    **dict.fromkeys("cksvxyz?", 58),
    **dict.fromkeys("mMwW%@…—", 100),
}
_OTHER, _IDEOGRAPH, _NARROWEST = 80, 105, 0.33
# Not allowed in XML 1.0: with one of these, no viewer shows the picture.
_NOT_XML = re.compile("[\ufffe\uffff]")


def shown(text: str) -> str:
    """Return `text` on one line, without anything invisible or not allowed in XML."""
    return _NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", visible_label(text))


def text_width(text: str, size: int) -> float:
    """Return about how many px a line takes, rather too many than too few."""
    return sum(map(_wide, text)) * size / 100


def fitted(text: str, room: float, size: int, *, most: int = 200, end: str = "") -> str:
    """Make `text` visible and cut it to `most` columns and `room` px; `end` is appended whole."""
    line = shown(text[: 4 * most])  # no more of it than could be shown
    most = min(most, int(room / size / _NARROWEST) + 1)
    for columns in range(most - len(end), 0, -1):
        cut = cut_columns(line, columns) + end
        if text_width(cut, size) <= room:
            return cut
    return end.strip() or "…"


def _wide(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    if unicodedata.east_asian_width(char) in "WF":
        return _IDEOGRAPH
    return _WIDE.get(char, _OTHER)
