"""Parser for JSON with comments and trailing commas that keeps positions, so that errors can name line and column.

Libraries strip the comments and lose the positions. Comments are `//` to the end of the line and `/* … */`.
"""

import errno
import json
import math
import os
import re
import stat
from bisect import bisect_right
from pathlib import Path
from typing import TypeAlias

import msgspec

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json

KeyPath: TypeAlias = tuple[str | int, ...]

MAX_CHARS = 1 << 20
MAX_DEPTH = 64

_LINE_END = re.compile("\n")
_SPACE = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}


class SourceLocation(msgspec.Struct, frozen=True):
    """A position in a file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}, column {self.column}"


class Document(msgspec.Struct, frozen=True):
    """A parsed file: its value, and the location of each key and element. A member's location is that of its key."""

    value: Json
    places: dict[KeyPath, SourceLocation] = msgspec.field(default_factory=dict[KeyPath, SourceLocation])


class JsoncError(InputError):
    """The text is not JSON with comments; `place` is the location of the error."""

    code = "config.syntax"

    def __init__(self, message: str, place: SourceLocation) -> None:
        super().__init__(f"{place}: {message}", hint="Correct the file there and try again.")
        self.place = place


def parse(text: str, file: str) -> Document:
    """Parse `text`; `file` is its name in errors.

    Raises JsoncError.
    """
    parser = _Parser(text, file)
    if len(text) > MAX_CHARS:
        raise JsoncError(f"the file is larger than {MAX_CHARS:,} characters.", SourceLocation(file, 1, 1))
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
        self.places: dict[KeyPath, SourceLocation] = {}
        self.lines = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def place(self, at: int) -> SourceLocation:
        line = bisect_right(self.lines, at)
        return SourceLocation(self.file, line, at - self.lines[line - 1] + 1)

    def error(self, message: str, at: int | None = None) -> JsoncError:
        return JsoncError(message, self.place(self.at if at is None else at))

    def skip(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        if self.text.startswith("/*", self.at):
            raise self.error("this comment is never closed.")

    def value(self, path: KeyPath, depth: int) -> Json:
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

    def object(self, path: KeyPath, depth: int) -> Json:
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
                raise self.error(f'the key "{key}" appears twice.', key_at)
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

    def array(self, path: KeyPath, depth: int) -> Json:
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
            raise self.error("this text has an invalid escape.") from None
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


MAX_BYTES = 4 << 20
"""Maximum size of a file that is read."""


class ConfigError(InputError):
    """A configuration file is invalid; each line of the message names file, line, column and key."""

    code = "config.invalid"


def content_if_there(file: Path) -> bytes | None:
    """Return a file's bytes, or None if it does not exist. Anything unreadable in its place is an error.

    Raises ConfigError.
    """
    try:
        return _read(file)
    except FileNotFoundError:
        if file.is_symlink():
            raise ConfigError(f"{file}: is a broken link.", hint="Fix the link or remove it.") from None
        return None
    except NotADirectoryError:
        return None
    except OSError as error:
        raise ConfigError(f"{file}: can't be read: {error.strerror}.") from None


def content_of(file: Path) -> bytes:
    """Return a file's bytes. Raises ConfigError, also if it does not exist."""
    content = content_if_there(file)
    if content is None:
        raise ConfigError(f"{file}: does not exist.")
    return content


def _read(file: Path) -> bytes:
    """Read a regular file, up to the limit and without waiting for a pipe. Raises ConfigError and OSError."""
    try:
        with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise _not_a_file(file)
            content = opened.read(MAX_BYTES + 1)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.ENXIO):  # a folder, a socket
            raise _not_a_file(file) from None
        raise
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{file}: is larger than {MAX_BYTES >> 20} MiB.", hint="Make it smaller or move it away.")
    return content


def _not_a_file(file: Path) -> ConfigError:
    return ConfigError(f"{file}: is not a file.", hint="Move it away.")


def text_of(content: bytes, file: Path) -> str:
    """Decode a file's content. Raises ConfigError."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text, byte {error.start} is wrong.") from None


def parse_object(content: bytes, file: Path) -> Document:
    """Parse a file's content, which must be an object. Raises ConfigError or JsoncError."""
    document = parse(text_of(content, file), str(file))
    if not isinstance(document.value, dict):
        raise ConfigError(f"{document.places[()]}: expected an object in braces.")
    return document
