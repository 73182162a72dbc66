"""The application's log says what tasks do, with the ids to look further, and never what was said."""

import logging
from operator import itemgetter

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import (
    ApprovalGranted,
    Brief,
    ModelCallFailed,
    SkillStarted,
    TaskCancelled,
    TaskFailed,
    TaskQueued,
    TaskStarted,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import ApprovalId, BlobRef, CallId, TaskId, task_stream
from ozzie_server_ext.observability.logs import Line
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.activity import Activity
from tests.replay.histories import (
    SESSION,
    TASK,
    approval_requested,
    call_completed,
    call_started,
    received,
    task_created,
    task_draft,
)

CALL = CallId("01DDDDDDDDDDDDDDDDDDDDDDDD")
READ = CallId("01DDDDDDDDDDDDDDDDDDDDDDD2")
STEP = TaskId("01BBBBBBBBBBBBBBBBBBBBBBB2")
MODEL_CALL = "01EEEEEEEEEEEEEEEEEEEEEEE1"
APPROVAL = "01EEEEEEEEEEEEEEEEEEEEEEE2"
SECRET = "the launch is on Monday"


def written(caplog: pytest.LogCaptureFixture) -> list[tuple[str, Line]]:
    """The lines that were logged, each with its level. A record has those of one commit and level."""
    records = [record for record in caplog.records if record.name == "ozzie.tasks.activity"]
    return [(record.levelname, line) for record in records for line in record.lines]  # type: ignore[attr-defined]


async def test_each_fact_is_a_line_with_its_ids(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    Activity(log)
    requested = ToolCallRequested(
        call_id=CALL, use_id="u", tool_id="files.read", name="read_file", version="1", args={}, round=1, index=0
    )
    facts = (
        received(SECRET),
        replace(task_created(SECRET), channel="page"),
        TaskQueued(reason="created"),
        TaskStarted(attempt=1, epoch="e"),
        call_started(MODEL_CALL),
        call_completed(MODEL_CALL),
        replace(requested, call_id=READ),
        ToolCallCompleted(call_id=READ, ok=True, data=SECRET, summary=SECRET, duration_ms=3.0),
        requested,
        approval_requested(APPROVAL, CALL, sentence=SECRET),
        ApprovalGranted(approval_id=ApprovalId(APPROVAL), extent="once", by="ana", way=AuthStrength.BROWSER),
        ToolCallFailed(call_id=CALL, code="file.missing", message=SECRET, duration_ms=1.0),
        TaskFailed(kind="tool", code="tool.failed", message=SECRET, hint=SECRET),
    )
    with caplog.at_level(logging.INFO, logger="ozzie"):
        await log.append(task_stream(TASK), [task_draft(fact) for fact in facts])

    lines = written(caplog)
    assert [(level, line.message) for level, line in lines] == [
        ("INFO", "turn created from page"),
        ("INFO", "started, attempt 1"),
        ("INFO", "model default (local/small) answered: 30 tokens, 12 ms"),
        ("INFO", "tool read_file completed: 3 ms"),
        ("INFO", "approval asked for write_file by rule default.changes"),
        ("INFO", "approved by ana (browser), once"),
        ("WARNING", "tool read_file failed: file.missing"),
        ("WARNING", "failed: tool.failed (tool)"),
    ]
    named = itemgetter("agent_id", "session_id", "task_id", "trace_id")
    assert {named(line.ids) for _, line in lines} == {("ozzie", SESSION, TASK, TASK)}
    assert [line.ids["action_id"] for _, line in lines[2:7]] == [MODEL_CALL, READ, APPROVAL, APPROVAL, CALL]
    assert SECRET not in caplog.text


async def test_a_run_of_a_skill_and_its_steps_are_lines_of_the_skill(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    Activity(log)
    run = (
        replace(task_created(SECRET), mode="GRAPH", channel="cli"),
        SkillStarted(skill="report", kind="workflow", version="1", file=BlobRef("b"), input={"topic": SECRET}),
        TaskQueued(reason="created"),
        TaskStarted(attempt=1, epoch="e"),
    )
    step = (
        replace(task_created(SECRET), parent=TASK, brief=Brief(skill="report", instruction=SECRET)),
        TaskQueued(reason="created"),
        TaskStarted(attempt=1, epoch="e"),
        ToolCallRequested(
            call_id=CALL, use_id="u", tool_id="shell.run", name="shell", version="1", args={}, round=1, index=0
        ),
        ToolCallCancelled(call_id=CALL, reason=SECRET),
        TaskCancelled(by="ana", reason=SECRET),
    )
    with caplog.at_level(logging.INFO, logger="ozzie"):
        await log.append(task_stream(TASK), [task_draft(fact) for fact in run])
        await log.append(task_stream(STEP), [task_draft(fact, task_id=STEP) for fact in step])
        await log.append(task_stream(TASK), [task_draft(TaskCancelled(by="ana", reason=SECRET))])

    lines = written(caplog)
    assert [(level, line.ids["task_id"], line.message) for level, line in lines] == [
        ("INFO", TASK, "run created from cli"),
        ("INFO", TASK, "started, attempt 1"),
        ("INFO", STEP, f"turn created by task {TASK}"),
        ("INFO", STEP, "started, attempt 1"),
        ("INFO", STEP, "tool shell cancelled"),
        ("INFO", STEP, "cancelled by ana"),
        ("INFO", TASK, "cancelled by ana"),
    ]
    # The first line of a run comes before the skill is known.
    assert [line.ids["agent_id"] for _, line in lines] == ["ozzie"] + ["report"] * 6
    assert {line.ids["trace_id"] for _, line in lines} == {TASK}
    assert SECRET not in caplog.text


async def test_behind_a_restart_a_line_has_its_agent_and_its_tool_too(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    requested = ToolCallRequested(
        call_id=CALL, use_id="u", tool_id="files.read", name="read_file", version="1", args={}, round=1, index=0
    )
    facts = (received(SECRET), task_created(SECRET), TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"))
    await log.append(task_stream(TASK), [task_draft(fact) for fact in (*facts, requested)])
    activity = Activity(log)
    await activity.load()
    with caplog.at_level(logging.INFO, logger="ozzie"):
        failed = ToolCallFailed(call_id=CALL, code="file.missing", message=SECRET, duration_ms=1.0)
        await log.append(task_stream(TASK), [task_draft(failed)])

    ((_, line),) = written(caplog)
    assert line.message == "tool read_file failed: file.missing"
    assert line.ids["agent_id"] == "ozzie"


async def test_a_call_that_was_cut_off_has_its_line_and_so_has_what_is_recorded_with_it(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    Activity(log)
    cut = ModelCallFailed(call_id=CallId(MODEL_CALL), code="interrupted", message=SECRET, latency_ms=None)
    created = replace(task_created(SECRET), channel="page")
    facts = (received(SECRET), created, call_started(MODEL_CALL), cut, TaskQueued(reason="recovered"))
    with caplog.at_level(logging.INFO, logger="ozzie"):
        await log.append(task_stream(TASK), [task_draft(fact) for fact in facts])

    assert [line.message for _, line in written(caplog)] == [
        "turn created from page",
        "model call failed: interrupted",
    ]
    assert "A listener of the event log failed" not in caplog.text
