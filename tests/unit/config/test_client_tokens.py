"""The tokens of MCP clients: each for one name, stored as hashes."""

from pathlib import Path

import pytest

from ozzie_server_ext.config.client_tokens import MOST_TOKENS, client_of, issue_token, revoke_token, token_hashes
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError
from ozzie_server_ext.domain.errors import InputError


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_a_token_names_its_client_until_it_is_revoked(home: Home) -> None:
    token = issue_token(home, "claude-code")
    before = client_of(home, f"Bearer {token}"), client_of(home, f"token {token}")

    assert before == ("claude-code", "claude-code")
    assert revoke_token(home, "claude-code")
    assert client_of(home, f"Bearer {token}") is None
    assert not revoke_token(home, "claude-code")


def test_a_new_token_ends_the_one_before(home: Home) -> None:
    first, second = issue_token(home, "cursor"), issue_token(home, "cursor")

    assert first != second
    assert client_of(home, f"Bearer {first}") is None
    assert client_of(home, f"Bearer {second}") == "cursor"


def test_the_file_has_no_token_and_is_the_users_alone(home: Home) -> None:
    token = issue_token(home, "cursor")

    assert token not in home.client_tokens_file.read_text()
    assert home.client_tokens_file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer abc",
        "Basic ozzie-mcp-" + "x" * 43,
        "Bearer ozzie-mcp-" + "x" * 43,
        "ozzie-mcp-" + "x" * 43,
    ],
)
def test_another_header_names_nobody(home: Home, header: str) -> None:
    issue_token(home, "cursor")

    assert client_of(home, header) is None


def test_a_damaged_file_lets_nobody_in_and_is_not_overwritten(home: Home) -> None:
    token = issue_token(home, "cursor")
    home.client_tokens_file.write_text("{")

    assert client_of(home, f"Bearer {token}") is None
    with pytest.raises(ConfigError, match="damaged"):
        issue_token(home, "other")
    assert home.client_tokens_file.read_text() == "{"


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "x" * 33, "-a", "a-"])
def test_a_name_is_plain(home: Home, name: str) -> None:
    with pytest.raises(InputError):
        issue_token(home, name)


def test_there_are_so_many_at_most(home: Home) -> None:
    for number in range(MOST_TOKENS):
        issue_token(home, f"c{number}")
    issue_token(home, "c0")  # replaces one

    with pytest.raises(InputError, match="already"):
        issue_token(home, "one-more")
    assert len(token_hashes(home)) == MOST_TOKENS
