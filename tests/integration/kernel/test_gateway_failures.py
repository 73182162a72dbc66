"""A gateway that can't be reached, can't start or goes away: each has its sentence, and the next cell works."""

import asyncio
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from ozzie_kernel import connect as connecting
from ozzie_kernel.connect import reach
from ozzie_kernel.launch import Launched, launch_gateway
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.protocol.handshake import VERSION, Handshake, owner_lock_path
from tests.fakes.openai_server import FakeOpenAI
from tests.rig import GatewayHome, Kernel, Output, start_gateway, start_kernel

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def kernels(home: GatewayHome) -> Iterator[list[Kernel]]:
    """Those that a test starts; shut down at its end, and then the gateways that they started."""
    started: list[Kernel] = []
    yield started
    for kernel in started:
        kernel.stop()
    home.stop_gateways()


def assert_told(output: Output, sentence: str, hint: str) -> None:
    assert output.status == "error"
    assert sentence in output.markdown
    assert hint in output.markdown
    assert "Traceback" not in output.markdown
    assert "error" not in output.messages


def test_a_folder_that_can_not_be_used_is_named(home: GatewayHome, kernels: list[Kernel]) -> None:
    shutil.rmtree(home.home)
    home.home.write_text("a file in its place")
    kernels.append(start_kernel(home))

    output = kernels[0].run("hello")

    assert_told(output, "can't be used: ", "set OZZIE_PATH to another folder")
    home.home.unlink()
    assert kernels[0].run("hello").status == "ok"


def test_a_gateway_that_can_not_start_says_why(home: GatewayHome, kernels: list[Kernel]) -> None:
    (home.home / "data").mkdir()
    (home.home / "data" / "ozzie.db").write_bytes(b"this is no database" * 100)
    kernels.append(start_kernel(home))

    output = kernels[0].run("hello")

    assert_told(output, "Ozzie's gateway could not be started: ", "jupyter lab")
    assert "database" in output.markdown
    assert home.handshake() is None


def test_a_gateway_of_another_version_is_told_apart(home: GatewayHome, kernels: list[Kernel]) -> None:
    other = home.runtime / f"ozzie-{os.getpid()}.json"
    other.write_text(json.dumps({"v": VERSION + 1, "home": str(home.home), "pid": os.getpid(), "address": "elsewhere"}))
    other.chmod(0o600)
    lock = owner_lock_path(home.home)
    lock.parent.mkdir()
    lock.write_text(str(os.getpid()))
    kernels.append(start_kernel(home))

    output = kernels[0].run("hello")

    assert_told(output, "is of another version of Ozzie.", "Restart Jupyter")
    other.unlink()
    lock.unlink()
    assert kernels[0].run("hello").status == "ok"


def test_a_gateway_that_goes_away_in_mid_turn_is_replaced_and_the_turn_goes_on(
    home: GatewayHome, kernels: list[Kernel], fake_openai: FakeOpenAI
) -> None:
    home.use_provider(fake_openai.url, "endless", "echo")
    with start_gateway(home) as gateway:
        kernels.append(kernel := start_kernel(home))
        request = kernel.send("go on for ever")
        kernel.output(request, until_live="jp-RenderedHTMLCommon")

        gateway.kill()
        kernel.output(request, until_live="continued after a restart")
        kernel.interrupt()
        output = kernel.output(request)

    assert "Stopped here by you." in output.markdown
    kernel.run("%model echo")
    assert "still there" in kernel.run("still there").markdown


def test_a_gateway_of_ones_own_that_was_killed_is_replaced_at_once(home: GatewayHome, kernels: list[Kernel]) -> None:
    kernels.append(kernel := start_kernel(home))
    kernel.run("hello")
    gateway = home.handshake()
    assert gateway is not None
    killed = psutil.Process(gateway.pid)
    killed.kill()
    end = time.monotonic() + 20
    while killed.is_running() and killed.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        time.sleep(0.01)
    kernel.run("%%python\n1")  # needs no gateway, and lets the kernel's loop come round to the end of the connection

    began = time.monotonic()
    assert kernel.run("hello again").status == "ok"
    # Where its parent does not reap it, it looks alive, and is waited for in vain.
    assert time.monotonic() - began < connecting.OWNER_WAIT_S


def test_a_connection_that_ended_between_two_cells_is_made_anew(home: GatewayHome, kernels: list[Kernel]) -> None:
    with start_gateway(home):
        kernels.append(kernel := start_kernel(home))
        kernel.run("%session title Before")
    with start_gateway(home):
        assert kernel.run("hello").status == "ok"


async def test_a_gateway_that_was_started_in_vain_is_ended(home: GatewayHome, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OZZIE_PATH", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, home.env[name])
    started: list[Launched] = []

    def launch(folder: object) -> Launched:
        started.append(launch_gateway(home.home))
        return started[-1]

    async def refuse(handshake: Handshake) -> None:
        raise Unavailable("It does not answer.", code="gateway.unreachable")

    monkeypatch.setattr(connecting, "launch_gateway", launch)
    monkeypatch.setattr(connecting, "START_WAIT_S", 0.1)

    with pytest.raises(Unavailable, match="could not be reached"):
        await reach(refuse, home.env)
    await asyncio.to_thread(started[0].process.wait, 30)
    assert not psutil.pid_exists(started[0].process.pid) or started[0].ended


async def test_an_account_without_any_folder_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(connecting.Path, "home", none)

    with pytest.raises(Unavailable, match="OZZIE_PATH names no folder") as caught:
        await reach(lambda handshake: asyncio.sleep(0), {})
    assert "Set OZZIE_PATH" in caught.value.hint


def test_a_kernel_of_an_account_without_a_folder_says_so(home: GatewayHome, kernels: list[Kernel]) -> None:
    env = {name: value for name, value in home.env.items() if name != "OZZIE_PATH"} | {"OZZIE_PATH": "~/nowhere"}
    kernels.append(start_kernel(replace(home, env={**env, "HOME": "/proc/nothing-can-be-made-here"})))

    assert_told(kernels[0].run("hello"), "can't be used", "OZZIE_PATH")
