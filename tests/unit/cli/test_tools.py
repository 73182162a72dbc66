"""A tool in the list: its name and what the rules say, and below it what it does, in 80 columns."""

import pytest

from ozzie_server_ext.cli.tools import rows
from ozzie_server_ext.render.text import LINE_WIDTH, columns


def tool(about: str) -> dict[str, object]:
    return {"name": "read_file", "tool_id": "fs.read", "about": about, "ruling": {"decision": "CHECK"}}


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ("Read a file. Then say so.", "Read a file."),
        ("Read a file, e.g. a.txt or b.txt, or v1.2 of it", "Read a file, e.g. a.txt or b.txt, or v1.2 of it"),
        ("Read. `next` goes on.", "Read."),
        ("Really? Yes.", "Really?"),
        ("Read a file of\nthe project.\n\nMore.", "Read a file of the project."),
    ],
)
def test_of_what_it_does_the_first_sentence_is_told(about: str, said: str) -> None:
    assert list(rows([tool(about)])) == ["read_file  fs.read  is checked first", f"  {said}"]


@pytest.mark.parametrize("about", ["many words " * 30, "\u6570" * 300, "x" * 300])
def test_it_fits_in_80_columns_and_nothing_is_left_out(about: str) -> None:
    _, *told = rows([tool(about)])

    assert all(line.startswith("  ") and columns(line) <= LINE_WIDTH for line in told)
    assert "".join("".join(told).split()) == "".join(about.split())


def test_one_that_says_nothing_has_one_line() -> None:
    assert len(list(rows([tool("")]))) == 1
