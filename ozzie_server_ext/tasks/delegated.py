"""Delegated tasks as people see them: parts of the run above them, which waits where one of them does, and has
used what they have."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import DelegatedUse, EventBody, TaskCancelled, TaskFailed, TaskSucceeded, UsedModel
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import TaskStatus
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row

WAITING: tuple[TaskStatus, ...] = (TaskStatus.WAITING_APPROVAL, TaskStatus.WAITING_INPUT)
"""The states of a task that a person is to do something about."""


async def above(log: EventLog, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The tasks that each of these was delegated by, by its id, the nearest first: none for what nobody delegated."""
    known = {str(row["task_id"]): row for row in rows}
    while missing := {str(row["parent_id"]) for row in known.values() if row["parent_id"]} - known.keys():
        found = await log.rows("tasks", where={"task_id": list[Json](sorted(missing))})
        known |= {str(row["task_id"]): row for row in found}
        if len(found) < len(missing):  # a log that lacks them: as if nobody had delegated what they did
            break
    return {str(row["task_id"]): _chain(row, known) for row in rows}


def run_of(row: Row, chains: Mapping[str, Sequence[Row]]) -> str:
    """The task that it is a part of at last: its own where nobody delegated it."""
    chain = chains[str(row["task_id"])]
    return str(chain[-1]["task_id"] if chain else row["task_id"])


async def retried_with(log: EventLog, row: Row) -> str:
    """The task that is to be tried again for that of the row to be: the run that it is a part of at last. Empty for
    what an agent handed over, which goes on without it."""
    chain = (await above(log, [row]))[str(row["task_id"])]
    if any(each["mode"] != "GRAPH" for each in chain):
        return ""
    return str(chain[-1]["task_id"] if chain else row["task_id"])


async def waiting_below(log: EventLog) -> dict[str, list[Row]]:
    """The delegated tasks that wait for a person, oldest first, by the id of each task above them."""
    rows = await log.rows("tasks", where={"status": [str(status) for status in WAITING]}, order_by="task_id")
    rows = [row for row in rows if row["parent_id"] is not None]
    found: dict[str, list[Row]] = {}
    for task_id, chain in (await above(log, rows)).items():
        row = next(each for each in rows if each["task_id"] == task_id)
        for each in chain:
            found.setdefault(str(each["task_id"]), []).append(row)
    return found


async def with_delegated(log: EventLog, task_id: TaskId, bodies: Sequence[EventBody]) -> list[EventBody]:
    """The facts about that task; where they end it, with what it has delegated has used until now."""
    return [
        replace(body, delegated=await _used_below(log, task_id))
        if isinstance(body, TaskSucceeded | TaskFailed | TaskCancelled)
        else body
        for body in bodies
    ]


async def _used_below(log: EventLog, task_id: TaskId) -> DelegatedUse | None:
    """What the tasks that a task has delegated have used, with those below them; None where none called a model."""
    parts = found = await log.rows("tasks", where={"parent_id": task_id})
    below: list[Json] = []
    while found:
        found_ids: list[Json] = [str(row["task_id"]) for row in found]
        below += found_ids
        found = await log.rows("tasks", where={"parent_id": found_ids})
    calls = await log.rows("model_calls", where={"task_id": below}, order_by="started_at") if below else []
    if not calls:
        return None
    models = (
        UsedModel(alias=str(call["alias"]), provider=str(call["provider"]), model=str(call["model"])) for call in calls
    )
    # The row of a task has the sums of those below it, too.
    return DelegatedUse(
        models=tuple(dict.fromkeys(models)),
        usage=Usage(
            input_tokens=sum(cast(int, row["input_tokens"]) for row in parts),
            output_tokens=sum(cast(int, row["output_tokens"]) for row in parts),
        ),
        cost=sum(cast(int, row["cost"]) for row in parts),
        cost_known=all(row["cost_known"] for row in parts),
    )


def _chain(row: Row, known: Mapping[str, Row]) -> list[Row]:
    chain: list[Row] = []
    parent = cast("str | None", row["parent_id"])
    while parent is not None and parent in known and known[parent] not in chain:
        chain.append(known[parent])
        parent = cast("str | None", known[parent]["parent_id"])
    return chain
