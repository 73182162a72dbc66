"""A workflow is folded from the frames of its task."""

from datetime import UTC, datetime, timedelta
from typing import Any

from ozzie_server_ext.render.graph.view import MOST_NOTE, GraphStep, GraphView, Move, fold_graph

AT = datetime(2026, 1, 1, tzinfo=UTC)
DAG: dict[str, Any] = {
    "skill": "w",
    "kind": "workflow",
    "steps": [
        {"step_id": "a", "title": "First"},
        {"step_id": "b", "needs": ["a"], "model": "cheap"},
        {"step_id": "c", "needs": ["a"], "skill": "other"},
    ],
}
FSM: dict[str, Any] = {
    "skill": "f",
    "kind": "fsm",
    "steps": [
        {"step_id": "draft", "leads_to": ["review"]},
        {"step_id": "review", "leads_to": ["draft", "sent"]},
        {"step_id": "sent"},
    ],
}


def folded(*frames: tuple[str, dict[str, Any]]) -> GraphView:
    view: GraphView | None = None
    for number, (canonical, payload) in enumerate(frames):
        view = fold_graph(view, canonical, payload, AT + timedelta(seconds=number))
    assert view is not None
    return view


def step(view: GraphView, step_id: str) -> GraphStep:
    return next(each for each in view.steps if each.step_id == step_id)


def test_a_turn_and_a_skill_that_is_one_agent_have_no_graph() -> None:
    assert fold_graph(None, "step.started", {"step_id": "a"}, AT) is None
    assert fold_graph(None, "skill.started", {**DAG, "kind": "simple"}, AT) is None


def test_a_workflow_begins_with_all_its_steps_waiting() -> None:
    view = folded(("skill.started", DAG))
    assert (view.name, view.kind, view.counts) == ("w", "dag", "0 of 3")
    assert [(each.title, each.state, each.needs) for each in view.steps] == [
        ("First", "Waiting", ()),
        ("b", "Waiting", ("a",)),
        ("c", "Waiting", ("a",)),
    ]
    assert (step(view, "b").model, step(view, "c").skill) == ("cheap", "other")


def test_steps_begin_end_fail_and_are_skipped() -> None:
    view = folded(
        ("skill.started", DAG),
        ("step.started", {"step_id": "a", "attempt": 1, "visit": 1, "task": "t"}),
        ("step.completed", {"step_id": "a", "attempt": 1, "visit": 1, "output": 1}),
        ("step.started", {"step_id": "b", "attempt": 1, "visit": 1}),
        ("step.failed", {"step_id": "b", "attempt": 1, "visit": 1, "message": "No answer.", "again_in_s": None}),
        ("step.skipped", {"step_id": "c", "reason": "r"}),
    )
    assert [each.state for each in view.steps] == ["Done", "Failed", "Skipped"]
    assert (step(view, "a").seconds(), step(view, "a").task_id) == (1.0, "t")
    assert step(view, "b").problem == "No answer."


def test_an_attempt_that_is_made_again_goes_on_since_the_first_one() -> None:
    view = folded(
        ("skill.started", DAG),
        ("step.started", {"step_id": "a", "attempt": 1, "visit": 1}),
        ("step.failed", {"step_id": "a", "attempt": 1, "visit": 1, "message": "m", "again_in_s": 0.5}),
        ("step.started", {"step_id": "a", "attempt": 2, "visit": 1}),
    )
    found = step(view, "a")
    assert (found.state, found.attempt, found.started_at) == ("Working", 2, AT + timedelta(seconds=1))


def test_what_ran_when_its_run_was_stopped_is_stopped() -> None:
    view = folded(("skill.started", DAG), ("step.started", {"step_id": "a"}), ("task.cancelled", {"by": "ana"}))
    assert [each.state for each in view.steps] == ["Stopped", "Waiting", "Waiting"]


def test_a_state_machine_shows_where_it_is_and_how_often_it_came_there() -> None:
    view = folded(
        ("skill.started", FSM),
        ("step.started", {"step_id": "draft", "visit": 1}),
        ("step.completed", {"step_id": "draft", "visit": 1, "to": "review", "event": "done"}),
        ("step.started", {"step_id": "review", "visit": 1}),
        ("step.completed", {"step_id": "review", "visit": 1, "to": "draft", "event": "rejected"}),
        ("step.started", {"step_id": "draft", "visit": 2}),
    )
    assert view.moves == (
        Move(source="draft", to="review"),
        Move(source="review", to="draft"),
        Move(source="review", to="sent"),
    )
    assert (view.current, step(view, "draft").visits, step(view, "review").note) == ("draft", 2, "rejected")


def test_a_state_machine_ends_in_its_last_state() -> None:
    view = folded(
        ("skill.started", FSM),
        ("step.started", {"step_id": "review", "visit": 1}),
        ("step.completed", {"step_id": "review", "visit": 1, "to": "sent", "event": "approved"}),
    )
    assert (view.current, step(view, "sent").state, view.state) == ("sent", "Done", "Done")


def test_a_call_that_was_made_at_once_is_as_old_as_it_says_and_tells_what_it_gave() -> None:
    call = {"name": "calculator", "duration_ms": 250.0, "summary": f"14 files {'x' * 100}"}
    view = folded(
        ("skill.started", DAG),
        ("step.completed", {"step_id": "a", "event": "done", "call": call}),
        ("step.failed", {"step_id": "b", "message": "No.", "call": call}),
    )
    assert [(each.state, each.attempt, each.seconds()) for each in view.steps] == [
        ("Done", 1, 0.25),
        ("Failed", 1, 0.25),
        ("Waiting", 0, None),
    ]
    assert step(view, "b").problem == "No."
    assert step(view, "a").note == f"14 files {'x' * (MOST_NOTE - 10)}…"


def test_a_slow_call_that_had_begun_to_be_told_leads_to_no_task_once_it_was_made_without_one() -> None:
    begun = ("step.started", {"step_id": "a", "attempt": 1, "visit": 1, "task": "task-1"})
    ended = ("step.completed", {"step_id": "a", "event": "done", "call": {"name": "calculator", "duration_ms": 900.0}})

    assert step(folded(("skill.started", DAG), begun), "a").task_id == "task-1"
    done = step(folded(("skill.started", DAG), begun, ended), "a")
    assert (done.state, done.task_id, done.started_at) == ("Done", "", AT + timedelta(seconds=1))
