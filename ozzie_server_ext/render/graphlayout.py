"""Where the steps of a workflow stand: decided here alone, from its structure, and drawn by anybody (UX §3)."""

from ozzie_server_ext.render.graphdots import boxes, dots_layout
from ozzie_server_ext.render.graphflow import Flow, across, down
from ozzie_server_ext.render.graphgroups import Groups, stacked
from ozzie_server_ext.render.graphlayers import Layers, layered
from ozzie_server_ext.render.graphmachine import machine_layout
from ozzie_server_ext.render.graphneeds import needs_of
from ozzie_server_ext.render.graphshapes import COMPACT, FULL, MARGIN, WIDTH, Edge, Form, Layout, Node, Point
from ozzie_server_ext.render.graphview import GraphView

MOST_FULL, MOST_COMPACT, MOST_LINES = 12, 60, 400
LEAST_WIDTH = 320
"""A narrower cell gets this picture, made smaller."""
_GAPS_FULL, _GAPS_COMPACT = (24, 20), (10, 8)  # between two nodes of a column, of a row


def graph_layout(view: GraphView, *, width: int = WIDTH) -> Layout:
    """The picture of `view` in at most `width` px: the same for the same ids, needs, moves and skills, whatever has
    happened meanwhile. A node never moves once it is drawn.

    Stacks count as one node. Up to 12 nodes are full ones, up to 60 compact ones, more are dots in boxes. They flow
    from left to right if there are two to five layers, these fit beside each other (four full ones do in a cell of
    usual width), and none is so high that one would scroll within the picture; else from top to bottom, a layer that
    is too wide in several rows. Where so many lines pass a row that nothing else fits in it, full nodes become
    compact, and compact ones dots; so they do where nobody could follow the lines, more than 400. A state machine is
    one row or column, or dots, too, in which ways back are left out.
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
    size, (beside, below) = (FULL, _GAPS_FULL) if form == "full" else (COMPACT, _GAPS_COMPACT)
    sizes = [size] * len(groups.steps)
    flow = across(layers, sizes, gap=beside, width=width) or down(layers, sizes, gap=below, width=width)
    return None if flow is None else _layout(groups, layers, size, form, flow)


def _layout(groups: Groups, layers: Layers, size: Point, form: Form, flow: Flow) -> Layout:
    nodes = tuple(
        Node(node_id=ids[0], step_ids=ids, name=name, x=x, y=y, w=size[0], h=size[1], layer=layer)
        for ids, name, (x, y), layer in zip(groups.steps, groups.names, flow.corners, layers.depth, strict=True)
    )
    edges = tuple(
        Edge(source=nodes[source].node_id, to=nodes[to].node_id, points=points)
        for (source, to), points in flow.lines.items()
    )
    return Layout(form=form, width=flow.width, height=flow.height, nodes=nodes, edges=edges)
