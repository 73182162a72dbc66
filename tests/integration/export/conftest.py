from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.integration.export.recorded import Home


@pytest_asyncio.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    home = await Home.open(tmp_path / "data")
    yield home
    await home.log.close()
