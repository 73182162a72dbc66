"""What a turn asks a person, as the front ends show it (UX §2.5, §2.6)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One answer that may be given: what the command line and REST call it, and what a button says. `help` is a line
    about it; one that `takes_text` is given in words."""

    name: str
    label: str
    help: str = ""
    takes_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a turn asks a person, and waits for. `notes` are sentences below it."""

    prompt_id: str
    kind: str
    sentence: str
    notes: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()


def question_of(payload: Mapping[str, Any]) -> Question:
    """The question of a `prompt.requested`."""
    choices = tuple(
        Choice(
            name=str(option.get("name", "")),
            label=str(option.get("label", "")),
            help=str(option.get("help", "")),
            takes_text=bool(option.get("takes_text")),
        )
        for option in payload.get("options") or ()
    )
    return Question(
        prompt_id=str(payload.get("prompt_id", "")),
        kind=str(payload.get("kind", "")),
        sentence=str(payload.get("question", "")),
        notes=tuple(str(note) for note in payload.get("notes") or ()),
        choices=choices,
    )


def way_to_answer(task_id: str, choice: Choice) -> str:
    """The command that gives this answer."""
    words = ' "TEXT"' if choice.takes_text else ""
    return f"ozzie tasks answer {task_id} {choice.name}{words}"
