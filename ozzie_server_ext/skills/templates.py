"""Templates in the texts of a skill: `{{name}}` for variables and outputs of earlier steps.

A text is filled in once. Braces in inserted values stay text: what a page or model wrote refers to nothing.
"""

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.jsontext import dumps

STEPS = "steps"
OUTPUT = "output"
"""`{{steps.ID.output}}`, optionally with keys and indices of the value."""

_OPEN, _CLOSE = "{{", "}}"
_REFERENCE = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*", re.ASCII)
_BRACES = re.compile(r"""\s*(["'])(\{\{|\}\})\1\s*""")


class BadTemplate(InputError):
    """The text can't be filled in; `at` is the position of the error, from 0."""

    code = "skill.template"

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class Reference(msgspec.Struct, frozen=True):
    """A reference between braces: `path` has its parts, `start` and `end` are its position, braces included."""

    path: tuple[str, ...]
    start: int
    end: int

    @property
    def step(self) -> str:
        """The id of the step whose output is meant; empty for a variable."""
        return self.path[1] if len(self.path) > 1 and self.path[0] == STEPS else ""

    def __str__(self) -> str:
        return ".".join(self.path)


Part: TypeAlias = str | Reference
Find: TypeAlias = Callable[[Reference], Json]
"""Returns the value of a reference. Raises InputError if it has none."""


def parse(text: str) -> tuple[Part, ...]:
    """Split a text into its parts. `{{"{{"}}` is two braces. Raises BadTemplate."""
    if _OPEN not in text:
        return (text,) if text else ()
    return tuple(_parts(text))


def references(value: Json) -> Iterator[Reference]:
    """Yield the references in all texts of a value, except keys. Raises BadTemplate."""
    match value:
        case str():
            for part in parse(value):
                if isinstance(part, Reference):
                    yield part
        case list():
            for item in value:
                yield from references(item)
        case dict():
            for item in value.values():
                yield from references(item)
        case _:
            return


def fill(text: str, find: Find) -> str:
    """Replace every reference in a text. Raises BadTemplate, and whatever `find` raises."""
    return _filled(parse(text), find)


def resolve(value: Json, find: Find) -> Json:
    """Fill in all texts of a value. A text that is exactly one reference becomes its value. Raises as `fill`."""
    match value:
        case str():
            parts = parse(value)
            if len(parts) == 1 and isinstance(parts[0], Reference):
                return find(parts[0])
            return _filled(parts, find)
        case list():
            return [resolve(item, find) for item in value]
        case dict():
            return {key: resolve(item, find) for key, item in value.items()}
        case _:
            return value


def as_text(value: Json) -> str:
    """Return a value as it appears within a text: a text as it is, "" for null, everything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else dumps(value)


def _filled(parts: tuple[Part, ...], find: Find) -> str:
    return "".join([part if isinstance(part, str) else as_text(find(part)) for part in parts])


def _parts(text: str) -> Iterator[Part]:
    at = 0
    while (start := text.find(_OPEN, at)) >= 0:
        if start > at:
            yield text[at:start]
        if braces := _BRACES.match(text, start + 2):
            inside, after = braces.group(2), braces.end()
            if not text.startswith(_CLOSE, after):
                raise _unclosed(start)
            yield inside
            at = after + 2
            continue
        end = text.find(_CLOSE, start)
        if end < 0:
            raise _unclosed(start)
        inside = text[start + 2 : end].strip()
        if _REFERENCE.fullmatch(inside) is None:
            raise BadTemplate(_no_reference(inside), start)
        path = tuple(inside.split("."))
        if path[0] == STEPS and (len(path) < 3 or path[2] != OUTPUT):
            raise BadTemplate(f"{{{{{inside}}}}}: a step's output is written {{{{steps.ID.output}}}}", start)
        yield Reference(path, start, end + 2)
        at = end + 2
    if at < len(text):
        yield text[at:]


def _unclosed(start: int) -> BadTemplate:
    return BadTemplate('"{{" is never closed; literal braces are written {{"{{"}}', start)


def _no_reference(inside: str) -> str:
    shown = inside if len(inside) <= 40 else f"{inside[:39]}…"
    if inside.startswith(".Env"):
        return f"{{{{{shown}}}}}: a skill reads no environment variables"
    return f"{{{{{shown}}}}} refers to nothing: write a variable or steps.ID.output between braces"


class Unresolved(InputError):
    """A text or condition of the skill refers to something that does not exist."""

    code = "skill.unresolved"


class Output(msgspec.Struct, frozen=True):
    """A step's output, and what of it came from outside."""

    value: Json
    content: Content = CLEAN


class Values:
    """The values of one run: `given` is its input, and `content` what of that came from outside."""

    def __init__(self, given: JsonObject, content: Content = CLEAN) -> None:
        self.given = given
        self.content = content
        self.outputs: dict[str, Output] = {}

    def find(self, reference: Reference) -> Json:
        """Return the value of a reference; null for a step without output. Raises Unresolved."""
        if step := reference.step:
            output = self.outputs.get(step)
            return None if output is None else _within(output.value, reference.path[3:], reference)
        name, *rest = reference.path
        if name not in self.given:
            return None
        return _within(self.given[name], tuple(rest), reference)

    @property
    def all_content(self) -> Content:
        """The labels of the input and all outputs."""
        return self.content | Content.of_all(output.content for output in self.outputs.values())

    def content_of(self, *texts: Json) -> Content:
        """Return the labels of everything that these texts refer to."""
        found = CLEAN
        for reference in references(list(texts)):
            output = self.outputs.get(reference.step) if reference.step else None
            found = found | (self.content if output is None else output.content)
        return found


def _within(value: Json, path: tuple[str, ...], reference: Reference) -> Json:
    """Raises Unresolved."""
    for index, part in enumerate(path):
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            before = ".".join((*reference.path[: len(reference.path) - len(path)], *path[:index]))
            raise Unresolved(f'{{{{{reference}}}}}: there is no "{part}" in {before}')
    return value
