"""What a session has cost: known prices add up, unknown ones are never nothing."""

from decimal import Decimal
from pathlib import Path
from typing import Any

from ozzie_server_ext.config.settings import BudgetSettings, BudgetsSettings
from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import BudgetRaised, Draft, EventBody, ModelCallCompleted, ModelCallStarted
from ozzie_server_ext.domain.ids import BlobRef, CallId, ReplyId, SessionId, TaskId
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.budgets import Spent, TodaysUsage, costs_of
from ozzie_server_ext.tasks.sessions import Sessions
from tests.unit.tasks.rig import TaskRig

NO_BUDGETS: dict[str, Any] = {"budgets": BudgetsSettings(), "project": Path("/p")}
BLOB = BlobRef("sha256:" + "0" * 64)


async def call(rig: TaskRig, session_id: SessionId, task_id: TaskId, *, alias: str, cost: int | None) -> None:
    call_id = CallId(rig.ids.new())
    bodies: list[EventBody] = [
        ModelCallStarted(
            call_id=call_id,
            reply_id=ReplyId(rig.ids.new()),
            round=1,
            alias=alias,
            provider="p",
            model="m",
            request_blob=BLOB,
            config="",
            prompt="",
            tools="",
            reserved_cost=9,
            reserved_tokens=900,
            project="/p",
            day="2026-01-01",
        ),
        ModelCallCompleted(
            call_id=call_id,
            response_blob=BLOB,
            finish="stop",
            tool_uses=(),
            usage=Usage(input_tokens=100, output_tokens=10),
            cost=cost,
            latency_ms=1.0,
            ttft_ms=None,
        ),
    ]
    drafts = [Draft(body=body, actor="kernel", source="x", session_id=session_id, task_id=task_id) for body in bodies]
    await rig.log.append(f"task:{task_id}", drafts)


async def test_turns_are_told_one_by_one_and_summed_up() -> None:
    clock, ids = FakeClock(), CountingIds()
    rig = TaskRig(InMemoryEventLog(clock, ids))
    sessions = Sessions(rig.log, rig.ids)
    mine = (await sessions.open("a", title="a", channel="test")).session_id
    other = (await sessions.open("b", title="b", channel="test")).session_id
    for session_id, text, cost in ((mine, "first", 5), (mine, "second", None), (other, "elsewhere", 7)):
        task_id = (await rig.submit(text, session_id)).task_id
        await rig.end(task_id)
        await call(rig, session_id, task_id, alias="main", cost=cost)

    costs = await costs_of(rig.log, TodaysUsage(rig.log, clock), await sessions.row(mine), **NO_BUDGETS)

    assert [(turn.title, turn.models, turn.spent.cost, turn.spent.cost_known) for turn in costs.turns] == [
        ("first", ["main"], 5, True),
        ("second", ["main"], 0, False),
    ]
    assert costs.session == Spent(input_tokens=200, output_tokens=20, cost=5, cost_known=False)
    assert costs.today == Spent(input_tokens=300, output_tokens=30, cost=12, cost_known=False)
    assert not costs.has_earlier


async def test_a_session_without_turns_costs_nothing() -> None:
    clock, ids = FakeClock(), CountingIds()
    log = InMemoryEventLog(clock, ids)
    session = await Sessions(log, ids).open("a", title="a", channel="test")

    costs = await costs_of(log, TodaysUsage(log, clock), await Sessions(log, ids).row(session.session_id), **NO_BUDGETS)

    assert (costs.turns, costs.session, costs.today) == ([], Spent(), Spent())


async def test_budgets_that_turns_share_are_told_with_what_was_used_and_allowed() -> None:
    clock, ids = FakeClock(), CountingIds()
    rig = TaskRig(InMemoryEventLog(clock, ids))
    sessions = Sessions(rig.log, rig.ids)
    mine, other = [(await sessions.open(key, title=key, channel="test")).session_id for key in "ab"]
    for session_id, cost in ((mine, 5), (mine, None), (other, 7)):
        task_id = (await rig.submit("hello", session_id)).task_id
        await rig.end(task_id)
        await call(rig, session_id, task_id, alias="main", cost=cost)
    raised = BudgetRaised(scope="session", key=mine, measure="tokens", amount=500, by="ann")
    await rig.log.append("x", [Draft(body=raised, actor="user", source="x", session_id=mine)])
    settings = BudgetsSettings(
        session=BudgetSettings(max_tokens=1000), project=BudgetSettings(max_cost_usd=Decimal(2), on_exceeded="stop")
    )

    usage, row = TodaysUsage(rig.log, clock), await sessions.row(mine)
    session, project = (await costs_of(rig.log, usage, row, budgets=settings, project=Path("/p"))).budgets

    assert (session.scope, session.tokens_used, session.tokens_limit, session.cost_limit) == (
        "session",
        220,
        1500,
        None,
    )
    # Where nobody tells what a call cost that had a price, it counts with what was reserved.
    assert (project.scope, project.cost_used, project.cost_limit) == ("project", 5 + 9 + 7, 2_000_000_000)
    assert project.on_breach == "stop"
