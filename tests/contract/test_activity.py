"""The application's log says what tasks do, with the ids to look further, and never what was said."""

import logging

import pytest

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import (
    ApprovalGranted,
    TaskFailed,
    TaskQueued,
    TaskStarted,
    ToolCallFailed,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import ApprovalId, CallId, task_stream
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
MODEL_CALL = "01EEEEEEEEEEEEEEEEEEEEEEE1"
APPROVAL = "01EEEEEEEEEEEEEEEEEEEEEEE2"
SECRET = "the launch is on Monday"


async def test_each_fact_is_a_line_with_its_ids(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    Activity(log)
    requested = ToolCallRequested(
        call_id=CALL, use_id="u", tool_id="files.read", name="read_file", version="1", args={}, round=1, index=0
    )
    facts = (
        received(SECRET),
        task_created(SECRET),
        TaskQueued(reason="created"),
        TaskStarted(attempt=1, epoch="e"),
        call_started(MODEL_CALL),
        call_completed(MODEL_CALL),
        requested,
        approval_requested(APPROVAL, CALL, sentence=SECRET),
        ApprovalGranted(approval_id=ApprovalId(APPROVAL), extent="once", by="ana", way=AuthStrength.BROWSER),
        ToolCallFailed(call_id=CALL, code="file.missing", message=SECRET, duration_ms=1.0),
        TaskFailed(kind="tool", code="tool.failed", message=SECRET, hint=SECRET),
    )
    with caplog.at_level(logging.INFO, logger="ozzie"):
        await log.append(task_stream(TASK), [task_draft(fact) for fact in facts])

    lines = [record for record in caplog.records if record.name == "ozzie.tasks.activity"]
    assert [(line.levelname, line.getMessage()) for line in lines] == [
        ("INFO", "turn created from "),
        ("INFO", "started, attempt 1"),
        ("INFO", "model  (/) answered: 30 tokens, 12 ms"),
        ("INFO", "approval asked for write_file by rule default.changes"),
        ("INFO", "approved by ana (browser), once"),
        ("WARNING", "tool read_file failed: file.missing"),
        ("WARNING", "failed: tool.failed (tool)"),
    ]
    assert {(line.agent_id, line.session_id, line.task_id, line.trace_id) for line in lines} == {  # type: ignore[attr-defined]
        ("ozzie", SESSION, TASK, TASK)
    }
    assert [line.action_id for line in lines[2:5]] == [MODEL_CALL, APPROVAL, APPROVAL]  # type: ignore[attr-defined]
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

    (line,) = [record for record in caplog.records if record.name == "ozzie.tasks.activity"]
    assert line.getMessage() == "tool read_file failed: file.missing"
    assert line.agent_id == "ozzie"  # type: ignore[attr-defined]
