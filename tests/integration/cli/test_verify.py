"""`ozzie events verify` and `ozzie events accept`, beside a gateway and without one."""

import json
import os
import pty
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.store import contents
from ozzie_server_ext.store.blobs import path_of
from tests.rig import GatewayHome, ozzie, start_gateway
from tests.warm import WarmPopen


def health(home: GatewayHome) -> dict[str, Any]:
    return json.loads(ozzie(home, "status", "--json").stdout)


def cut(home: GatewayHome, by: int) -> None:
    """Remove the newest events from the log, with what was made from them."""
    with closing(sqlite3.connect(home.home / "data" / "ozzie.db", isolation_level=None)) as database:
        (end,) = database.execute("SELECT max(position) FROM events").fetchone()
        for table in ("bodies", "events"):
            database.execute(f"DELETE FROM {table} WHERE position > ?", (end - by,))
        database.execute("DELETE FROM projections")  # made anew at the next start


def key_of(home: GatewayHome) -> Path:
    return Path(home.env["XDG_CONFIG_HOME"]) / "ozzie" / "anchor.key"


def test_a_cut_tail_is_found_also_where_the_anchor_went_with_it_until_a_person_accepts_it(used: GatewayHome) -> None:
    cut(used, 2)
    (used.home / "data" / "anchor.json").unlink()

    found = ozzie(used, "events", "verify")
    assert found.returncode == 1
    assert "The log was cut: it ends at" in found.stdout
    assert "ozzie events accept" in found.stdout
    with start_gateway(used):
        assert "The log was cut" in health(used)["log_warning"]
        assert "The log was cut" in ozzie(used, "status").stdout
        assert ozzie(used, "ask", "hello again").returncode == 0
        refused = ozzie(used, "events", "accept")
        assert (refused.returncode, "Say so with --yes." in refused.stderr) == (2, True)
        assert not (used.home / "data" / "anchor.json").exists()

        accepted = ozzie(used, "events", "accept", "--yes")

        assert accepted.returncode == 0
        assert "Accepted: The log was" in accepted.stdout
        assert health(used)["log_warning"] == ""
        assert ozzie(used, "ask", "once more").returncode == 0
    verified = ozzie(used, "events", "verify")
    assert verified.returncode == 0
    assert "Accepted by you on " in verified.stdout


def test_an_anchor_that_is_deleted_alone_is_missed(used: GatewayHome) -> None:
    (used.home / "data" / "anchor.json").unlink()

    found = json.loads(ozzie(used, "events", "verify", "--json").stdout)

    assert (found["ok"], found["anchored"], found["bad_position"]) == (False, None, None)
    assert "anchor.json is missing" in found["reason"]
    assert found["recorded"] == found["head"]["position"]


def test_anchor_and_record_that_are_deleted_together_are_missed(used: GatewayHome) -> None:
    (used.home / "data" / "anchor.json").unlink()
    shutil.rmtree(key_of(used).parent / "anchors")

    assert ozzie(used, "events", "verify").returncode == 1
    with start_gateway(used):
        assert "are missing" in health(used)["log_warning"]


def test_an_older_copy_with_its_anchor_is_found(used: GatewayHome, tmp_path: Path) -> None:
    data = used.home / "data"
    shutil.copytree(data, tmp_path / "backup")
    with start_gateway(used):
        assert ozzie(used, "ask", "hello again").returncode == 0
    shutil.rmtree(data)
    shutil.copytree(tmp_path / "backup", data)

    found = ozzie(used, "events", "verify")

    assert found.returncode == 1
    assert "an older copy was put back with its anchor" in found.stdout
    assert json.loads(ozzie(used, "events", "accept", "--yes", "--json").stdout)["position"] > 0
    assert ozzie(used, "events", "verify").returncode == 0


def test_a_gateway_killed_before_its_first_anchor_raises_no_alarm(home: GatewayHome) -> None:
    with start_gateway(home) as gateway:
        asked = ozzie(home, "ask", "hello")
        gateway.process.kill()
        gateway.process.wait(20)
    assert asked.returncode == 0
    for file in (home.home / "data" / "anchor.json", *(key_of(home).parent / "anchors").iterdir()):
        assert file.exists()
    assert ozzie(home, "events", "verify").returncode == 0
    with start_gateway(home):
        assert health(home)["log_warning"] == ""


def test_nothing_to_accept_changes_nothing(used: GatewayHome) -> None:
    before = (used.home / "data" / "anchor.json").read_bytes()

    done = ozzie(used, "events", "accept", "--yes")

    assert (done.returncode, done.stdout) == (0, "There is nothing to accept: the log is what was anchored.\n")
    assert (used.home / "data" / "anchor.json").read_bytes() == before


def test_a_changed_event_can_not_be_accepted(used: GatewayHome) -> None:
    with closing(sqlite3.connect(used.home / "data" / "ozzie.db", isolation_level=None)) as database:
        database.execute("UPDATE events SET actor = 'user' WHERE position = 1")

    done = ozzie(used, "events", "accept", "--yes")

    assert done.returncode == 1
    assert "That can't be accepted." in done.stderr


@pytest.mark.parametrize(("typed", "status"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_a_person_at_a_terminal_is_told_what_they_accept_and_asked(used: GatewayHome, typed: str, status: int) -> None:
    (used.home / "data" / "anchor.json").unlink()
    terminal, its_end = pty.openpty()
    try:
        os.write(terminal, typed.encode())
        with WarmPopen(
            [sys.executable, "-m", "ozzie_server_ext.cli.main", "events", "accept"],
            env=dict(used.env),
            cwd=used.project,
            stdin=its_end,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as done:
            _, said = done.communicate(timeout=60)
    finally:
        os.close(terminal)
        os.close(its_end)

    assert done.returncode == status
    assert "anchor.json is missing" in said
    assert "Accept it? [y/N]" in said
    assert (used.home / "data" / "anchor.json").exists() == (status == 0)


def test_a_home_of_an_earlier_version_is_compacted_and_verifies(used: GatewayHome) -> None:
    kept = as_files(used)
    assert kept
    done = ozzie(used, "store", "compact")

    assert (done.returncode, done.stdout.startswith(f"{len(kept)} files of ")) == (0, True)
    assert not any(path.exists() for path in kept)
    assert ozzie(used, "events", "verify", "--deep").returncode == 0
    assert ozzie(used, "store", "compact").stdout == "There is nothing to compact.\n"
    again = json.loads(ozzie(used, "store", "compact", "--json").stdout)
    assert again == {"files": 0, "before": 0, "after": 0, "damaged": []}


def as_files(home: GatewayHome) -> list[Path]:
    """Keep what models were sent and answered as an earlier version did; return the files."""
    files: list[Path] = []
    with closing(sqlite3.connect(home.home / "data" / "ozzie.db", isolation_level=None)) as database:
        for (digest,) in database.execute("SELECT hash FROM contents").fetchall():
            path = path_of(home.home / "data" / "blobs", BlobRef(f"sha256:{digest.hex()}"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents.read(database, digest) or b"")
            files.append(path)
        for table in ("contents", "parts", "part_scopes"):
            database.execute(f"DELETE FROM {table}")
    return files
