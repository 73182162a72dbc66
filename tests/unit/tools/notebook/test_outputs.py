"""Which content holds outputs of a notebook, whatever the file is called and however it was written."""

import json
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.tools.notebook import outputs
from ozzie_server_ext.tools.notebook.outputs import file_holds_outputs, holds_outputs, named_outputs_below

ROOT = Path(__file__).resolve().parents[4]


def notebook(*found: dict[str, Any]) -> dict[str, Any]:
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": 1, "source": "go()", "outputs": [*found]}
    return {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


PRINTED = {"output_type": "stream", "name": "stdout", "text": ["hi"]}
SHOWN = {"output_type": "display_data", "metadata": {}, "data": {"text/plain": "hi"}}
RAN = notebook(PRINTED)
LATER = 1 << 62
"""After all that changed."""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(RAN), id="on one line"),
        pytest.param(json.dumps(RAN, separators=(",", ":")), id="without spaces"),
        pytest.param(json.dumps(RAN, indent=1, sort_keys=True), id="as Jupyter saves it"),
        pytest.param(json.dumps(RAN, indent=8).replace("\n", "\r\n"), id="with other line breaks"),
        pytest.param(json.dumps(notebook(SHOWN)), id="an output that is shown"),
        pytest.param(json.dumps(notebook({**SHOWN, "output_type": "execute_result"})), id="a result"),
        pytest.param(json.dumps(notebook({"output_type": "error", "traceback": []})), id="an error"),
        pytest.param(json.dumps(notebook({"output_type": "pyout"})), id="of the format before"),
        pytest.param(json.dumps({"type": "notebook", "content": json.dumps(RAN)}), id="escaped in other JSON"),
        pytest.param(json.dumps([json.dumps({"a": json.dumps(RAN, indent=2)})]), id="escaped twice"),
        pytest.param(json.dumps(RAN["cells"][0]["outputs"]), id="the outputs alone"),
        pytest.param(str(RAN), id="as Python prints it"),
        pytest.param(json.dumps(RAN, indent=1)[90:], id="without its beginning"),
        pytest.param(json.dumps(RAN).replace('"', "&quot;"), id="in a page of HTML"),
    ],
)
def test_outputs_are_found(text: str) -> None:
    assert holds_outputs(text.encode())
    assert holds_outputs(text.encode("utf-16"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(notebook()), id="a notebook without outputs"),
        pytest.param(json.dumps({**notebook(), "cells": []}), id="a notebook without cells"),
        pytest.param('if output.get("output_type") == "error":\n', id="code that asks for the kind"),
        pytest.param("Each output has an `output_type`: stream, error or another.", id="words about it"),
        pytest.param('{"output_type": {"enum": ["stream"]}}', id="the schema of notebooks"),
        pytest.param('{"output_type": "streamlined"}', id="another kind of thing"),
        pytest.param("", id="nothing"),
    ],
)
def test_ordinary_text_has_none(text: str) -> None:
    assert not holds_outputs(text.encode())


def test_the_documents_of_this_project_have_none() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]

    assert len(pages) > 40
    assert [page.name for page in pages if holds_outputs(page.read_bytes())] == []


@pytest.mark.parametrize("at", [-30, -12, -1, 0, 5])
def test_an_output_across_two_chunks_is_found(at: int) -> None:
    text = json.dumps(RAN).encode()
    place = text.index(b"output_type")

    assert holds_outputs(b" " * ((1 << 20) - place + at) + text)


def test_what_is_too_long_to_be_searched_counts_as_outputs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(outputs, "MOST_BYTES", 2 << 20)
    (tmp_path / "a.csv").write_bytes(b"1\n" * (2 << 20))

    with (tmp_path / "a.csv").open("rb") as file:
        assert file_holds_outputs(file)


# --- of a whole project ---------------------------------------------------------------------------------


def test_all_files_named_like_notebooks_are_looked_into(tmp_path: Path) -> None:
    text = json.dumps(RAN)
    (tmp_path / "deep" / ".kept").mkdir(parents=True)
    for name in ("U.IPYNB", "a.ipynb.bak", "deep/b.ipynb", "deep/.kept/c.ipynb~", "other.json"):
        (tmp_path / name).write_text(text)
    (tmp_path / "clean.ipynb").write_text(json.dumps(notebook()))
    (tmp_path / ".hidden.ipynb").write_text(text)
    (tmp_path / "link.ipynb").symlink_to("other.json")
    (tmp_path / "n.ipynb.gz").write_bytes(b"\x1f\x8b\x08\0\0")

    assert named_outputs_below(tmp_path, LATER) == Content.of(
        Label.OUTPUT, ["U.IPYNB", "a.ipynb.bak", "deep/b.ipynb", "deep/.kept/c.ipynb~", "n.ipynb.gz"]
    )


def test_a_project_without_notebooks_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")

    assert named_outputs_below(tmp_path, LATER) == CLEAN
    assert named_outputs_below(tmp_path, 0) == Content.of(Label.OUTPUT)


def test_a_search_without_an_end_leaves_an_unknown_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(outputs, "LIMIT_S", -1.0)
    (tmp_path / "clean.ipynb").write_text(json.dumps(notebook()))

    assert named_outputs_below(tmp_path, LATER) == Content.of(Label.OUTPUT)
