"""Conditions of steps and of moves between states: `{{steps.test.output.passed}} == true`.

Python's own parser reads them, and what is not on a short list of comparisons is refused: nothing is called, looked up
or made, so a condition takes no longer than it is long.
"""

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.expressions import parsed
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads
from ozzie_server_ext.skills.templates import Find, Reference, parse

MAX_CHARS = 500
_MOST_DIGITS = 40
_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}
_ORDERED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_COMPARED = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, *_ORDERED)
_SYNTAX = "a condition compares values with ==, !=, <, <=, >, >=, in, not in, and joins with and, or, not"


class BadCondition(InputError):
    """The text is no condition; `at` is where in it that shows, counted from 0."""

    code = "skill.condition"

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


class UnfitValues(InputError):
    """The values that a condition compares can't be compared."""

    code = "skill.condition_values"


@dataclass(frozen=True, slots=True)
class Condition:
    """One that was read: `references` stand in `tree` under their names."""

    text: str
    tree: ast.expr
    references: dict[str, Reference]

    def holds(self, find: Find) -> bool:
        """Whether it holds. Raises UnfitValues, and what `find` raises."""
        return _truth(_value(self.tree, {name: find(each) for name, each in self.references.items()}))


def read_condition(text: str) -> Condition:
    """Raises BadCondition, and BadTemplate for what stands between braces."""
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
        # As long as what it stands for, so that the parser's columns are those of the text.
        source += name.ljust(part.end - part.start)
    source = source.replace("\n", " ")
    indent = len(source) - len(source.lstrip())
    tree = _parsed(source[indent:], indent)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            _expect_allowed(node, found, indent + _characters(source[indent:], node.col_offset))
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
    """The parser counts bytes."""
    return len(source.encode()[:offset].decode(errors="ignore"))


def _expect_allowed(node: ast.expr, found: dict[str, Reference], at: int) -> None:
    match node:
        case ast.BoolOp() | ast.List() | ast.Tuple():
            return
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            return
        case ast.Compare(ops=ops) if all(isinstance(op, _COMPARED) for op in ops):
            return
        case ast.Constant(value=str() | int() | float() as value) if not isinstance(value, bool):
            return
        case ast.Name(id=name) if name in found or name in _WORDS:
            return
        case ast.Name(id=name):
            raise BadCondition(
                f'"{name}" means nothing here; a variable stands in braces, {{{{{name}}}}}, and a text in quotes',
                at,
            )
        case _:
            raise BadCondition(_SYNTAX, at)


def _value(node: ast.expr, found: dict[str, Json]) -> Json:
    match node:
        case ast.Constant(value=str() | int() | float() as value):
            return value
        case ast.Name(id=name):
            return found[name] if name in found else _WORDS[name]
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_value(part, found) for part in parts]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _truth(_value(operand, found))
        case ast.UnaryOp(operand=operand):
            return -_number(_value(operand, found))
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_truth(_value(part, found)) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_truth(_value(part, found)) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _compared(_value(left, found), ops, [_value(other, found) for other in others])
        case _:
            raise AssertionError(f"{type(node).__name__} was let through")


def _compared(left: Json, ops: list[ast.cmpop], others: list[Json]) -> bool:
    for op, right in zip(ops, others, strict=True):
        if not _pair(left, op, right):
            return False
        left = right
    return True


def _pair(left: Json, op: ast.cmpop, right: Json) -> bool:
    if _is_number(right):
        left = _as_number(left)
    elif _is_number(left):
        right = _as_number(right)
    match op:
        case ast.Eq():
            return _same(left, right)
        case ast.NotEq():
            return not _same(left, right)
        case ast.In():
            return _within(left, right)
        case ast.NotIn():
            return not _within(left, right)
        case _:
            both_texts = isinstance(left, str) and isinstance(right, str)
            if not both_texts and not (_is_number(left) and _is_number(right)):
                raise UnfitValues(f"{_kind(left)} and {_kind(right)} have no order.")
            return _ORDERED[type(op)](left, right)


def _same(left: Json, right: Json) -> bool:
    """Python takes true for 1."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _within(left: Json, right: Json) -> bool:
    match right:
        case str():
            if not isinstance(left, str):
                raise UnfitValues(f"{_kind(left)} can't stand in a text.")
            return left in right
        case list():
            return any(_same(left, item) for item in right)
        case dict():
            return isinstance(left, str) and left in right
        case _:
            raise UnfitValues(f"Nothing stands in {_kind(right)}.")


def _truth(value: Json) -> bool:
    """Of a value alone: whether there is anything in it."""
    return bool(value)


def _number(value: Json) -> int | float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UnfitValues(f"There is no minus of {_kind(value)}.")
    return value


def _as_number(value: Json) -> Json:
    """Tools and models write numbers as text: beside a number, a text that is one counts as that."""
    if not isinstance(value, str) or len(value) > _MOST_DIGITS:
        return value
    try:
        number = loads(value.strip())
    except InvalidJson:
        return value
    return number if _is_number(number) else value


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Json) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "a number"
