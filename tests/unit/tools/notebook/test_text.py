"""One cell of a notebook's file is changed, and every other byte stays as it was."""

import json
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.cells import (
    TOP,
    Cell,
    CellChanged,
    CellKind,
    Delete,
    Edit,
    Insert,
    Move,
    Notebook,
    Replace,
    Show,
    above,
    inverse,
    name_of,
    place_of,
)
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.notebook.text import NotebookText

PATH = "a.ipynb"
OUTPUTS: tuple[JsonObject, ...] = ({"output_type": "stream", "name": "stdout", "text": ["1\n"]},)


def cell(cell_id: str, source: str, kind: str = "code") -> JsonObject:
    found: JsonObject = {
        "cell_type": kind,
        "id": cell_id,
        "metadata": {},
        "source": [*source.splitlines(keepends=True)],
    }
    return found | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def file(*cells: JsonObject, minor: int = 5, **spelling: Any) -> bytes:
    """As nbformat writes it, unless it is to be spelt otherwise."""
    notebook = {"cells": [*cells], "metadata": {}, "nbformat": 4, "nbformat_minor": minor}
    how = {"indent": 1, "ensure_ascii": False, "sort_keys": True} | spelling
    return (json.dumps(notebook, **how) + "\n").encode()


def ids(content: bytes) -> list[str]:
    return [each["id"] for each in json.loads(content)["cells"]]


THREE = file(cell("a", "x = 1\n"), cell("b", "# Tïtle\n\ntext", "markdown"), cell("c", "y = 2"))


def test_a_changed_source_leaves_every_other_line_of_the_file_as_it_was() -> None:
    edit = Replace(cell_id="b", kind=CellKind.MARKDOWN, was="# Tïtle\n\ntext", source="# Title\nnew")

    after = NotebookText.of(THREE, PATH).edited(edit)

    old, new = THREE.decode().splitlines(), after.decode().splitlines()
    assert [line for line in old if line not in new] == ['    "# Tïtle\\n",', '    "\\n",', '    "text"']
    assert [line for line in new if line not in old] == ['    "# Title\\n",', '    "new"']


@pytest.mark.parametrize(
    ("after", "order"),
    [(TOP, ["new", "a", "b", "c"]), ("a", ["a", "new", "b", "c"]), ("c", ["a", "b", "c", "new"])],
)
def test_a_new_cell_stands_where_it_was_put_and_is_written_as_nbformat_would(after: str, order: list[str]) -> None:
    made = NotebookText.of(THREE, PATH).edited(Insert(cell=cell("new", "z = 3\nz"), after=after))

    assert ids(made) == order
    assert made == file(*json.loads(made)["cells"])


def test_a_moved_cell_is_the_same_to_the_byte() -> None:
    moved = NotebookText.of(THREE, PATH).edited(Move(cell_id="c", was="y = 2", was_after="b", after=TOP))

    assert moved == file(cell("c", "y = 2"), cell("a", "x = 1\n"), cell("b", "# Tïtle\n\ntext", "markdown"))


@pytest.mark.parametrize(("gone", "left"), [("a", "bc"), ("b", "ac"), ("c", "ab")])
def test_a_deleted_cell_leaves_no_trace(gone: str, left: str) -> None:
    whole = {each["id"]: each for each in json.loads(THREE)["cells"]}
    was = "".join(whole[gone]["source"])
    edit = Delete(cell_id=gone, was=was, was_outputs=(), was_after={"a": TOP, "b": "a", "c": "b"}[gone])

    assert NotebookText.of(THREE, PATH).edited(edit) == file(*(whole[each] for each in left))


def test_the_only_cell_can_go_and_one_can_come_into_an_empty_notebook() -> None:
    one = file(cell("a", "x"))

    none = NotebookText.of(one, PATH).edited(Delete(cell_id="a", was="x", was_outputs=(), was_after=TOP))
    again = NotebookText.of(none, PATH).edited(Insert(cell=cell("a", "x"), after=TOP))

    assert json.loads(none)["cells"] == []
    assert again == one


def test_what_a_cell_put_out_takes_the_place_of_what_stood_there() -> None:
    shown = NotebookText.of(THREE, PATH).edited(Show(cell_id="a", was="x = 1\n", outputs=OUTPUTS, execution_count=7))

    first, *rest = json.loads(shown)["cells"]
    assert (first["outputs"], first["execution_count"]) == ([*OUTPUTS], 7)
    assert rest == json.loads(THREE)["cells"][1:]


@pytest.mark.parametrize(
    "spelling",
    [{"indent": 4}, {"indent": None}, {"indent": "\t"}, {"ensure_ascii": True}, {"sort_keys": False}],
    ids=str,
)
def test_a_file_that_somebody_else_writes_otherwise_stays_in_their_spelling(spelling: dict[str, Any]) -> None:
    before = file(cell("a", "1"), cell("b", "ü"), **spelling)

    after = NotebookText.of(before, PATH).edited(Replace(cell_id="a", kind=CellKind.CODE, was="1", source="2"))

    assert after == file(cell("a", "2"), cell("b", "ü"), **spelling)


def test_numbers_and_escapes_of_others_are_not_spelt_anew() -> None:
    odd = b'{"cells":[{"cell_type":"code","id":"a","metadata":{"n":1.0E+2,"s":"\\u0041\\/"},"source":"1",'
    odd += (
        b'"outputs":[{"output_type":"display_data","data":{"x":[NaN,1e400]},"metadata":{}}],"execution_count":null}],'
    )
    odd += b'"metadata":{},"nbformat":4,"nbformat_minor":5}'

    after = NotebookText.of(odd, PATH).edited(Replace(cell_id="a", kind=CellKind.CODE, was="1", source="2"))

    assert after == odd.replace(b'"source":"1"', b'"source":"2"')


def test_cells_without_ids_are_called_by_their_place_and_get_none() -> None:
    old = file({**cell("", "x = 1"), "id": None}, {**cell("", "y"), "id": None}, minor=4)
    text = NotebookText.of(old, PATH)
    names = [each.cell_id for each in text.notebook.cells]

    made = json.loads(text.edited(Insert(cell=cell("new", "z"), after=names[0])))["cells"]

    assert names == [name_of(0, CellKind.CODE, "x = 1"), name_of(1, CellKind.CODE, "y")]
    assert ["".join(each["source"]) for each in made] == ["x = 1", "z", "y"]
    assert "id" not in made[1]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Replace(cell_id="a", kind=CellKind.CODE, was="x = 2", source="x"), "has changed since it was read"),
        (Replace(cell_id="a", kind=CellKind.MARKDOWN, was="x = 1\n", source="x"), "has changed since it was read"),
        (Replace(cell_id="q", kind=CellKind.CODE, was="", source="x"), "There is no cell q"),
        (Insert(cell=cell("a", "x"), after=TOP), "There is a cell a already"),
        (Insert(cell=cell("n", "x"), after="q"), "There is no cell q"),
        (Move(cell_id="a", was="x = 1\n", was_after="b", after="c"), "was moved since"),
        (Delete(cell_id="a", was="x = 1\n", was_outputs=OUTPUTS, was_after=TOP), "other outputs"),
        (Show(cell_id="b", was="# Tïtle\n\ntext", outputs=(), execution_count=1), "has no code"),
    ],
    ids=str,
)
def test_an_edit_that_is_not_about_what_is_there_is_refused(edit: Edit, why: str) -> None:
    with pytest.raises(CellChanged, match=why):
        NotebookText.of(THREE, PATH).edited(edit)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "{ is missing"),
        (b"[]", "{ is missing"),
        (b"{}", "it has no cells"),
        (b'{"cells": [], "nbformat": 3}', "it is of format 3"),
        (b'{"cells": {}, "nbformat": 4}', r"\[ is missing"),
        (b'{"cells": [], "cells": [], "nbformat": 4}', "cells stands twice"),
        (b'{"cells": [{"cell_type": "code", "source": 1}], "nbformat": 4}', "neither a string nor a list of strings"),
        (b'{"cells": [{"cell_type": "x", "source": ""}], "nbformat": 4}', "an unknown type"),
        (b'{"cells": [1], "nbformat": 4}', "a cell is not an object"),
        (b'{"cells": [], "nbformat": 4} {}', "there is something after its end"),
        (b'{"cells": [' + b"[" * 100_000, "nested too deep"),
        (b"\xff", "not UTF-8"),
        (
            b'{"cells": [{"cell_type": "code", "source": "", "id": 7}], "nbformat": 4, "nbformat_minor": 5}',
            "an invalid id",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_notebook_is_refused_in_words(content: bytes, why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        NotebookText.of(content, PATH)


def test_two_cells_of_one_name_are_left_alone() -> None:
    twins = NotebookText.of(file(cell("a", "x"), cell("a", "y")), PATH)

    with pytest.raises(CellChanged, match="Two cells are called a"):
        twins.edited(Replace(cell_id="a", kind=CellKind.CODE, was="x", source="z"))


# --- against nbformat ----------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@st.composite
def notebooks(draw: st.DrawFn) -> tuple[bytes, list[dict[str, Any]]]:
    """As nbformat writes them."""
    cells: list[Any] = []
    for number in range(draw(st.integers(0, 5))):
        source = draw(texts)
        if draw(st.booleans()):
            made = new_code_cell(source, outputs=[new_output("stream", text=draw(texts))])
        else:
            made = new_markdown_cell(source)
        made["id"] = f"c{number}"
        cells.append(made)
    text = nbformat.writes(new_notebook(cells=cells))
    return text.encode(), json.loads(text)["cells"]


def edits_of(notebook: Notebook, draw: st.DataObject) -> Edit:
    """Any edit that is about what is there."""
    names = [each.cell_id for each in notebook.cells]
    after = draw.draw(st.sampled_from([TOP, *names]))
    kinds = ["insert", *(["replace", "move", "delete"] if names else [])]
    which = draw.draw(st.sampled_from(kinds))
    if which == "insert":
        return Insert(cell=cell("new", draw.draw(texts)), after=after)
    index = draw.draw(st.integers(0, len(names) - 1))
    found: Cell = notebook.cells[index]
    if which == "replace":
        return Replace(cell_id=found.cell_id, kind=found.kind, was=found.source, source=draw.draw(texts))
    was_after = above(index, notebook)
    if which == "move":
        others = [TOP, *(name for name in names if name != found.cell_id)]
        after = draw.draw(st.sampled_from(others))
        return Move(cell_id=found.cell_id, was=found.source, was_after=was_after, after=after)
    return Delete(cell_id=found.cell_id, was=found.source, was_outputs=found.outputs, was_after=was_after)


@given(made=notebooks(), data=st.data())
def test_any_edit_does_what_it_says_and_its_inverse_gives_back_the_same_file(
    made: tuple[bytes, list[dict[str, Any]]], data: st.DataObject
) -> None:
    content, cells = made
    before = NotebookText.of(content, PATH)
    edit = edits_of(before.notebook, data)
    expected = list(cells)
    at = place_of(edit, before.notebook)
    match edit:
        case Insert():
            expected.insert(at, edit.cell)
        case Replace():
            pass  # below: how a text is cut into lines is for the reader to join
        case Delete():
            del expected[at]
        case Move():
            moved = expected.pop(at)
            names = [each["id"] for each in expected]
            expected.insert(names.index(edit.after) + 1 if edit.after else 0, moved)

    changed = before.edited(edit)
    after = NotebookText.of(changed, PATH)

    if isinstance(edit, Replace):
        expected[at] = {**expected[at], "source": after.notebook.cells[at].whole["source"]}
        assert after.notebook.cells[at].source == edit.source
    assert [each.whole for each in after.notebook.cells] == expected
    back = NotebookText.of(after.edited(inverse(edit, before.notebook)), PATH)
    assert [each.whole for each in back.notebook.cells] == [
        {**each, "source": back.notebook.cells[index].whole["source"]} for index, each in enumerate(cells)
    ]
    assert [each.source for each in back.notebook.cells] == ["".join(each["source"]) for each in cells]
