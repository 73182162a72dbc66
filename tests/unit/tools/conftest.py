"""A project folder, and what a tool is given to run in it."""

from pathlib import Path

import pytest

from ozzie_server_ext.observability.clock import FakeClock
from ozzie_server_ext.tools.base import ToolContext


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a folder, two files and, beside it, a secret that no tool may read."""
    root = tmp_path / "project"
    (root / "data").mkdir(parents=True)
    (root / "data" / "sales.csv").write_text("a,b\n1,2\n")
    (root / "readme.md").write_text("hello\n")
    (tmp_path / "secret.txt").write_text("SECRET")
    return root


@pytest.fixture
def context(project: Path) -> ToolContext:
    return ToolContext(project, FakeClock())
