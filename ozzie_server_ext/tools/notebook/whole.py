"""Notebooks that are written as files: by a text, or by what a command changed (THREATS 3 and 7)."""

from typing import Any

from ozzie_server_ext.domain.toolmeta import Category
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.notebook.inert import told, written
from ozzie_server_ext.tools.notebook.text import NotebookText

ENDING = ".ipynb"


def is_notebook(path: str) -> bool:
    return path.casefold().endswith(ENDING)


def expect_inert(path: str, old: bytes | None, new: bytes | None) -> frozenset[Category]:
    """What a change of that file does beyond changing a file: of a notebook, whether it brings code. `old` is None
    where there is no file, `new` where it goes.

    Raises ToolFailed where a notebook would bring something that acts by itself, or would be none any more.
    """
    if new is None or not is_notebook(path):
        return frozenset()
    found = NotebookText.of(new, path)
    before = _readable(path, old)
    brings = written(
        found.notebook,
        found.metadata,
        before.notebook if before else None,
        before.metadata if before else None,
    )
    if brings.problems:
        raise ToolFailed(
            f"{path} was not written: {told(brings.problems)}. A notebook that a tool writes brings nothing that acts "
            "or loads by itself: leave that out. Outputs come when a person runs the cells."
        )
    return frozenset({Category.CODE_CELL}) if brings.has_code else frozenset[Any]()


def _readable(path: str, old: bytes | None) -> NotebookText | None:
    if old is None:
        return None
    try:
        return NotebookText.of(old, path)
    except ToolFailed:
        return None  # what is no notebook had nothing that could stay
