"""The steps of a run that nobody drives at this moment: their tasks go on to their ends, which the run records once it
goes on (ADR 41). Until then, this is where it is told how they ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ozzie_server_ext.domain.content import CLEAN
from ozzie_server_ext.domain.steps import StepStatus
from ozzie_server_ext.domain.tasks import FINAL, TaskStatus
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.executor import FailedAttempt, Succeeded
from ozzie_server_ext.tasks.skill_log import LoadedRun
from ozzie_server_ext.tasks.step_ends import outcome_of, taken_in, tried_again

UNDRIVEN = frozenset({TaskStatus.PAUSED, TaskStatus.QUEUED})
"""The states in which a run that has begun records nothing of its steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldStep:
    """A step of which the run has recorded the beginning. `outcome` is what its task ended with, and `next` what is
    still to come of the step then; None where that task is held itself, or was never created."""

    outcome: Succeeded | FailedAttempt | None
    next: Literal["", "check", "retry"] = ""


def may_be_held(run: Row, step: Row | None) -> bool:
    """Whether a step that goes on, as far as its run has recorded, does not. `step` is the row of its task, where that
    was created."""
    if step is None:
        return run["status"] == TaskStatus.PAUSED
    return step["status"] == TaskStatus.PAUSED or (run["status"] in UNDRIVEN and step["status"] in FINAL)


async def held_steps(
    loaded: LoadedRun, run: Row, tasks: Mapping[str, Row | None], log: EventLog, blobs: BlobStore
) -> dict[str, HeldStep]:
    """Of the steps whose latest attempt has that row, those that are held, and those that ended without a word of the
    run: as it will record them."""
    found: dict[str, HeldStep] = {}
    for step_id, row in tasks.items():
        record = loaded.run.records.get(step_id)
        if record is None or record.task is None or record.is_settled or not may_be_held(run, row):
            continue
        if record.status is StepStatus.RETRYING:
            failed = FailedAttempt(kind="business", code="", message=record.message, content=CLEAN)
            found[step_id] = HeldStep(outcome=failed, next="retry")
            continue
        if row is None or row["status"] == TaskStatus.PAUSED:
            found[step_id] = HeldStep(outcome=None)
            continue
        work = loaded.run.steps[step_id]
        outcome, _ = taken_in(loaded.run, work, await outcome_of(row, work, log, blobs))
        if isinstance(outcome, Succeeded):
            found[step_id] = HeldStep(outcome=outcome, next="check" if work.acceptance else "")
        else:
            again = tried_again(loaded.skill, work, record.attempt, outcome)
            found[step_id] = HeldStep(outcome=outcome, next="retry" if again else "")
    return found
