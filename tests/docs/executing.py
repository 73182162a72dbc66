"""A notebook that comes with Ozzie, run from top to bottom without a key and with nobody there to be asked."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat

from tests.rig import GatewayHome, new_home
from tests.warm import run_warm

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
OFFLINE = "Offline script, not a language model. Connect a model for real answers: %model"


@contextmanager
def executed(name: str, folder: Path) -> Iterator[tuple[Any, GatewayHome]]:
    """The notebook after a run in a home of its own, and that home, with its project."""
    home = new_home(folder)
    shutil.copytree(NOTEBOOKS, home.project, dirs_exist_ok=True)
    command = [sys.executable, "-m", "nbconvert", "--to=notebook", "--execute", "--inplace", name]
    run_warm(command, env=home.env, cwd=home.project, timeout=150).check_returncode()
    try:
        yield nbformat.read(home.project / name, as_version=4), home
    finally:
        home.stop_gateways()


def shown(cell: Any) -> str:
    """All Markdown below a cell."""
    return "\n".join(output["data"].get("text/markdown", "") for output in cell["outputs"] if "data" in output)
