"""What a cell says: a turn, magics, Python, or a mistake that is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_kernel.cells import Cell, MagicLine, Message, Mistake, Python, parse


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("hello", Message("hello")),
        ("  two\n\nparagraphs \n", Message("  two\n\nparagraphs \n")),
        ("", Message("")),
        ("% of sales?", Message("% of sales?")),
        ("%", Message("%")),
        ("%5 more", Message("%5 more")),
        ("100 %\n%help", Message("100 %\n%help")),
        ("%help", (MagicLine("help", ""),)),
        ("  %help  ", (MagicLine("help", ""),)),
        ("%model openai/x http://h/v1", (MagicLine("model", "openai/x http://h/v1"),)),
        ("%model   spaced   out  ", (MagicLine("model", "spaced   out"),)),
        ("%help\n\n%model a\n", (MagicLine("help", ""), MagicLine("model", "a"))),
        ("%nope", (MagicLine("nope", ""),)),
        ("%%python\nx = 1\n\nx", Python("x = 1\n\nx")),
        ("%%python", Python("")),
        ("\n\n%%python \n  indented", Python("  indented")),
        ("%%python\r\nx", Python("x")),
        (
            "%%python3\nx",
            Mistake("There is no cell magic %%python3. There is only %%python; %help lists the % commands."),
        ),
        ("%%", Message("%%")),
        ("%% python", Message("%% python")),
    ],
)
def test_a_cell_means(text: str, meaning: Cell) -> None:
    assert parse(text) == meaning


@pytest.mark.parametrize("text", ["%help\nand a joke", "%help\n%%python\nx", "%help 1\n100%"])
def test_magics_beside_anything_else_are_a_mistake_with_a_way_out(text: str) -> None:
    found = parse(text)

    assert isinstance(found, Mistake)
    assert "a separate cell" in found.sentence


@given(st.text(alphabet=st.sampled_from("%ab5 \t\n\r\x0b\x0c\x00\u2028é_\ud800")) | st.text())
def test_any_text_means_something(text: str) -> None:
    found = parse(text)

    if isinstance(found, Message):
        assert found.text == text
    elif isinstance(found, tuple):
        assert found
        assert all(magic.name.isidentifier() for magic in found)
    else:
        assert isinstance(found, Python | Mistake)
