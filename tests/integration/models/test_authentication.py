"""Whole turns behind each kind of authentication, and the secrets of each nowhere but where they belong."""

import json
from pathlib import Path

import pytest

from tests.fakes.anthropic_wire import AnthropicWire
from tests.fakes.openai_wire import OpenAIWire
from tests.fakes.provider_server import FakeProvider
from tests.fakes.token_server import FakeTokenServer
from tests.rig import GatewayHome, ozzie, start_gateway

pytestmark = pytest.mark.timeout(120)

CLIENT_ID = "ozzie-test"
SECRET = "s3cret-0123456789abcdef"
TOKEN = "sk-ant-oat01-0123456789abcdef"


def written(home: GatewayHome) -> str:
    """Everything in the files of the home but `.env`, where the test put the secrets."""
    files = [path for path in home.home.rglob("*") if path.is_file() and path.name != ".env"]
    return "".join(path.read_bytes().decode("latin-1") for path in files)


def test_a_turn_behind_a_token_server(home: GatewayHome) -> None:
    with FakeTokenServer(client=(CLIENT_ID, SECRET)) as tokens, FakeProvider(OpenAIWire()) as provider:
        names = {"client_id_env": "CLIENT_ID", "client_secret_env": "CLIENT_SECRET"}
        auth = {"type": "oauth2", **names, "token_url": tokens.url, "scopes": ["llm:invoke"]}
        entry = {"driver": "openai", "model": "echo", "base_url": provider.base_url, "auth": auth}
        home.configure({"models": {"providers": {"corporate": entry}}})
        env_file = home.home / ".env"
        env_file.write_text(f"CLIENT_ID={CLIENT_ID}\nCLIENT_SECRET={SECRET}\n")
        env_file.chmod(0o600)
        with start_gateway(home):
            first = ozzie(home, "ask", "hello there")
            second = ozzie(home, "ask", "and again")
            listed = json.loads(ozzie(home, "models", "list", "--json").stdout)

    assert (first.returncode, second.returncode) == (0, 0)
    assert "hello there" in first.stdout
    assert [request.headers["authorization"] for request in provider.requests] == ["Bearer token-1"] * 2
    assert len(tokens.requests) == 1
    (corporate,) = (model for model in listed if model["name"] == "corporate")
    assert (corporate["key"], corporate["missing"]) == ("environment", "")
    for secret in (SECRET, "token-1"):
        assert secret not in written(home)
        assert secret not in first.stdout + second.stdout


def test_a_turn_with_the_token_of_a_claude_code_that_is_logged_in(home: GatewayHome, tmp_path: Path) -> None:
    login = tmp_path / "claude"
    login.mkdir()
    (login / ".credentials.json").write_text(json.dumps({"claudeAiOauth": {"accessToken": TOKEN}}))
    with FakeProvider(AnthropicWire()) as provider:
        entry = {"driver": "anthropic", "model": "echo", "base_url": provider.base_url}
        home.configure({"models": {"providers": {"claude": {**entry, "auth": {"type": "claude_code_token"}}}}})
        (home.home / ".env").write_text(f"CLAUDE_CONFIG_DIR={login}\n")
        with start_gateway(home):
            asked = ozzie(home, "ask", "hello there")
            (login / ".credentials.json").unlink()
            gone = ozzie(home, "ask", "hello again")

    assert (asked.returncode, "hello there" in asked.stdout) == (0, True)
    (request,) = provider.requests
    # As Anthropic takes it: a bearer token, with the header that says so, and in no other place.
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert "oauth" in request.headers["anthropic-beta"]
    assert "x-api-key" not in request.headers
    assert gone.returncode == 1
    assert 'There is no token of Claude Code for "claude": there is no ' in " ".join(gone.stdout.split())
    assert TOKEN not in written(home)
