"""A cell that comes while the kernel still loads what cells need, or finds that it can't be loaded."""

import contextlib
import queue
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.gateway.test_rest import until
from tests.rig import Gateway, GatewayHome, Kernel

pytestmark = pytest.mark.timeout(120)

BROKEN = "raise ImportError('a broken\\npackage')"
WAITING = """
import os, time
open("loading", "w").close()
for _ in range(3000):
    if os.path.exists("go"):
        break
    time.sleep(0.01)
raise ImportError("it has been waited for")
"""


def in_place_of_the_library(home: GatewayHome, code: str) -> Path:
    """A module of the notebook's folder that is found before the one that cells need, and that no ready kernel has."""
    file = home.project / "msgspec.py"
    file.write_text(code)
    return file


def interrupted(kernel: Kernel, request: str) -> list[str]:
    """The errors among the outputs of a cell that is interrupted until it ends: where exactly it is, no front end can
    know."""
    errors: list[str] = []
    for _ in range(600):
        kernel.interrupt()
        with contextlib.suppress(queue.Empty):
            message = kernel.client.get_iopub_msg(timeout=0.1)
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["header"]["msg_type"] == "error":
                errors.append(message["content"]["ename"])
            if message["content"].get("execution_state") == "idle":
                return errors
    raise TimeoutError


def test_a_kernel_that_can_not_load_says_so_in_each_cell_and_works_once_it_can(
    gateway: Gateway, new_kernel: Callable[[], Kernel]
) -> None:
    file = in_place_of_the_library(gateway.home, BROKEN)
    kernel = new_kernel()

    first, again = kernel.run("hello"), kernel.run("hello")
    file.unlink()
    mended = kernel.run("hello")

    for output in (first, again):
        assert (output.status, output.ename) == ("error", "Unavailable")
        assert output.evalue.startswith("Ozzie could not be loaded (ImportError: a broken package).")
        assert "your message is kept" in output.evalue
    assert (mended.status, "Offline script" in mended.markdown) == ("ok", True)


def test_a_cell_that_waits_for_the_loading_can_be_stopped_and_others_answered(
    gateway: Gateway, new_kernel: Callable[[], Kernel]
) -> None:
    file = in_place_of_the_library(gateway.home, WAITING)
    kernel = new_kernel()
    request = kernel.send("hello", cell_id="")
    until((gateway.home.project / "loading").exists)

    stopped = interrupted(kernel, request)
    python = kernel.run("%%python\nprint(6 * 7)")
    (gateway.home.project / "go").touch()
    file.unlink()
    after = kernel.run("hello")

    assert stopped == ["KeyboardInterrupt"], "what runs notebooks looks for it among a cell's outputs"
    assert (python.status, python.streamed) == ("ok", "42\n")
    assert after.status in ("ok", "error"), "the loading that was begun may be the one that fails"
