"""Approvals by the keyboard, where a front end has no widgets: a console (UX §5)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.asked import Asked
from ozzie_server_ext.render.console import detail_lines


class Keyboard(Protocol):
    """What is needed of a front end that has one."""

    async def read_line(self, prompt: str) -> str:
        """What a person types."""
        ...


def prompt_of(asked: Asked) -> str:
    """The answers that there are."""
    session = "[s] this session  " if asked.cover else ""
    return f"[y] once  {session}[n] reject  [d] details  > "


def reading_of(asked: Asked, line: str) -> JsonObject | None:
    """The answer that a line is, as the parameters of `approval.answer`; None where it is none. Nothing but an exact
    `y` or `s` is a yes; what stands behind `n` is the comment."""
    typed = line.strip()
    named: JsonObject = {"approval_id": asked.approval_id, "binds": asked.binds}
    if typed == "y":
        return {**named, "answer": "approve", "extent": "once"}
    if typed == "s" and asked.cover:
        return {**named, "answer": "approve", "extent": "session"}
    if typed == "n" or typed.startswith("n "):
        return {**named, "answer": "reject", "comment": typed[1:].strip()}
    return None


async def ask(
    asked: Asked,
    keyboard: Keyboard,
    answer: Callable[[JsonObject], Awaitable[object]],
    say: Callable[[str], None],
) -> None:
    """Ask until there is an answer, and pass it on. What the gateway has against it is said."""
    while True:
        line = await keyboard.read_line(prompt_of(asked))
        if line.strip() == "d":
            say("\n".join(detail_lines(asked)) + "\n")
            continue
        params = reading_of(asked, line)
        if params is None:
            continue
        try:
            await answer(params)
        except asyncio.CancelledError:
            raise
        except OzzieError as error:
            say(f"{error} {error.hint}".rstrip() + "\n")
        return
