"""`ozzie tasks`: list and show tasks, and control them."""

import argparse
from collections.abc import Iterator
from decimal import Decimal

from ozzie_server_ext.agent.questions import LEAVE, STOP
from ozzie_server_ext.cli.approvals import commands, heading, question
from ozzie_server_ext.cli.http import Object, expect_id, get, items, post
from ozzie_server_ext.cli.sessions import find_session
from ozzie_server_ext.cli.terminal import (
    cell,
    cost,
    failure_lines,
    local_time,
    print_json,
    print_result,
    state_word,
    tokens,
)
from ozzie_server_ext.domain.approvals import MOST_ASKS, parse_answer
from ozzie_server_ext.domain.budget import NANO_USD_PER_USD
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.tasks import OPEN
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.render.questions import Choice, way_to_answer
from ozzie_server_ext.render.text import (
    LINE_WIDTH,
    counted,
    duration,
    token_count,
    visible_label,
    visible_prose,
    wrapped,
)

CAUSES = {
    "model": "the model",
    "parse": "what the model wrote",
    "tool": "a tool",
    "business": "what was asked for",
    "system": "Ozzie itself",
}
"""Causes of failures, as people read them."""

_ASIDES = {"check": "check", "summary": "sum"}
"""What model calls are called that do not answer the user."""

_ENDS = frozenset({STOP, LEAVE})
"""Answers that end the task."""


def list_tasks(options: argparse.Namespace) -> int:
    """Print the newest tasks. Raises NotRunning, or Answered."""
    session_id = find_session(options.session)["id"] if options.session else None
    status = sorted(OPEN) if options.open else None
    tasks = list(items("tasks", options.limit, session_id=session_id, status=status, all=options.all))
    if options.json:
        print_json(tasks)
        return 0
    if not tasks:
        print("No tasks. Run a cell of an Ozzie notebook, or try: ozzie ask hello")
    for task in tasks:
        print(f"{task['task_id']}  {cell(state_word(task), 15)}  {cell(task['title'], 35)}".rstrip())
        for step in () if options.all else task["waiting"]:
            print(f"  {step['task_id']}  the step {cell(step['title'], 40)}".rstrip())
    return 0


def show_task(options: argparse.Namespace) -> int:
    """Print a task with its steps. Raises NotRunning, NotFound."""
    expect_id(options.task_id, "task")
    task = get(f"tasks/{options.task_id}")
    if options.json:
        print_json(task)
        return 0
    used = [counted(task["rounds"], "round"), tokens(task["token_usage"]), cost(task["cost"])]
    state = state_word(task)
    state += f" {visible_label(task['reason'])}" if task["status"] == "PAUSED" else ""
    print(f"{state}  {cell(task['title'], 60)}".rstrip())
    print(f"  task     {task['task_id']}")
    print(f"  session  {task['session_id'] or ''}")
    print(f"  from     {cell(task['sender_id'], 30).rstrip()}, {cell(task['channel'], 30)}".rstrip())
    print(f"  begun    {local_time(task['created_at'], '%Y-%m-%d %H:%M:%S')}")
    if task["finished_at"]:
        print(f"  ended    {local_time(task['finished_at'], '%Y-%m-%d %H:%M:%S')}")
    if task["attempt"] > 1:
        print(f"  tried    {task['attempt']} times")
    print(f"  used     {', '.join(used)}")
    if task["pausing"] and not task["stopping"]:
        print("  pauses   at the end of its current step")
    for words in task["updates"]:
        print(f"  added    {cell(words, 60)}".rstrip())
    for event in task["waits_for"]:
        print(f"  waits    for {event}: ozzie tasks signal {task['task_id']} {event}")
    if task["steps"]:
        print()
    for step in task["steps"]:
        print(_step_line(step))
    if task["text"]:
        print(f"\n{visible_prose(task['text'])}")
    if task["status"] == "WAITING_APPROVAL":
        _print_approvals(task["task_id"])
    for step in task["waiting"]:
        print(f"\nThe step {cell(step['title'], 60).rstrip()} waits for you: ozzie tasks show {step['task_id']}")
    if task["question"]:
        print()
        _print_question(task["task_id"], task["question"])
    if task["error"]:
        print("", *failure_lines(task["error"]), sep="\n")
        print(f"\n  cause    {CAUSES[task['error']['kind']]} ({task['error']['code']})")
        for step in task["failed_steps"]:
            print(f"  step     {cell(step['title'], 60)}".rstrip())
            print(*(f"           {line}" for line in failure_lines(step["error"])), sep="\n")
            if step["task_id"]:
                print(f"           ozzie tasks show {step['task_id']}")
    return 0


def cancel_task(options: argparse.Namespace) -> int:
    """Stop a task. Raises NotRunning, NotFound, or Answered if it has ended."""
    body: Object = {"reason": "ozzie tasks cancel"}
    return _changed(options, "cancel", body, "cancelled", f"The task {options.task_id} is stopped.")


def answer_task(options: argparse.Namespace) -> int:
    """Answer a task's question; without an answer, print it. Raises NotRunning, NotFound, InputError, or Answered if
    the task asks nothing."""
    expect_id(options.task_id, "task")
    question = get(f"tasks/{options.task_id}")["question"]
    if not options.option:
        print_json(question) if options.json else _print_question(options.task_id, question)
        return 0
    answer: Object = {"option": options.option, "text": " ".join(options.text)}
    if question is not None:
        choice, text = parse_answer(map(_choice, question["options"]), options.option, answer["text"])
        chosen = choice.name
        answer = {"option": chosen, "text": text, "prompt_id": question["prompt_id"]}
        if options.amount is not None:
            unit = next(each["unit"] for each in question["options"] if each["name"] == chosen)
            answer["amount"] = _amount(options.amount, unit)
    post(f"tasks/{options.task_id}/answer", answer)
    line = "The task ends." if answer["option"] in _ENDS else "The task goes on."
    return print_result({"answered": options.task_id, "option": answer["option"]}, line, as_json=options.json)


def _print_question(task_id: str, question: Object | None) -> None:
    if question is None:
        print("The task asks no question.")
        return
    for sentence in (question["question"], *question["notes"]):
        print(visible_prose(sentence))
    print()
    for option in question["options"]:
        print(f"  {cell(option['label'], 28)}  {way_to_answer(task_id, _choice(option))}")
        if option["help"]:
            print(*(f"    {line}" for line in wrapped(visible_label(option["help"]), LINE_WIDTH - 4)), sep="\n")


def _choice(option: Object) -> Choice:
    return Choice(name=option["name"], label=option["label"], takes_text=option["takes_text"])


def _print_approvals(task_id: str) -> None:
    """Print the pending approvals, the oldest first; or the last expired one, whose renewal checks all calls again."""
    pending = list(items("approvals", MOST_ASKS, task_id=task_id, status="pending"))
    for approval in reversed(pending or list(items("approvals", 1, task_id=task_id, status="expired"))):
        print("", heading(approval), *question(approval), *commands(approval), sep="\n")


_UNITS = {"cost": (NANO_USD_PER_USD, "USD"), "tokens": (1, "tokens"), "time": (1000, "seconds")}
"""The unit that people use, and its size in the gateway's own unit."""


def _amount(text: str, unit: str) -> int:
    """Return an amount in the gateway's unit. Raises InputError."""
    if unit not in _UNITS:
        raise InputError("This answer takes no --amount.", hint="Leave it out.", code="answer.amount")
    factor, name = _UNITS[unit]
    try:
        amount = Decimal(text) * factor
        if amount > 0 and amount == amount.to_integral_value():
            return int(amount)
    except (ArithmeticError, ValueError):
        pass
    raise InputError(f"--amount is a number of {name} above 0.", code="answer.amount")


def _step_line(step: Object) -> str:
    took = "" if step["duration_ms"] is None else duration(step["duration_ms"] / 1000)
    if step["error"]:
        detail = step["error"]["message"]
    elif step["kind"] == "model":
        detail = ", ".join(
            filter(None, [tokens(step["token_usage"]), cost(step["cost"]) if step["token_usage"] else ""])
        )
    else:
        detail = step["summary"]
    name = cell(step["name"], 18)
    kind = _ASIDES.get(step["purpose"], step["kind"])
    return f"  {cell(kind, 5)}  {name}  {cell(step['status'], 9)}  {cell(detail, 28)}  {took}".rstrip()


def retry_task(options: argparse.Namespace) -> int:
    """Retry a task. Raises NotRunning, NotFound, or Answered if that is not possible."""
    expect_id(options.task_id, "task")
    retried = post(f"tasks/{options.task_id}/retry", {})
    if options.json:
        print_json(retried)
        return 0
    behind = f", behind {counted(retried['ahead'], 'task')}" if retried["ahead"] else ""
    print(f"The task goes on as attempt {retried['attempt']}{behind}.")
    left = ", ".join(_left(retried))
    if left:
        print(f"It has left: {left}.")
    print(f"Look at it with: ozzie tasks show {options.task_id}")
    return 0


def pause_task(options: argparse.Namespace) -> int:
    """Pause a task. Raises NotRunning, NotFound, or Answered if that is not possible."""
    how = f"Continue it with: ozzie tasks resume {options.task_id}"
    return _changed(options, "pause", {}, "pausing", "The task pauses at the end of its current step.", how)


def resume_task(options: argparse.Namespace) -> int:
    """Continue a task. Raises NotRunning, NotFound, or Answered if it is not paused."""
    return _changed(options, "resume", {}, "resumed", "The task goes on.")


def signal_task(options: argparse.Namespace) -> int:
    """Send an event from outside to a run. Raises NotRunning, NotFound, InputError, or Answered."""
    expect_id(options.task_id, "task")
    event: Object = {"event": options.event, "key": options.key}
    if options.data:
        event["data"] = _object(options.data)
    delivered = post(f"tasks/{options.task_id}/events", event)
    line = "The run goes on." if delivered["heard"] else "The event is kept for the step that will wait for it."
    return print_result(delivered, line, as_json=options.json)


def update_task(options: argparse.Namespace) -> int:
    """Send further instructions to a task. Raises NotRunning, NotFound, or Answered if it has ended."""
    body: Object = {"text": options.text, "key": options.key}
    return _changed(options, "update", body, "updated", "The task reads it at its next model call.")


def _changed(options: argparse.Namespace, operation: str, body: Object, done: str, *lines: str) -> int:
    """Run a REST operation on a task; print the lines, or `done` with the task's id as JSON."""
    expect_id(options.task_id, "task")
    post(f"tasks/{options.task_id}/{operation}", body)
    return print_result({done: options.task_id}, *lines, as_json=options.json)


def _object(text: str) -> Object:
    """Raises InputError."""
    try:
        return loads_object(text)
    except InputError as error:
        raise InputError(
            f"--data is not a JSON object. {error}", hint="""Write it as '{"key": "value"}'.""", code="input.data"
        ) from None


def _left(retried: Object) -> Iterator[str]:
    if retried["steps_left"] is not None:
        yield counted(retried["steps_left"], "step")
    if retried["rounds_left"] is not None:
        yield counted(retried["rounds_left"], "round")
    if retried["tokens_left"] is not None:
        yield token_count(retried["tokens_left"])
    if retried["cost_left"] is not None:
        yield cost(retried["cost_left"])
    if retried["time_left_s"] is not None:
        yield duration(retried["time_left_s"])
