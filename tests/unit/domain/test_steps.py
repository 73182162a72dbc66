"""A step begins, is tried again where that is wanted, and ends once."""

from itertools import product

import pytest

from ozzie_server_ext.domain.events import StepCompleted, StepFact, StepFailed, StepSkipped, StepStarted
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.steps import SETTLED, IllegalStep, StepRecord, StepStatus, fold

WAITING = StepRecord(step_id="a")
RUNNING = StepRecord(step_id="a", attempt=1, status=StepStatus.RUNNING)
RETRYING = StepRecord(step_id="a", attempt=1, status=StepStatus.RETRYING)
RECORDS = {
    status: StepRecord(
        step_id="a", attempt=0 if status in (StepStatus.WAITING, StepStatus.SKIPPED) else 1, status=status
    )
    for status in StepStatus
}
NEXT = {StepStatus.RETRYING: 2}


def facts(status: StepStatus) -> dict[str, StepFact]:
    """Each kind of fact, as it would fit that status best."""
    return {
        "started": StepStarted(step_id="a", attempt=NEXT.get(status, 1)),
        "completed": StepCompleted(step_id="a", output=1),
        "tried again": StepFailed(step_id="a", kind="model", code="c", message="m", again_in_s=0.0),
        "failed": StepFailed(step_id="a", kind="model", code="c", message="m"),
        "skipped": StepSkipped(step_id="a", reason="r"),
    }


LEGAL = {
    (StepStatus.WAITING, "started"): StepStatus.RUNNING,
    (StepStatus.WAITING, "skipped"): StepStatus.SKIPPED,
    (StepStatus.RUNNING, "completed"): StepStatus.COMPLETED,
    (StepStatus.RUNNING, "tried again"): StepStatus.RETRYING,
    (StepStatus.RUNNING, "failed"): StepStatus.FAILED,
    (StepStatus.RETRYING, "started"): StepStatus.RUNNING,
}


@pytest.mark.parametrize(("status", "name"), list(product(StepStatus, facts(StepStatus.WAITING))))
def test_only_the_changes_of_the_table_are_taken(status: StepStatus, name: str) -> None:
    fact = facts(status)[name]
    if (status, name) in LEGAL:
        assert fold(RECORDS[status], fact).status is LEGAL[status, name]
        return
    with pytest.raises(IllegalStep) as caught:
        fold(RECORDS[status], fact)
    assert (caught.value.status, caught.value.change) == (status, fact.type)


def test_what_has_ended_takes_nothing_more() -> None:
    assert {status for status in StepStatus if not any(status == before for before, _ in LEGAL)} == SETTLED


@pytest.mark.parametrize(
    "fact",
    [
        StepCompleted(step_id="a", attempt=2, output=1),
        StepFailed(step_id="a", attempt=2, kind="tool", code="c", message="m"),
        StepCompleted(step_id="b", output=1),
        StepCompleted(step_id="a", visit=2, output=1),
    ],
)
def test_what_belongs_to_another_attempt_visit_or_step_is_refused(fact: StepFact) -> None:
    with pytest.raises(IllegalStep):
        fold(RUNNING, fact)


def test_attempts_are_counted_one_by_one() -> None:
    assert fold(RETRYING, StepStarted(step_id="a", attempt=2)).attempt == 2
    with pytest.raises(IllegalStep):
        fold(RETRYING, StepStarted(step_id="a", attempt=3))
    with pytest.raises(IllegalStep):
        fold(WAITING, StepStarted(step_id="a", attempt=2))


def test_a_step_says_who_carries_it_out_what_it_ended_with_and_why_it_failed() -> None:
    begun = fold(WAITING, StepStarted(step_id="a", task=TaskId("t")))
    assert begun.task == TaskId("t")
    done = fold(begun, StepCompleted(step_id="a", output=1, event="approved", to="b"))
    assert (done.event, done.to) == ("approved", "b")
    failed = fold(begun, StepFailed(step_id="a", kind="business", code="c", message="No.", to="rework"))
    assert (failed.event, failed.to, failed.message) == ("failed", "rework", "No.")
