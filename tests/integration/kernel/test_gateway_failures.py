"""A gateway that can't be reached, can't start or goes away: each has its sentence, and the next cell works."""

import asyncio
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ozzie_kernel import connect as connecting
from ozzie_kernel.connect import reach
from ozzie_kernel.launch import Launched, launch_gateway
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.protocol.handshake import VERSION, Handshake
from ozzie_server_ext.protocol.owner import owner_lock_path
from tests.fakes.openai_server import FakeOpenAI
from tests.integration.gateway.walk import ask
from tests.rig import Gateway, GatewayHome, Kernel, Output, start_gateway, start_kernel

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

    assert_told(output, "Ozzie's gateway could not be started: ", "Put a backup of the folder data in its place")
    assert "database" in output.markdown
    assert home.handshake() is None


def _make_newer(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 999")


def _break_off(database: Path) -> None:
    raw = bytearray(database.read_bytes())
    raw[4096:] = b"\xa5" * (len(raw) - 4096)
    database.write_bytes(raw)


def _replace(database: Path) -> None:
    database.unlink()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE somebody_elses (a)")


@pytest.mark.parametrize(
    ("happen", "sentence", "hint"),
    [
        (_make_newer, "was made by a newer Ozzie.", "Upgrade this Ozzie"),
        pytest.param(
            *(_break_off, "is damaged: ", "Put a backup of the folder data in its place"), marks=pytest.mark.soak
        ),
        pytest.param(
            *(_replace, "is another program's database.", "Set OZZIE_PATH to another folder."), marks=pytest.mark.soak
        ),
    ],
)
def test_a_log_that_can_not_be_used_is_told_with_what_to_do_and_left_as_it_is(
    home: GatewayHome, kernels: list[Kernel], happen: Callable[[Path], None], sentence: str, hint: str
) -> None:
    database = home.home / "data" / "ozzie.db"
    with start_gateway(home):
        pass
    kept = database.read_bytes()
    happen(database)
    harmed = database.read_bytes()
    kernels.append(start_kernel(home))

    refused = kernels[0].run("hello")

    assert_told(refused, sentence, hint)
    assert refused.markdown.index(sentence) < refused.markdown.index("**\n") < refused.markdown.index(hint)
    assert database.read_bytes() == harmed
    database.write_bytes(kept)
    assert kernels[0].run("hello").status == "ok"


def test_a_log_that_another_program_holds_is_told_and_the_next_cell_works(
    home: GatewayHome, kernels: list[Kernel]
) -> None:
    kernels.append(start_kernel(home))
    assert kernels[0].run("hello").status == "ok"
    with closing(sqlite3.connect(home.home / "data" / "ozzie.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = kernels[0].run("hello")
        other.execute("ROLLBACK")

    assert_told(refused, "The event log can't be used: database is locked.", "Another program holds the database.")
    assert kernels[0].run("hello").status == "ok"


def test_a_disk_that_takes_nothing_more_is_told_and_when_it_does_again_the_next_cell_works(
    home: GatewayHome, kernels: list[Kernel]
) -> None:
    """As large as its files may get by now: that is where a write of the gateway's fails as on a full disk."""
    with start_gateway(home) as gateway:
        kernels.append(start_kernel(home))
        assert kernels[0].run("hello").status == "ok"
        written = (home.home / "data" / "ozzie.db-wal").stat().st_size
        psutil.Process(gateway.process.pid).rlimit(psutil.RLIMIT_FSIZE, (written, psutil.RLIM_INFINITY))
        refused = kernels[0].run("hello")
        psutil.Process(gateway.process.pid).rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))

        assert_told(refused, "The event log can't be used: ", "may not make files any larger")
        assert kernels[0].run("hello").status == "ok"


def test_a_gateway_of_another_version_is_told_apart(home: GatewayHome, kernels: list[Kernel]) -> None:
    other = home.runtime / f"ozzie-{os.getpid()}.json"
    other.write_text(json.dumps({"v": VERSION + 1, "home": str(home.home), "pid": os.getpid(), "address": "elsewhere"}))
    other.chmod(0o600)
    lock = owner_lock_path(home.home)
    lock.parent.mkdir()
    lock.write_text(str(os.getpid()))
    kernels.append(start_kernel(home))

    output = kernels[0].run("hello")

    assert_told(output, "has another version of Ozzie.", "Restart Jupyter")
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


@pytest.mark.soak
def test_a_turn_that_is_stopped_while_its_gateway_is_gone_is_stopped_by_the_next(
    home: GatewayHome, kernels: list[Kernel], fake_openai: FakeOpenAI
) -> None:
    home.use_provider(fake_openai.url, "endless")
    with start_gateway(home) as gateway:
        kernels.append(kernel := start_kernel(home))
        request = kernel.send("go on for ever")
        kernel.output(request, until_live="jp-RenderedHTMLCommon")

        gateway.kill()
        kernel.interrupt()
        output = kernel.output(request)

    assert output.status == "error"
    shown = output.markdown
    assert "Stopped here by you." in shown or "The turn is stopped as soon as it does." in shown
    after = wait_for_handshake(home)
    status, tasks = ask(after, "GET", "/ozzie/api/tasks", token=after.token)
    end = time.monotonic() + 60
    while status != 200 or [task["status"] for task in tasks["items"]] != ["CANCELLED"]:
        assert time.monotonic() < end, tasks
        time.sleep(0.1)
        status, tasks = ask(after, "GET", "/ozzie/api/tasks", token=after.token)


def test_a_stop_that_no_gateway_could_take_is_kept_for_the_next_that_runs(
    home: GatewayHome, kernels: list[Kernel], fake_openai: FakeOpenAI
) -> None:
    home.use_provider(fake_openai.url, "endless")
    aside = home.home.with_name("aside")
    with start_gateway(home) as gateway:
        kernels.append(kernel := start_kernel(home))
        request = kernel.send("go on for ever")
        kernel.output(request, until_live="jp-RenderedHTMLCommon")

        process = psutil.Process(gateway.process.pid)
        process.suspend()
        kernel.interrupt()
        wait_for_unread_bytes(process)
        # From here on no gateway can start.
        home.home.rename(aside)
        home.home.write_text("a file in its place")
        gateway.kill()
        output = kernel.output(request)

    assert_told(output, "can't be used: ", "The turn is stopped as soon as a gateway runs")
    home.home.unlink()
    aside.rename(home.home)
    with start_gateway(home) as after:
        end = time.monotonic() + 60
        while (found := tasks(after)) != ["CANCELLED"]:
            assert time.monotonic() < end, found
            time.sleep(0.1)
    assert kernel.run("%session").status == "ok"


def tasks(gateway: Gateway) -> list[str]:
    """The states of all tasks; none while the gateway does not answer."""
    status, found = ask(gateway, "GET", "/ozzie/api/tasks", token=gateway.token)
    return [task["status"] for task in found["items"]] if status == 200 else []


def wait_for_handshake(home: GatewayHome) -> Gateway:
    """The gateway that the kernel has started, as a client of it."""
    end = time.monotonic() + 60
    while (handshake := home.handshake()) is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    return Gateway(home, psutil.Process(handshake.pid), handshake.url, handshake.token)  # pyright: ignore[reportArgumentType]


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


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("%session", marks=pytest.mark.soak),
        pytest.param("%session list", marks=pytest.mark.soak),
        "%session title After",
    ],
)
def test_a_command_whose_gateway_dies_under_it_is_answered_by_the_next(
    home: GatewayHome, kernels: list[Kernel], command: str
) -> None:
    kernels.append(kernel := start_kernel(home))
    kernel.run("%session title Before")
    gateway = home.handshake()
    assert gateway is not None
    process = psutil.Process(gateway.pid)

    process.suspend()
    request = kernel.send(command)
    wait_for_unread_bytes(process)
    process.kill()
    output = kernel.output(request)

    assert output.status == "ok"
    assert "error" not in output.messages
    after = home.handshake()
    assert after is not None
    assert after.pid != gateway.pid
    assert ("After" if command.endswith("After") else "Before") in kernel.run("%session").markdown


def wait_for_unread_bytes(process: psutil.Process) -> None:
    """Until somebody has sent to a connection of the process, or asked for one, what it has not read."""
    (port,) = {at.laddr.port for at in process.net_connections("tcp") if at.status == psutil.CONN_LISTEN}
    end = time.monotonic() + 30
    while not unread_bytes(port):
        assert time.monotonic() < end, "nobody asks the gateway"
        time.sleep(0.01)


def unread_bytes(port: int) -> int:
    """Of a listening socket, it is the number of connections that wait to be accepted (proc(5), /proc/net/tcp)."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[4].split(":")[1], 16) for row in rows if int(row[1].split(":")[1], 16) == port)


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


@pytest.mark.parametrize(
    "killed", [1, pytest.param(connecting.MAX_KILLED, marks=pytest.mark.soak), connecting.MAX_KILLED + 1]
)
async def test_a_gateway_that_is_killed_while_it_starts_is_followed_by_another_a_few_times(
    home: GatewayHome, monkeypatch: pytest.MonkeyPatch, killed: int
) -> None:
    for name in ("OZZIE_PATH", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, home.env[name])
    started: list[Launched] = []

    def launch(folder: object) -> Launched:
        launched = launch_gateway(home.home)
        started.append(launched)
        if len(started) <= killed:
            launched.process.kill()
            launched.process.wait(20)
        return launched

    async def take(handshake: Handshake) -> int:
        return handshake.pid

    monkeypatch.setattr(connecting, "launch_gateway", launch)

    if killed <= connecting.MAX_KILLED:
        assert await reach(take, home.env) == started[-1].process.pid
        assert len(started) == killed + 1
        started[-1].end()
        await asyncio.to_thread(started[-1].process.wait, 30)
    else:
        with pytest.raises(Unavailable, match="could not be reached"):
            await reach(take, home.env)
        assert len(started) == killed


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
