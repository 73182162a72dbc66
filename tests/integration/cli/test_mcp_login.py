"""Signing in to a server at an address: a real authorization server on loopback, a program in place of the browser, and
a person at the terminal."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from tests import terminal
from tests.fakes.oauth_server import OAuthServers
from tests.integration.plugins.test_sign_in import led_to
from tests.rig import GatewayHome, ozzie

pytestmark = pytest.mark.timeout(120)

BROWSER = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=20).read()"
AGREED = (("Sign in through a browser?", "y\n"), ("Go there?", "y\n"), ("Add it?", "y\n"), ("Take over", "y\n"))


@pytest.fixture
def servers() -> Iterator[OAuthServers]:
    with OAuthServers() as servers:
        yield servers


@pytest.fixture
def home(home: GatewayHome) -> GatewayHome:
    script = home.home.parent / "browser.py"
    script.write_text(BROWSER)
    return replace(home, env={**home.env, "BROWSER": f"{sys.executable} {script} %s"})


def add(home: GatewayHome, servers: OAuthServers, answers: Sequence[tuple[str, str]] = AGREED) -> tuple[int, str]:
    status, seen = terminal.typed(home, "mcp", "add", "signed", servers.url, answers=answers)
    return status, " ".join(seen.split())


def test_a_server_that_wants_a_sign_in_is_added_with_one_and_signed_out_of_again(
    home: GatewayHome, servers: OAuthServers
) -> None:
    status, seen = add(home, servers)

    assert status == 0, seen
    assert "signed: It wants you to sign in, or a key (HTTP 401)." in seen
    assert f"`signed` leads to `{servers.issuer}`. You would sign in there, and Ozzie would register there." in seen
    assert f"{servers.issuer}/authorize?response_type=code" in seen
    assert "Your sign-in would be kept in the vault." in seen
    listed = json.loads((home.home / "mcp.json").read_text())["mcpServers"]
    assert listed == {"signed": {"type": "http", "url": servers.url}}
    tested = ozzie(home, "mcp", "test", "signed")
    assert tested.returncode == 0, tested.stderr
    assert "You have signed in to it." in ozzie(home, "mcp", "show", "signed").stdout
    for place in home.home.rglob("*"):
        assert not place.is_file() or not re.search(rb"(access|refresh)-\d", place.read_bytes()), place

    again = ozzie(home, "mcp", "login", "signed", "--yes", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["issuer"] == servers.issuer
    assert servers.paths("auth").count("/register") == 1

    gone = ozzie(home, "mcp", "logout", "signed")
    assert gone.stdout.startswith("Your sign-in to signed is forgotten here.\n")
    refused = ozzie(home, "mcp", "test", "signed")
    assert refused.returncode == 1
    assert refused.stderr == ("ozzie: It wants you to sign in, or a key (HTTP 401). Sign in: ozzie mcp login signed\n")
    assert ozzie(home, "mcp", "logout", "signed").stdout == "You were not signed in to signed.\n"


@pytest.mark.parametrize("no", ["Sign in through a browser?", "Go there?", "Add it?"])
def test_a_no_leaves_nothing_behind(no: str, home: GatewayHome, servers: OAuthServers) -> None:
    before = AGREED[: [prompt for prompt, _ in AGREED].index(no)]

    status, seen = add(home, servers, (*before, (no, "n\n")))

    assert status == 1, seen
    assert "Traceback" not in seen
    assert not (home.home / "mcp.json").exists()
    assert not (home.home / "secrets" / "vault.json").exists()
    assert no == "Add it?" or servers.tokens == {}


def test_a_browser_on_another_machine_is_pasted_from(home: GatewayHome, servers: OAuthServers) -> None:
    without = {name: value for name, value in home.env.items() if name not in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")}
    far = replace(home, env=without)

    def ended(seen: str) -> str:
        (url,) = re.findall(r"^(http\S+/authorize\S+)\r?$", seen, re.MULTILINE)
        return f"{led_to(url)}\n"

    answers = (*AGREED[:2], ("> ", "http://127.0.0.1/callback?code=a&state=b\n"), ("> ", ended), *AGREED[2:])
    status, seen = terminal.typed(far, "mcp", "add", "signed", servers.url, answers=answers)

    assert status == 0, seen
    assert "That is not where this sign-in ends." in seen


def test_without_a_terminal_nobody_signs_in_unasked(home: GatewayHome, servers: OAuthServers) -> None:
    done = ozzie(home, "mcp", "add", "signed", servers.url, "--yes")

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "ozzie: signed can't be used. It wants you to sign in, or a key (HTTP 401).",
        "Do this at a terminal, to sign in.",
    ]
    assert servers.paths("auth") == []


def test_a_hostile_authorization_server_is_told_in_words(home: GatewayHome, servers: OAuthServers) -> None:
    servers.behaviour.metadata["issuer"] = "https://elsewhere.example"

    status, seen = add(home, servers, AGREED[:2])

    assert status == 1
    assert seen.endswith("calls itself by another address than the server does.")
    assert "Traceback" not in seen
