"""Real kernels of a real kernel manager, as a Jupyter Server has them, in the loop of the tests."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.jupyter.documents import Jupyter
from ozzie_server_ext.jupyter.kernels import Kernels
from tests.integration.jupyter.rig import KernelBench, quiet
from tests.integration.jupyter.turns import Turns
from tests.scripted_gateway import ScriptedOzzie


@pytest_asyncio.fixture(loop_scope="package", scope="package")
async def kernels(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KernelBench]:
    """One server's, for all tests here; each kernel is started at its first use."""
    folder = tmp_path_factory.mktemp("kernels")
    with quiet(folder):
        bench = KernelBench(folder)
        yield bench
        await bench.stop()


@pytest_asyncio.fixture(loop_scope="package")
async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    home, project = Home(tmp_path / "home"), tmp_path / "project"
    home.create()
    project.mkdir()
    started: list[ScriptedOzzie] = []

    async def begin(kernels: Kernels, rules: str = "") -> Turns:
        if rules:
            home.policy_file.write_text(rules)
        ozzie = await ScriptedOzzie.start(home, project, Jupyter(kernels=kernels))
        assert isinstance(ozzie, ScriptedOzzie)
        started.append(ozzie)
        return Turns(ozzie)

    yield begin
    for ozzie in started:
        assert (await ozzie.log.verify()).ok
        await ozzie.stop()
