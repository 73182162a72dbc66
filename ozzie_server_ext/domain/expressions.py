"""Expressions of people and models: parsed by Python's own parser, evaluated by an allow-list.

Nothing runs as Python. A `Language` lists its literals, names, operators and functions; other nodes are refused.
"""

import ast
import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar, cast

import msgspec

V = TypeVar("V")

_ONE_AT_A_TIME = threading.Lock()
"""Warning filters are global: two threads that change and restore them would leave the wrong ones."""


def parsed(text: str) -> ast.expr:
    """Return the tree of one expression.

    Raises SyntaxError if it is invalid or Python warns about it ("1if"; the warning would be printed in the server's
    terminal), ValueError if it is too deep or has a null character.
    """
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return ast.parse(text, mode="eval").body
        except Warning as warning:
            raise SyntaxError(str(warning)) from None
        # CPython 3.11 may lose count of the depth, and then raises SystemError (python/cpython#106905).
        except (RecursionError, MemoryError, SystemError):
            raise ValueError("The expression is too deep.") from None


class NotAllowed(Exception):
    """The language lacks this kind of `node`."""

    def __init__(self, node: ast.expr) -> None:
        super().__init__(ast.unparse(node))
        self.node = node


class Language(msgspec.Struct, Generic[V], frozen=True, kw_only=True):
    """The elements of a language and their meaning. An empty table means none of that kind.

    `literal` returns the value of a literal; TypeError if the language lacks it. `truth` decides for `and`, `or`,
    `not`; a language with it or with comparisons has True and False among its values. `listed` makes a value of a list.
    """

    literal: Callable[[object], V]
    names: Mapping[str, V] = {}
    binary: Mapping[type[ast.operator], Callable[[V, V], V]] = {}
    unary: Mapping[type[ast.unaryop], Callable[[V], V]] = {}
    comparisons: Mapping[type[ast.cmpop], Callable[[V, V], bool]] = {}
    functions: Mapping[str, Callable[..., V]] = {}
    truth: Callable[[V], bool] | None = None
    listed: Callable[[list[V]], V] | None = None

    def refused(self, tree: ast.expr, variables: Collection[str] = ()) -> ast.expr | None:
        """Return the first node that the language lacks, without evaluating anything; None if it has all."""
        nodes = (node for node in ast.walk(tree) if isinstance(node, ast.expr))
        return next((node for node in nodes if not self._has(node, variables)), None)

    def value(self, node: ast.expr, variables: Mapping[str, V] | None = None) -> V:
        """Evaluate a tree. Raises NotAllowed, and what the language's functions raise."""
        known = self.names if variables is None else {**self.names, **variables}
        return self._value(node, known)

    def _has(self, node: ast.expr, variables: Collection[str]) -> bool:
        match node:
            case ast.Constant(value=value):
                return self._has_literal(value)
            case ast.Name(id=name):
                return name in variables or name in self.names
            case ast.UnaryOp(op=op):
                return type(op) in self.unary or (isinstance(op, ast.Not) and self.truth is not None)
            case ast.BinOp(op=op):
                return type(op) in self.binary
            case ast.BoolOp():
                return self.truth is not None
            case ast.Compare(ops=ops):
                return all(type(op) in self.comparisons for op in ops)
            case ast.List() | ast.Tuple():
                return self.listed is not None
            case _:
                return False

    def _has_literal(self, value: object) -> bool:
        try:
            self.literal(value)
        except TypeError:
            return False
        return True

    def _value(self, node: ast.expr, names: Mapping[str, V]) -> V:
        match node:
            case ast.Constant(value=value):
                try:
                    return self.literal(value)
                except TypeError:
                    raise NotAllowed(node) from None
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in self.binary:
                return self.binary[type(op)](self._value(left, names), self._value(right, names))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in self.unary:
                return self.unary[type(op)](self._value(operand, names))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in self.functions:
                return self.functions[name](*(self._value(arg, names) for arg in args))
            case ast.List(elts=parts) | ast.Tuple(elts=parts) if self.listed is not None:
                return self.listed([self._value(part, names) for part in parts])
            case ast.UnaryOp() | ast.BoolOp() | ast.Compare():
                return cast("V", self._holds(node, names))
            case _:
                raise NotAllowed(node)

    def _holds(self, node: ast.expr, names: Mapping[str, V]) -> bool:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand) if self.truth is not None:
                return not self.truth(self._value(operand, names))
            case ast.BoolOp(op=op, values=parts) if self.truth is not None:
                found = (self.truth(self._value(part, names)) for part in parts)
                return all(found) if isinstance(op, ast.And) else any(found)
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in self.comparisons for op in ops):
                return self._compare(self._value(left, names), ops, [self._value(other, names) for other in others])
            case _:
                raise NotAllowed(node)

    def _compare(self, left: V, ops: list[ast.cmpop], others: list[V]) -> bool:
        for op, right in zip(ops, others, strict=True):
            if not self.comparisons[type(op)](left, right):
                return False
            left = right
        return True
