"""The table of README.md names every example."""

import re

from tests.documents.examples_read import EXAMPLES, HERE


def test_every_example_stands_in_the_table_once() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", (HERE / "README.md").read_text(), re.MULTILINE)

    assert sorted(rows) == sorted(path.name for path in EXAMPLES.iterdir())
