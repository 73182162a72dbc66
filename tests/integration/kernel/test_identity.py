"""Whose session a notebook goes on in, with real kernels on real files: moved, copied, run again."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rig import GatewayHome, Kernel, new_home, start_kernel

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayHome]:
    home = new_home(tmp_path_factory.mktemp("identity"))
    yield home
    home.stop_gateways()


@contextmanager
def kernel_of(home: GatewayHome, notebook: Path) -> Iterator[Kernel]:
    kernel = start_kernel(replace(home, env={**home.env, "JPY_SESSION_NAME": str(notebook)}))
    try:
        yield kernel
    finally:
        kernel.stop()


def note(notebook: Path, session: str = "") -> None:
    """What a page leaves in the file when it is saved."""
    metadata = {"ozzie": {"session": session}} if session else {}
    notebook.write_text(json.dumps({"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))


def session_of(kernel: Kernel) -> str:
    found = re.search(r"sess_\w{26}", kernel.run("%session").markdown.replace("\\", ""))
    assert found is not None
    return found[0]


def test_a_notebook_that_was_moved_goes_on_and_a_copy_says_that_it_is_one(home: GatewayHome) -> None:
    notebook = home.project / "a.ipynb"
    note(notebook)
    with kernel_of(home, notebook) as kernel:
        kernel.run("My name is Ana.", cell_id="one")
        session = session_of(kernel)
    note(notebook, session)
    moved = notebook.rename(home.project / "moved.ipynb")
    with kernel_of(home, moved) as kernel:
        assert session_of(kernel) == session

    copy = home.project / "copy.ipynb"
    copy.write_bytes(moved.read_bytes())
    with kernel_of(home, copy) as kernel:
        output = kernel.run("Say hello.", cell_id="two")
        fork = session_of(kernel)
    assert fork != session
    assert "This notebook is a copy." in output.markdown
    assert "**a.ipynb**" in output.markdown
    with kernel_of(home, copy) as kernel:
        assert "This notebook is a copy." not in kernel.run("Say hello.", cell_id="three").markdown
        assert session_of(kernel) == fork


def test_a_cell_that_is_run_again_by_a_new_kernel_is_announced_once_and_says_what_it_repeats(home: GatewayHome) -> None:
    notebook = home.project / "again.ipynb"
    note(notebook)
    with kernel_of(home, notebook) as kernel:
        first = kernel.run("What is 2+2? Use the calculator.", cell_id="one")
        second = kernel.run("What is 2+2? Use the calculator.", cell_id="one")
    assert "ran" not in first.markdown.split("Ozzie:")[0]
    assert "before, last on" not in second.markdown  # the person who runs it again knows

    with kernel_of(home, notebook) as kernel:
        announced = kernel.run("What is 2+2? Use the calculator.", cell_id="one")
        after = kernel.run("Say hello.", cell_id="two")
    assert "Cells of this notebook ran 2 times before, last on" in announced.markdown
    assert "none of them changed anything" in announced.markdown
    assert announced.markdown.index("Cells of this notebook") < announced.markdown.index("calculator")
    assert "Cells of this notebook" not in after.markdown


def test_a_new_cell_in_a_notebook_with_a_history_is_no_repetition(home: GatewayHome) -> None:
    notebook = home.project / "goes-on.ipynb"
    note(notebook)
    with kernel_of(home, notebook) as kernel:
        kernel.run("Say hello.", cell_id="one")
    with kernel_of(home, notebook) as kernel:
        assert "Cells of this notebook" not in kernel.run("Say hello.", cell_id="two").markdown
