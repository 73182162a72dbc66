"""The budget of a skill that is run within something else: it bounds that part, and that part alone ends by it."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

from ozzie_server_ext.domain.budget import Account, Usage
from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import (
    BudgetExceeded,
    Event,
    EventBody,
    ModelCallCompleted,
    ModelCallStarted,
    PromptRequested,
    StepCompleted,
    StepFailed,
    StepStarted,
    TaskCreated,
    TaskFailed,
    TaskRetried,
    ToolCallFailed,
)
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import End, Say, Step, Use, Wait
from ozzie_server_ext.tasks.budgets import balance_of
from tests.integration.tasks.runs_rig import WAIT_S, Runs, asked

T = TypeVar("T", bound=EventBody)
MUCH = 60_000
"""Tokens that one answer takes, far more than any request here."""
BOUND = MUCH + 500
"""A budget with room for one such answer and for no other."""
USED = 'The skill "inner" has used 60,000 tokens of its 60,500 tokens.'
TWO: list[dict[str, Any]] = [
    {"id": "x", "instruction": "First", "tools": []},
    {"id": "y", "instruction": "Second", "tools": [], "needs": ["x"]},
]


def takes_much(request: ModelRequest) -> Sequence[Step]:
    usage = Usage(input_tokens=MUCH - 1000, output_tokens=1000)
    return [Say(f"<{asked(request).splitlines()[0]}>"), End(usage=usage)]


def inner(runs: Runs, *steps: dict[str, Any], **budget: Any) -> None:
    runs.write(name="inner", type="workflow", vars={}, steps=list(steps or TWO), budget=budget)


async def inner_of(runs: Runs, task_id: TaskId, step_id: str = "a") -> TaskId:
    """The task of the run that this step runs."""
    tasks = [fact.task for fact in await runs.facts(task_id, StepStarted) if fact.step_id == step_id]
    assert tasks[-1] is not None
    return tasks[-1]


async def all_facts(runs: Runs, kind: type[T]) -> list[T]:
    return [event.body for event in await runs.ozzie.log.read() if isinstance(event.body, kind)]


async def again(runs: Runs, task_id: TaskId) -> str:
    """How the task ends that is tried again, with a part of its time left where it has one."""
    head = (await runs.ozzie.log.head()).position
    retried = await runs.ozzie.control.retries.retry(task_id, by="Ana")
    assert retried.time_left_s is None or 0 < retried.time_left_s < WAIT_S
    ends = frozenset({"task.succeeded", "task.failed"})
    async with asyncio.timeout(WAIT_S), runs.ozzie.feed.subscribe(head, types=ends, task_id=task_id) as events:
        return (await anext(events)).type


async def test_a_step_that_runs_a_skill_fails_by_the_budget_of_that_skill_and_the_rest_goes_on(runs: Runs) -> None:
    runs.answers(takes_much)
    inner(runs, max_tokens=BOUND)
    runs.workflow(
        {"id": "a", "skill": "inner", "with": {}},
        {"id": "b", "instruction": "Beside", "tools": []},
        {"id": "c", "instruction": "Behind", "tools": [], "needs": ["b"]},
    )
    task_id = await runs.begin()
    assert await runs.rests(task_id) == "task.failed"
    assert await runs.outputs(task_id) == {"b": "<Beside>", "c": "<Behind>"}
    (failed,) = await runs.facts(task_id, StepFailed)
    assert (failed.step_id, failed.kind, failed.code, failed.again_in_s) == ("a", "business", "budget.exceeded", None)
    assert USED in failed.message
    assert failed.hint.startswith('Raise max_tokens in the budget of the skill "inner".')
    assert f"`ozzie tasks retry {task_id}`" in failed.hint
    nested = await inner_of(runs, task_id)
    (exceeded,) = await all_facts(runs, BudgetExceeded)
    assert (exceeded.scope, exceeded.key, exceeded.limit) == ("task", nested, BOUND)
    assert (exceeded.used, exceeded.action) == (MUCH, "stop")
    (end,) = await runs.facts(task_id, TaskFailed)
    assert (end.kind, end.code) == ("business", "budget.exceeded")
    assert USED in end.message
    assert not await all_facts(runs, PromptRequested)


async def test_an_optional_part_that_its_budget_ends_leaves_the_run_its_result(runs: Runs) -> None:
    runs.answers(takes_much)
    inner(runs, max_tokens=BOUND)
    runs.workflow(
        {"id": "a", "skill": "inner", "with": {}, "optional": True}, {"id": "b", "instruction": "Beside", "tools": []}
    )
    assert await runs.rests(await runs.begin()) == "task.succeeded"


async def test_what_runs_deeper_counts_for_every_skill_above_it(runs: Runs) -> None:
    runs.answers(takes_much)
    runs.write(name="deep", type="workflow", vars={}, steps=TWO[:1])
    inner(runs, {"id": "x", "skill": "deep", "with": {}}, TWO[1], max_tokens=BOUND)
    runs.workflow({"id": "a", "skill": "inner", "with": {}}, budget={"max_tokens": 3 * MUCH})
    task_id = await runs.begin()
    assert await runs.rests(task_id) == "task.failed"
    (failed,) = await runs.facts(task_id, StepFailed)
    assert USED in failed.message
    for account in (task_id, await inner_of(runs, task_id)):
        assert (await balance_of(runs.ozzie.log, Account("task", account))).settled.tokens == MUCH


async def test_the_tighter_budget_of_the_outer_skill_is_the_one_that_is_named(runs: Runs) -> None:
    runs.answers(takes_much)
    inner(runs, max_tokens=10 * MUCH)
    runs.workflow({"id": "a", "skill": "inner", "with": {}}, budget={"max_tokens": BOUND})
    task_id = await runs.begin(attended=False)
    assert await runs.rests(task_id) == "task.failed"
    (failed,) = await runs.facts(task_id, StepFailed)
    assert 'The skill "w" has used 60,000 tokens of its 60,500 tokens. Nobody was there to ask.' in failed.message


async def test_whoever_runs_a_skill_is_asked_by_its_name_where_its_budget_is_used_up(runs: Runs) -> None:
    runs.answers(takes_much)
    inner(runs, max_tokens=BOUND)
    task_id = await runs.begin("inner")
    types = frozenset({PromptRequested.type})
    async with asyncio.timeout(WAIT_S), runs.ozzie.feed.subscribe(0, types=types) as events:
        asking = await anext(events)
    assert isinstance(asking, Event)
    assert isinstance(asking.body, PromptRequested)
    assert asking.body.question == USED
    assert asking.task_id is not None
    await runs.ozzie.answers.answer(asking.task_id, "allow", by="ana", amount=2 * MUCH)
    assert await runs.rests(task_id) == "task.succeeded"


async def test_steps_side_by_side_reserve_before_they_ask_and_never_more_than_there_is(runs: Runs) -> None:
    goes_on, reached = asyncio.Event(), asyncio.Event()
    runs.answers(lambda request: [Wait(goes_on, reached), *takes_much(request)])
    steps = [{"id": f"s{number}", "instruction": f"Part {number}", "tools": []} for number in range(4)]
    inner(runs, *steps, max_tokens=6000)
    runs.workflow({"id": "a", "skill": "inner", "with": {}})
    task_id = await runs.begin()
    await asyncio.wait_for(reached.wait(), WAIT_S)
    began = await all_facts(runs, ModelCallStarted)
    assert sum(fact.reserved_tokens for fact in began) <= 6000
    goes_on.set()
    assert await runs.rests(task_id) == "task.failed"
    began = await all_facts(runs, ModelCallStarted)
    ended = await all_facts(runs, ModelCallCompleted)
    # One answer took more than it was to, and nothing was asked behind it.
    assert len(began) == len(ended) < len(steps)


async def test_a_restart_neither_forgets_what_a_part_used_nor_what_it_may(runs: Runs) -> None:
    reached, never = asyncio.Event(), asyncio.Event()

    def answer(request: ModelRequest) -> Sequence[Step]:
        if asked(request).startswith("Second") and not reached.is_set():
            return [Wait(never, reached)]
        return takes_much(request)

    runs.answers(answer)
    inner(runs, TWO[0], TWO[1], {"id": "z", "instruction": "Third", "tools": [], "needs": ["y"]}, max_tokens=2 * MUCH)
    runs.workflow({"id": "a", "skill": "inner", "with": {}})
    task_id = await runs.begin()
    await asyncio.wait_for(reached.wait(), WAIT_S)
    inner(runs, max_tokens=99 * MUCH)  # which is for runs to come
    await runs.restart()
    assert await runs.rests(task_id) == "task.failed"
    assert (await runs.outputs(await inner_of(runs, task_id))).keys() >= {"x"}
    (failed,) = await runs.facts(task_id, StepFailed)
    assert 'The skill "inner" has used ' in failed.message
    assert " of its 120,000 tokens." in failed.message or "has used its 120,000 tokens." in failed.message


async def test_a_retry_goes_on_with_what_the_file_allows_by_then_and_repeats_nothing(runs: Runs) -> None:
    runs.answers(takes_much)
    inner(runs, max_tokens=BOUND)
    runs.workflow({"id": "a", "skill": "inner", "with": {}})
    task_id = await runs.begin()
    assert await runs.rests(task_id) == "task.failed"
    nested = await inner_of(runs, task_id)
    inner(runs, max_tokens=3 * MUCH)
    assert await again(runs, task_id) == "task.succeeded"
    assert await inner_of(runs, task_id) == nested
    assert [fact.step_id for fact in await runs.facts(nested, StepCompleted)] == ["x", "y"]
    (retried,) = await runs.facts(nested, TaskRetried)
    assert retried.limits is not None
    assert retried.limits.max_tokens == 3 * MUCH
    assert len(await all_facts(runs, ModelCallCompleted)) == 2


@pytest.mark.parametrize("more", [{}, {"acceptance": "It is short."}], ids=["as a turn", "as a graph"])
async def test_an_agent_is_told_that_what_it_handed_over_used_up_the_budget_of_the_skill(
    runs: Runs, more: dict[str, Any]
) -> None:
    def answer(request: ModelRequest) -> Sequence[Step]:
        if "You are inner." in request.messages[0].content:
            again = [Use("calculator", {"expr": "1+1"})] if request.messages[-1].role == "user" else []
            return [*again, End(usage=Usage(input_tokens=MUCH))]
        if request.messages[-1].role == "user":
            return [Use("skill_inner", {"input": "7"})]
        return [Say(f"Heard: {asked(request)}")]

    runs.answers(answer)
    runs.write(
        name="inner", description="Inner.", instruction="You are inner.", budget={"max_tokens": BOUND},
        tools=["calculator"], **more,
    )  # fmt: skip
    task_id = await runs.say("Have inner do it.")
    assert await runs.rests(task_id) == "task.succeeded"
    (failed,) = await runs.facts(task_id, ToolCallFailed)
    assert USED in failed.message
    assert not await all_facts(runs, PromptRequested)


async def test_the_time_of_a_nested_skill_ends_that_part_alone_and_what_it_had_begun(runs: Runs) -> None:
    never = asyncio.Event()

    def answer(request: ModelRequest) -> Sequence[Step]:
        return [Wait(never)] if asked(request).startswith("First") and not never.is_set() else [Say("done")]

    runs.answers(answer)
    inner(runs, deadline_s=0.1)
    runs.workflow({"id": "a", "skill": "inner", "with": {}}, {"id": "b", "instruction": "Beside", "tools": []})
    task_id = await runs.begin()
    assert await runs.rests(task_id) == "task.failed"
    assert await runs.outputs(task_id) == {"b": "done"}
    (failed,) = await runs.facts(task_id, StepFailed)
    assert (failed.step_id, failed.kind, failed.code) == ("a", "business", "limit.deadline")
    assert failed.message == 'The skill "inner" has worked for its 0.1 s.'
    assert 'Raise deadline_s in the budget of the skill "inner".' in failed.hint
    assert f"`ozzie tasks retry {task_id}`" in failed.hint
    nested = await inner_of(runs, task_id)
    (exceeded,) = await runs.facts(nested, BudgetExceeded)
    assert (exceeded.key, exceeded.measure, exceeded.limit) == (nested, "time", 100)
    assert await runs.rests(await inner_of(runs, nested, "x")) == "task.cancelled"

    with pytest.raises(Conflict, match="has worked for its"):
        await runs.ozzie.control.retries.retry(task_id, by="Ana")
    never.set()
    inner(runs, deadline_s=WAIT_S)
    assert await again(runs, task_id) == "task.succeeded"
    assert await inner_of(runs, task_id) == nested
    assert (await runs.outputs(task_id))["b"] == "done"


async def test_the_time_of_a_skill_that_a_person_runs_ends_it_and_a_retry_needs_more_of_it(runs: Runs) -> None:
    never = asyncio.Event()
    runs.answers(lambda request: [Say("done")] if never.is_set() else [Wait(never)])
    inner(runs, deadline_s=0.1)
    task_id = await runs.begin("inner")
    assert await runs.rests(task_id) == "task.failed"
    (end,) = await runs.facts(task_id, TaskFailed)
    assert (end.code, end.message) == ("limit.deadline", 'The skill "inner" has worked for its 0.1 s.')
    with pytest.raises(Conflict, match="a retry would do nothing"):
        await runs.ozzie.control.retries.retry(task_id, by="Ana")
    never.set()
    inner(runs, deadline_s=WAIT_S)
    assert await again(runs, task_id) == "task.succeeded"


async def test_a_gate_that_waits_for_a_person_takes_none_of_the_time(runs: Runs) -> None:
    inner(runs, {"id": "gate", "approve": {"question": "Go on?"}}, {**TWO[1], "needs": ["gate"]}, deadline_s=WAIT_S)
    runs.workflow({"id": "a", "skill": "inner", "with": {}})
    task_id = await runs.begin()
    await runs.pending()
    nested = await inner_of(runs, task_id)
    assert not runs.ozzie.times.passes(nested)
    await runs.approve()
    assert await runs.rests(task_id) == "task.succeeded"


async def test_an_agent_is_told_that_what_it_handed_over_took_too_long(runs: Runs) -> None:
    never = asyncio.Event()

    def answer(request: ModelRequest) -> Sequence[Step]:
        if "You are inner." in request.messages[0].content:
            return [Wait(never)]
        if request.messages[-1].role == "user":
            return [Use("skill_inner", {"input": "7"})]
        return [Say(f"Heard: {asked(request)}")]

    runs.answers(answer)
    runs.write(name="inner", description="Inner.", instruction="You are inner.", budget={"deadline_s": 0.1})
    task_id = await runs.say("Have inner do it.")
    assert await runs.rests(task_id) == "task.succeeded"
    (failed,) = await runs.facts(task_id, ToolCallFailed)
    assert 'The skill "inner" has worked for its 0.1 s.' in failed.message
    assert not await all_facts(runs, PromptRequested)


async def test_what_a_nested_run_may_use_up_is_the_tighter_of_the_file_and_the_configuration(runs: Runs) -> None:
    budgets = {"task": {"max_cost_usd": 2, "max_tokens": 5, "deadline_s": 7}}
    (runs.ozzie.home.root / "config.jsonc").write_text(json.dumps({"budgets": budgets}))
    call = {"id": "x", "call": {"tool": "calculator", "args": {"expr": "1+1"}}}
    inner(runs, call, max_cost_usd=0.5, max_tokens=10, deadline_s=60)
    runs.workflow({"id": "a", "skill": "inner", "with": {}})
    task_id = await runs.run()
    (created,) = await runs.facts(await inner_of(runs, task_id), TaskCreated)
    limits = created.limits
    assert (limits.max_cost, limits.max_tokens, limits.deadline_s) == (500_000_000, 5, 60)
    assert (limits.skill, limits.skill_bounds) == ("inner", ("cost", "time"))
    (outer,) = await runs.facts(task_id, TaskCreated)
    assert (outer.limits.max_tokens, outer.limits.deadline_s, outer.limits.skill_bounds) == (5, None, ())
