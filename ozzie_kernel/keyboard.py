"""A turn's questions on a console, answered at the keyboard because the front end has no widgets."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol
from unicodedata import category

from ozzie_server_ext.domain.approvals import SKIP
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.console import approval_lines, detail_lines, question_lines
from ozzie_server_ext.render.questions import Choice, PendingApproval, QuestionView
from ozzie_server_ext.render.text import wrapped
from ozzie_server_ext.render.turnview import TurnView

_UNSEEN = frozenset({"Cc", "Cf"})
"""Unicode categories of control and format characters."""
MAX_BLANK = 5
"""Empty lines before we assume that nobody is there: closed input returns them for ever."""
_open: set[asyncio.Task[None]] = set()
"""Running prompts: they may outlive their display, and the loop alone does not keep tasks alive."""


class Keyboard(Protocol):
    """A front end with a keyboard."""

    async def read_line(self, prompt: str) -> str:
        """Read a line that a person types."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A question that a line of text answers. `question` is printed as part of the first `prompt`: other output comes
    another way, and nobody should approve a call that is not shown yet. `read` turns a line into parameters of the
    gateway's `method`, or None if it is no answer; a `d` prints `details`."""

    key: str
    question: str
    prompt: str
    method: str
    read: Callable[[str], JsonObject | None]
    details: str = ""


def next_prompt(view: TurnView, now: datetime) -> Prompt | None:
    """Return the next prompt: the oldest approval that the kernel may pass on, else the question."""
    for approval in view.asked:
        if approval.by_kernel and not approval.expired:
            return _approval_prompt(approval, now)
    return None if view.question is None else _question_prompt(view.question, view.task_id)


def withdrawn_notice(key: str, view: TurnView) -> str:
    """Return a notice that an open prompt no longer counts; "" if it is still asked, or is shown in another way."""
    if key in (each.approval_id for each in view.asked) or (view.question and view.question.prompt_id == key):
        return ""
    by = dict(view.answers).get(key)
    reason = f"Already answered: {by}." if by else "This is no longer asked."
    return _lines(wrapped(f"{reason} An answer here does nothing."))


class Asking:
    """Asks a person until there is an answer, and passes it to `answer`. Prints the gateway's objection, if any."""

    def __init__(
        self,
        prompt: Prompt,
        keyboard: Keyboard,
        answer: Callable[[str, JsonObject], Awaitable[object]],
        say: Callable[[str], None],
    ) -> None:
        self.key = prompt.key
        self._prompt = prompt
        self._answer = answer
        self._say = say
        self._is_answered = False
        self.work = asyncio.create_task(self._ask(keyboard), name="ozzie prompt")
        _open.add(self.work)
        self.work.add_done_callback(_open.discard)

    def withdraw(self) -> bool:
        """Stop asking. Return False if there is an answer already, which is passed on all the same."""
        if not self._is_answered:
            self.work.cancel()
        return not self._is_answered

    async def _ask(self, keyboard: Keyboard) -> None:
        prompt, blank = f"{self._prompt.question}{self._prompt.prompt}", 0
        while True:
            line = _visible(await keyboard.read_line(prompt))
            blank = 0 if line else blank + 1
            if blank == MAX_BLANK:
                self._say("Not answered here. It still waits: ozzie approvals list, ozzie tasks list.\n")
                return
            if (params := self._prompt.read(line)) is not None:
                break
            prompt = f"{self._prompt.details if line == 'd' else ''}{self._prompt.prompt}"
        self._is_answered = True
        try:
            await self._answer(self._prompt.method, params)
        except OzzieError as error:
            self._say(f"{error} {error.hint}".rstrip() + "\n")


def _visible(line: str) -> str:
    """Strip the line; return "" if nothing in it is visible: a Ctrl-D arrives as a character."""
    is_seen = any(not char.isspace() and category(char) not in _UNSEEN for char in line)
    return line.strip() if is_seen else ""


def _approval_prompt(asked: PendingApproval, now: datetime) -> Prompt:
    session = "[s] this session  " if asked.cover else ""
    return Prompt(
        key=asked.approval_id,
        question=_lines(approval_lines(asked, now)),
        prompt=f"[y] once  {session}[n] reject  [d] details  > ",
        method="approval.answer",
        read=partial(_read_approval, asked),
        details=_lines(detail_lines(asked)),
    )


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _read_approval(asked: PendingApproval, line: str) -> JsonObject | None:
    """Only an exact `y` or `s` approves; text after `n` is the comment."""
    seen: JsonObject = {"approval_id": asked.approval_id, "binds": asked.binds}
    if line == "y":
        return {**seen, "answer": "approve", "extent": "once"}
    if line == "s" and asked.cover:
        return {**seen, "answer": "approve", "extent": "session"}
    if line == "n" or line.startswith("n "):
        return {**seen, "answer": "reject", "comment": line[1:].strip()}
    return None


def _question_prompt(question: QuestionView, task_id: str) -> Prompt:
    choices = _choices(question)
    named = "  ".join(f"[{key}] {choice.label}" for key, choice in choices.items())
    words = "  or your own words" if _own_words(question) else ""
    return Prompt(
        key=question.prompt_id,
        question=_lines(question_lines(question)),
        prompt=f"{named}{words}  > ",
        method="task.answer",
        read=partial(_read_choice, question, task_id),
    )


def _choices(question: QuestionView) -> dict[str, Choice]:
    """Return the key for each answer: a number, and `-` to skip, because a number or letter may itself be an answer."""
    numbered = [choice for choice in question.choices if choice.name != SKIP and not choice.takes_text]
    keys = {str(number): choice for number, choice in enumerate(numbered, 1)}
    skip = next((choice for choice in question.choices if choice.name == SKIP), None)
    return {**keys, "-": skip} if skip else keys


def _own_words(question: QuestionView) -> Choice | None:
    return next((choice for choice in question.choices if choice.takes_text), None)


def _read_choice(question: QuestionView, task_id: str, line: str) -> JsonObject | None:
    answer: JsonObject = {"task_id": task_id, "prompt_id": question.prompt_id}
    choices, own = _choices(question), _own_words(question)
    if line in choices:
        return {**answer, "option": choices[line].name}
    mistyped = "1" in choices and line.isdigit() and len(line) == 1
    return {**answer, "option": own.name, "text": line} if own and line and not mistyped else None
