"""The steps of skill runs, one row for each visit, and the checkpoints that a run can continue from."""

from typing import cast, get_args

from ozzie_server_ext.domain import steps
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import (
    CheckpointSaved,
    Event,
    StepCompleted,
    StepFact,
    StepFailed,
    StepSkipped,
    StepStarted,
)
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.steps import StepRecord, StepStatus
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.tables import Row, Rows, Table, integer, text

STEPS = Table(
    "steps",
    (
        *text("task_id", "step_id"),
        *integer("visit", "attempt"),
        *text("status"),
        *text("child_id", nullable=True),
        *text("event", "leads_to", "message"),
        *text("started_at", "finished_at", "ended_by", nullable=True),
    ),
    key=("task_id", "step_id", "visit"),
    indexes=(("child_id",),),
)
"""`child_id` is the task that carries out the latest attempt; `started_at` is the start of the first one; `ended_by` is
the event that holds its output."""

CHECKPOINTS = Table(
    "checkpoints",
    (*text("checkpoint_id", "task_id", "node_id", "state_json", "ts"), *integer("position")),
    key=("checkpoint_id",),
    indexes=(("task_id", "position"),),
)

TABLES = (STEPS, CHECKPOINTS)

HANDLES = (*get_args(StepFact), CheckpointSaved)


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. Raises IllegalStep for a fact that the step's state does not allow: a step ends once."""
    fact = event.body
    if event.task_id is None:
        raise InputError(f"{fact.type} needs a task_id.")
    match fact:
        case CheckpointSaved():
            rows.put(CHECKPOINTS, _checkpoint(event, fact))
        case StepStarted() | StepCompleted() | StepFailed() | StepSkipped():
            row = rows.get(STEPS, (event.task_id, fact.step_id, fact.visit))
            before = StepRecord(step_id=fact.step_id, visit=fact.visit) if row is None else record_from(row)
            rows.put(STEPS, _row(event, row, steps.fold(before, fact)))
        case _:
            raise InputError(f"{fact.type} is about no step.")


def record_from(row: Row) -> StepRecord:
    """Return a row of `steps` as the domain's record."""
    child = row["child_id"]
    return StepRecord(
        step_id=cast(str, row["step_id"]),
        visit=cast(int, row["visit"]),
        attempt=cast(int, row["attempt"]),
        status=StepStatus(cast(str, row["status"])),
        task=None if child is None else TaskId(cast(str, child)),
        event=cast(str, row["event"]),
        to=cast(str, row["leads_to"]),
        message=cast(str, row["message"]),
    )


def _row(event: Event, before: Row | None, record: StepRecord) -> Row:
    at = time_text(event.ts)
    return STEPS.row(
        task_id=event.task_id,
        step_id=record.step_id,
        visit=record.visit,
        attempt=record.attempt,
        status=record.status.value,
        child_id=record.task,
        event=record.event,
        leads_to=record.to,
        message=record.message,
        started_at=(at if record.attempt else None) if before is None else before["started_at"],
        finished_at=at if record.is_settled else None,
        ended_by=event.event_id if record.is_settled else None,
    )


def _checkpoint(event: Event, fact: CheckpointSaved) -> Row:
    return CHECKPOINTS.row(
        checkpoint_id=fact.checkpoint_id,
        task_id=event.task_id,
        node_id=fact.node_id,
        state_json=canonical_bytes(fact.state).decode(),
        ts=time_text(event.ts),
        position=event.position,
    )
