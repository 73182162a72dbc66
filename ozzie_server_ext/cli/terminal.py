"""What commands print to a terminal, and what they ask and read there."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from ozzie_server_ext.cli.parser import Misused
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.render.text import (
    LINE_WIDTH,
    cut_columns,
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
"""States of tasks, as people read them."""

_GO_ON = frozenset({"CREATED", "QUEUED", "RUNNING"})

WAYS: Mapping[str, str] = {
    "keyfile": "a key file that only you can read",
    "passphrase": "a passphrase",
    "keyring": "this machine's keyring",
}
"""What opens the vault."""

_END = re.compile(r"[.!?](?=\s+[^\sa-z])")
"""Of a sentence: a small letter goes on with it, as after "e.g."."""

_IN_A_TERMINAL = (
    ("Run the cell again", "Ask again"),
    ("run the cell again", "ask again"),
    ("%session resume", "ozzie sessions resume"),
    ("%session list", "ozzie sessions list"),
    ("another with %session new", "another with --session NAME"),
    ("%model", "--model"),
)
"""What hints say to do in a cell, and what does the same here; the gateway words them for cells."""


def for_terminal(hint: str) -> str:
    """A hint of the gateway's, with what one does in a terminal."""
    for in_a_cell, here in _IN_A_TERMINAL:
        hint = hint.replace(in_a_cell, here)
    return hint


def state_word(status: str, *, stopping: bool = False, pausing: bool = False) -> str:
    """The state of a task in words; one that is to end or to be held says so, unless it waits for a person."""
    if status in _GO_ON and (stopping or pausing):
        return "Stopping" if stopping else "Pausing"
    return STATES[status]


def failure_lines(error: Mapping[str, str]) -> list[str]:
    """A task's error for people: what happened, what to do."""
    return [visible_prose(text) for text in (error["message"], for_terminal(error["hint"])) if text]


def print_json(value: Any) -> None:
    print(json.dumps(value))


def cell(value: object, width: int) -> str:
    """One line of `width` columns."""
    return padded(cut_columns(visible_label(str(value)), width), width)


def first_sentence(text: str) -> Iterator[str]:
    """That of a text, in lines that are set in by two columns."""
    label = visible_label(text)
    end = _END.search(label)
    for line in wrapped(label[: end.end()] if end else label, LINE_WIDTH - 2):
        yield from (f"  {piece}" for piece in folded(line, LINE_WIDTH - 2))


def local_time(text: str | None, pattern: str = "%Y-%m-%d %H:%M") -> str:
    """A time of the gateway in the terminal's zone; "" for none."""
    return datetime.fromisoformat(text).astimezone().strftime(pattern) if text else ""


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def cost(value: int | None) -> str:
    return "cost unknown" if value is None else money(value)


def tokens(usage: Mapping[str, int] | None) -> str:
    return "" if usage is None else token_count(usage["input"] + usage["output"])


def agreed(question: str, *, about: str, facts: Iterable[str] = ()) -> bool:
    """Whether a person at the terminal types yes; an interrupt is a no. `about` says what they would be asked for,
    `facts` are lines above the question. Raises Misused where there is nobody."""
    if not sys.stdin.isatty():
        raise Misused(f"Nobody can be asked here whether to {about}.", hint="Say so with --yes.")
    for line in facts:
        print(line, file=sys.stderr)
    try:
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        answer = ""
    if not answer:  # nobody has ended the line of the question
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")


def standard_input(what: str) -> str:
    """All of it as text; `what` names it in a refusal. Raises InputError."""
    if sys.stdin is None:
        raise InputError("Standard input is closed.")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise InputError(f"{what} is not UTF-8 text.") from None
