"""The table of a run's steps in its saved turn."""

from dataclasses import replace

from hypothesis import given

from ozzie_server_ext.render.graph.output import MOST_ROWS, graph_table
from ozzie_server_ext.render.graph.view import GraphView
from ozzie_server_ext.render.static import turn_markdown
from ozzie_server_ext.render.turnfold import fold, new_turn
from tests.unit.render.graphs import NOW, chain, changed, reworked, step, tender_scan, workflows

TASK = "task 01JD4T…"


def table(view: GraphView, *, has_ended: bool = True) -> list[str]:
    return graph_table(view, TASK, has_ended=has_ended).splitlines()


FAILED = GraphView(
    name="weekly-review",
    steps=(
        step("read | all", seconds=2.1, note="14 files"),
        step("check", "read | all", seconds=4.0, start=2.1, cost=4_000_000, attempt=2, attempts=3),
        step("send", "check", state="Failed", seconds=1.0, start=6.1, problem="Nobody took it.", attempt=3, attempts=3),
        step("late", "check", state="Skipped"),
        step("thank", "send"),
    ),
)


def test_each_step_has_a_row_with_what_it_gave_how_it_ended_and_how_long_it_took() -> None:
    assert table(FAILED) == [
        "<details><summary>5 steps of weekly-review: 2 done, 1 failed, 1 skipped, 1 not reached (7.1 s, send failed)"
        "</summary>",
        "",
        "| Step | Result | State | Time |",
        "|---|---|---|---|",
        r"| read \| all | 14 files | done | 2.1 s |",
        "| check | attempt 2 of 3, &#36;0.004 | done | 4.0 s |",
        "| send | Nobody took it; 3 of 3 attempts | failed | 1.0 s |",
        "| late |  | skipped |  |",
        "| thank |  | not reached |  |",
        "",
        "</details>",
    ]


def test_a_step_of_a_run_that_goes_on_waits_and_says_so() -> None:
    assert table(FAILED, has_ended=False)[-3] == "| thank |  | waiting |  |"


def test_a_state_that_was_come_to_more_than_once_says_how_often() -> None:
    times = [f"{each.title} × {each.visits}" for each in reworked().steps if each.visits > 1]

    assert times
    for said in times:
        assert any(line.startswith(f"| {said} |") for line in table(reworked()))


def test_of_many_steps_those_that_a_person_is_to_look_at_are_shown_in_their_order() -> None:
    view = tender_scan()
    lines = table(view)
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines[4:-4]]
    titles = [each.title for each in view.steps]

    assert len(rows) == MOST_ROWS
    assert rows == sorted(rows, key=titles.index)
    assert {each.title for each in view.problems} <= set(rows)
    assert lines[-3:] == [f"… and {len(view.steps) - MOST_ROWS} more in {TASK}", "", "</details>"]
    assert len(table(chain(MOST_ROWS))[4:-2]) == MOST_ROWS


def test_a_saved_turn_has_it_before_its_result_and_one_without_a_run_has_none() -> None:
    view = new_turn(task_id="01JD4T0000000000000000TASK")
    view = fold(view, "message.completed", {"reply_id": "r", "text": "All is well.", "finish": "stop"}, NOW)
    view = fold(view, "task.succeeded", {"rounds": 1}, NOW)

    with_run = turn_markdown(view, FAILED)

    assert with_run.index("<details>") < with_run.index("All is well.")
    assert "\n\n<details>" in f"\n\n{with_run}"
    assert "</details>\n\nAll is well." in with_run
    assert "<details>" not in turn_markdown(view)


@given(workflows())
def test_every_workflow_is_one_table_of_whole_rows(view: GraphView) -> None:
    long = changed(view, lambda each: replace(each, note="x|`<b>\n" * 40))
    for each in (view, long):
        rows = table(each)[4 : 4 + min(len(each.steps), MOST_ROWS)]
        assert all(
            line.replace(r"\|", "").count("|") == 5 and line.startswith("| ") and line.endswith(" |") for line in rows
        )
