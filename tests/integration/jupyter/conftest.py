"""Real kernels of a real kernel manager, as a Jupyter Server has them, in the loop of the tests."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.integration.jupyter.rig import KernelBench, quiet


@pytest_asyncio.fixture(loop_scope="package", scope="package")
async def kernels(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KernelBench]:
    """One server's, for all tests here; each kernel is started at its first use."""
    folder = tmp_path_factory.mktemp("kernels")
    with quiet(folder):
        bench = KernelBench(folder)
        yield bench
        await bench.stop()
