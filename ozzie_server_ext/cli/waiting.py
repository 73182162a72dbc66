"""`ozzie tasks wait`: until one has ended, by the gateway's feed, saying meanwhile what it waits for itself."""

import argparse
import contextlib
import math
import sys
import time
from collections.abc import Iterator

from ozzie_server_ext.cli.http import Object, get, items
from ozzie_server_ext.cli.tasks import expect_id
from ozzie_server_ext.cli.terminal import STATES, cell, failure_lines, print_json
from ozzie_server_ext.domain.approvals import MOST_ASKS
from ozzie_server_ext.domain.errors import InputError, NotFound, Unavailable
from ozzie_server_ext.domain.tasks import FINAL, OPEN
from ozzie_server_ext.render.text import visible_label

NOT_DONE = 3
"""The status where the task failed or was stopped."""
TIME_OUT = 4
"""The status where it had not ended in time."""

_CHANGES = (
    "task.queued",
    "task.waiting_approval",
    "task.waiting_input",
    "task.paused",
    "task.succeeded",
    "task.failed",
    "task.cancelled",
    "task.told",
    "approval.expired",
    "step.started",
)
"""What may change what a task waits for: its own events, and those of what it delegated."""
_MOST_BELOW = 100
"""Tasks that one has delegated and that go on, of which is told what they wait for."""


def wait_for_task(options: argparse.Namespace) -> int:
    """Wait for the end of a task. Raises NotRunning, NotFound, InputError, Answered."""
    expect_id(options.task_id)
    within_s = options.timeout
    if within_s is not None and not (math.isfinite(within_s) and within_s >= 0):
        raise InputError("--timeout is a number of seconds from 0 on.", code="input.timeout")
    until = None if within_s is None else time.monotonic() + within_s
    # Before the task is looked at, so that nothing happens between that and the feed.
    position = get("health")["position"]
    task = get(f"tasks/{options.task_id}")
    waits = _Waits(options.task_id)
    if task["status"] in FINAL:
        return _end(task, as_json=options.json)
    waits.tell(task)
    from ozzie_server_ext.cli.follow import follow  # it brings tornado along

    wanted: Object = {"type": _CHANGES}
    wanted |= {"session_id": task["session_id"]} if task["session_id"] else {"task_id": task["task_id"]}
    left_s = None if until is None else max(until - time.monotonic(), 0.0)
    try:
        follow(position, wanted, waits.hear, _say, until_end_of=task["task_id"], within_s=left_s)
    except TimeoutError:
        _say(f"The task has not ended within {within_s:g} s, and goes on.")
        _print(get(f"tasks/{task['task_id']}"), as_json=options.json)
        return TIME_OUT
    return _end(get(f"tasks/{task['task_id']}"), as_json=options.json)


class _Waits:
    """What the task waits for, each told once as long as it does."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._told: list[str] = []

    def hear(self, event: Object) -> None:
        """Look what the task waits for since something happened that may change that."""
        if event["type"] == "step.started" and event["payload"]["task"] is not None:
            return  # what it waits for, that task says itself
        if event["type"] in ("task.succeeded", "task.failed", "task.cancelled") and event["task_id"] == self._task_id:
            return
        with contextlib.suppress(Unavailable):  # the gateway goes just now: the next one tells what happens then
            self.tell(get(f"tasks/{self._task_id}"))

    def tell(self, task: Object) -> None:
        found = list(dict.fromkeys(_waits_of(task)))
        for sentence in found:
            if sentence not in self._told:
                _say(sentence)
        self._told = found


def _waits_of(task: Object) -> Iterator[str]:
    """What a task waits for outside of it, with what to do; with what it has delegated."""
    if task["status"] == "PAUSED":
        yield f"It is paused: ozzie tasks resume {task['task_id']}"
        return
    yield from _asks_of(task)
    for step in task["waiting"]:
        with contextlib.suppress(NotFound):
            yield from _asks_of(get(f"tasks/{step['task_id']}"), f' (the step "{visible_label(step["title"])}")')
    yield from _events_of(task)


def _asks_of(task: Object, where: str = "") -> Iterator[str]:
    task_id = task["task_id"]
    if task["status"] == "WAITING_INPUT" and task["question"]:
        asked = visible_label(task["question"]["question"])
        yield f"It waits for your answer{where}: {asked} ozzie tasks answer {task_id}"
    if task["status"] == "WAITING_APPROVAL":
        pending = list(items("approvals", MOST_ASKS, task_id=task_id, status="pending"))
        for approval in reversed(pending):
            asked = visible_label(approval["sentence"])
            yield f"It waits for your yes{where}: {asked} ozzie approvals show {approval['approval_id']}"
        if not pending:
            yield f"What it asked has expired{where}: ozzie tasks show {task_id}"


def _events_of(task: Object) -> Iterator[str]:
    """The events outside that steps of it wait for, and of the runs within it."""
    for event in task["waits_for"]:
        name = visible_label(event)
        yield f'It waits for the event "{name}": ozzie tasks tell {task["task_id"]} {name}'
    for below in items("tasks", _MOST_BELOW, parent=task["task_id"], status=sorted(OPEN)):
        if below["mode"] == "GRAPH":
            yield from _events_of(get(f"tasks/{below['task_id']}"))


def _end(task: Object, *, as_json: bool) -> int:
    _print(task, as_json=as_json)
    return 0 if task["status"] == "SUCCEEDED" else NOT_DONE


def _print(task: Object, *, as_json: bool) -> None:
    if as_json:
        print_json(task)
        return
    why = failure_lines(task["error"])[:1] if task["error"] else []
    print("  ".join([STATES[task["status"]], cell(task["title"], 60).rstrip(), *map(visible_label, why)]))


def _say(sentence: str) -> None:
    print(f"ozzie: {sentence}", file=sys.stderr, flush=True)
