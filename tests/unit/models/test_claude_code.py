"""The token of a Claude Code that is installed here: where it is found, and what is said where it is not."""

import json
from pathlib import Path

import pytest

from ozzie_server_ext.models.credentials import MissingToken, claude_code_token

NOW = 1_800_000_000.0


def keep(folder: Path, content: object) -> dict[str, str]:
    """An environment whose Claude Code keeps `content`."""
    home = folder / ".claude"
    home.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (home / ".credentials.json").write_text(text)
    return {"HOME": str(folder)}


def login(**fields: object) -> dict[str, object]:
    return {"claudeAiOauth": {"accessToken": "sk-ant-oat01-x", "refreshToken": "r", **fields}}


def find(env: dict[str, str]) -> str:
    return claude_code_token(env, now=lambda: NOW)


def test_the_token_is_read_where_claude_code_keeps_it(tmp_path: Path) -> None:
    assert find(keep(tmp_path, login(expiresAt=int((NOW + 61) * 1000)))) == "sk-ant-oat01-x"
    assert find(keep(tmp_path, login())) == "sk-ant-oat01-x"


def test_a_folder_of_its_own_and_a_variable_go_before_the_usual_place(tmp_path: Path) -> None:
    keep(tmp_path, login())
    other = tmp_path / "other"
    other.mkdir()
    (other / ".credentials.json").write_text(json.dumps(login(accessToken="sk-ant-oat01-y")))
    env = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(other)}

    assert find(env) == "sk-ant-oat01-y"
    assert find({**env, "CLAUDE_CODE_OAUTH_TOKEN": " sk-ant-oat01-z\n"}) == "sk-ant-oat01-z"


def test_a_token_that_ends_within_a_minute_is_said_to_have_ended(tmp_path: Path) -> None:
    with pytest.raises(MissingToken, match="has ended") as caught:
        find(keep(tmp_path, login(expiresAt=int((NOW + 59) * 1000))))
    assert caught.value.ended


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "can't be read"),
        ("\x00\xff", "can't be read"),
        ("[" * 60_000, "can't be read"),
        ([], "holds none"),
        ({}, "holds none"),
        ({"claudeAiOauth": "x"}, "holds none"),
        (login(accessToken=""), "holds none"),
        (login(accessToken=7), "holds none"),
    ],
)
def test_what_holds_no_token_is_said_by_the_files_name(tmp_path: Path, content: object, why: str) -> None:
    with pytest.raises(MissingToken, match=why) as caught:
        find(keep(tmp_path, content))
    assert ".credentials.json" in str(caught.value)
    assert not caught.value.ended


def test_where_claude_code_never_logged_in_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingToken, match=r"there is no .*credentials\.json"):
        find({"HOME": str(tmp_path)})


def test_a_folder_in_the_place_of_the_file_is_said(tmp_path: Path) -> None:
    (tmp_path / ".claude" / ".credentials.json").mkdir(parents=True)
    with pytest.raises(MissingToken, match="can't be read"):
        find({"HOME": str(tmp_path)})
