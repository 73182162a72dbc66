"""Delegated tasks as people see them: parts of the run above them, which waits where one of them does (AG-3)."""

from collections.abc import Mapping, Sequence
from typing import cast

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


def _chain(row: Row, known: Mapping[str, Row]) -> list[Row]:
    chain: list[Row] = []
    parent = cast("str | None", row["parent_id"])
    while parent is not None and parent in known and known[parent] not in chain:
        chain.append(known[parent])
        parent = cast("str | None", known[parent]["parent_id"])
    return chain
