"""A gateway for the examples."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.tasks.runs_rig import Runs, runs_in


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runs]:
    """A gateway without HTTP on a home of its own, whose model is a script."""
    async with runs_in(tmp_path, monkeypatch, Runs) as found:
        yield found
