"""Parse cells: a message, a skill run, a replay, magics, or Python. Pure."""

import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ozzie_server_ext.domain.json import JsonObject

_MAGIC = re.compile(r"%([A-Za-z_]\w*)(?:[ \t]+(.*))?")
_CELL_MAGIC = re.compile(r"%%([A-Za-z_]\w*)(?:[ \t]+(.*))?")


@dataclass(frozen=True, slots=True)
class Message:
    """Text for the agent. `more`: further parameters of `message.send`."""

    text: str
    more: "JsonObject" = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """A skill, or a prompt of an MCP server, to run instead of a message; `words` is its input as typed, `text` the
    whole line. `more`: further parameters of `message.send`."""

    name: str
    words: tuple[str, ...]
    text: str
    more: "JsonObject" = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replay:
    """A recorded session to step through; `argument` is what follows the command."""

    argument: str


@dataclass(frozen=True, slots=True)
class MagicLine:
    """One `%` line."""

    name: str
    argument: str


@dataclass(frozen=True, slots=True)
class Python:
    """Code for the kernel's own Python."""

    code: str


@dataclass(frozen=True, slots=True)
class Mistake:
    """An invalid cell; `sentence` says what to do."""

    sentence: str


OwnCell: TypeAlias = Message | Run | Replay | Mistake | tuple[MagicLine, ...]
"""A cell that is not Python."""
Cell: TypeAlias = OwnCell | Python

RUN = "run"
REPLAY = "replay"


def parse(text: str) -> Cell:
    """Parse a cell. Only a `%` directly followed by a letter makes a magic, so "% of sales?" is a question."""
    stripped = text.strip()
    first, _, rest = stripped.partition("\n")
    if found := _CELL_MAGIC.fullmatch(first.rstrip()):
        if found[1] == "python":
            return Python(rest)
        return Mistake(f"There is no cell magic %%{found[1]}. There is only %%python; %help lists the % commands.")
    lines = [line.strip() for line in stripped.splitlines() if line.strip()]
    matches = [_MAGIC.fullmatch(line) for line in lines]
    if not lines or matches[0] is None:
        return Message(text)
    found_magics = tuple(MagicLine(match[1], (match[2] or "").strip()) for match in matches if match is not None)
    if len(found_magics) < len(lines):
        return Mistake("A cell holds either magics, one a line, or a message. Put the message into a separate cell.")
    alone = next((magic for magic in found_magics if magic.name in (RUN, REPLAY)), None)
    if alone is not None and len(lines) > 1:
        return Mistake(f"Put %{alone.name} into a separate cell.")
    if alone is not None:
        return _run(lines[0], alone) if alone.name == RUN else Replay(alone.argument)
    return found_magics


def _run(text: str, magic: MagicLine) -> Run | Mistake:
    try:
        words = shlex.split(magic.argument)
    except ValueError:
        return Mistake('A quotation mark is never closed. Write values with blanks so: %run NAME topic="unit prices"')
    if not words:
        return Mistake("Which skill? Write %run NAME key=value; %skills lists them.")
    return Run(words[0], tuple(words[1:]), text)
