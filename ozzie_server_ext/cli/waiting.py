"""`ozzie tasks wait`: wait for the end of a task, and report what the task itself waits for."""

import argparse
import contextlib
import math
import time
from collections.abc import Iterator

from ozzie_server_ext.cli.http import Object, expect_id, get, items
from ozzie_server_ext.cli.terminal import cell, failure_lines, print_json, print_notice, state_word
from ozzie_server_ext.domain.approvals import MOST_ASKS
from ozzie_server_ext.domain.errors import InputError, NotFound, Unavailable
from ozzie_server_ext.domain.tasks import FINAL, OPEN
from ozzie_server_ext.render.text import visible_label

NOT_DONE = 3
"""Exit status if the task failed or was stopped."""
TIME_OUT = 4
"""Exit status if the task has not ended in time."""

_CHANGES = (
    "task.queued",
    "task.waiting_approval",
    "task.waiting_input",
    "prompt.requested",
    "task.paused",
    "task.succeeded",
    "task.failed",
    "task.cancelled",
    "task.told",
    "approval.expired",
    "step.started",
)
"""Events that may change what a task waits for: its own, and those of delegated tasks."""
_MAX_CHILDREN = 100
"""Unfinished delegated tasks to look at."""


def wait_for_task(options: argparse.Namespace) -> int:
    """Wait for the end of a task. Raises NotRunning, NotFound, InputError, Answered."""
    expect_id(options.task_id, "task")
    within_s = options.timeout
    if within_s is not None and not (math.isfinite(within_s) and within_s >= 0):
        raise InputError("--timeout is a number of seconds from 0 on.", code="input.timeout")
    until = None if within_s is None else time.monotonic() + within_s
    # Read before the task, so that no event between the two is missed.
    position = get("health")["position"]
    task = get(f"tasks/{options.task_id}")
    waits = _Waits(options.task_id)
    if task["status"] in FINAL:
        return _end(task, as_json=options.json)
    waits.report(task)
    from ozzie_server_ext.cli.follow import follow  # loads tornado

    wanted: Object = {"type": _CHANGES}
    wanted |= {"session_id": task["session_id"]} if task["session_id"] else {"task_id": task["task_id"]}
    left_s = None if until is None else max(until - time.monotonic(), 0.0)
    try:
        follow(position, wanted, waits.update, print_notice, until_end_of=task["task_id"], within_s=left_s)
    except TimeoutError:
        print_notice(f"The task has not ended within {within_s:g} s, and goes on.")
        _print(get(f"tasks/{task['task_id']}"), as_json=options.json)
        return TIME_OUT
    return _end(get(f"tasks/{task['task_id']}"), as_json=options.json)


class _Waits:
    """Reports what the task waits for, each reason once as long as it lasts."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._reported: list[str] = []

    def update(self, event: Object) -> None:
        """Look again after an event that may have changed what the task waits for."""
        if event["type"] == "step.started" and event["payload"]["task"] is not None:
            return  # the delegated task's own events say what it waits for
        if event["type"] in ("task.succeeded", "task.failed", "task.cancelled") and event["task_id"] == self._task_id:
            return
        with contextlib.suppress(Unavailable):  # the gateway is stopping: the next one reports what follows
            self.report(get(f"tasks/{self._task_id}"))

    def report(self, task: Object) -> None:
        found = list(dict.fromkeys(_waits_of(task)))
        for sentence in found:
            if sentence not in self._reported:
                print_notice(sentence)
        self._reported = found


def _waits_of(task: Object) -> Iterator[str]:
    """Yield what a task and its delegated tasks wait for, each with the command for it."""
    if task["status"] == "PAUSED":
        yield f"It is paused: ozzie tasks resume {task['task_id']}"
        return
    yield from _questions_of(task)
    for step in task["waiting"]:
        with contextlib.suppress(NotFound):
            yield from _questions_of(get(f"tasks/{step['task_id']}"), f' (the step "{visible_label(step["title"])}")')
    yield from _events_of(task)


def _questions_of(task: Object, where: str = "") -> Iterator[str]:
    task_id = task["task_id"]
    if task["status"] == "WAITING_INPUT" and task["question"]:
        text = visible_label(task["question"]["question"])
        yield f"It waits for your answer{where}: {text} ozzie tasks answer {task_id}"
    if task["status"] == "WAITING_APPROVAL":
        pending = list(items("approvals", MOST_ASKS, task_id=task_id, status="pending"))
        for approval in reversed(pending):
            text = visible_label(approval["sentence"])
            yield f"It waits for your approval{where}: {text} ozzie approvals show {approval['approval_id']}"
        # A run also waits for the approval of its step; and a yes may have come since the task was read.
        if not pending and not task["waiting"] and get(f"tasks/{task_id}")["status"] == "WAITING_APPROVAL":
            yield f"Its approval has expired{where}: ozzie tasks show {task_id}"


def _events_of(task: Object) -> Iterator[str]:
    """Yield the events from outside that its steps and nested runs wait for."""
    for event in task["waits_for"]:
        name = visible_label(event)
        yield f'It waits for the event "{name}": ozzie tasks signal {task["task_id"]} {name}'
    for child in items("tasks", _MAX_CHILDREN, parent=task["task_id"], status=sorted(OPEN)):
        if child["mode"] == "GRAPH":
            yield from _events_of(get(f"tasks/{child['task_id']}"))


def _end(task: Object, *, as_json: bool) -> int:
    _print(task, as_json=as_json)
    return 0 if task["status"] == "SUCCEEDED" else NOT_DONE


def _print(task: Object, *, as_json: bool) -> None:
    if as_json:
        print_json(task)
        return
    why = failure_lines(task["error"])[:1] if task["error"] else []
    print("  ".join([state_word(task), cell(task["title"], 60).rstrip(), *map(visible_label, why)]))
