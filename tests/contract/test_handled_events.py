"""A projection is called for each event that it folds: a `case` that `HANDLES` lacks would never be reached."""

import ast
import importlib
from pathlib import Path

import pytest

from ozzie_server_ext.domain.events import EVENT_CLASSES
from ozzie_server_ext.store import projections

FILES = sorted(Path(projections.__path__[0]).glob("*.py"))
EVENTS = {cls.__name__ for cls in EVENT_CLASSES}


@pytest.mark.parametrize("file", [path for path in FILES if "HANDLES" in path.read_text()], ids=lambda path: path.stem)
def test_each_event_that_is_folded_is_handled(file: Path) -> None:
    handled = {cls.__name__ for cls in importlib.import_module(f"{projections.__name__}.{file.stem}").HANDLES}
    patterns = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.MatchClass)]
    folded = {pattern.cls.id for pattern in patterns if isinstance(pattern.cls, ast.Name)} & EVENTS

    assert folded <= handled, "add these to HANDLES"
