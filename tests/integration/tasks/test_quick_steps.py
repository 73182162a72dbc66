"""Steps that only read are made at once and recorded with their ends; all others by tasks of their own (ADR 44)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from ozzie_server_ext.domain.calls import fold_calls
from ozzie_server_ext.domain.events import (
    ArtifactCreated,
    CheckpointSaved,
    StepCompleted,
    StepFailed,
    StepStarted,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    Transient,
)
from ozzie_server_ext.domain.ids import task_stream
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.tools.base import FunctionTool, ToolContext
from tests.integration.tasks.runs_rig import Runs

SUM: dict[str, Any] = {"id": "sum", "call": {"tool": "calculator", "args": {"expr": "1 + 1"}}}


def tool(function: Callable[[ToolContext], Awaitable[ToolResult]]) -> FunctionTool:
    name = function.__name__
    meta = ToolMeta(
        tool_id=f"test.{name}",
        name=name,
        side_effect=SideEffect.NONE,
        risk_level=RiskLevel.LOW,
        timeout_s=15,
        idempotency=Idempotency.SUPPORTED,
    )
    return FunctionTool(function, meta)


async def tell_much(context: ToolContext) -> ToolResult:
    """Tell more than a model is told at once."""
    return ToolResult(ok=True, data="many words " * 1000)


def slow_tool(go: asyncio.Event) -> FunctionTool:
    async def wait_for_it(context: ToolContext) -> ToolResult:
        """Wait until it is told to go on."""
        await go.wait()
        return ToolResult(ok=True, data="waited")

    return tool(wait_for_it)


async def children(runs: Runs, task_id: str) -> int:
    return len(await runs.ozzie.log.rows("tasks", where={"parent_id": task_id}))


async def test_a_call_that_only_reads_is_recorded_whole_in_one_append_with_its_step(runs: Runs) -> None:
    (runs.ozzie.project / "a.txt").write_text("hello\n")
    runs.workflow({"id": "read", "call": {"tool": "read_file", "args": {"path": "a.txt"}}})
    task_id = await runs.run()
    events = await runs.ozzie.log.read_stream(task_stream(task_id))
    (begun,) = [event for event in events if isinstance(event.body, StepStarted)]
    step = [event for event in events if event.ts == begun.ts]
    assert [event.type for event in step] == [
        "step.started",
        "tool.call.requested",
        "tool.call.decided",
        "tool.call.started",
        "tool.call.completed",
        "step.completed",
        "checkpoint.saved",
    ]
    (call,) = fold_calls(event.body for event in step).values()
    assert call.requested is not None
    assert call.decided is not None
    assert (call.requested.step_id, call.requested.name, call.requested.args["path"]) == ("read", "read_file", "a.txt")
    assert call.requested.version
    assert call.decided.rule == "default.read_only"
    (done,) = await runs.facts(task_id, StepCompleted)
    assert "hello" in json.dumps(done.output)
    assert await children(runs, task_id) == 0
    (row,) = await runs.ozzie.log.rows("steps", where={"task_id": task_id})
    assert (row["status"], row["attempt"], row["child_id"]) == ("COMPLETED", 1, None)


async def test_steps_that_each_need_the_last_are_recorded_in_their_order_with_fewer_checkpoints(runs: Runs) -> None:
    steps = [SUM | {"id": f"s{n}", "needs": [f"s{n - 1}"] if n else []} for n in range(100)]
    runs.workflow(*steps)
    task_id = await runs.run()
    assert [fact.step_id for fact in await runs.facts(task_id, StepCompleted)] == [f"s{n}" for n in range(100)]
    places = await runs.facts(task_id, CheckpointSaved)
    assert 1 <= len(places) < 100
    assert places[-1].node_id == "s99"
    assert places[-1].state["settled"] == 100


async def test_a_tool_that_the_skill_calls_dangerous_is_asked_for_and_has_a_task(runs: Runs) -> None:
    runs.workflow(SUM | {"dangerous_tools": ["calculator"]})
    task_id = await runs.begin()
    asked = await runs.approve()
    assert asked.asked.name == "calculator"
    assert await runs.rests(task_id) == "task.succeeded"
    (begun,) = await runs.facts(task_id, StepStarted)
    assert len(await runs.facts(task_id, StepCompleted)) == 1
    assert begun.task is not None
    assert await runs.facts(task_id, ToolCallRequested) == [], "it is the task's"
    assert {fact.decision for fact in await runs.facts(begun.task, ToolCallDecided)} == {"ASK"}
    assert await children(runs, task_id) == 1


async def test_what_the_rules_forbid_is_not_made_and_the_step_says_why(runs: Runs) -> None:
    rule = {
        "id": "no-sums",
        "decision": "deny",
        "reason": "No sums.",
        "when": {"tools": ["calculator"]},
        "examples": {"match": [{"tool": "calculator", "args": {"expr": "1"}}]},
    }
    (runs.ozzie.home.root / "policy.jsonc").write_text(json.dumps({"rules": [rule]}))
    runs.workflow(SUM)
    task_id = await runs.run()
    (failed,) = await runs.facts(task_id, StepFailed)
    assert failed.kind == "tool"
    assert "no sums" in failed.message
    (decided,) = await runs.facts(task_id, ToolCallDecided)
    assert (decided.decision, decided.rule) == ("DENY", "no-sums")
    assert len(await runs.facts(task_id, ToolCallFailed)) == 1


async def test_a_failure_of_the_tool_is_the_steps(runs: Runs) -> None:
    runs.workflow({"id": "sum", "call": {"tool": "calculator", "args": {"expr": "1 / 0"}}})
    task_id = await runs.run()
    (failed,) = await runs.facts(task_id, StepFailed)
    assert (failed.kind, failed.attempt) == ("tool", 1)
    (call,) = await runs.facts(task_id, ToolCallFailed)
    assert call.message == failed.message
    (row,) = await runs.ozzie.log.rows("steps", where={"task_id": task_id})
    assert (row["status"], row["attempt"]) == ("FAILED", 1)


async def test_a_text_that_can_not_be_filled_in_fails_its_step_as_begun(runs: Runs) -> None:
    runs.workflow(
        SUM,
        SUM
        | {"id": "next", "call": {"tool": "calculator", "args": {"expr": "{{steps.sum.output.no}}"}}, "needs": ["sum"]},
    )
    task_id = await runs.run()
    (failed,) = await runs.facts(task_id, StepFailed)
    assert failed.step_id == "next"
    assert [fact.step_id for fact in await runs.facts(task_id, StepStarted)] == ["sum", "next"]
    assert [fact.step_id for fact in await runs.facts(task_id, ToolCallRequested)] == ["sum"]


async def test_a_result_that_is_kept_as_an_artifact_has_a_task(runs: Runs) -> None:
    runs.ozzie.projects.own.tools.register(tool(tell_much))
    runs.workflow({"id": "read", "call": {"tool": "tell_much"}})
    task_id = await runs.run()
    assert await children(runs, task_id) == 1
    (begun,) = await runs.facts(task_id, StepStarted)
    assert begun.task is not None
    assert len(await runs.facts(begun.task, ArtifactCreated)) == 1
    assert len(await runs.ozzie.log.rows("artifacts")) == 1


async def test_one_that_takes_longer_is_told_of_meanwhile(runs: Runs) -> None:
    go = asyncio.Event()
    runs.ozzie.projects.own.tools.register(slow_tool(go))
    runs.workflow({"id": "slow", "call": {"tool": "wait_for_it"}})
    task_id = await runs.begin()
    assert (await runs.step(StepStarted)).step_id == "slow"
    go.set()
    assert await runs.rests(task_id) == "task.succeeded"
    assert len(await runs.facts(task_id, StepStarted)) == 1
    assert len(await runs.facts(task_id, ToolCallCompleted)) == 1
    assert await runs.result(task_id) == "waited"


async def test_a_run_that_is_stopped_in_the_middle_of_one_ends_stopped(runs: Runs) -> None:
    go = asyncio.Event()
    runs.ozzie.projects.own.tools.register(slow_tool(go))
    runs.workflow(SUM, {"id": "slow", "call": {"tool": "wait_for_it"}})
    task_id = await runs.begin()
    await runs.step(StepStarted, lambda fact: fact.step_id == "slow")
    await runs.ozzie.tasks.cancel(task_id, by="ana", reason="")
    assert await runs.rests(task_id) == "task.cancelled"
    assert [fact.step_id for fact in await runs.facts(task_id, StepCompleted)] == ["sum"], "what was noted is recorded"


async def test_that_a_step_waits_for_a_person_is_not_told_over_by_how_far_the_run_is(runs: Runs) -> None:
    go, told = asyncio.Event(), list[str]()

    def hear(transient: Transient) -> None:
        if transient.type == "task.progress":
            told.append(str(transient.payload["step"]))

    runs.ozzie.projects.own.tools.register(slow_tool(go))
    runs.ozzie.feed.on_publish(hear)
    runs.workflow({"id": "slow", "call": {"tool": "wait_for_it"}}, {"id": "gate", "approve": {"question": "?"}})
    task_id = await runs.begin()
    await runs.pending()
    await runs.step(StepStarted, lambda fact: fact.step_id == "slow")  # told of with how far the run is

    assert [each for each in told if "of 2 steps" in each] == ["0 of 2 steps, 2 running"]
    assert told[-1].startswith('the step "gate" waits for your yes')
    go.set()
    await runs.approve()
    assert await runs.rests(task_id) == "task.succeeded"
