"""Code in real kernels: what comes of it, and that nothing of the user's is touched that was not asked for."""

import asyncio

import pytest

from ozzie_server_ext.jupyter.kernels import Ended
from ozzie_server_ext.jupyter.outputs import text_of
from tests.integration.jupyter.rig import KernelBench

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_code_runs_as_a_cell_that_counts_and_gives_its_outputs(kernels: KernelBench) -> None:
    kernel = await kernels.kernel()
    first = await kernels.run(kernel, "x = 41\nprint('hello')\nx + 1")
    second = await kernels.run(kernel, "_ + x")
    assert first.ended is Ended.DONE
    assert first.execution_count is not None
    assert second.execution_count == first.execution_count + 1
    assert text_of(first.outputs) == "hello\n42"
    assert text_of(second.outputs) == "83"
