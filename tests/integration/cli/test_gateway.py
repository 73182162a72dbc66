"""`ozzie gateway`: left running, found running, stopped."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psutil
import pytest

from ozzie_server_ext.config.settings import GatewaySettings
from ozzie_server_ext.protocol.attached import attached_servers
from ozzie_server_ext.protocol.handshake import Handshake
from tests.rig import START_S, GatewayHome, ozzie, start_jupyter
from tests.warm import WarmPopen

ANY_PORT = ("--port", "0")


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
        (("--port", "99999"), "99999 is not a port"),
        (("--project", "/nonexistent"), "/nonexistent is not a folder"),
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


@contextmanager
def foreground(home: GatewayHome, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """A gateway as a person has it in a terminal; what that one shows is its standard error."""
    command = [sys.executable, "-m", "ozzie_server_ext.cli.main", "gateway", *arguments]
    with WarmPopen(
        command, env=home.env, cwd=home.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as gateway:
        try:
            yield gateway
        finally:
            gateway.kill()


def shown(gateway: "subprocess.Popen[str]") -> str:
    """The next line in its terminal."""
    assert gateway.stderr is not None
    return gateway.stderr.readline()


def test_in_the_foreground_it_says_a_sentence_for_each_change_of_its_state(home: GatewayHome) -> None:
    with start_jupyter(home) as lab, foreground(home, *ANY_PORT) as gateway:
        attached = shown(gateway)
        lab.kill()
        took_over = shown(gateway)
        found = wait_for_owner(home, gateway.pid)
        gateway.send_signal(signal.SIGINT)  # Ctrl C
        rest = gateway.communicate(timeout=20)

    assert attached == (
        f"This gateway is attached to the server of process {lab.process.pid}, and takes over when that one goes.\n"
    )
    assert took_over == (
        f"The server that this one was attached to is gone: Ozzie is ready at {found.url}; its folder is {home.home}.\n"
    )
    assert rest == ("", "The gateway is stopped.\n")
    assert gateway.returncode == 0


def test_what_the_server_logs_of_consequence_is_in_ozzies_log_and_not_in_the_terminal(home: GatewayHome) -> None:
    with foreground(home, *ANY_PORT) as gateway:
        ready = shown(gateway)
        found = wait_for_owner(home, gateway.pid)
        refused = urllib.request.Request(f"{found.url}ozzie/api/health", headers={"Host": "elsewhere.example"})
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(refused, timeout=20)
        gateway.terminate()
        _, rest = gateway.communicate(timeout=20)

    assert ready == f"Ozzie is ready at {found.url}; its folder is {home.home}.\n"
    assert rest == "The gateway is stopped.\n"
    logged = (home.home / "logs" / "app" / "gateway.jsonl").read_text()
    assert "Blocking request with non-local 'Host'" in logged


def test_with_verbose_it_shows_the_log(home: GatewayHome) -> None:
    with foreground(home, *ANY_PORT, "--verbose") as gateway:
        first = shown(gateway)
        gateway.terminate()
        gateway.communicate(timeout=20)

    assert first.startswith("[I ")
    assert "Ozzie is ready at http://127.0.0.1:" in first


@contextmanager
def default_port_taken() -> Iterator[int]:
    """The port, which belongs to this test or to another program."""
    port = GatewaySettings().port
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            held.enter_context(socket.create_server(("127.0.0.1", port)))
        yield port


def test_where_its_default_port_is_taken_it_uses_another_and_says_so(home: GatewayHome) -> None:
    with default_port_taken() as port, foreground(home) as gateway:
        lines = [shown(gateway), shown(gateway)]
        found = wait_for_owner(home, gateway.pid)
        status = ozzie(home, "status")  # a client has the address from the handshake
        gateway.terminate()
        gateway.communicate(timeout=20)

    used = urlsplit(found.url).port
    assert used != port
    assert lines[0] == f"Port {port} is taken, so this gateway listens on port {used}.\n"
    assert lines[1].startswith(f"Ozzie is ready at {found.url};")
    assert status.returncode == 0, status.stderr


def test_left_running_it_says_so_too(home: GatewayHome) -> None:
    with default_port_taken() as port:
        started = ozzie(home, "gateway", "--detach")
        found = home.handshake()
        ozzie(home, "gateway", "--stop")

    assert found is not None
    notice = f"Port {port} is taken, so this gateway listens on port {urlsplit(found.url).port}."
    assert started.stdout.splitlines()[1:] == [notice]


@pytest.mark.parametrize("chosen", ["argument", "configuration"])
def test_in_the_foreground_a_port_that_is_taken_is_told_with_what_to_do(home: GatewayHome, chosen: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        if chosen == "configuration":
            home.configure({"gateway": {"port": port}})
        with foreground(home, *(("--port", str(port)) if chosen == "argument" else ())) as gateway:
            _, said = gateway.communicate(timeout=40)

    sentence, what_to_do = said.splitlines()
    assert sentence == (f"ozzie gateway: the Jupyter server could not be started because port {port} is not available.")
    assert what_to_do.startswith("Choose another one with --port")
    assert gateway.returncode == 1


def test_in_the_foreground_it_says_once_why_it_did_not_start(home: GatewayHome) -> None:
    (home.home / "data" / "ozzie.db").mkdir(parents=True)
    with foreground(home, *ANY_PORT) as gateway:
        _, said = gateway.communicate(timeout=40)

    sentence, what_to_do = said.splitlines()
    assert sentence.startswith("ozzie gateway: ")
    assert "ozzie.db" in sentence
    assert what_to_do
    assert gateway.returncode == 1


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
    assert "  server   the gateway alone, temporary\n" in told.stdout
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
