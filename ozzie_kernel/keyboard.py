"""What a turn asks, answered by the keyboard where a front end has no widgets: a console."""

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
from ozzie_server_ext.render.questions import Asked, Choice, QuestionView
from ozzie_server_ext.render.text import wrapped
from ozzie_server_ext.render.turnview import TurnView

_UNSEEN = frozenset({"Cc", "Cf"})
"""The categories of control characters, and of such as only format."""
MOST_BLANK = 5
"""Lines with nothing in them, before nobody is taken to be there: closed input gives them for ever."""
_open: set[asyncio.Task[None]] = set()
"""What asks, or passes an answer on: it may outlive its display, and a loop alone does not keep it."""


class Keyboard(Protocol):
    """What is needed of a front end that has one."""

    async def read_line(self, prompt: str) -> str:
        """What a person types."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToType:
    """Something that a line of text answers. `question` stands before the first `prompt`, and within it: what is
    printed comes another way, and nobody is to be asked for a yes to what is not there yet. `read` makes the parameters
    of the gateway's `method` of a line, None of one that is no answer; `details` is what a `d` shows."""

    key: str
    question: str
    prompt: str
    method: str
    read: Callable[[str], JsonObject | None]
    details: str = ""


def first_to_type(view: TurnView, now: datetime) -> ToType | None:
    """What is to be answered next: the oldest approval that the kernel may pass on a yes to, else the question."""
    for asked in view.asked:
        if asked.by_kernel and not asked.expired:
            return _approval(asked, now)
    return None if view.question is None else _question(view.question, view.task_id)


def too_late(key: str, view: TurnView) -> str:
    """What is told where this was asked and is not any more, as the prompt may stand there yet; empty where it is, or
    is shown in another way."""
    if key in (each.approval_id for each in view.asked) or (view.question and view.question.prompt_id == key):
        return ""
    by = dict(view.answers).get(key)
    said = f"Already answered: {by}." if by else "It is not asked any more."
    return _lines(wrapped(f"{said} An answer here does nothing."))


class Asking:
    """A person is asked until there is an answer, which `answer` passes on. What the gateway has against it is said."""

    def __init__(
        self,
        what: ToType,
        keyboard: Keyboard,
        answer: Callable[[str, JsonObject], Awaitable[object]],
        say: Callable[[str], None],
    ) -> None:
        self.key = what.key
        self._what = what
        self._answer = answer
        self._say = say
        self._is_answered = False
        self.work = asyncio.create_task(self._ask(keyboard), name="a person is asked")
        _open.add(self.work)
        self.work.add_done_callback(_open.discard)

    def withdraw(self) -> bool:
        """Ask no more. False where there is an answer by now: it is passed on all the same, and what becomes of it is
        the gateway's to say."""
        if not self._is_answered:
            self.work.cancel()
        return not self._is_answered

    async def _ask(self, keyboard: Keyboard) -> None:
        prompt, blank = f"{self._what.question}{self._what.prompt}", 0
        while True:
            line = _seen(await keyboard.read_line(prompt))
            blank = 0 if line else blank + 1
            if blank == MOST_BLANK:
                self._say("Not answered here. It still waits: ozzie approvals list, ozzie tasks list.\n")
                return
            if (params := self._what.read(line)) is not None:
                break
            prompt = f"{self._what.details if line == 'd' else ''}{self._what.prompt}"
        self._is_answered = True
        try:
            await self._answer(self._what.method, params)
        except OzzieError as error:
            self._say(f"{error} {error.hint}".rstrip() + "\n")


def _seen(line: str) -> str:
    """The line without the space around it; empty where nothing in it can be seen: a Ctrl-D comes as a character."""
    is_seen = any(not char.isspace() and category(char) not in _UNSEEN for char in line)
    return line.strip() if is_seen else ""


def _approval(asked: Asked, now: datetime) -> ToType:
    session = "[s] this session  " if asked.cover else ""
    return ToType(
        key=asked.approval_id,
        question=_lines(approval_lines(asked, now)),
        prompt=f"[y] once  {session}[n] reject  [d] details  > ",
        method="approval.answer",
        read=partial(_read_approval, asked),
        details=_lines(detail_lines(asked)),
    )


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _read_approval(asked: Asked, line: str) -> JsonObject | None:
    """Nothing but an exact `y` or `s` is a yes; what stands behind `n` is the comment."""
    seen: JsonObject = {"approval_id": asked.approval_id, "binds": asked.binds}
    if line == "y":
        return {**seen, "answer": "approve", "extent": "once"}
    if line == "s" and asked.cover:
        return {**seen, "answer": "approve", "extent": "session"}
    if line == "n" or line.startswith("n "):
        return {**seen, "answer": "reject", "comment": line[1:].strip()}
    return None


def _question(question: QuestionView, task_id: str) -> ToType:
    choices = _choices(question)
    named = "  ".join(f"[{key}] {choice.label}" for key, choice in choices.items())
    words = "  or your own words" if _own_words(question) else ""
    return ToType(
        key=question.prompt_id,
        question=_lines(question_lines(question)),
        prompt=f"{named}{words}  > ",
        method="task.answer",
        read=partial(_read_choice, question, task_id),
    )


def _choices(question: QuestionView) -> dict[str, Choice]:
    """What is typed for each answer: a number, and `-` for none, as a number or a letter may be the answer itself."""
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
