"""Where the states of a state machine stand in its picture, and which ways lead from one to another."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.render.graph.layout import LEAST_WIDTH, graph_layout
from ozzie_server_ext.render.graph.view import GraphView, Move
from tests.unit.render.graphs import free, machines, reworked
from tests.unit.render.layouts import is_drawn_well, node_of, shared


def test_states_stand_in_the_order_in_which_they_are_reached() -> None:
    layout = graph_layout(reworked())

    assert [node.node_id for node in layout.nodes] == ["draft", "review", "rework", "publish"]
    assert len({node.y for node in layout.nodes}) == 1


def test_ways_back_run_below_the_row_and_longer_ways_forward_above_it() -> None:
    layout = graph_layout(reworked())
    top, bottom = layout.nodes[0].y, layout.nodes[0].y + layout.nodes[0].h
    ways = {(edge.source, edge.to): edge for edge in layout.edges}

    assert {way for way, edge in ways.items() if edge.is_back} == {("rework", "review"), ("publish", "draft")}
    assert all(y >= bottom for edge in ways.values() if edge.is_back for _, y in edge.points)
    assert all(y <= top for _, y in ways["review", "publish"].points)
    assert len(ways["draft", "review"].points) == 2
    assert ways["rework", "review"].label == "again"


def test_a_state_machine_of_many_states_is_a_column_with_ways_back_at_its_right() -> None:
    moves = (*(Move(source=f"n{at}", to=f"n{at + 1}") for at in range(7)), Move(source="n7", to="n0", label="again"))
    layout = graph_layout(replace(free(8), kind="fsm", moves=moves))

    assert len({node.x for node in layout.nodes}) == 1
    back = next(edge for edge in layout.edges if edge.is_back)
    assert all(x >= layout.nodes[0].x + layout.nodes[0].w for x, _ in back.points)


def test_ways_back_from_one_state_do_not_cross() -> None:
    ahead = (Move(source=f"n{at}", to=f"n{at + 1}") for at in range(3))
    layout = graph_layout(
        replace(free(4), kind="fsm", moves=(*ahead, *(Move(source="n3", to=f"n{at}") for at in range(3))))
    )
    back = {edge.to: edge.points for edge in layout.edges if edge.is_back}

    leaves, runs_at = ({to: points[at][axis] for to, points in back.items()} for at, axis in ((0, 0), (1, 1)))
    assert sorted(back, key=leaves.__getitem__) == ["n2", "n1", "n0"]
    assert sorted(back, key=runs_at.__getitem__) == ["n2", "n1", "n0"]


def test_a_state_machine_of_more_states_than_anybody_reads_is_dots_without_its_ways_back() -> None:
    ahead = tuple(Move(source=f"n{at}", to=f"n{at + 1}") for at in range(60))
    layout = graph_layout(replace(free(61), kind="fsm", moves=(*ahead, Move(source="n60", to="n0"))))

    assert [node.name for node in layout.nodes][:2] == ["layers 1–6", "layers 7–12"]
    assert len(layout.edges) == len(layout.nodes) - 1


def test_two_moves_on_the_same_way_are_one_line_with_both_labels() -> None:
    moves = tuple(Move(source="n0", to="n2", label=label) for label in ("ok", "skip"))
    layout = graph_layout(replace(free(3), kind="fsm", moves=(*moves, Move(source="n0", to="n1"))))

    assert {(edge.source, edge.to): edge.label for edge in layout.edges} == {("n0", "n2"): "ok, skip", ("n0", "n1"): ""}


@given(machines(), st.integers(LEAST_WIDTH, 1400))
def test_any_state_machine_is_drawn_without_anything_on_something_else(view: GraphView, width: int) -> None:
    layout = graph_layout(view, width=width)

    is_drawn_well(view, layout, width)
    ways = {(move.source, move.to) for move in view.moves if move.source in node_of(layout)}
    assert {(edge.source, edge.to) for edge in layout.edges} == ways
    place = {node.node_id: node.layer for node in layout.nodes}
    assert all(edge.is_back == (place[edge.source] >= place[edge.to]) for edge in layout.edges)


@given(machines())
def test_no_way_of_a_state_machine_runs_over_another_one(view: GraphView) -> None:
    assert shared(graph_layout(view)) == []
