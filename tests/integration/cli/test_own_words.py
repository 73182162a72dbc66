"""A message counts as a person's own words if they typed it at a terminal."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.protocol.made_from import with_sources
from tests.integration.gateway.test_rest import get
from tests.rig import Gateway, new_home, start_gateway
from tests.warm import WarmPopen

TEXT = "Say hello to ana@firm.example."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = new_home(tmp_path_factory.mktemp("typed"))
    home.configure({"models": {}})
    with start_gateway(home) as running:
        yield running


def ask(server: Gateway, message: str, stdin: int, env: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """`ozzie ask`; the confirmations of its message."""
    before = get(server, "health")["position"]
    command = [sys.executable, "-m", "ozzie_server_ext.cli.main", "ask", message]
    quiet = subprocess.DEVNULL
    with WarmPopen(
        command, env=dict(env or server.home.env), cwd=server.home.project, stdin=stdin, stdout=quiet, stderr=quiet
    ) as running:
        assert running.wait(60) == 0
    events = get(server, "events?type=message.confirmed&limit=10")["items"]
    return [event["payload"] for event in events if event["position"] > before]


@pytest.fixture
def terminal() -> Iterator[int]:
    here, there = pty.openpty()
    yield there
    os.close(here)
    os.close(there)


def test_what_is_typed_at_a_terminal_is(server: Gateway, terminal: int) -> None:
    (found,) = ask(server, TEXT, terminal)

    assert (found["way"], found["names"]) == ("terminal", [{"kind": "recipient", "value": "ana@firm.example"}])


def test_what_is_asked_without_a_terminal_is_not(server: Gateway) -> None:
    assert ask(server, TEXT, subprocess.DEVNULL) == []


def test_what_a_cell_asks_is_not(server: Gateway, terminal: int) -> None:
    """`!ozzie ask` in a cell has a terminal, too, and a stranger may have written it."""
    assert ask(server, TEXT, terminal, {**server.home.env, "JPY_PARENT_PID": "1"}) == []


def test_what_comes_through_a_pipe_is_not(server: Gateway) -> None:
    read, write = os.pipe()
    os.write(write, TEXT.encode())
    os.close(write)
    try:
        assert ask(server, "-", read) == []
    finally:
        os.close(read)


def test_what_a_program_asks_that_a_call_runs_is_not(server: Gateway, terminal: int) -> None:
    for_a_call = with_sources(server.home.env, Content.of(Label.WEB, ["site.example"]))

    assert ask(server, TEXT, terminal, for_a_call) == []
