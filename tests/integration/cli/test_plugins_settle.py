"""`ozzie plugins`: add, grant, revoke, switch, classify and remove plugins, and run their examples."""

import json
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.plugins.plugin_list import SettledPlugin, plugins_of
from tests.rig import GatewayHome, new_home, ozzie
from tests.wasm_rig import Wat, plugin_folder

pytestmark = pytest.mark.timeout(120)

TOOLS: list[dict[str, Any]] = [
    {
        "name": "weather",
        "description": "Get it",
        "parameters": {"city": {"description": "Its name", "default": "Paris"}},
    },
    {"name": "post", "description": "Send it"},
]
ASKS = {"kv": True, "http": {"allowed_hosts": ["hooks.example.org"], "methods": ["GET", "POST"]}, "secrets": ["KEY"]}


def code(answer: str = '{"degrees": 21}') -> bytes:
    text = Wat()
    return text.returns("weather", answer).asks("post", "http_request", "https://hooks.example.org/", "POST", "x").code


@pytest.fixture
def home(tmp_path: Path) -> GatewayHome:
    return new_home(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    made = plugin_folder(tmp_path / "p", code(), name="weather", version="1.0.0", capabilities=ASKS, tools=TOOLS)
    return str(made)


def settled(home: GatewayHome, name: str = "weather") -> SettledPlugin | None:
    return plugins_of(Home(home.home), home.project).find(name).settled


def told(home: GatewayHome, *words: str, status: int = 0) -> str:
    """What a command prints, and on standard error."""
    done = ozzie(home, "plugins", *words)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def test_adding_shows_what_it_asks_for_and_says_what_is_left_to_do(home: GatewayHome, folder: str) -> None:
    said = told(home, "add", folder, "--yes")

    assert "It may send what it is given or may read to `hooks.example.org`" in said
    assert "  It may use the secret `KEY`." in said
    assert '    - city: Its name; by default "Paris"' in said
    assert "  weather: not classified, so it is never called" in said
    assert "ozzie plugins classify weather weather=sends …" in said
    assert "ozzie secrets set KEY --plugin weather" in said
    found = settled(home)
    assert found is not None
    assert found.granted == ("http:GET hooks.example.org", "http:POST hooks.example.org", "kv", "secret:KEY")
    assert "weather: on (yours)" in told(home, "list")


def test_nobody_who_can_be_asked_means_that_nothing_is_granted(home: GatewayHome, folder: str) -> None:
    said = told(home, "add", folder, status=2)

    assert "Nobody can be asked here whether to add weather." in said
    assert "weather" not in told(home, "list")
    assert "With --json nobody is shown" in told(home, "add", folder, "--json", status=2)


def test_a_plugin_that_cannot_be_loaded_is_not_added(home: GatewayHome, tmp_path: Path) -> None:
    wrong = plugin_folder(tmp_path / "w", Wat().returns("other", "1").code, name="weather", tools=TOOLS)
    server = tmp_path / "s"
    server.mkdir()
    (server / "manifest.jsonc").write_text('{"name": "tool", "provider": "mcp", "mcp": {"command": "x"}}')

    assert "it has no function weather." in told(home, "add", str(wrong), "--yes", status=1)
    assert "Add it as one: ozzie mcp add" in told(home, "add", str(server), "--yes", status=1)
    assert "weather" not in told(home, "list")


def test_an_update_that_asks_for_more_says_so(home: GatewayHome, folder: str, tmp_path: Path) -> None:
    told(home, "add", folder, "--yes")
    told(home, "classify", "weather", "weather=reads", "post=sends")
    more = ASKS | {"fs_read": ["data"]}
    newer = plugin_folder(tmp_path / "q", code("2"), name="weather", version="2.0.0", capabilities=more, tools=TOOLS)

    said = told(home, "add", str(newer), "--yes")

    assert "More than before:\n  It may read files in `data/`." in said
    found = settled(home)
    assert found is not None
    assert "fs_read:data" in found.granted
    shown = told(home, "show", "weather")
    assert "  post: sends" in shown  # what asks goes on to ask
    assert "  weather: not classified" in shown  # that other code only reads is to be said again


def test_a_grant_may_be_for_a_part(home: GatewayHome, folder: str) -> None:
    told(home, "add", folder, "--yes")
    told(home, "revoke", "weather")
    assert "weather: nothing granted (yours)" in told(home, "list")

    said = told(home, "grant", "weather", "kv", "--yes")

    assert "You would grant this alone:\n  It may keep notes of its own between calls." in said
    assert "It was not granted:" in told(home, "show", "weather")
    assert json.loads(told(home, "show", "weather", "--json"))["granted"] == ["kv"]
    assert json.loads(told(home, "show", "weather", "--json"))["effects"] == {"weather": "reads", "post": "reads"}
    assert "It does not ask for `env:HOME`." in told(home, "grant", "weather", "env:HOME", "--yes", status=1)
    assert "It was not granted `log`." in told(home, "revoke", "weather", "log", status=1)


def test_it_is_turned_off_and_on_and_removed(home: GatewayHome, folder: str) -> None:
    told(home, "add", folder, "--yes")
    assert "weather is off." in told(home, "disable", "weather")
    assert "To use it: ozzie plugins enable weather" in told(home, "list")
    assert "weather is on." in told(home, "enable", "weather")
    assert "weather is gone, with its notes." in told(home, "remove", "weather")
    assert "There is no plugin `weather`." in told(home, "show", "weather", status=1)
    assert json.loads((home.home / "plugins.json").read_text()) == {"plugins": {}}


def test_a_changed_file_takes_the_grant_away(home: GatewayHome, folder: str) -> None:
    told(home, "add", folder, "--yes")
    (home.home / "plugins/weather/weather.wasm").write_bytes(code("7"))

    assert "weather: changed since it was granted (yours)" in told(home, "list")
    assert "has changed since it was granted" in told(home, "enable", "weather", status=1)
    assert "weather is granted this." in told(home, "grant", "weather", "--yes")


def test_a_damaged_file_of_grants_is_no_empty_one(home: GatewayHome, folder: str) -> None:
    told(home, "add", folder, "--yes")
    (home.home / "plugins.json").write_text("{")

    assert "the file is damaged" in told(home, "list", status=1)
    assert "the file is damaged" in told(home, "add", folder, "--yes", status=1)


def test_examples_are_run_without_a_network(home: GatewayHome, folder: str) -> None:
    answers = [{"method": "POST", "url": "https://hooks.example.org/", "status": 201, "body": "taken"}]
    result = {"ok": {"status": 201, "headers": {}, "body": "taken"}}
    examples: list[dict[str, Any]] = [
        {"tool": "weather", "result": {"degrees": 21}},
        {"tool": "post", "answers": answers, "result": result},
        {"tool": "post", "error": "The example has no answer to POST"},
    ]
    file = Path(folder) / "examples.jsonc"
    file.write_text(json.dumps(examples))
    assert "3 of 3 examples passed." in told(home, "test", folder)

    file.write_text(json.dumps([{"tool": "weather", "result": {"degrees": 22}}, {"tool": "nothing"}]))
    said = told(home, "test", folder, status=1)
    assert 'Example 1, weather: it should have returned {"degrees": 22}, and returned' in said.replace("\n  ", " ")
    assert "Example 2, nothing: the manifest has no such tool." in said
    assert "0 of 2 examples passed." in said

    file.write_text('[{"tool": 7}]')
    assert "an example can't be read" in told(home, "test", folder, status=1)
    file.unlink()
    assert "It has no examples" in told(home, "test", folder)
