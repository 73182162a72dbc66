"""A notebook that a tool writes brings neither trust nor widgets nor outputs that act; what was there may stay."""

import json
from typing import Any

import pytest

from ozzie_server_ext.domain.toolmeta import Category
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.notebook.files import expect_inert, made_inert

CODE = frozenset({Category.CODE_CELL})


def notebook(*cells: dict[str, Any], **metadata: Any) -> bytes:
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}).encode()


def code(source: str = "1", *outputs: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": "a",
        "metadata": metadata,
        "source": source,
        "outputs": list(outputs),
        "execution_count": None,
    }


def markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": "m", "metadata": {}, "source": source}


def shows(*forms: str, kind: str = "display_data") -> dict[str, Any]:
    return {"output_type": kind, "metadata": {}, "data": dict.fromkeys(forms, "x")}


PLAIN = shows("text/plain", "image/png")
HTML = shows("text/plain", "text/html")


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (notebook(code("1", HTML)), r"cell 1 has outputs that act or load something \(text/html\)"),
        (notebook(code("1", shows("image/svg+xml"))), "image/svg"),
        (notebook(code("1", shows("application/javascript", kind="execute_result"))), "javascript"),
        (notebook(code("1", shows("application/vnd.jupyter.widget-view+json"))), "widget-view"),
        (notebook(code("1", shows("text/markdown"))), "text/markdown"),
        (notebook(code("1", shows("text/latex"))), "text/latex"),
        (notebook(code("1", shows("application/vnd.ozzie.turn+json"))), "vnd.ozzie.turn"),
        (notebook(code("1", {"output_type": "new_kind", "data": {}})), "new_kind"),
        (notebook(code("1", {"output_type": "display_data"})), "display_data"),
        (notebook(code(trusted=True)), "cell 1 says that it is trusted"),
        (notebook(code(), trusted=True), "a mark that it is trusted"),
        (notebook(code(), widgets={"application/vnd.jupyter.widget-state+json": {}}), "the state of widgets"),
        (notebook(markdown("![](http://evil.example/a.png)")), "cell 1 loads a picture from elsewhere"),
        (b"{}", "can't be read as a notebook"),
    ],
    ids=lambda value: str(value)[-60:],
)
def test_what_acts_by_itself_is_not_written(written: bytes, why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        expect_inert("a.ipynb", None, written)
    with pytest.raises(ToolFailed, match=why):
        expect_inert("A.IPYNB", notebook(code("0")), written)


def test_what_was_there_already_may_stay_but_once_only() -> None:
    old = notebook(code("1", HTML), markdown("![](http://there.example/a.png)"), widgets={"a": 1})
    moved = notebook(markdown("![](http://there.example/a.png)"), code("2", HTML), widgets={"a": 1})
    twice = notebook(code("1", HTML), code("1", HTML), widgets={"a": 1})

    assert expect_inert("a.ipynb", old, moved) == CODE
    with pytest.raises(ToolFailed, match="cell 2 has outputs that act"):
        expect_inert("a.ipynb", old, twice)


@pytest.mark.parametrize(
    ("old", "new", "categories"),
    [
        (None, notebook(markdown("# Hello")), frozenset()),
        (None, notebook(code("import os", PLAIN)), CODE),
        (notebook(code("1"), markdown("a")), notebook(code("1"), markdown("b")), frozenset()),
        (notebook(code("1"), code("2")), notebook(code("2"), code("1")), frozenset()),
        (notebook(code("1")), notebook(code("1"), code("1")), CODE),
        (notebook(markdown("import os")), notebook(code("import os")), CODE),
        (b"no notebook", notebook(code("1")), CODE),
        (notebook(code("1")), None, frozenset()),
    ],
    ids=lambda value: str(value)[:60],
)
def test_whether_it_brings_code_is_told(old: bytes | None, new: bytes | None, categories: frozenset[Category]) -> None:
    assert expect_inert("a.ipynb", old, new) == categories


def test_other_files_are_none_of_its_business() -> None:
    assert expect_inert("a.py", None, b"\xff import os") == frozenset()


def test_of_an_output_what_does_nothing_is_kept() -> None:
    assert made_inert(PLAIN) == PLAIN
    assert made_inert(HTML) == {"output_type": "display_data", "metadata": {}, "data": {"text/plain": "x"}}
    assert made_inert(shows("text/html")) is None
    assert made_inert({"output_type": "comm_open"}) is None
