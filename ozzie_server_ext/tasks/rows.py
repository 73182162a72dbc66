"""Rows of the table `tasks`: finding them, their lineage, and what delegated tasks have used."""

from collections.abc import Mapping, Sequence
from typing import cast

from msgspec.structs import replace

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import (
    HUB,
    DelegatedUse,
    EventBody,
    Limits,
    TaskCancelled,
    TaskFailed,
    TaskSucceeded,
    UsedModel,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import OPEN, TaskStatus
from ozzie_server_ext.protocol.codec import decode
from ozzie_server_ext.protocol.jsontext import loads
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row

WAITING: tuple[TaskStatus, ...] = (TaskStatus.WAITING_APPROVAL, TaskStatus.WAITING_INPUT)
"""The states of a task that waits for a person."""


def task_of(row: Row) -> TaskId:
    return TaskId(str(row["task_id"]))


def session_of(row: Row) -> SessionId:
    return cast(SessionId, row["session_id"])


def has_own_thread(row: Row) -> bool:
    """Whether the task runs beside its session's turns, outside their conversation: it was delegated, or is an MCP
    client's call of a tool."""
    return row["parent_id"] is not None or row["thread_id"] == row["task_id"]


def limits_of(row: Row) -> Limits:
    return decode(Limits, loads(str(row["limits"])))


async def find_task(log: EventLog, task_id: str) -> Row | None:
    return await log.row("tasks", task_id)


async def open_tasks(log: EventLog, **where: Json) -> list[Row]:
    """Return the tasks that have not ended, oldest first; `where` are further conditions."""
    statuses: list[Json] = [str(status) for status in OPEN]
    return await log.rows("tasks", where={"status": statuses, **where}, order_by="task_id")


def user_recorder(log: EventLog, session_id: SessionId, task_id: TaskId) -> Recorder:
    """Return a recorder for what a user does to a task."""
    return Recorder(log=log, session_id=session_id, task_id=task_id, actor="user", source=HUB)


async def above(log: EventLog, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return, by task id, the tasks above each of these, the nearest first; none for tasks that were not delegated."""
    known = {str(row["task_id"]): row for row in rows}
    while missing := {str(row["parent_id"]) for row in known.values() if row["parent_id"]} - known.keys():
        found = await log.rows("tasks", where={"task_id": list[Json](sorted(missing))})
        known |= {str(row["task_id"]): row for row in found}
        if len(found) < len(missing):  # the log lacks them: treat their children as not delegated
            break
    return {str(row["task_id"]): _chain(row, known) for row in rows}


def _chain(row: Row, known: Mapping[str, Row]) -> list[Row]:
    chain: list[Row] = []
    parent = cast("str | None", row["parent_id"])
    while parent is not None and parent in known and known[parent] not in chain:
        chain.append(known[parent])
        parent = cast("str | None", known[parent]["parent_id"])
    return chain


def run_of(row: Row, chains: Mapping[str, Sequence[Row]]) -> str:
    """Return the id of the topmost task above it, or its own."""
    chain = chains[str(row["task_id"])]
    return str(chain[-1]["task_id"] if chain else row["task_id"])


async def retried_with(log: EventLog, row: Row) -> str:
    """Return the id of the task to retry so that this one is retried: the topmost run above it, or itself. Empty if an
    agent delegated it, which continues without it."""
    chains = await above(log, [row])
    is_agents = any(each["mode"] != "GRAPH" for each in chains[str(row["task_id"])])
    return "" if is_agents else run_of(row, chains)


async def waiting_below(log: EventLog) -> dict[str, list[Row]]:
    """Return the delegated tasks that wait for a person, oldest first, by the id of each task above them. A run waits
    because one of these does."""
    rows = await log.rows("tasks", where={"status": [str(status) for status in WAITING]}, order_by="task_id")
    rows = [row for row in rows if row["parent_id"] is not None and row["mode"] != "GRAPH"]
    chains = await above(log, rows)
    found: dict[str, list[Row]] = {}
    for row in rows:
        for each in chains[str(row["task_id"])]:
            found.setdefault(str(each["task_id"]), []).append(row)
    return found


async def with_delegated(log: EventLog, task_id: TaskId, bodies: Sequence[EventBody]) -> list[EventBody]:
    """Return the events about a task; add to its end what its delegated tasks have used until now."""
    return [
        replace(body, delegated=await used_below(log, task_id))
        if isinstance(body, TaskSucceeded | TaskFailed | TaskCancelled)
        else body
        for body in bodies
    ]


async def used_below(log: EventLog, task_id: TaskId) -> DelegatedUse | None:
    """Return what all tasks below a task have used; None if none called a model."""
    children = found = await log.rows("tasks", where={"parent_id": task_id})
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
    # A task's row includes the sums of the tasks below it.
    return DelegatedUse(
        models=tuple(dict.fromkeys(models)),
        usage=Usage(
            input_tokens=sum(cast(int, row["input_tokens"]) for row in children),
            output_tokens=sum(cast(int, row["output_tokens"]) for row in children),
        ),
        cost=sum(cast(int, row["cost"]) for row in children),
        cost_known=all(row["cost_known"] for row in children),
    )
