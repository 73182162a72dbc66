"""A call that was begun with a key is made again after a crash. Where that is refused or fails, or its turn is stopped
before, nobody may be told that it was not done."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ozzie_server_ext.domain.events import Event, ToolCallUncertain
from tests.integration.crashes.runs import PLANNED_AGAIN, POINTS, Answer, Kind, Phase, Run
from tests.integration.crashes.stage import RULES, staged

IN_DOUBT = "tool.call.uncertain, made again"
DONE = POINTS[Phase.AFTER_EFFECT][0]


def cut_off(name: str, doubt: Answer) -> Run:
    """A call that was had and did not hear of it, and that nobody had to allow."""
    return Run(
        name=name,
        kind=Kind.IDEMPOTENT,
        phase=Phase.AFTER_EFFECT,
        point=DONE,
        asks=False,
        doubt=doubt,
        yes=True,
        yes_again=True,
        in_terminal=False,
    )


def rules(decision: str) -> str:
    """Those of the stage, and one for every call."""
    rule = {**RULES["rules"][0], "id": "now", "decision": decision, "when": {"tools": ["crash.*"]}}
    return json.dumps({"rules": [rule]})


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("decision", "doubt", "came_of_it"),
    [
        ("deny", Answer.DONE, []),
        ("deny", Answer.AGAIN, ["tool.call.failed"]),
        ("ask", Answer.DONE, []),
        ("ask", Answer.AGAIN, ["approval.requested", "approval.granted", "tool.call.started", "tool.call.completed"]),
        ("ask", Answer.LEAVE, []),
    ],
)
def test_one_that_may_not_be_made_again_unasked_is_in_doubt(
    decision: str, doubt: Answer, came_of_it: list[str], tmp_path: Path
) -> None:
    run = cut_off("r001", doubt)
    with staged(tmp_path / "stage") as stage:
        stage.bring(run)
        stage.kill()
        (stage.home.home / "policy.jsonc").write_text(rules(decision))
        stage.see_through(run)
        types = told(stage.events(run))
        counted = stage.counter.counted(run.name)

    assert came_of(types) == came_of_it
    assert types[-1] == ("task.failed" if doubt is Answer.LEAVE else "task.succeeded")
    assert (len(counted.attempts), len(counted.effects)) == (2 if "tool.call.started" in came_of_it else 1, 1)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("doubt", "came_of_it"), [(Answer.DONE, []), (Answer.AGAIN, ["tool.call.started", "tool.call.completed"])]
)
def test_one_that_is_made_again_and_fails_then_is_in_doubt(
    doubt: Answer, came_of_it: list[str], tmp_path: Path
) -> None:
    run = cut_off("r001", doubt)
    with staged(tmp_path / "stage") as stage:
        stage.bring(run)
        stage.kill()
        stage.counter.ask("plan", run=run.name, point="effect.refused", nth=1, holds=False)
        stage.see_through(run)
        types = told(stage.events(run))
        counted = stage.counter.counted(run.name)

    assert came_of(types) == came_of_it
    assert types[-1] == "task.succeeded"
    assert (len(counted.attempts), len(counted.effects)) == (3 if came_of_it else 2, 1)


@pytest.mark.timeout(120)
def test_one_whose_turn_is_stopped_before_it_is_made_again_stays_in_doubt(tmp_path: Path) -> None:
    run = cut_off("r001", Answer.DONE)
    with staged(tmp_path / "stage") as stage:
        stage.bring(run)
        stage.kill()
        stage.counter.ask("plan", run=run.name, point=PLANNED_AGAIN.name, nth=PLANNED_AGAIN.nth, holds=True)
        stage.gateway()
        stage.counter.wait(run.name, PLANNED_AGAIN.name)
        stage.cancel(run)
        types = told(stage.events(run))
        counted = stage.counter.counted(run.name)

    assert types[-1] == "task.cancelled"
    assert [name for name in types if name.startswith("tool.")] == [
        "tool.call.requested",
        "tool.call.decided",
        "tool.call.started",
        IN_DOUBT,
    ], "that it was stopped or failed would not be so: it was had"
    assert (len(counted.attempts), len(counted.effects)) == (1, 1)


def told(events: Sequence[Event]) -> list[str]:
    """What each event is; a doubt that ends by itself is told apart."""
    return [
        IN_DOUBT if isinstance(event.body, ToolCallUncertain) and event.body.again else event.type for event in events
    ]


def came_of(types: list[str]) -> list[str]:
    """What became of the call behind the doubt; before it nobody was told anything else."""
    assert types.count("tool.call.uncertain") == types.count("prompt.requested") == 1
    assert types.count(IN_DOUBT) == 1
    doubts = types.index("tool.call.uncertain")
    assert types.index("tool.call.resolved") > doubts
    assert types[:doubts].count("tool.call.requested") == 2
    other = {"tool.call.completed", "tool.call.failed", "tool.call.cancelled", "approval.requested"}
    assert not other & set(types[:doubts])
    outcomes = (
        "tool.call.started",
        "tool.call.completed",
        "tool.call.failed",
        "approval.requested",
        "approval.granted",
    )
    return [name for name in types[doubts:] if name in outcomes]
