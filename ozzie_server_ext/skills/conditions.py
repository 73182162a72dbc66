"""Conditions of steps and of moves between states: `{{steps.test.output.passed}} == true`.

Python's parser reads them; everything but a short list of comparisons is refused. Nothing is called, looked up or
created, so evaluation is linear in the length.
"""

import ast
import operator
from collections.abc import Callable
from types import NoneType
from typing import Any

import msgspec

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.expressions import Language, parsed
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads
from ozzie_server_ext.skills.templates import Find, Reference, parse

MAX_CHARS = 500
_MOST_DIGITS = 40
_SYNTAX = "a condition compares values with ==, !=, <, <=, >, >=, in, not in, and joins with and, or, not"


class BadCondition(InputError):
    """The text is no condition; `at` is the position of the error, from 0."""

    code = "skill.condition"

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


class UnfitValues(InputError):
    """The values of a condition can't be compared."""

    code = "skill.condition_values"


class Condition(msgspec.Struct, frozen=True):
    """A parsed condition: `references` are the names of its templates in `tree`."""

    text: str
    tree: ast.expr
    references: dict[str, Reference]

    def holds(self, find: Find) -> bool:
        """Evaluate it. Raises UnfitValues, and whatever `find` raises."""
        return bool(_LANGUAGE.value(self.tree, {name: find(each) for name, each in self.references.items()}))


def read_condition(text: str) -> Condition:
    """Parse a condition. Raises BadCondition, and BadTemplate for the parts between braces."""
    if len(text) > MAX_CHARS:
        raise BadCondition(f"may have at most {MAX_CHARS} characters; it has {len(text):,}")
    found: dict[str, Reference] = {}
    source = ""
    for part in parse(text):
        if isinstance(part, str):
            source += part
            continue
        name = f"_{len(found)}"
        found[name] = part
        # Padded to the original length, so that the parser's columns fit the text.
        source += name.ljust(part.end - part.start)
    source = source.replace("\n", " ")
    indent = len(source) - len(source.lstrip())
    tree = _parsed(source[indent:], indent)
    refused = _LANGUAGE.refused(tree, found)
    if refused is not None:
        raise BadCondition(_why(refused), indent + _characters(source[indent:], refused.col_offset))
    return Condition(text, tree, found)


def _parsed(source: str, indent: int) -> ast.expr:
    try:
        return parsed(source)
    except SyntaxError as error:
        at = _characters(source, error.offset - 1) if error.offset else len(source)
        raise BadCondition(_SYNTAX, indent + at) from None
    except ValueError:
        raise BadCondition(_SYNTAX) from None


def _characters(source: str, offset: int) -> int:
    """Convert the parser's byte offset."""
    return len(source.encode()[:offset].decode(errors="ignore"))


def _why(refused: ast.expr) -> str:
    if isinstance(refused, ast.Name):
        name = refused.id
        return f'"{name}" means nothing here; a variable is written in braces, {{{{{name}}}}}, and a text in quotes'
    return _SYNTAX


def _literal(value: object) -> Json:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return value


def _beside_numbers(compare: Callable[[Json, Json], bool]) -> Callable[[Json, Json], bool]:
    """Read a text beside a number as a number before comparing: tools and models write numbers as text."""

    def compared(left: Json, right: Json) -> bool:
        if _is_number(right):
            return compare(_as_number(left), right)
        return compare(left, _as_number(right) if _is_number(left) else right)

    return compared


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Json, Json], bool]:
    def compared(left: Json, right: Json) -> bool:
        both_texts = isinstance(left, str) and isinstance(right, str)
        if not both_texts and not (_is_number(left) and _is_number(right)):
            raise UnfitValues(f"{_kind(left)} and {_kind(right)} have no order.")
        return compare(left, right)

    return _beside_numbers(compared)


def _same(left: Json, right: Json) -> bool:
    """Unlike Python, distinguish true from 1."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _within(left: Json, right: Json) -> bool:
    match right:
        case str():
            if not isinstance(left, str):
                raise UnfitValues(f"{_kind(left)} can't be part of a text.")
            return left in right
        case list():
            return any(_same(left, item) for item in right)
        case dict():
            return isinstance(left, str) and left in right
        case _:
            raise UnfitValues(f"{_kind(right)} has no parts.")


def _minus(value: Json) -> Json:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UnfitValues(f"{_kind(value)} has no negative.")
    return -value


def _as_number(value: Json) -> Json:
    if not isinstance(value, str) or len(value) > _MOST_DIGITS:
        return value
    try:
        number = loads(value.strip())
    except InvalidJson:
        return value
    return number if _is_number(number) else value


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS = {NoneType: "nothing", bool: "true or false", str: "a text", list: "a list", dict: "an object"}


def _kind(value: Json) -> str:
    return _KINDS.get(type(value), "a number")


_LANGUAGE = Language[Json](
    literal=_literal,
    names={"true": True, "false": False, "null": None},
    unary={ast.USub: _minus},
    comparisons={
        ast.Eq: _beside_numbers(_same),
        ast.NotEq: _beside_numbers(lambda left, right: not _same(left, right)),
        ast.In: _beside_numbers(_within),
        ast.NotIn: _beside_numbers(lambda left, right: not _within(left, right)),
        ast.Lt: _ordered(operator.lt),
        ast.LtE: _ordered(operator.le),
        ast.Gt: _ordered(operator.gt),
        ast.GtE: _ordered(operator.ge),
    },
    truth=bool,
    listed=lambda values: values,
)
