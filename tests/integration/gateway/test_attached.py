"""A second Jupyter Server on a home hands on to the owner what it is asked (GW-1, GW-2, ADR 11)."""

import asyncio
from collections.abc import Iterator

import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.walk import ask, ask_whole
from tests.rig import JUPYTER_TOKEN, Gateway, GatewayHome, new_home, start_attached, start_gateway, start_jupyter
from tests.ws_client import WsClient, connected

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Gateway]]:
    """An owner, below a path of its own, and a server that is attached to it."""
    home = new_home(tmp_path_factory.mktemp("pair"))
    with start_jupyter(home, "--ServerApp.base_url=/up/there/") as owner, start_attached(home) as attached:
        yield owner, attached


@pytest.fixture
def owner(pair: tuple[Gateway, Gateway]) -> Gateway:
    return pair[0]


@pytest.fixture
def attached(pair: tuple[Gateway, Gateway]) -> Gateway:
    return pair[1]


def test_health_says_who_owns_the_folder_and_who_was_asked(owner: Gateway, attached: Gateway) -> None:
    status, here = ask(attached, "GET", f"{PREFIX}/health", token=attached.token)
    _, there = ask(owner, "GET", f"/up/there{PREFIX}/health", token=owner.token)

    assert status == 200, here
    assert (here["pid"], here["server_pid"], here["role"]) == (owner.process.pid, attached.process.pid, "attached")
    assert (there["pid"], there["server_pid"], there["role"]) == (owner.process.pid, owner.process.pid, "owner")
    assert there["attached"] == [{"pid": attached.process.pid, "url": attached.url, "headless": False}]


def test_what_one_server_is_asked_the_other_knows(owner: Gateway, attached: Gateway) -> None:
    status, made = ask(
        attached, "POST", f"{PREFIX}/sessions", token=attached.token, body='{"title": "Zwei Größen"}'.encode()
    )
    _, found = ask(owner, "GET", f"/up/there{PREFIX}/sessions/{made['id']}", token=owner.token)

    assert (status, found["title"]) == (200, "Zwei Größen")
