"""What the offline script is made of: what it has seen of a turn, and what it does next."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ozzie_server_ext.domain.json import Json, JsonObject

_PATH = re.compile(r"@(?:\"([^\"]+)\"|(\S+))|(?<![\w/@])((?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,9})\b")


@dataclass(frozen=True, slots=True)
class Say:
    """The answer, in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Wants a tool to run before it answers."""

    tool: str
    args: JsonObject


@dataclass(frozen=True, slots=True)
class Seen:
    """What a tool of this turn gave: its data, or the sentence that says why it gave none."""

    tool: str
    data: Json
    error: str = ""


Move: TypeAlias = Say | Ask
Rule: TypeAlias = Callable[[str, Sequence[Seen]], Move | None]


def given_by(tool: str, seen: Sequence[Seen]) -> Seen | None:
    """The last that this tool gave in this turn."""
    return next((found for found in reversed(seen) if found.tool == tool), None)


def path_in(question: str) -> str:
    """The first file that the question names; empty where it names none."""
    found = _PATH.search(question)
    if not found:
        return ""
    return found[1] or (found[2] or found[3]).rstrip(".,;:!?)'\"`").rstrip("/")
