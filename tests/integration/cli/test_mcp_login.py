"""Signing in to a server at an address: a real authorization server on loopback, a program in place of the browser, and
a person at the terminal."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from tests import terminal
from tests.fakes.oauth_server import OAuthServers
from tests.integration.plugins.test_sign_in import led_to
from tests.rig import GatewayHome, ozzie
from tests.tiers import rows

pytestmark = pytest.mark.timeout(120)

BROWSER = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=20).read()"
Typed = tuple[str, str | Callable[[str], str]]
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


def add(home: GatewayHome, servers: OAuthServers, answers: Sequence[Typed] = AGREED) -> tuple[int, str]:
    status, seen = terminal.typed(home, "mcp", "add", "signed", servers.url, answers=answers)
    return status, " ".join(seen.split())


def test_a_server_is_added_with_a_sign_in_from_a_browser_on_another_machine_then_signed_in_to_again_and_out_of(
    home: GatewayHome, servers: OAuthServers
) -> None:
    without = {name: value for name, value in home.env.items() if name not in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")}
    far = replace(home, env=without)

    def ended(seen: str) -> str:
        (url,) = re.findall(r"^(http\S+/authorize\S+)\r?$", seen, re.MULTILINE)
        return f"{led_to(url)}\n"

    pasted: tuple[Typed, ...] = (("> ", "http://127.0.0.1/callback?code=a&state=b\n"), ("> ", ended))
    status, seen = add(far, servers, (*AGREED[:2], *pasted, *AGREED[2:]))

    assert status == 0, seen
    assert "signed: It wants you to sign in, or a key (HTTP 401)." in seen
    assert f"`signed` leads to `{servers.issuer}`. You would sign in there, and Ozzie would register there." in seen
    assert "That is not where this sign-in ends." in seen
    assert "Your sign-in would be kept in the vault." in seen
    listed = json.loads((home.home / "mcp.json").read_text())["mcpServers"]
    assert listed == {"signed": {"type": "http", "url": servers.url}}
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


@pytest.mark.soak
def test_a_sign_in_in_a_browser_here_is_tried_shown_and_ended_and_one_as_a_given_client_tells_of_its_secret(
    home: GatewayHome, servers: OAuthServers
) -> None:
    status, seen = add(home, servers)

    assert status == 0, seen
    assert f"{servers.issuer}/authorize?response_type=code" in seen
    tested = ozzie(home, "mcp", "test", "signed")
    assert tested.returncode == 0, tested.stderr
    assert "You have signed in to it." in ozzie(home, "mcp", "show", "signed").stdout
    given = ("login", "signed", "--yes", "--client-id", "mine", "--client-secret")
    known = ozzie(home, "mcp", *given, input="s3cret\n")
    assert known.returncode == 0, known.stderr
    assert "Ozzie may send the secret of its client there." in " ".join(known.stderr.split())
    servers.behaviour.metadata["issuer"] = elsewhere = servers.issuer.replace("127.0.0.1", "localhost")
    servers.behaviour.resource["authorization_servers"] = [elsewhere]
    servers.behaviour.redirect["iss"] = elsewhere
    before = len(servers.seen)
    other = ozzie(home, "mcp", "login", "signed", "--yes")
    assert other.returncode == 0, other.stderr
    assert [each.path for each in servers.seen[before:]].count("/register") == 1
    assert not any("mine" in str(each) or each.authorization.startswith("Basic") for each in servers.seen[before:])
    assert ozzie(home, "mcp", "logout", "signed").returncode == 0
    assert ozzie(home, "mcp", "logout", "signed").stdout == "You were not signed in to signed.\n"


@pytest.mark.parametrize("no", rows(("Sign in through a browser?", "Go there?", "Add it?"), "Go there?"))
def test_a_no_leaves_nothing_behind(no: str, home: GatewayHome, servers: OAuthServers) -> None:
    before = AGREED[: [prompt for prompt, _ in AGREED].index(no)]

    status, seen = add(home, servers, (*before, (no, "n\n")))

    assert status == 1, seen
    assert "Traceback" not in seen
    assert not (home.home / "mcp.json").exists()
    assert not (home.home / "secrets" / "vault.json").exists()
    assert no == "Add it?" or servers.tokens == {}


def test_without_a_terminal_nobody_signs_in_unasked(home: GatewayHome, servers: OAuthServers) -> None:
    done = ozzie(home, "mcp", "add", "signed", servers.url, "--yes")

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "ozzie: signed can't be used. It wants you to sign in, or a key (HTTP 401).",
        "Do this at a terminal, to sign in.",
    ]
    assert servers.paths("auth") == []


@pytest.mark.soak
def test_a_hostile_authorization_server_is_told_in_words(home: GatewayHome, servers: OAuthServers) -> None:
    servers.behaviour.metadata["issuer"] = "https://elsewhere.example"

    status, seen = add(home, servers, AGREED[:2])

    assert status == 1
    assert seen.endswith("calls itself by another address than the server does.")
    assert "Traceback" not in seen
