"""A cell that comes while the kernel still loads what cells need, or finds that it can't be loaded."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.gateway.test_rest import until
from tests.rig import Gateway, GatewayHome, Kernel

pytestmark = [pytest.mark.cold, pytest.mark.timeout(120)]

WAIT_S = 20

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


def wait_until_it_waits(kernel: Kernel) -> None:
    """A request that only reads is answered beside a cell once that cell waits for something, and not before. An
    interrupt that comes earlier than that is ipykernel's."""
    request = kernel.client.kernel_info()
    while kernel.client.get_shell_msg(timeout=WAIT_S)["parent_header"].get("msg_id") != request:
        pass


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

    wait_until_it_waits(kernel)
    kernel.interrupt()
    stopped = kernel.output(request)
    python = kernel.run("%%python\nprint(6 * 7)")
    (gateway.home.project / "go").touch()
    file.unlink()
    kernel.run("hello")  # it waits for the loading that was begun, which fails
    after = kernel.run("hello")

    assert (stopped.status, stopped.ename) == ("error", "KeyboardInterrupt")
    assert "error" in stopped.messages, "what runs notebooks looks for it among a cell's outputs"
    assert (python.status, python.streamed) == ("ok", "42\n")
    assert (after.status, "Offline script" in after.markdown) == ("ok", True), "the next one loads anew"


def test_a_kernel_starts_without_a_debugger_and_cells_can_load_it(
    gateway: Gateway, new_kernel: Callable[[], Kernel]
) -> None:
    kernel = new_kernel()

    assert kernel.run("%%python\nimport sys\nprint('debugpy' in sys.modules)").streamed == "False\n"
    assert kernel.run("%%python\nimport debugpy\nprint(debugpy.__name__)").streamed.endswith("debugpy\n")
