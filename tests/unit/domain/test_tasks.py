"""The state machine of a task, walked from every state by every change."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.errors import IllegalTransition
from ozzie_server_ext.domain.events import (
    Limits,
    TaskCancelled,
    TaskCancelRequested,
    TaskCreated,
    TaskFact,
    TaskFailed,
    TaskPaused,
    TaskPauseRequested,
    TaskQueued,
    TaskResumed,
    TaskRetried,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
)
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId
from ozzie_server_ext.domain.tasks import FINAL, OPEN, Task, TaskStatus, create, fold, may_become

CREATED = TaskCreated(title="a turn", mode="FREE", message_id=MessageId("m"), limits=Limits(max_rounds=7))
CHANGES: tuple[TaskFact, ...] = (
    CREATED,
    TaskQueued(reason="created"),
    TaskStarted(attempt=2, epoch="e2"),
    TaskCancelRequested(by="ann", reason="enough"),
    TaskWaitingApproval(approval_id="a"),
    TaskWaitingInput(question="Which one?"),
    TaskPauseRequested(by="ann"),
    TaskPaused(by="ann", reason="lunch"),
    TaskResumed(by="ann"),
    TaskRetried(by="ann", attempt=3),
    TaskSucceeded(rounds=1),
    TaskFailed(kind="model", code="x", message="It broke.", hint=""),
    TaskCancelled(by="ann", reason="enough"),
)

# The allowed transitions, written by hand: from → by → to.
_ALWAYS = {"task.failed": "FAILED", "task.cancelled": "CANCELLED"}
TABLE: dict[str, dict[str, str]] = {
    "CREATED": {"task.queued": "QUEUED", **_ALWAYS},
    "QUEUED": {"task.started": "RUNNING", "task.stopping": "QUEUED", "task.pausing": "QUEUED", **_ALWAYS},
    "RUNNING": {
        "task.queued": "QUEUED",
        "task.stopping": "RUNNING",
        "task.pausing": "RUNNING",
        "task.waiting_approval": "WAITING_APPROVAL",
        "task.waiting_input": "WAITING_INPUT",
        "task.paused": "PAUSED",
        "task.succeeded": "SUCCEEDED",
        **_ALWAYS,
    },
    "WAITING_APPROVAL": {"task.resumed": "RUNNING", "task.pausing": "WAITING_APPROVAL", **_ALWAYS},
    "WAITING_INPUT": {"task.resumed": "RUNNING", "task.pausing": "WAITING_INPUT", **_ALWAYS},
    "PAUSED": {"task.resumed": "RUNNING", **_ALWAYS},
    "SUCCEEDED": {},
    "FAILED": {"task.retried": "QUEUED"},
    "CANCELLED": {"task.retried": "QUEUED"},
}


def task_in(status: TaskStatus) -> Task:
    return Task(
        task_id=TaskId("t"),
        session_id=SessionId("s"),
        status=status,
        title="a turn",
        mode="FREE",
        limits=Limits(),
        attempt=1,
        epoch="e1",
        reason="before",
    )


def test_the_walk_meets_every_status_and_every_change() -> None:
    assert set(TABLE) == set(TaskStatus)
    assert {type(change) for change in CHANGES} == set(get_args(TaskFact))


@pytest.mark.parametrize("status", TaskStatus)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.type)
def test_a_change_leads_where_the_table_says_or_is_refused(status: TaskStatus, change: TaskFact) -> None:
    target = TABLE[status].get(change.type)

    assert may_become(status, type(change)) is (target is not None)
    if target is None:
        with pytest.raises(IllegalTransition) as refused:
            fold(task_in(status), change)
        assert (refused.value.status, refused.value.change) == (status, change.type)
    else:
        assert fold(task_in(status), change).status == target


def test_a_final_state_is_left_by_retry_alone_and_success_not_at_all() -> None:
    leaving = {status: set(TABLE[status]) for status in FINAL}

    assert leaving == {
        TaskStatus.SUCCEEDED: set(),
        TaskStatus.FAILED: {"task.retried"},
        TaskStatus.CANCELLED: {"task.retried"},
    }
    assert set(TaskStatus) == FINAL | OPEN
    assert not FINAL & OPEN


def test_a_task_begins_created_with_what_its_fact_says() -> None:
    task = create(TaskId("t"), SessionId("s"), CREATED)

    assert (task.status, task.title, task.mode, task.attempt) == (TaskStatus.CREATED, "a turn", "FREE", 0)
    assert task.limits.max_rounds == 7
    assert task.is_open


def test_claiming_a_task_counts_the_attempt_and_takes_the_epoch() -> None:
    started = fold(task_in(TaskStatus.QUEUED), TaskStarted(attempt=2, epoch="e2"))

    assert (started.attempt, started.epoch, started.reason) == (2, "e2", "")


def test_a_pause_is_wished_for_once_taken_back_once_and_over_with_the_task() -> None:
    wish, back = TaskPauseRequested(by="ann"), TaskPauseRequested(by="bob", wanted=False)
    wished = fold(task_in(TaskStatus.RUNNING), wish)

    assert wished.pause_by == "ann"
    assert fold(wished, back).pause_by == ""
    assert fold(wished, TaskPaused(by="ann", reason="by you")).pause_by == ""
    assert fold(fold(wished, TaskQueued(reason="recovered")), TaskStarted(attempt=2, epoch="e2")).pause_by == "ann"
    assert fold(wished, TaskSucceeded(rounds=1)).pause_by == ""
    for task, refused in ((wished, wish), (task_in(TaskStatus.RUNNING), back)):
        with pytest.raises(IllegalTransition):
            fold(task, refused)


@given(st.lists(st.sampled_from([*CHANGES, TaskPauseRequested(by="bob", wanted=False)]), max_size=40))
def test_wishes_belong_to_what_has_not_come_yet_whatever_happens(changes: list[TaskFact]) -> None:
    task = create(TaskId("t"), SessionId("s"), CREATED)
    for change in changes:
        before = task
        try:
            task = fold(task, change)
        except IllegalTransition:
            continue
        assert not task.pause_by or task.status in OPEN - {TaskStatus.PAUSED}
        assert not task.stop_by or task.is_open
        if before.status in FINAL:
            assert change.type == "task.retried"
        if isinstance(change, TaskPauseRequested):
            assert bool(task.pause_by) is change.wanted
            assert bool(before.pause_by) is not change.wanted


def test_the_end_of_a_task_is_asked_for_once_and_remembered_until_it_comes() -> None:
    asked = fold(task_in(TaskStatus.QUEUED), TaskCancelRequested(by="ann", reason="enough"))
    claimed = fold(asked, TaskStarted(attempt=2, epoch="e2"))

    with pytest.raises(IllegalTransition):
        fold(claimed, TaskCancelRequested(by="bob", reason="me too"))

    assert (claimed.status, claimed.stop_by, claimed.reason) == (TaskStatus.RUNNING, "ann", "enough")
    for end in (TaskCancelled(by="ann", reason="enough"), TaskSucceeded(rounds=1)):
        assert fold(claimed, end).stop_by == ""


@pytest.mark.parametrize(
    ("status", "change", "reason"),
    [
        (TaskStatus.RUNNING, TaskQueued(reason="recovered"), "recovered"),
        (TaskStatus.RUNNING, TaskWaitingInput(question="Which one?"), "Which one?"),
        (TaskStatus.RUNNING, TaskPaused(by="ann", reason="lunch"), "lunch"),
        (TaskStatus.PAUSED, TaskResumed(by="ann"), ""),
        (TaskStatus.FAILED, TaskRetried(by="ann", attempt=2), "retried"),
        (TaskStatus.RUNNING, TaskFailed(kind="tool", code="x", message="It broke.", hint=""), "It broke."),
        (TaskStatus.RUNNING, TaskCancelled(by="ann", reason="enough"), "enough"),
        (TaskStatus.RUNNING, TaskSucceeded(rounds=1), ""),
    ],
)
def test_a_task_says_why_it_is_where_it_is(status: TaskStatus, change: TaskFact, reason: str) -> None:
    assert fold(task_in(status), change).reason == reason
