import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.observability.clock import CountingIds


@pytest.fixture
def project(open_folder: Path) -> Path:
    """A project that other users may read, as a job is one where the tests run as root."""
    folder = open_folder / "project"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.md").write_text("one\n")
    (folder / "data.csv").write_text("x,y\n1,2\n")
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
async def runner() -> AsyncIterator[BubblewrapRunner]:
    runner = BubblewrapRunner(CountingIds())
    try:
        await runner.ready()
    except Unavailable as error:
        if os.environ.get("OZZIE_REQUIRE_SANDBOX"):
            raise
        pytest.skip(f"{error} {error.hint}")
    yield runner
    await runner.close()
