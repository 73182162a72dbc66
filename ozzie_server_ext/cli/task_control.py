"""`ozzie tasks`: try one again, hold one, let it go on, say more to one, tell one what happened."""

import argparse
from collections.abc import Iterator

from ozzie_server_ext.cli.http import Object, post
from ozzie_server_ext.cli.output import cost, counted, print_json
from ozzie_server_ext.cli.tasks import expect_id
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.render.text import duration, token_count


def retry_task(options: argparse.Namespace) -> int:
    """Try a task again. Raises NotRunning, NotFound, or Answered for one that can't be."""
    expect_id(options.task_id)
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
    """Hold a task. Raises NotRunning, NotFound, or Answered for one that can't be."""
    expect_id(options.task_id)
    post(f"tasks/{options.task_id}/pause", {})
    if options.json:
        print_json({"pausing": options.task_id})
    else:
        print("The task pauses at the end of what it is doing.")
        print(f"Let it go on with: ozzie tasks resume {options.task_id}")
    return 0


def resume_task(options: argparse.Namespace) -> int:
    """Let a task go on. Raises NotRunning, NotFound, or Answered for one that is not held."""
    expect_id(options.task_id)
    post(f"tasks/{options.task_id}/resume", {})
    if options.json:
        print_json({"resumed": options.task_id})
    else:
        print("The task goes on.")
    return 0


def tell_task(options: argparse.Namespace) -> int:
    """Tell a run what happened outside. Raises NotRunning, NotFound, InputError, or Answered."""
    expect_id(options.task_id)
    event: Object = {"event": options.event, "key": options.key}
    if options.data:
        event["data"] = _object(options.data)
    told = post(f"tasks/{options.task_id}/events", event)
    if options.json:
        print_json(told)
    else:
        print("The run goes on." if told["heard"] else "It is kept for the step that will wait for it.")
    return 0


def update_task(options: argparse.Namespace) -> int:
    """Say something more to a task. Raises NotRunning, NotFound, or Answered for one that has ended."""
    expect_id(options.task_id)
    post(f"tasks/{options.task_id}/update", {"text": options.text, "key": options.key})
    if options.json:
        print_json({"updated": options.task_id})
    else:
        print("The task reads it at its next call of a model.")
    return 0


def _object(text: str) -> Object:
    """Raises InputError."""
    try:
        return loads_object(text)
    except InputError as error:
        raise InputError(
            f"--data is no JSON object. {error}", hint="""Write it as '{"key": "value"}'.""", code="input.data"
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
