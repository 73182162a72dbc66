"""Python's own parser, for expressions that people and models write. Nothing of them is run."""

import ast
import threading
import warnings

_ONE_AT_A_TIME = threading.Lock()
"""Filters of warnings are the whole process's: two threads that change and restore them leave the wrong ones behind."""


def parsed(text: str) -> ast.expr:
    """The tree of one expression.

    Raises SyntaxError for what is none, and for what Python warns of ("1if", which would stand in the server's
    terminal); ValueError for what is too deep for it, or holds a null character.
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
