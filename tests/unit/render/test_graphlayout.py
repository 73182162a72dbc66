"""Where the steps of a workflow stand in its picture."""

from dataclasses import replace
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.render.graph.geometry import Layout, rounded
from ozzie_server_ext.render.graph.layout import LEAST_WIDTH, graph_layout
from ozzie_server_ext.render.graph.view import GraphStep, GraphView
from tests.unit.render.graphs import (
    NOW,
    STATES,
    chain,
    changed,
    free,
    machines,
    step,
    tender_scan,
    weekly_review,
    workflows,
)
from tests.unit.render.layouts import crossed, is_drawn_well, node_of

WIDTHS = st.integers(LEAST_WIDTH, 1400)


def corners(layout: Layout) -> dict[str, tuple[int, int]]:
    return {node.node_id: (node.x, node.y) for node in layout.nodes}


def fan(count: int, *, skill: str = "") -> GraphView:
    """One step, `count` that need it, and one that needs these."""
    ids = [f"part {number}" for number in range(count)]
    return GraphView(
        name="fan", steps=(step("begin"), *(step(each, "begin", skill=skill) for each in ids), step("end", *ids))
    )


def test_the_graph_of_the_mockup_stands_in_four_columns() -> None:
    layout = graph_layout(weekly_review())

    assert (layout.form, layout.width, layout.height) == ("full", 822, 264)
    assert corners(layout) == {
        "plan": (6, 112),
        "read sources": (220, 10),
        "search web": (220, 78),
        "tender 0": (220, 146),
        "last week": (220, 214),
        "check claims": (434, 44),
        "merge": (434, 180),
        "write report": (648, 44),
        "publish": (648, 180),
    }
    assert {(node.w, node.h) for node in layout.nodes} == {(164, 44)}


def test_the_lines_of_the_mockup_turn_at_right_angles_in_the_middle_between_two_columns() -> None:
    lines = {(edge.source, edge.to): edge for edge in graph_layout(weekly_review()).edges}

    assert len(lines) == 10
    assert lines["plan", "read sources"].points == ((170, 134), (195, 134), (195, 32), (220, 32))
    assert lines["tender 0", "merge"].points == ((384, 168), (409, 168), (409, 202), (434, 202))
    assert lines["merge", "publish"].points == ((598, 202), (648, 202))
    assert lines["merge", "publish"].path == "M598 202L648 202"
    assert lines["tender 0", "merge"].path == "M384 168L403 168Q409 168 409 174L409 196Q409 202 415 202L434 202"


def test_a_corner_with_little_room_is_rounded_less() -> None:
    assert rounded([(0, 0), (10, 0), (10, 4), (20, 4)]) == "M0 0L8 0Q10 0 10 2L10 2Q10 4 12 4L20 4"


def test_like_siblings_are_one_stack_called_by_their_skill() -> None:
    stack = next(node for node in graph_layout(weekly_review()).nodes if node.is_stack)

    assert stack.name == "summarise"
    assert stack.step_ids == tuple(f"tender {number}" for number in range(24))


@pytest.mark.parametrize(
    ("view", "nodes"),
    [
        (fan(6, skill="sum"), 3),
        (fan(5, skill="sum"), 7),
        (fan(6), 8),
        (replace(fan(6, skill="sum"), steps=(*fan(6, skill="sum").steps, step("more", "part 0"))), 9),
    ],
    ids=["six", "only five", "without a skill", "one has another child"],
)
def test_what_makes_a_stack(view: GraphView, nodes: int) -> None:
    assert len(graph_layout(view).nodes) == nodes


@pytest.mark.parametrize(
    ("view", "form"),
    [
        (free(1), "full"),
        (free(12), "full"),
        (free(13), "compact"),
        (free(60), "compact"),
        (free(61), "dots"),
        (fan(200, skill="sum"), "full"),
    ],
    ids=["one", "12", "13", "60", "61", "a stack counts as one"],
)
def test_the_form_goes_by_the_number_of_nodes(view: GraphView, form: str) -> None:
    assert graph_layout(view).form == form


@pytest.mark.parametrize(("each", "form"), [(7, "compact"), (8, "dots")])
def test_more_lines_than_anybody_could_follow_are_not_drawn(each: int, form: str) -> None:
    steps = [step(f"n{at}", *(f"n{at - back}" for back in range(1, each + 1))) for at in range(60)]

    assert graph_layout(GraphView(name="dense", steps=tuple(steps))).form == form


def test_three_steps_that_need_nothing_are_one_row() -> None:
    assert len({node.y for node in graph_layout(free(3)).nodes}) == 1


@pytest.mark.parametrize(("width", "is_across"), [(846, False), (1100, True)])
def test_five_full_layers_go_down_unless_they_fit_beside_each_other(width: int, is_across: bool) -> None:
    layout = graph_layout(chain(5), width=width)

    assert len({node.y for node in layout.nodes}) == (1 if is_across else 5)
    assert len({node.x for node in layout.nodes}) == (5 if is_across else 1)


def test_six_layers_go_down_however_wide_the_cell_is() -> None:
    assert len({node.y for node in graph_layout(chain(6), width=5000).nodes}) == 6


def test_a_layer_that_is_too_high_goes_down_in_rows() -> None:
    layout = graph_layout(fan(30))

    assert layout.form == "compact"
    assert len({node.y for node in layout.nodes if node.layer == 1}) == 6
    assert layout.height < 450


def test_what_needs_the_same_stays_together_where_a_layer_is_broken_into_rows() -> None:
    halves = [step(f"{number}", "ab"[number % 2]) for number in range(24)]
    layout = graph_layout(GraphView(name="halves", steps=(step("a"), step("b"), *halves)))

    first = [int(node.node_id) for node in layout.nodes if node.layer == 1 and node.y == layout.nodes[2].y]
    assert len(first) > 3
    assert all(number % 2 == 0 for number in first)


def test_a_line_that_passes_a_layer_goes_around_its_nodes() -> None:
    view = GraphView(name="skip", steps=(step("a"), step("b", "a"), step("c", "a"), step("d", "a", "b", "c")))
    layout = graph_layout(view)

    past = next(edge for edge in layout.edges if (edge.source, edge.to) == ("a", "d"))
    assert len(past.points) == 6
    assert crossed(layout) == []


def test_nodes_of_a_layer_stand_in_the_order_of_what_they_need() -> None:
    view = GraphView(name="two", steps=(step("a"), step("b"), step("after b", "b"), step("after a", "a")))
    places = corners(graph_layout(view))

    assert places["after a"] == (220, places["a"][1])
    assert places["after b"] == (220, places["b"][1])


def test_lines_of_two_steps_do_not_run_over_each_other_between_two_columns() -> None:
    view = GraphView(name="two", steps=(step("a"), step("b"), step("x", "a"), step("y", "a", "b"), step("z", "b")))
    lines = {(edge.source, edge.to): edge.points for edge in graph_layout(view).edges}

    assert lines["a", "x"][1][0] == lines["a", "y"][1][0] != lines["b", "y"][1][0] == lines["b", "z"][1][0]


def test_a_chain_is_straight_though_lines_pass_some_of_it() -> None:
    view = chain(8)
    more = {"step 3": ("step 0",), "step 5": ("step 0",)}
    passed = changed(view, lambda each: replace(each, needs=(*each.needs, *more.get(each.step_id, ()))))

    assert len({node.x for node in graph_layout(passed).nodes}) == 1


def test_steps_of_each_skill_share_a_box_with_a_dot_for_each() -> None:
    layout = graph_layout(tender_scan())

    assert [(node.name, len(node.dots)) for node in layout.nodes] == [
        ("fetch", 40),
        ("extract", 80),
        ("score", 60),
        ("group", 16),
        ("report", 4),
    ]
    assert len({(node.y, node.h) for node in layout.nodes}) == 1
    first, second = layout.nodes[0].dots[:2]
    assert (second.x - first.x, second.y - first.y) == (13, 0)


def test_steps_without_a_skill_share_the_box_of_their_layer() -> None:
    layout = graph_layout(changed(tender_scan(), lambda each: replace(each, skill="")))

    assert [node.name for node in layout.nodes] == [f"layer {number}" for number in range(1, 6)]


def test_many_layers_share_a_box() -> None:
    layout = graph_layout(chain(100))

    assert [node.name for node in layout.nodes][:2] == ["layers 1–9", "layers 10–18"]
    assert layout.nodes[-1].name == "layer 100"
    assert sum(len(node.dots) for node in layout.nodes) == 100


def test_skills_that_wait_for_each_other_do_not_have_boxes_of_their_own() -> None:
    view = changed(chain(62), lambda each: replace(each, skill="odd" if int(each.step_id[5:]) % 2 else "even"))

    assert "layers 1–6" in [node.name for node in graph_layout(view).nodes]


def test_a_circle_of_needs_is_drawn_without_the_need_that_closes_it() -> None:
    layout = graph_layout(GraphView(name="circle", steps=(step("a", "c"), step("b", "a"), step("c", "b"))))

    assert len(layout.nodes) == 3
    assert len(layout.edges) == 2


def test_a_workflow_without_steps_has_an_empty_picture() -> None:
    assert graph_layout(GraphView(name="none", steps=())).nodes == ()


def test_a_thousand_steps_are_laid_out_in_a_second_of_the_processor() -> None:
    steps = [step(f"n{at}", *(f"n{at - back}" for back in range(40, 71)), skill=f"s{at // 100}") for at in range(1000)]
    began = process_time()
    layout = graph_layout(GraphView(name="many", steps=tuple(steps)))

    assert process_time() - began < 1
    assert sum(len(node.dots) for node in layout.nodes) == 1000


@given(workflows(), WIDTHS)
def test_any_workflow_is_drawn_without_anything_on_something_else(view: GraphView, width: int) -> None:
    layout = graph_layout(view, width=width)

    is_drawn_well(view, layout, width)
    nodes = node_of(layout)
    drawn = {(edge.source, edge.to) for edge in layout.edges}
    for each in view.steps:
        for need in each.needs:
            source, to = nodes.get(need), nodes[each.step_id]
            if source is not None and source != to:
                assert (source.node_id, to.node_id) in drawn
                assert source.layer < to.layer


@given(st.one_of(workflows(most=40), machines()), st.data())
def test_a_node_never_moves_when_only_states_change(view: GraphView, data: st.DataObject) -> None:
    def later(each: GraphStep) -> GraphStep:
        state = data.draw(st.sampled_from(STATES))
        return replace(each, state=state, started_at=NOW, cost=7, note="3 of 8", visits=3, title=f"{each.title} again")

    assert graph_layout(replace(changed(view, later), current="n0")) == graph_layout(view)
