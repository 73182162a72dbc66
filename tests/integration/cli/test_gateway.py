"""`ozzie gateway`: left running, found running, stopped (GW-1)."""

import json
import os
import socket
import subprocess
import sys
import time

import psutil
import pytest

from ozzie_server_ext.protocol.attached import attached_servers
from ozzie_server_ext.protocol.handshake import Handshake
from tests.acceptance.test_record import ozzie
from tests.rig import START_S, GatewayHome, start_jupyter, wait_for_attached


def test_one_is_left_running_answers_at_once_and_is_stopped(home: GatewayHome) -> None:
    started = ozzie(home, "gateway", "--detach", "--port", "0", "--json")
    found = json.loads(started.stdout)
    process = psutil.Process(found["pid"])
    health = json.loads(ozzie(home, "status", "--json").stdout)
    again = ozzie(home, "gateway", "--detach", "--port", "0")
    stopped = ozzie(home, "gateway", "--stop")

    assert (started.returncode, health["pid"], health["headless"]) == (0, found["pid"], True)
    assert found["url"].startswith("http://127.0.0.1:")
    assert again.returncode == 1
    assert f"A gateway runs already (process {found['pid']})." in again.stderr
    assert (stopped.returncode, stopped.stdout) == (0, f"The gateway (process {found['pid']}) is stopped.\n")
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    assert list(home.runtime.glob("ozzie-*.json")) == []
    assert ozzie(home, "gateway", "--stop").returncode == 1


def test_it_runs_apart_from_the_terminal_that_began_it(home: GatewayHome) -> None:
    started = ozzie(home, "gateway", "--detach", "--port", "0")
    handshake = home.handshake()
    assert handshake is not None
    try:
        assert started.stdout == f"The gateway runs: process {handshake.pid}, {handshake.url}\n"
        assert os.getsid(handshake.pid) == handshake.pid
        assert os.getsid(handshake.pid) != os.getsid(0)
        assert psutil.Process(handshake.pid).cwd() == str(home.project)
    finally:
        ozzie(home, "gateway", "--stop")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--port", "99999"), "99999 is no port"),
        (("--project", "/nonexistent"), "/nonexistent is no folder"),
    ],
)
def test_why_it_did_not_start_is_told(home: GatewayHome, arguments: tuple[str, ...], says: str) -> None:
    done = ozzie(home, "gateway", "--detach", *arguments)

    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr
    assert "gateway-start.log" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_told(home: GatewayHome) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = ozzie(home, "gateway", "--detach", "--port", port, "--json")

    error = json.loads(done.stderr)
    assert (done.returncode, error["code"]) == (1, "gateway.start")
    assert f"port {port} is not available" in error["message"]


def test_a_broken_configuration_is_told_with_its_place(home: GatewayHome) -> None:
    (home.home / "config.jsonc").write_text('{"gateway": {"port": "x"}}')

    done = ozzie(home, "gateway", "--detach")

    assert done.returncode == 1
    assert "config.jsonc, line 1, column 14: gateway.port" in done.stderr


def test_beside_a_lab_it_is_attached_is_stopped_alone_and_takes_over_when_the_lab_goes(home: GatewayHome) -> None:
    with start_jupyter(home) as lab:
        started = ozzie(home, "gateway", "--detach", "--port", "0")
        (attached,) = attached_servers(home.home)
        told = ozzie(home, "status")
        again = ozzie(home, "gateway", "--detach", "--port", "0")
        stopped = ozzie(home, "gateway", "--stop")
        alone = ozzie(home, "status")
        once_more = json.loads(ozzie(home, "gateway", "--detach", "--port", "0", "--json").stdout)
    try:
        after = wait_for_owner(home, once_more["pid"])
    finally:
        ended = ozzie(home, "gateway", "--stop")

    owner = f"It is attached to the server of process {lab.process.pid}, and takes over when that one goes."
    assert started.stdout.splitlines() == [f"The gateway runs: process {attached.pid}, {attached.url}", owner]
    assert f"  attached the gateway alone, process {attached.pid}, {attached.url}\n" in told.stdout
    assert "  server   Jupyter\n" in told.stdout
    assert f"A gateway runs already (process {attached.pid})." in again.stderr
    assert stopped.stdout == f"The gateway (process {attached.pid}) is stopped.\n"
    assert "attached" not in alone.stdout
    assert once_more["owner"] == lab.process.pid
    assert after.url == once_more["url"]
    assert ended.stdout == f"The gateway (process {once_more['pid']}) is stopped.\n"


def test_in_the_foreground_it_says_that_it_is_attached(home: GatewayHome) -> None:
    with start_jupyter(home) as lab:
        command = [sys.executable, "-m", "ozzie_server_ext.cli.main", "gateway", "--port", "0"]
        gateway = subprocess.Popen(command, env=dict(home.env), cwd=home.project, stderr=subprocess.PIPE, text=True)
        assert gateway.stderr is not None
        said = gateway.stderr.readline()
        wait_for_attached(home, gateway, home.home.parent / "gateway.log")
        gateway.terminate()
        gateway.communicate(timeout=20)

    assert (
        said
        == f"This gateway is attached to the server of process {lab.process.pid}, and takes over when that one goes.\n"
    )
    assert gateway.returncode == 0


def test_a_person_can_have_a_gateway_where_a_kernel_or_command_had_started_one(home: GatewayHome) -> None:
    ozzie(home, "ask", "hello")
    before = home.handshake()
    told = ozzie(home, "status")
    try:
        started = json.loads(ozzie(home, "gateway", "--detach", "--port", "0", "--json").stdout)
        after = wait_for_owner(home, started["pid"])
        health = json.loads(ozzie(home, "status", "--json").stdout)
    finally:
        ended = ozzie(home, "gateway", "--stop")

    assert before is not None
    assert "  server   the gateway alone, for a while\n" in told.stdout
    assert started["owner"] in (before.pid, after.pid)
    assert (health["pid"], health["temporary"]) == (started["pid"], False)
    assert ended.returncode == 0


def wait_for_owner(home: GatewayHome, pid: int) -> Handshake:
    """The handshake of that process, once it owns the home."""
    end = time.monotonic() + START_S
    while (found := home.handshake()) is None or found.pid != pid:
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def test_a_jupyter_server_is_not_stopped(home: GatewayHome) -> None:
    with start_jupyter(home) as server:
        done = ozzie(home, "gateway", "--stop", "--json")
        alive = server.process.poll() is None

    error = json.loads(done.stderr)
    assert (done.returncode, error["code"], alive) == (1, "gateway.jupyter", True)
    assert f"process {server.process.pid}" in error["message"]
