"""`ozzie incidents`, and what the interface for programs says of plugins and incidents."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.gateway.walk import PREFIX, ask
from tests.integration.made_artifacts import make_incidents
from tests.rig import Gateway, GatewayHome, new_home, ozzie, start_gateway
from tests.wasm_rig import Wat, plugin_folder

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def home(tmp_path: Path) -> GatewayHome:
    home = new_home(tmp_path)
    await make_incidents(home)
    return home


@pytest.fixture
def gateway(home: GatewayHome) -> Iterator[Gateway]:
    with start_gateway(home) as running:
        yield running


def test_a_person_lists_what_happened_and_closes_it(gateway: Gateway, home: GatewayHome) -> None:
    listed = ozzie(home, "incidents", "list")
    found = json.loads(ozzie(home, "incidents", "list", "--json").stdout)
    closed = ozzie(home, "incidents", "close", found[0]["id"])
    unknown = ozzie(home, "incidents", "close", "01M800000000000000000000ZZ")
    left = json.loads(ozzie(home, "incidents", "list", "--json").stdout)
    everything = json.loads(ozzie(home, "incidents", "list", "--all", "--json").stdout)

    assert "  Nobody granted this plugin notes of its own." in listed.stdout
    assert [each["about"] for each in found] == ["courier", "weather"]
    assert "The incident about courier is closed." in closed.stdout
    assert (unknown.returncode, "There is no incident" in unknown.stderr) == (1, True)
    assert [each["about"] for each in left] == ["weather"]
    assert [(each["about"], each["why"]) for each in everything] == [("courier", "person"), ("weather", "")]


def test_programs_learn_what_plugins_ask_for_and_were_granted(gateway: Gateway, home: GatewayHome) -> None:
    code = Wat().returns("go", "1").code
    tools = [{"name": "go", "description": "Goes"}]
    plugin_folder(home.home / "plugins/one", code, name="one", capabilities={"kv": True}, tools=tools)

    status, found = ask(gateway, "GET", f"{PREFIX}/plugins", token=gateway.token)

    own = next(each for each in found["items"] if each["origin"] == "yours")
    assert status == 200
    assert (own["name"], own["state"], own["asks_for"], own["granted"], own["loaded"]) == (
        "one",
        "new",
        ["kv"],
        [],
        False,
    )
    assert own["tools"] == [{"name": "go", "description": "Goes", "effect": None}]
    assert {each["name"] for each in found["items"] if each["origin"] == "shipped"} == {
        "duckduckgo-search",
        "fetch",
        "webhook",
    }
