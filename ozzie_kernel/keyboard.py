"""What a turn asks, answered by the keyboard where a front end has no widgets: a console (UX §5)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.asked import Asked
from ozzie_server_ext.render.console import approval_lines, detail_lines, question_lines
from ozzie_server_ext.render.question import SKIP, Choice, Question
from ozzie_server_ext.render.turnview import TurnView


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


async def ask(
    what: ToType,
    keyboard: Keyboard,
    answer: Callable[[str, JsonObject], Awaitable[object]],
    say: Callable[[str], None],
) -> None:
    """Ask until there is an answer, and pass it on. What the gateway has against it is said."""
    prompt = f"{what.question}{what.prompt}"
    while True:
        line = (await keyboard.read_line(prompt)).strip()
        if (params := what.read(line)) is not None:
            break
        prompt = f"{what.details if line == 'd' else ''}{what.prompt}"
    try:
        await answer(what.method, params)
    except OzzieError as error:
        say(f"{error} {error.hint}".rstrip() + "\n")


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


def _question(question: Question, task_id: str) -> ToType:
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


def _choices(question: Question) -> dict[str, Choice]:
    """What is typed for each answer: a number, and `-` for none, as a number or a letter may be the answer itself."""
    numbered = [choice for choice in question.choices if choice.name != SKIP and not choice.takes_text]
    keys = {str(number): choice for number, choice in enumerate(numbered, 1)}
    skip = next((choice for choice in question.choices if choice.name == SKIP), None)
    return {**keys, "-": skip} if skip else keys


def _own_words(question: Question) -> Choice | None:
    return next((choice for choice in question.choices if choice.takes_text), None)


def _read_choice(question: Question, task_id: str, line: str) -> JsonObject | None:
    answer: JsonObject = {"task_id": task_id, "prompt_id": question.prompt_id}
    choices, own = _choices(question), _own_words(question)
    if line in choices:
        return {**answer, "option": choices[line].name}
    mistyped = "1" in choices and line.isdigit() and len(line) == 1
    return {**answer, "option": own.name, "text": line} if own and line and not mistyped else None
