"""README.md names every example, and a test reads each."""

import ast
import re
from fnmatch import fnmatchcase

from tests.documents.examples_read import EXAMPLES, HERE


def test_every_example_stands_in_the_table_once() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", (HERE / "README.md").read_text(), re.MULTILINE)

    assert sorted(rows) == sorted(path.name for path in EXAMPLES.iterdir())


def patterns_in(code: str) -> set[str]:
    """The strings of a file that may name examples; `*` stands for what an f-string fills in."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values]
            found.add("".join(parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return {each for each in found if not each.startswith("*")}


def test_every_example_is_read_by_a_test() -> None:
    files = [path for path in HERE.glob("test_*.py") if path.name != "test_table.py"]
    patterns = set().union(*(patterns_in(path.read_text()) for path in files))
    unread = [
        path.name for path in EXAMPLES.iterdir() if not any(fnmatchcase(path.name, pattern) for pattern in patterns)
    ]

    assert unread == []
