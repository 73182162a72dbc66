"""What is wrong with a layout: things on each other, beside the picture, or off their nodes."""

from itertools import pairwise

from ozzie_server_ext.render.graph.geometry import Layout, Node
from ozzie_server_ext.render.graph.view import GraphView


def node_of(layout: Layout) -> dict[str, Node]:
    """The node of each step."""
    return {each: node for node in layout.nodes for each in node.step_ids}


def crossed(layout: Layout) -> list[tuple[str, str, str]]:
    """Lines that run through a node, each with that node."""
    found: list[tuple[str, str, str]] = []
    for edge in layout.edges:
        for (x1, y1), (x2, y2) in pairwise(edge.points):
            low, high = (min(x1, x2), min(y1, y2)), (max(x1, x2), max(y1, y2))
            found += [
                (edge.source, edge.to, node.node_id)
                for node in layout.nodes
                if low[0] < node.x + node.w and high[0] > node.x and low[1] < node.y + node.h and high[1] > node.y
            ]
    return found


def outside(layout: Layout, width: int) -> list[object]:
    """What does not lie within the picture, and the picture where it is wider than the cell."""
    points = [
        *((node.x, node.y) for node in layout.nodes),
        *((node.x + node.w, node.y + node.h) for node in layout.nodes),
        *(point for edge in layout.edges for point in edge.points),
    ]
    odd: list[object] = [(x, y) for x, y in points if not (0 <= x <= layout.width and 0 <= y <= layout.height)]
    odd += [
        dot
        for node in layout.nodes
        for dot in node.dots
        if not (node.x + 4 < dot.x < node.x + node.w - 4 and node.y + 4 < dot.y < node.y + node.h - 4)
    ]
    return odd + ([layout.width] if layout.width > width else [])


def overlapping(layout: Layout) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for at, one in enumerate(layout.nodes):
        for other in layout.nodes[at + 1 :]:
            beside = one.x + one.w <= other.x or other.x + other.w <= one.x
            if not (beside or one.y + one.h <= other.y or other.y + other.h <= one.y):
                found.append((one.node_id, other.node_id))
    return found


def shared(layout: Layout) -> list[tuple[str, str, str, str]]:
    """Lines that run over each other for more than a point."""
    found: list[tuple[str, str, str, str]] = []
    for at, one in enumerate(layout.edges):
        for other in layout.edges[at + 1 :]:
            for start, end in pairwise(one.points):
                for begin, stop in pairwise(other.points):
                    for along, across in ((0, 1), (1, 0)):
                        on_one_line = start[across] == end[across] == begin[across] == stop[across]
                        low = max(min(start[along], end[along]), min(begin[along], stop[along]))
                        high = min(max(start[along], end[along]), max(begin[along], stop[along]))
                        if on_one_line and low < high:
                            found.append((one.source, one.to, other.source, other.to))
    return found


def touches(node: Node, point: tuple[int, int]) -> bool:
    on_side = point[0] in (node.x, node.x + node.w) and node.y <= point[1] <= node.y + node.h
    return on_side or (point[1] in (node.y, node.y + node.h) and node.x <= point[0] <= node.x + node.w)


def is_drawn_well(view: GraphView, layout: Layout, width: int) -> None:
    ids = [each for node in layout.nodes for each in node.step_ids]
    assert sorted(ids) == sorted(each.step_id for each in view.steps)
    assert overlapping(layout) == []
    assert outside(layout, width) == []
    assert crossed(layout) == []
    at = {node.node_id: node for node in layout.nodes}
    for edge in layout.edges:
        assert touches(at[edge.source], edge.points[0])
        assert touches(at[edge.to], edge.points[-1])
        assert all(x1 == x2 or y1 == y2 for (x1, y1), (x2, y2) in pairwise(edge.points))
