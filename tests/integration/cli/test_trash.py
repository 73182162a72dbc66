"""`ozzie trash`: what was moved away is listed, and comes back unless something is there now."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ozzie_server_ext.tools.changes.seen import look
from ozzie_server_ext.tools.changes.trash import move_to_trash
from tests.rig import GatewayHome, new_home, ozzie


@pytest.fixture
def home(tmp_path: Path) -> GatewayHome:
    return new_home(tmp_path)


def trash(home: GatewayHome, path: str, trash_id: str, day: int) -> None:
    (home.project / path).parent.mkdir(parents=True, exist_ok=True)
    (home.project / path).write_text(f"{path} of day {day}\n")
    when = datetime(2026, 3, day, 12, tzinfo=UTC)
    move_to_trash(home.project, look(home.project, path).seen, trash_id, when=when)


def test_what_lies_in_the_trash_is_listed_newest_first_and_comes_back(home: GatewayHome) -> None:
    project = ("--project", str(home.project))
    empty = ozzie(home, "trash", "list", *project)
    trash(home, "notes/old.md", "task-1-0", 1)
    trash(home, "new.md", "task-2-0", 2)

    listed = ozzie(home, "trash", "list", *project)
    as_json = json.loads(ozzie(home, "trash", "list", *project, "--json").stdout)
    back = ozzie(home, "trash", "restore", "task-1-0", *project)
    left = ozzie(home, "trash", "list", *project)

    assert empty.stdout == "The trash of this project is empty.\n"
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["new.md", "notes/old.md"]
    assert [(note["id"], note["path"]) for note in as_json] == [("task-2-0", "new.md"), ("task-1-0", "notes/old.md")]
    assert (back.returncode, back.stdout) == (0, "notes/old.md is back.\n")
    assert (home.project / "notes/old.md").read_text() == "notes/old.md of day 1\n"
    assert [line.split()[-1] for line in left.stdout.splitlines()] == ["new.md"]


def test_nothing_is_written_over_and_what_is_not_there_is_said(home: GatewayHome) -> None:
    project = ("--project", str(home.project))
    trash(home, "a.md", "task-1-0", 1)
    (home.project / "a.md").write_text("another one\n")

    taken = ozzie(home, "trash", "restore", "task-1-0", *project)
    (home.project / "a.md").unlink()
    (home.project / "a.md").mkdir()
    folder = ozzie(home, "trash", "restore", "task-1-0", *project)
    (home.project / "a.md").rmdir()
    (home.project / "a.md").write_text("another one\n")
    nonesuch = ozzie(home, "trash", "restore", "nonesuch", *project)

    assert taken.returncode == nonesuch.returncode == 1
    for refused in (taken, folder):
        assert "Something is at a.md now, so the file stays in the trash; move that away first." in refused.stderr
    assert folder.returncode == 1
    assert "nonesuch" in nonesuch.stderr
    assert (home.project / "a.md").read_text() == "another one\n"
    assert [line.split()[-1] for line in ozzie(home, "trash", "list", *project).stdout.splitlines()] == ["a.md"]
