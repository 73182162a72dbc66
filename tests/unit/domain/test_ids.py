"""Ids and places: small rules that many parts share."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID as ReferenceUlid

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.ids import (
    SessionId,
    TaskId,
    is_session_id,
    is_ulid,
    session_stream,
    task_stream,
    ulid_text,
)
from ozzie_server_ext.domain.paths import home_folder

ULID = "01M800000000000000000000ZZ"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (ULID, True),
        ("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", True),
        ("8ZZZZZZZZZZZZZZZZZZZZZZZZZ", False),
        (ULID.lower(), False),
        (ULID[:-1], False),
        (ULID + "0", False),
        (ULID[:-1] + "U", False),
        (ULID + "\n", False),
        ("", False),
    ],
)
def test_a_ulid_is_26_characters_of_crockfords_base_32(text: str, is_one: bool) -> None:
    assert is_ulid(text) is is_one


def test_a_session_id_is_a_prefixed_ulid() -> None:
    assert is_session_id(f"sess_{ULID}")
    assert not is_session_id(ULID)
    assert not is_session_id("sess_")


def test_streams_are_named_after_what_they_hold() -> None:
    assert task_stream(TaskId("t")) == "task:t"
    assert session_stream(SessionId("s")) == "session:s"


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (None, "/home/somebody/.ozzie"),
        ("", "/home/somebody/.ozzie"),
        ("/srv/ozzie", "/srv/ozzie"),
        ("~", "/home/somebody"),
        ("~/notes/ozzie", "/home/somebody/notes/ozzie"),
    ],
)
def test_the_home_is_where_ozzie_path_says_else_in_the_users_folder(named: str | None, expected: str) -> None:
    env = {} if named is None else {"OZZIE_PATH": named}

    assert home_folder(env, lambda: Path("/home/somebody")) == Path(expected)


def test_a_relative_home_is_made_absolute_so_that_all_parts_mean_the_same_folder() -> None:
    assert home_folder({"OZZIE_PATH": "here"}, _none) == Path.cwd() / "here"


def test_an_account_without_any_folder_is_told_what_to_set() -> None:
    with pytest.raises(Unavailable, match="OZZIE_PATH names no folder") as caught:
        home_folder({}, _none)

    assert caught.value.hint == "Set OZZIE_PATH to a folder that is yours."


def _none() -> Path:
    raise RuntimeError("this account has no home folder")


@given(st.integers(min_value=0, max_value=2**128 - 1))
def test_a_ulid_is_written_as_its_specification_says(value: int) -> None:
    assert ulid_text(value) == str(ReferenceUlid.from_int(value))
