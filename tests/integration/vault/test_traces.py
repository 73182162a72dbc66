"""The search for traces of secrets finds what it is there to find; else what it does not find would mean nothing."""

import base64
import html
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.traces import PIECE, Search, running

KEY = 'sk-é"7f3a91/c2+d4&e8=b5<60>'
OTHER = "sk-0b6d5e1f9a27c8344d"


@pytest.mark.parametrize(
    "left",
    [
        str,
        lambda key: f"some {key} words",
        lambda key: quote(key, safe=""),
        lambda key: json.dumps({"key": key}),
        lambda key: json.dumps(json.dumps({"key": key})),
        html.escape,
        lambda key: key.encode().hex(),
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: base64.b64encode(f"id:{key}".encode()).decode(),
        lambda key: base64.urlsafe_b64encode(f"user:{key}\n".encode()).decode(),
        lambda key: f"sk-...{key[5 : 5 + PIECE]}...",
    ],
)
def test_a_key_is_found_in_whatever_form_it_was_left(left: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "left").write_text(left(KEY))
    search = Search({"KEY": KEY, "OTHER": OTHER})

    assert search.files(tmp_path) == ["KEY in left"]
    assert search.texts([left(KEY)], "what was said") == ["KEY in what was said"]
    assert search.files(tmp_path, but=[tmp_path / "left"]) == []


def test_a_key_is_found_in_a_database_that_is_open_and_in_one_that_was_closed(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "log.db")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE bodies (body)")
    # Long enough that it lies in many pages, and the key across the end of some of them.
    database.execute("INSERT INTO bodies VALUES (?)", [f"{OTHER} " * 2000])
    database.commit()
    search = Search({"OTHER": OTHER})

    assert "OTHER in log.db-wal" in search.files(tmp_path)
    database.close()
    assert search.files(tmp_path) == ["OTHER in log.db"]


def test_a_key_is_found_on_a_command_line_and_in_an_environment(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "input()", f"--key={KEY}"]
    env = {"OTHER": OTHER, "OZZIE_PATH": str(tmp_path)}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, text=True) as process:
        found = Search({"KEY": KEY, "OTHER": OTHER}).processes(running(tmp_path))
        process.communicate("\n")

    name = Path(sys.executable).name
    assert found == [f"OTHER in environ of {name}", f"KEY in cmdline of {name}"]
