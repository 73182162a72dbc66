"""The session that a notebook notes: found in its file, and anything else is no note."""

import json
from pathlib import Path
from typing import Any

import pytest

from ozzie_kernel.connect import MAX_BYTES, noted_session

SESSION = "sess_01AAAAAAAAAAAAAAAAAAAAAAAA"


def notebook(folder: Path, metadata: Any, name: str = "a.ipynb") -> str:
    path = folder / name
    path.write_text(json.dumps({"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))
    return str(path)


def test_the_note_is_read_from_the_metadata(tmp_path: Path) -> None:
    assert noted_session(notebook(tmp_path, {"ozzie": {"session": SESSION}})) == SESSION


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        [],
        None,
        {"ozzie": None},
        {"ozzie": {"session": 7}},
        {"ozzie": {"session": "../../etc/passwd"}},
        {"ozzie": {"session": SESSION + "\n"}},
        {"ozzie": {"session": [SESSION]}},
        {"ozzie": [SESSION]},
    ],
)
def test_what_is_no_note_is_none(tmp_path: Path, metadata: Any) -> None:
    assert noted_session(notebook(tmp_path, metadata)) == ""


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"metadata":', b"null"])
def test_a_file_that_is_no_notebook_has_no_note(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.ipynb"
    path.write_bytes(content)

    assert noted_session(str(path)) == ""


def test_only_notebooks_are_read_and_none_that_is_not_there_or_too_large(tmp_path: Path) -> None:
    large = tmp_path / "large.ipynb"
    with large.open("wb") as file:
        file.truncate(MAX_BYTES + 1)

    assert noted_session(notebook(tmp_path, {"ozzie": {"session": SESSION}}, "a.json")) == ""
    assert noted_session(str(tmp_path / "none.ipynb")) == ""
    assert noted_session(str(tmp_path)) == ""
    assert noted_session(str(large)) == ""
    assert noted_session("") == ""
    assert noted_session("nul\0.ipynb") == ""
