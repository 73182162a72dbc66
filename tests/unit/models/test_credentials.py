"""With what a provider is asked, by the kind of its auth entry; and what is said where that is missing."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from ozzie_server_ext.config.settings import Auth
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.models.credentials import Credentials, CredentialStore
from ozzie_server_ext.protocol.worker import ClientCredentials

OAUTH2 = {
    "type": "oauth2",
    "client_id_env": "CLIENT_ID",
    "client_secret_env": "CLIENT_SECRET",
    "token_url": "https://auth.example/token",
    "scopes": ["llm:invoke"],
}
CLAUDE = {"type": "claude_code_token"}


def auth(raw: dict[str, Any]) -> Auth:
    return TypeAdapter[Auth](Auth).validate_python(raw)


def test_a_client_is_found_by_the_names_of_its_two_parts() -> None:
    store = CredentialStore({"CLIENT_ID": "me", "CLIENT_SECRET": "s3cret"})
    assert store.of("main", auth(OAUTH2)) == Credentials(
        oauth2=ClientCredentials(
            token_url="https://auth.example/token", client_id="me", client_secret="s3cret", scopes=("llm:invoke",)
        ),
        name="CLIENT_SECRET",
        place="environment",
    )
    assert store.look(auth(OAUTH2)) == ("environment", "")
    assert "s3cret" not in repr(store.of("main", auth(OAUTH2)))


@pytest.mark.parametrize("missing", ["CLIENT_ID", "CLIENT_SECRET"])
def test_the_part_of_a_client_that_is_missing_is_named(missing: str) -> None:
    there = {"CLIENT_ID": "me", "CLIENT_SECRET": "s"}
    del there[missing]
    store = CredentialStore(there)
    with pytest.raises(Unavailable, match=f'There is no key for "main": {missing} is not set') as caught:
        store.of("main", auth(OAUTH2))
    assert f"ozzie secrets set {missing}" in caught.value.hint
    assert store.look(auth(OAUTH2)) == ("", f"{missing} is not set")


def test_a_secret_that_can_not_be_sent_is_refused_by_its_name() -> None:
    with pytest.raises(Unavailable, match="CLIENT_SECRET contains a line break") as caught:
        CredentialStore({"CLIENT_ID": "me", "CLIENT_SECRET": "s3\ncret"}).of("main", auth(OAUTH2))
    assert caught.value.code == "provider.bad_key"
    assert "s3" not in str(caught.value)


def test_the_token_of_claude_code_is_a_key(tmp_path: Path) -> None:
    folder = tmp_path / ".claude"
    folder.mkdir()
    (folder / ".credentials.json").write_text(json.dumps({"claudeAiOauth": {"accessToken": "sk-ant-oat01-x"}}))
    store = CredentialStore({"HOME": str(tmp_path)})
    found = store.of("main", auth(CLAUDE))

    assert (found.api_key, found.name, found.place) == ("sk-ant-oat01-x", "the token of Claude Code", "Claude Code")
    assert store.look(auth(CLAUDE)) == ("Claude Code", "")


@pytest.mark.parametrize(
    ("kept", "said", "do"),
    [
        (None, "there is no", "Log in with `claude`"),
        ({"claudeAiOauth": {"accessToken": "t", "expiresAt": 1000}}, "has ended", "Start `claude` once"),
    ],
)
def test_without_a_token_of_claude_code_it_is_said_what_to_do(tmp_path: Path, kept: Any, said: str, do: str) -> None:
    if kept:
        (tmp_path / ".credentials.json").write_text(json.dumps(kept))
    store = CredentialStore({"CLAUDE_CONFIG_DIR": str(tmp_path)})
    with pytest.raises(Unavailable, match=said) as caught:
        store.of("main", auth(CLAUDE))
    assert caught.value.hint.startswith(do)
    assert "%model" in caught.value.hint
    place, missing = store.look(auth(CLAUDE))
    assert (place, said in missing) == ("", True)
