"""JSON with comments and trailing commas, read so that every later complaint can name its line and column.

Libraries strip the comments and lose the positions; a settings file without a position in its error costs a user
an hour. Comments are `//` to the end of the line and `/* … */`.
"""

import json
import math
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TypeAlias

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json

Path: TypeAlias = tuple[str | int, ...]

MAX_BYTES = 1 << 20
MAX_DEPTH = 64

_LINE_END = re.compile("\n")
_SPACE = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file, both counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its value, and where each key and element stands. The place of a member is that of its key."""

    value: Json
    places: dict[Path, Place] = field(default_factory=dict[Path, Place])


class JsoncError(InputError):
    """The text is not JSON with comments; `place` says where it stops being so."""

    code = "config.syntax"

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(f"{place}: {message}", hint="Correct the file there and try again.")
        self.place = place


def parse(text: str, file: str) -> Document:
    """The document in `text`; `file` is how errors call it.

    Raises JsoncError.
    """
    parser = _Parser(text, file)
    if len(text) > MAX_BYTES:
        raise JsoncError(f"the file is larger than {MAX_BYTES:,} characters.", Place(file, 1, 1))
    parser.skip()
    value = parser.value((), 0)
    parser.skip()
    if parser.at < len(text):
        raise parser.error("there is more text after the end of the value.")
    return Document(value, parser.places)


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.at = 0
        self.places: dict[Path, Place] = {}
        self.lines = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def place(self, at: int) -> Place:
        line = bisect_right(self.lines, at)
        return Place(self.file, line, at - self.lines[line - 1] + 1)

    def error(self, message: str, at: int | None = None) -> JsoncError:
        return JsoncError(message, self.place(self.at if at is None else at))

    def skip(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        if self.text.startswith("/*", self.at):
            raise self.error("this comment is never closed.")

    def value(self, path: Path, depth: int) -> Json:
        self.places.setdefault(path, self.place(self.at))
        start = self.text[self.at : self.at + 1]
        if start in ("{", "[") and depth == MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH} levels.")
        if start == "{":
            return self.object(path, depth)
        if start == "[":
            return self.array(path, depth)
        if start == '"':
            return self.string()
        if match := _NUMBER.match(self.text, self.at):
            return self.number(match.group())
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        if not start:
            raise self.error("the file ends where a value should be.")
        raise self.error(f"expected a value, found {self.text[self.at : self.at + 12]!r}.")

    def object(self, path: Path, depth: int) -> Json:
        found: dict[str, Json] = {}
        self.at += 1
        while True:
            self.skip()
            if self.take("}"):
                return found
            key_at = self.at
            if not self.text.startswith('"', self.at):
                raise self.error('expected a key in double quotes or "}".')
            key = self.string()
            if key in found:
                raise self.error(f'the key "{key}" stands twice.', key_at)
            here = (*path, key)
            self.places[here] = self.place(key_at)
            self.skip()
            if not self.take(":"):
                raise self.error(f'expected ":" after "{key}".')
            self.skip()
            found[key] = self.value(here, depth + 1)
            self.skip()
            if not self.take(",") and not self.text.startswith("}", self.at):
                raise self.error('expected "," or "}".')

    def array(self, path: Path, depth: int) -> Json:
        found: list[Json] = []
        self.at += 1
        while True:
            self.skip()
            if self.take("]"):
                return found
            found.append(self.value((*path, len(found)), depth + 1))
            self.skip()
            if not self.take(",") and not self.text.startswith("]", self.at):
                raise self.error('expected "," or "]".')

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if not match:
            raise self.error("this text is never closed on its line.")
        try:
            value: str = json.loads(match.group())
            value.encode()
        except ValueError:
            raise self.error("this text has an escape that is no character.") from None
        self.at = match.end()
        return value

    def number(self, digits: str) -> Json:
        value = float(digits)
        if not math.isfinite(value):
            raise self.error("this number is too large.")
        self.at += len(digits)
        return value if set(digits) & set(".eE") else int(digits)

    def take(self, sign: str) -> bool:
        if self.text.startswith(sign, self.at):
            self.at += len(sign)
            return True
        return False
