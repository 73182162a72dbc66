"""How a gateway begins and ends."""

import signal
import subprocess
import sys

import pytest

from tests.rig import Gateway, GatewayHome, start_gateway
from tests.ws_client import connected


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_order_and_takes_its_handshake_along(home: GatewayHome, how: signal.Signals) -> None:
    with start_gateway(home) as gateway:
        gateway.process.send_signal(how)

        assert gateway.process.wait(20) == 0
    assert list(home.runtime.glob("ozzie-*.json")) == []


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
    with start_gateway(home) as second:
        found = home.handshake()

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
