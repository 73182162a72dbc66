"""`task.list` and `task.cancel`: what this session has started."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.ids import TaskId, is_ulid
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolResult
from ozzie_server_ext.render.text import counted
from ozzie_server_ext.tools.base import EffectTool, FunctionTool, Plan, Preview, ToolContext, ToolFailed, read_only

MOST = 50
STOPPING = "STOPPING"
"""What `SessionTasks` shows as the status of a task that is requested to stop and has not stopped yet."""


def own_task() -> ToolFailed:
    """Return the refusal to stop the task that makes the call, or one above it, which would end that one."""
    return ToolFailed(
        "That is the task which makes this call, or one that it is a part of. End the turn by answering.",
        code="task.own",
    )


async def list_tasks(
    context: ToolContext,
    *,
    task_id: Annotated[str, Field(description="Empty for a list, the newest first.", max_length=26)] = "",
    open_only: Annotated[bool, Field(description="Whether to leave out those that have ended.")] = False,
) -> ToolResult:
    """List the tasks of this session (turns, runs of skills and what they handed over), or show one with its steps and
    its answer."""
    if task_id:
        data, content = await context.tasks.show(_id(task_id))
        return ToolResult(ok=True, data=data, summary=str(data["status"]).lower(), content=content)
    found, content = await context.tasks.list(MOST, open_only=open_only)
    listed: list[Json] = [*found]
    return ToolResult(ok=True, data={"tasks": listed}, summary=counted(len(found), "task"), content=content)


async def plan_cancel(
    context: ToolContext,
    *,
    task_id: Annotated[str, Field(description="As list_tasks gives it.", max_length=26)],
    reason: Annotated[str, Field(description="Why, in a few words.", max_length=200)] = "",
) -> Plan:
    """Stop a task of this session that has not ended, with all that it handed over. What it has done stays done."""
    task, content = await context.tasks.show(_id(task_id))
    if task["is_this"] or task["is_above"]:
        raise own_task()
    args: JsonObject = {"task_id": task_id, "reason": reason}
    if task["ended"] or task["status"] == STOPPING:
        return Plan(args=args, nothing=_result(task_id, task))
    preview = Preview(
        sentence=f"Stop the task {task_id}?",
        proof=str(task["title"]),
        shown="text",
        undo=f"It can be tried again: ozzie tasks retry {task_id}",
    )
    return Plan(
        args=args,
        effect={"task": task_id},
        preview=lambda: preview,
        content=content,
    )


async def cancel_task(context: ToolContext, plan: Plan) -> ToolResult:
    """Carry out the plan. A running task is only requested to stop: the result has the status that it has by then."""
    task_id = str(plan.args["task_id"])
    await context.tasks.cancel(_id(task_id), str(plan.args["reason"]))
    task, _ = await context.tasks.show(_id(task_id))
    return _result(task_id, task)


def _result(task_id: str, task: JsonObject) -> ToolResult:
    """Return how far the stop of a task is."""
    status = str(task["status"])
    summary = "stopped" if status == "CANCELLED" else "it has ended already" if task["ended"] else "stopping"
    return ToolResult(ok=True, data={"task_id": task_id, "status": status}, summary=summary)


async def was_cancelled(context: ToolContext, effect: JsonObject) -> bool | None:
    """The request is durable before the tool returns, and outlives the gateway: whoever starts next carries it out. So
    a task that goes on without one was not stopped."""
    task, _ = await context.tasks.show(_id(str(effect["task"])))
    return task["status"] in (STOPPING, "CANCELLED")


def _id(text: str) -> TaskId:
    if not is_ulid(text):
        raise ToolFailed("That is no task's id. list_tasks gives them.")
    return TaskId(text)


_LIST = read_only(tool_id="task.list", name="list_tasks", timeout_s=20)

TOOLS = (
    FunctionTool(list_tasks, _LIST),
    EffectTool(
        plan_cancel,
        cancel_task,
        replace(
            _LIST,
            tool_id="task.cancel",
            name="cancel_task",
            side_effect=SideEffect.REVERSIBLE,
            risk_level=RiskLevel.MEDIUM,
            idempotency=Idempotency.NOT_SUPPORTED,
        ),
        happened=was_cancelled,
    ),
)
