"""A server's questions to a person during a call (elicitation): one prompt a value, through the same record as all
prompts. The server's words are shown as its own; nothing like a password is asked for."""

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import date, datetime

from ozzie_server_ext.domain.approvals import SKIP
from ozzie_server_ext.domain.events import PromptOption
from ozzie_server_ext.plugins.secret_words import names_secret
from ozzie_server_ext.protocol.tool_host import Elicit, Field, Given
from ozzie_server_ext.render.text import cut_end, quoted, visible_label, visible_prose
from ozzie_server_ext.tools.base import PersonPrompt, PersonSaid
from ozzie_server_ext.tools.questions import TEXT

MAX_QUESTIONS = 5
"""Questions of a server in one call; what it asks after that is declined."""
ASKING_S = 900.0
"""How long all questions of one call may wait together."""
_MAX_TRIES = 3
_DIGITS = 9
YES, NO, DEFAULT, EMPTY, DECLINE = "yes", "no", "default", "empty", "decline"

AskPerson = Callable[[PersonPrompt], Awaitable[PersonSaid | None]]
"""Asks the person of the turn; None if nobody is there or decides in time."""


class Questions:
    """The questions of a server during one call. `told` are sentences about those that nobody was asked."""

    def __init__(self, server: str, ask: AskPerson, *, attended: bool) -> None:
        self._server = server
        self._ask = ask
        self._attended = attended
        self._count = 0
        self._left_s = ASKING_S
        self.told: list[str] = []

    async def answered(self, elicit: Elicit) -> Given:
        """Return what a person says. Raises what `ask` raises."""
        self._count += 1
        if not self._attended:
            return self._refused("Nobody is here to be asked.")
        if self._count > MAX_QUESTIONS:
            return self._refused(f"It asks more than {MAX_QUESTIONS} times.")
        if (secret := _secret_in(elicit)) is not None:
            return self._refused(f"It asks for {quoted(secret)}, which looks like a secret.")
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._left_s):
                return await self._asked(elicit)
        except TimeoutError:
            return Given(action="cancel")
        finally:
            self._left_s -= time.monotonic() - began

    async def _asked(self, elicit: Elicit) -> Given:
        if elicit.url:
            return await self._visit(elicit)
        if not elicit.fields:
            return await self._confirmed(elicit)
        values: dict[str, str | float | bool] = {}
        for at, field in enumerate(elicit.fields, 1):
            given = await self._value(elicit, field, at)
            if isinstance(given, Given):
                return given
            values |= given
        return Given(action="accept", values=values)

    def _refused(self, why: str) -> Given:
        self.told.append(f"{why} Nobody was asked.")
        return Given(action="decline")

    async def _visit(self, elicit: Elicit) -> Given:
        notes = (
            f"It wants you to open {quoted(elicit.url)}. Ozzie does not open it.",
            "Open it yourself if you know that address, and say so here.",
        )
        said = await self._ask(self._prompt(elicit.message, notes, (PromptOption(name=YES, label="I opened it"),)))
        return _action(said) or Given(action="accept")

    async def _confirmed(self, elicit: Elicit) -> Given:
        said = await self._ask(self._prompt(elicit.message, (), (PromptOption(name=YES, label="Yes"),)))
        return _action(said) or Given(action="accept")

    async def _value(self, elicit: Elicit, field: Field, at: int) -> dict[str, str | float | bool] | Given:
        """Return the value of a field, none if it was left empty, or what ends the form."""
        lead = f"{at} of {len(elicit.fields)}: " if len(elicit.fields) > 1 else ""
        notes = tuple(_notes(field, lead))
        problem = ""
        for _ in range(_MAX_TRIES):
            shown = (*notes, problem) if problem else notes
            said = await self._ask(self._prompt(elicit.message, shown, tuple(_options(field))))
            if (end := _action(said)) is not None or said is None:
                return end or Given(action="cancel")
            if said.option == EMPTY:
                return {}
            try:
                return {field.name: _parsed(field, said)}
            except ValueError as error:
                problem = f"Not taken: {error}"
        return Given(action="cancel")

    def _prompt(self, message: str, notes: tuple[str, ...], options: tuple[PromptOption, ...]) -> PersonPrompt:
        return PersonPrompt(
            server=self._server,
            question=f"The server {quoted(self._server)} asks: {visible_prose(message)}",
            notes=(*notes, "These are the server's words. It gets what you answer."),
            options=(
                *options,
                PromptOption(name=DECLINE, label="Decline", help="The server is told that you don't want to"),
                PromptOption(name=SKIP, label="Cancel"),
            ),
        )


def _secret_in(elicit: Elicit) -> str | None:
    """Return the name of a value that looks like a secret; None if there is none. The words about all of them count
    for each that could hold one: a person reads them with it."""
    for field in elicit.fields:
        choices = [words for choice in field.choices for words in (choice.value, choice.title)]
        about = (field.name, field.title, field.description, *choices)
        if field.format == "password" or any(map(names_secret, about)):
            return field.title or field.name
    typed = next((field for field in elicit.fields if field.kind != "boolean"), None)
    return None if typed is None or not names_secret(elicit.message) else typed.title or typed.name


def _action(said: PersonSaid | None) -> Given | None:
    if said is None or said.option == SKIP:
        return Given(action="cancel")
    return Given(action="decline") if said.option == DECLINE else None


def _notes(field: Field, lead: str) -> Iterator[str]:
    about = f": {visible_label(field.description)}" if field.description else ""
    yield f"{lead}{quoted(field.title or field.name)}{about}"
    if field.kind == "choice" and len(field.choices) > _DIGITS:
        yield f"One of {', '.join(quoted(choice.title or choice.value) for choice in field.choices)}"
    elif field.kind in ("number", "integer", "text"):
        what = {"number": "A number", "integer": "A whole number", "text": "A text"}[field.kind]
        bounds = [f"at least {field.least:g}"] if field.least is not None else []
        bounds += [f"at most {field.most:g}"] if field.most is not None else []
        long = " characters" if field.kind == "text" and bounds else ""
        form = f", as {visible_label(field.format)}" if field.format else ""
        yield f"{what}{', ' if bounds else ''}{' and '.join(bounds)}{long}{form}."


def _options(field: Field) -> Iterator[PromptOption]:
    match field.kind:
        case "boolean":
            yield PromptOption(name=YES, label="Yes")
            yield PromptOption(name=NO, label="No")
        case "choice" if len(field.choices) <= _DIGITS:
            for number, choice in enumerate(field.choices, 1):
                yield PromptOption(name=str(number), label=visible_label(choice.title or choice.value))
        case _:
            yield PromptOption(name=TEXT, label="Answer", takes_text=True)
    if field.default is not None:
        shown = {True: "yes", False: "no"}.get(field.default) if isinstance(field.default, bool) else field.default
        label = f"{shown:g}" if isinstance(shown, float) else str(shown)
        yield PromptOption(name=DEFAULT, label=f"Take {cut_end(visible_label(label), 60)}")
    elif not field.is_required:
        yield PromptOption(name=EMPTY, label="Leave it empty")


def _parsed(field: Field, said: PersonSaid) -> str | float | bool:
    """Return the value that a person gave. Raises ValueError with a sentence for one that does not fit."""
    if said.option == DEFAULT and field.default is not None:
        return field.default
    if field.kind == "boolean":
        return said.option == YES
    if field.kind == "choice":
        if said.option.isdigit():
            return field.choices[int(said.option) - 1].value
        text = said.text.strip()
        for choice in field.choices:
            if text in (choice.value, choice.title, visible_label(choice.title or choice.value)) and text:
                return choice.value
        raise ValueError("it is none of the choices.")
    if field.kind == "text":
        return _text(field, said.text)
    return _number(field, said.text.strip())


def _text(field: Field, text: str) -> str:
    if field.least is not None and len(text) < field.least:
        raise ValueError(f"it has less than {field.least:g} characters.")
    if field.most is not None and len(text) > field.most:
        raise ValueError(f"it has more than {field.most:g} characters.")
    try:
        match field.format:
            case "email" if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", text):
                raise ValueError
            case "uri" if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", text):
                raise ValueError
            case "date":
                date.fromisoformat(text)
            case "date-time":
                datetime.fromisoformat(text)
            case _:
                pass
    except ValueError:
        raise ValueError(f"it is no {visible_label(field.format)}.") from None
    return text


def _number(field: Field, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or (field.kind == "integer" and not value.is_integer()):
        raise ValueError("it is no number." if field.kind == "number" else "it is no whole number.")
    if field.least is not None and value < field.least:
        raise ValueError(f"it is less than {field.least:g}.")
    if field.most is not None and value > field.most:
        raise ValueError(f"it is more than {field.most:g}.")
    return value
