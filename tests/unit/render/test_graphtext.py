"""A workflow as text: whole, and line by line as it goes on."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.render.graph.output import GraphWriter, graph_text
from ozzie_server_ext.render.graph.view import GraphStep, GraphView, StepState
from ozzie_server_ext.render.text import columns
from tests.unit.render.graphs import NOW, STATES, changed, reworked, step, tender_scan, weekly_review, workflows


def with_state(view: GraphView, step_id: str, state: StepState) -> GraphView:
    return changed(view, lambda each: replace(each, state=state) if each.step_id == step_id else each)


def test_the_mockups_graph_is_one_step_a_line() -> None:
    assert graph_text(weekly_review(), now=NOW).split("\n") == [
        "[waiting for you] weekly-review  29 of 32, 1 running",
        "  [done] plan  2.1 s",
        "  [done] read sources  0.8 s, 14 files",
        "  [done] search web  3.4 s",
        "  [done] summarise × 24  9.2 s",
        "  [done] last week  0.3 s",
        "  [working] check claims  6 s, 3 of 8",
        "  [done] merge  1.9 s",
        "  [waiting] write report  after check claims",
        "  [waiting for you] publish",
    ]


def test_more_than_sixty_steps_are_a_line_for_each_group_and_the_problems() -> None:
    assert graph_text(tender_scan(), now=NOW).split("\n") == [
        "[waiting for you] tender-scan  150 of 200, 12 running, 2 failed",
        "  [done] fetch  40 of 40, 14.0 s",
        "  [done] extract  80 of 80, 14.0 s",
        "  [waiting for you] score  28 of 60, 2 failed, 1 waiting for you, 21 s",
        "    [failed] tender 0026.pdf  The answer had no number for “total”; 3 of 3 atte…",
        "    [failed] tender 0027.pdf  The file is empty",
        "    [waiting for you] tender 0040.pdf",
        "  [working] group  2 of 16, 21 s",
        "  [waiting] report  0 of 4",
    ]


def test_a_state_machine_tells_how_often_it_came_to_a_state() -> None:
    assert graph_text(reworked(), now=NOW).split("\n") == [
        "[working] article  2 of 4, 1 running",
        "  [done] draft  8.2 s",
        "  [waiting] publish",
        "  [done] review × 3  3.1 s",
        "  [working] rework × 3  6 s",
    ]


def test_a_failed_step_of_a_stack_is_listed_below_it() -> None:
    lines = graph_text(with_state(weekly_review(), "tender 3", "Failed"), now=NOW).split("\n")

    assert lines[4:6] == ["  [failed] summarise × 24  24 of 24, 1 failed, 9.2 s", "    [failed] tender 3  Failed"]


def test_of_many_problems_the_first_are_listed_and_the_others_counted() -> None:
    lines = graph_text(changed(weekly_review(), lambda each: replace(each, state="Failed"))).split("\n")

    assert sum(line.startswith("    [failed] tender") for line in lines) == 20
    assert "    … and 4 more" in lines


def test_what_is_written_first_is_the_whole_list() -> None:
    assert GraphWriter().update(weekly_review(), NOW) == f"{graph_text(weekly_review(), now=NOW)}\n"


def test_nothing_is_written_again_while_only_time_and_figures_change() -> None:
    writer = GraphWriter()
    writer.update(weekly_review())
    later = changed(weekly_review(), lambda each: replace(each, note="4 of 8", cost=1, model="other"))

    assert writer.update(later, NOW) == ""


def test_only_lines_whose_state_has_changed_are_written_again() -> None:
    writer = GraphWriter()
    writer.update(weekly_review(), NOW)
    ended = replace(step("check claims", seconds=6.04), needs=("read sources", "search web"))
    view = changed(weekly_review(), lambda each: ended if each.step_id == "check claims" else each)

    assert writer.update(view, NOW) == "  [done] check claims  6.0 s\n"
    assert writer.update(with_state(view, "publish", "Working"), NOW) == (
        "[working] weekly-review  30 of 32, 1 running\n  [working] publish\n"
    )


def test_a_group_is_not_written_again_for_each_of_its_steps() -> None:
    writer = GraphWriter()
    writer.update(tender_scan(), NOW)

    assert writer.update(with_state(tender_scan(), "score 28", "Done"), NOW) == ""


def test_a_new_problem_of_a_group_is_written_at_once() -> None:
    writer = GraphWriter()
    writer.update(tender_scan(), NOW)

    assert (
        writer.update(with_state(tender_scan(), "score 28", "Failed"), NOW) == "    [failed] tender 0028.pdf  Failed\n"
    )


def test_a_problem_that_comes_back_is_written_again() -> None:
    writer = GraphWriter()
    failed = with_state(tender_scan(), "score 28", "Failed")

    assert "tender 0028.pdf" in writer.update(failed, NOW)
    assert writer.update(tender_scan(), NOW) == ""
    assert "tender 0028.pdf" in writer.update(failed, NOW)


@pytest.mark.parametrize(
    "text", ["\x1b[2J\x07", "two\nlines", "\u202eover\u200b", "half \ud83d", "日本語" * 40, "x" * 10_000]
)
def test_a_terminal_obeys_nothing_of_a_title(text: str) -> None:
    def spoilt(each: GraphStep) -> GraphStep:
        return replace(each, title=text, note=text, problem=text, skill=each.skill and f"{each.skill}{text}")

    for view in (weekly_review(), tender_scan(), reworked()):
        written = graph_text(replace(changed(view, spoilt), name=text))
        assert all(char.isprintable() or char == "\n" for char in written)
        assert all(columns(line) <= 80 for line in written.split("\n"))
        assert written.count("\n") == graph_text(view).count("\n")


@given(workflows(), st.data())
def test_any_workflow_is_lines_that_fit(view: GraphView, data: st.DataObject) -> None:
    states = st.sampled_from(STATES)
    view = changed(
        view, lambda each: replace(each, state=data.draw(states), problem="why " * 30, attempt=2, attempts=3)
    )
    lines = graph_text(view, now=NOW).split("\n")

    assert all(columns(line) <= 80 for line in lines)
    assert len(lines) <= 1 + 2 * max(len(view.steps), 1)
