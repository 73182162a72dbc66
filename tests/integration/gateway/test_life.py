"""How a gateway begins and ends."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.rig import Gateway, GatewayHome, start_gateway, wait_for_handshake
from tests.warm import run_warm
from tests.ws_client import connected


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_order_and_takes_its_handshake_along(home: GatewayHome, how: signal.Signals) -> None:
    with start_gateway(home) as gateway:
        gateway.process.send_signal(how)

        assert gateway.process.wait(20) == 0
    assert list(home.runtime.glob("ozzie-*.json")) == []


def test_a_signal_stops_it_whatever_lies_at_the_place_of_its_handshake(gateway: Gateway) -> None:
    (handshake,) = gateway.home.runtime.glob("ozzie-*.json")
    handshake.unlink()
    handshake.mkdir()

    gateway.process.send_signal(signal.SIGTERM)

    assert gateway.process.wait(20) == 0


async def test_it_ends_by_itself_when_nobody_has_used_it_for_a_while(home: GatewayHome) -> None:
    with start_gateway(home, "--idle-exit", "1") as gateway:
        async with connected(gateway) as client:
            opened = await client.request("session.open", session_name="one")
            assert opened["ok"]
        # The client has gone.
        assert gateway.process.wait(20) == 0


def test_after_a_kill_the_next_one_takes_over(home: GatewayHome) -> None:
    with start_gateway(home) as first:
        first.kill()
    left = home.runtime / f"ozzie-{first.process.pid}.json"
    assert left.exists()
    with start_gateway(home) as second:
        found = home.handshake()

    assert not left.exists()
    assert found is not None
    assert found.pid == second.process.pid


def test_a_lock_that_was_given_back_names_nobody(gateway: Gateway) -> None:
    lock = gateway.home.home / "run" / "owner.lock"
    held = lock.read_text()

    gateway.process.terminate()
    gateway.process.wait(20)

    assert held == str(gateway.process.pid)
    assert lock.read_text() == ""


def test_a_home_that_cannot_be_used_is_told_in_a_sentence(home: GatewayHome) -> None:
    blocked = home.home.parent / "a-file"
    blocked.write_text("")
    command = [sys.executable, "-m", "ozzie_server_ext.programs.gateway", "--port", "0"]

    done = subprocess.run(
        command,
        env={**home.env, "OZZIE_PATH": str(blocked / "below")},
        cwd=home.project,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert "can't be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_configuration_keeps_a_persons_gateway_from_starting(home: GatewayHome) -> None:
    (home.home / "config.jsonc").write_text('{"gateway": {"port": "x"}}')
    command = [sys.executable, "-m", "ozzie_server_ext.programs.gateway"]

    done = subprocess.run(command, env=dict(home.env), cwd=home.project, capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    assert "config.jsonc, line 1" in done.stderr
    assert "gateway.port" in done.stderr


def test_a_gateway_whose_standard_error_is_closed_runs_all_the_same(home: GatewayHome) -> None:
    command = f"exec {shlex.quote(sys.executable)} -m ozzie_server_ext.programs.gateway --port 0 2>&-"
    with subprocess.Popen(["bash", "-c", command], env=dict(home.env), cwd=home.project) as process:
        wait_for_handshake(home, process, home.home / "logs" / "app" / "gateway.jsonl")
        process.terminate()

        assert process.wait(20) == 0
    assert "failed" not in (home.home / "logs" / "app" / "gateway.jsonl").read_text()


def test_a_disk_that_takes_nothing_keeps_it_from_starting_in_a_sentence(home: GatewayHome) -> None:
    home_folder = home.home
    limited = "import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY)); "
    program = "runpy.run_module('ozzie_server_ext.programs.gateway', run_name='__main__', alter_sys=True)"
    command = [sys.executable, "-c", limited + program, "--port", "0"]

    done = subprocess.run(command, env=dict(home.env), cwd=home.project, capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(home_folder) in done.stderr


@pytest.mark.parametrize("program", ["gateway", "worker"])
def test_an_interrupt_while_a_program_loads_ends_it_without_a_word(
    home: GatewayHome, tmp_path: Path, program: str
) -> None:
    """It is held up where it loads, by a package that waits."""
    os.mkfifo(loading := tmp_path / "loading")
    (tmp_path / "dotenv").mkdir()
    (tmp_path / "dotenv" / "__init__.py").write_text(f"open({str(loading)!r}, 'w').close(); input()\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [home.env.get("PYTHONPATH")])])
    command = [sys.executable, "-m", f"ozzie_server_ext.programs.{program}"]
    with subprocess.Popen(
        command, env={**home.env, "PYTHONPATH": path}, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        loading.read_text()  # returns once the other side has closed it
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)

    assert (process.returncode, said) == (-signal.SIGINT, "")


def run_gateway(home: GatewayHome, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A gateway that is expected to end by itself."""
    command = [sys.executable, "-m", "ozzie_server_ext.programs.gateway", *arguments]
    return run_warm(command, env=home.env, cwd=home.project)


@pytest.mark.parametrize("where", ["run/owner.lock", "logs/app/gateway.jsonl", "data/ozzie.db"])
def test_a_file_of_its_own_that_is_none_keeps_it_from_starting_in_a_sentence(home: GatewayHome, where: str) -> None:
    (home.home / where).mkdir(parents=True)

    done = run_gateway(home, "--port", "0")

    assert done.returncode == 1
    assert where.split("/")[-1] in done.stderr
    assert "Traceback" not in done.stderr
    assert list(home.runtime.glob("ozzie-*.json")) == []


def test_the_users_jupyter_configuration_cannot_move_it_off_loopback(home: GatewayHome) -> None:
    settings = home.home.parent / "jupyter-config"
    settings.mkdir()
    (settings / "jupyter_server_config.py").write_text("c.ServerApp.ip = '0.0.0.0'\nc.ServerApp.open_browser = True\n")

    with start_gateway(home) as gateway:
        connections = psutil.Process(gateway.process.pid).net_connections("tcp")

    listening = {connection.laddr[0] for connection in connections if connection.status == "LISTEN"}
    assert listening == {"127.0.0.1"}


def test_a_port_that_is_taken_is_not_exchanged_for_another(home: GatewayHome) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_gateway(home, "--port", str(port))

    assert done.returncode != 0
    assert str(port) in done.stderr


@pytest.mark.parametrize("arguments", [("--port", "99999"), ("--port", "x"), ("--project", "/nonexistent")])
def test_an_argument_that_cannot_be_is_refused_in_a_sentence(home: GatewayHome, arguments: tuple[str, str]) -> None:
    done = run_gateway(home, *arguments)

    assert done.returncode == 2
    assert arguments[1] in done.stderr
    assert "Traceback" not in done.stderr


def test_kernels_reach_a_server_that_listens_on_one_address_only(home: GatewayHome) -> None:
    home.configure({"gateway": {"host": "127.0.0.2", "port": 0}})
    log = (home.home.parent / "gateway.log").open("wb")
    command = [sys.executable, "-m", "ozzie_server_ext.programs.gateway"]
    gateway = subprocess.Popen(command, env=dict(home.env), cwd=home.project, stdout=log, stderr=log)
    try:
        handshake = wait_for_handshake(home, gateway, home.home.parent / "gateway.log")
        assert handshake.url.startswith("http://127.0.0.2:")
        with urllib.request.urlopen(
            urllib.request.Request(
                f"{handshake.url}ozzie/api/health", headers={"Authorization": f"token {handshake.token}"}
            ),
            timeout=20,
        ) as response:
            assert response.status == 200
    finally:
        gateway.terminate()
        gateway.wait(20)
        log.close()
