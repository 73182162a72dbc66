"""Printing to a terminal, and asking and reading there."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from ozzie_server_ext.cli.parser import Misused
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.render.text import (
    LINE_WIDTH,
    cut_columns,
    first_sentence,
    folded,
    money,
    padded,
    token_count,
    visible_label,
    visible_prose,
    wrapped,
)

STATES: Mapping[str, str] = {
    "CREATED": "Queued",
    "QUEUED": "Queued",
    "RUNNING": "Working",
    "WAITING_INPUT": "Waiting for you",
    "WAITING_APPROVAL": "Waiting for you",
    "PAUSED": "Paused",
    "SUCCEEDED": "Done",
    "FAILED": "Failed",
    "CANCELLED": "Stopped",
}
"""Task states, as people read them."""

_ACTIVE = frozenset({"CREATED", "QUEUED", "RUNNING"})

WAYS: Mapping[str, str] = {
    "keyfile": "a key file that only you can read",
    "passphrase": "a passphrase",
    "keyring": "this machine's keyring",
}
"""Ways to open the vault."""

_IN_A_TERMINAL = (
    ("Run the cell again", "Ask again"),
    ("run the cell again", "ask again"),
    ("%session resume", "ozzie sessions resume"),
    ("%session list", "ozzie sessions list"),
    ("another with %session new", "another with --session NAME"),
    ("%model", "--model"),
)
"""Instructions for a cell, as the gateway writes them in hints, and the same for a terminal."""


def for_terminal(hint: str) -> str:
    """Return a gateway's hint with instructions for a terminal."""
    for in_a_cell, here in _IN_A_TERMINAL:
        hint = hint.replace(in_a_cell, here)
    return hint


def state_word(task: Mapping[str, Any]) -> str:
    """Return a task's state in words. A task is shown as the first of its steps that waits for a person; a requested
    stop or pause shows unless it waits."""
    status = task["waiting"][0]["status"] if task["waiting"] else task["status"]
    if status in _ACTIVE and (task["stopping"] or task["pausing"]):
        return "Stopping" if task["stopping"] else "Pausing"
    if status == "WAITING_INPUT" and task["mode"] == "GRAPH":  # for a signal
        return "Waiting"
    return STATES[status]


def failure_lines(error: Mapping[str, str]) -> list[str]:
    """Return a task's error for people: what happened, and what to do."""
    return [visible_prose(text) for text in (error["message"], for_terminal(error["hint"])) if text]


def print_json(value: Any) -> None:
    print(json.dumps(value))


def print_result(value: Any, *lines: str, as_json: bool) -> int:
    """Print `value` as JSON, or the lines for people. Return the exit status 0."""
    print_json(value) if as_json else print(*lines, sep="\n")
    return 0


def print_notice(sentence: str) -> None:
    """Print to standard error, beside a command's output."""
    print(f"ozzie: {sentence}", file=sys.stderr, flush=True)


def cell(value: object, width: int) -> str:
    """Return one line of exactly `width` columns."""
    return padded(cut_columns(visible_label(str(value)), width), width)


def first_sentence_lines(text: str) -> Iterator[str]:
    """Yield the first sentence of a text, in lines indented by two columns."""
    for line in wrapped(first_sentence(text), LINE_WIDTH - 2):
        yield from (f"  {piece}" for piece in folded(line, LINE_WIDTH - 2))


def local_time(text: str | None, pattern: str = "%Y-%m-%d %H:%M") -> str:
    """Return a gateway's time in the local zone, or "" for None."""
    return datetime.fromisoformat(text).astimezone().strftime(pattern) if text else ""


def cost(value: int | None) -> str:
    return "cost unknown" if value is None else money(value)


def tokens(usage: Mapping[str, int] | None) -> str:
    return "" if usage is None else token_count(usage["input"] + usage["output"])


def agreed(question: str, *, about: str, facts: Iterable[str] = ()) -> bool:
    """Return whether a person at the terminal types yes; an interrupt counts as no. `about` says what they agree to,
    `facts` are lines above the question. Raises Misused without a terminal."""
    if not sys.stdin.isatty():
        raise Misused(f"Nobody can be asked here whether to {about}.", hint="Say so with --yes.")
    for line in facts:
        print(line, file=sys.stderr)
    try:
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        answer = ""
    if not answer:  # the line of the question is still open
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")


def named_folder(options: argparse.Namespace) -> str | None:
    """Return the absolute path of the folder that `--project` names."""
    return None if options.project is None else os.path.realpath(options.project)


def standard_input(what: str) -> str:
    """Read all of standard input as text; `what` names it in an error. Raises InputError."""
    if sys.stdin is None:
        raise InputError("Standard input is closed.")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise InputError(f"{what} is not UTF-8 text.") from None
