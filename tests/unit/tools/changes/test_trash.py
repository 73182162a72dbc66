"""A file goes to the project's trash and comes back, as it was, or stays where it is."""

import json
import os
import stat
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.seen import FileBusy, FileChanged, look
from ozzie_server_ext.tools.changes.trash import move_to_trash, restore, was_trashed
from ozzie_server_ext.tools.safe_open import OutsideProject

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HASH = sha256(b"a,b\n1,2\n").hexdigest()
PLACE = ".ozzie/trash/call1/data/sales.csv"


def trash(project: Path, path: str = "data/sales.csv", trash_id: str = "call1") -> None:
    move_to_trash(project, look(project, path).seen, trash_id, when=WHEN)


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_file_lies_in_the_trash_under_its_own_path_and_a_note_says_what_it_is(project: Path) -> None:
    moved = move_to_trash(project, look(project, "data/sales.csv").seen, "call1", when=WHEN)

    assert (moved.place, moved.notes) == (PLACE, ())
    assert (project / PLACE).read_bytes() == b"a,b\n1,2\n"
    assert json.loads((project / ".ozzie/trash/call1.json").read_text()) == {
        "id": "call1",
        "path": "data/sales.csv",
        "trashed_at": "2026-01-02T03:04:05+00:00",
        "sha256": HASH,
    }
    assert not (project / "data" / "sales.csv").exists()


def test_nobody_else_can_look_into_the_trash(project: Path) -> None:
    trash(project)

    for place, mode in ((".ozzie/trash", 0o700), (".ozzie/trash/call1", 0o700), (".ozzie/trash/call1.json", 0o600)):
        assert stat.S_IMODE(os.stat(project / place).st_mode) == mode


def test_a_file_comes_back_as_it_was_and_the_trash_is_empty(project: Path) -> None:
    before, info = tree(project), os.stat(project / "data" / "sales.csv")
    trash(project)

    moved = restore(project, "call1")

    assert (moved.place, moved.notes) == ("data/sales.csv", ())
    after = os.stat(project / "data" / "sales.csv")
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (info.st_ino, info.st_mode, info.st_mtime_ns)
    assert tree(project) == sorted([*before, ".ozzie", ".ozzie/trash"])


def test_a_file_comes_back_with_its_folder(project: Path) -> None:
    trash(project)
    (project / "data").rmdir()

    restore(project, "call1")

    assert (project / "data" / "sales.csv").read_bytes() == b"a,b\n1,2\n"


def test_a_call_that_is_made_again_finds_what_the_first_one_did(project: Path) -> None:
    assert not was_trashed(project, "call1", HASH)
    trash(project)

    assert was_trashed(project, "call1", HASH)
    assert not was_trashed(project, "call1", sha256(b"").hexdigest())
    assert not was_trashed(project, "call2", HASH)
    restore(project, "call1")
    assert not was_trashed(project, "call1", HASH)


def test_an_id_serves_once(project: Path) -> None:
    trash(project)

    with pytest.raises(ToolFailed, match="already holds a file under the id call1"):
        trash(project, "readme.md")

    assert (project / "readme.md").exists()
    assert was_trashed(project, "call1", HASH)


def test_a_note_that_a_killed_call_left_is_written_anew(project: Path) -> None:
    (project / ".ozzie" / "trash").mkdir(parents=True)
    (project / ".ozzie" / "trash" / "call1.json").write_text('{"id": "call1", "pa')

    trash(project)

    assert was_trashed(project, "call1", HASH)


@pytest.mark.parametrize("trash_id", ["", "..", "a/b", "a.b", "x" * 65, "a\n", "ä"])
def test_what_is_no_id_is_refused(project: Path, trash_id: str) -> None:
    before = tree(project)
    for act in (
        lambda: trash(project, trash_id=trash_id),
        lambda: restore(project, trash_id),
        lambda: was_trashed(project, trash_id, HASH),
    ):
        with pytest.raises(ToolFailed, match="no id of the trash"):
            act()

    assert tree(project) == before


def edited(file: Path) -> None:
    file.write_text("somebody else's\n")


def saved_anew(file: Path) -> None:
    (file.parent / "saved").write_bytes(file.read_bytes())
    (file.parent / "saved").rename(file)


def swapped_for_a_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("../../secret.txt")


@pytest.mark.parametrize("change", [edited, saved_anew, swapped_for_a_link, Path.unlink])
def test_a_file_that_changed_in_between_is_left_alone(project: Path, change: Callable[[Path], None]) -> None:
    seen = look(project, "data/sales.csv").seen
    change(project / "data" / "sales.csv")
    before = tree(project)

    with pytest.raises(FileChanged):
        move_to_trash(project, seen, "call1", when=WHEN)

    assert tree(project) == before


def test_a_file_that_is_open_for_writing_is_left_alone(project: Path) -> None:
    with open(project / "data" / "sales.csv", "ab"), pytest.raises(FileBusy):
        trash(project)

    assert (project / "data" / "sales.csv").exists()


def test_a_folder_is_refused(project: Path) -> None:
    with pytest.raises(ToolFailed, match="not a plain file"):
        trash(project, "data")


def test_what_is_not_there_is_refused(project: Path) -> None:
    with pytest.raises(ToolFailed, match="does not exist"):
        trash(project, "nothing.txt")


@pytest.mark.parametrize("name", [".ozzie", ".ozzie/trash", ".ozzie/trash/call1"])
def test_a_trash_that_is_a_link_is_refused(project: Path, name: str) -> None:
    """A foreign project may come with one."""
    outside = project.parent / "outside"
    outside.mkdir()
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).symlink_to(outside)

    with pytest.raises(OutsideProject, match="symbolic link"):
        trash(project)

    assert (project / "data" / "sales.csv").exists()
    assert tree(outside) == []


def test_nothing_is_restored_over_what_is_there_now(project: Path) -> None:
    trash(project)
    (project / "data" / "sales.csv").write_text("newer")

    with pytest.raises(FileChanged, match=r"Something is at data/sales\.csv now"):
        restore(project, "call1")

    assert (project / "data" / "sales.csv").read_text() == "newer"
    assert was_trashed(project, "call1", HASH)


def test_nothing_is_restored_where_a_folder_became_a_file_or_a_link(project: Path) -> None:
    trash(project)
    (project / "data").rmdir()
    (project / "data").write_text("a file")
    with pytest.raises(ToolFailed, match="not a folder"):
        restore(project, "call1")

    (project / "data").unlink()
    (project / "data").symlink_to("..")
    with pytest.raises(OutsideProject, match="symbolic link"):
        restore(project, "call1")

    assert was_trashed(project, "call1", HASH)


def test_what_was_changed_in_the_trash_stays_there(project: Path) -> None:
    trash(project)
    (project / PLACE).write_text("changed")

    with pytest.raises(FileChanged, match="changed while it lay in the trash"):
        restore(project, "call1")

    assert (project / PLACE).read_text() == "changed"


@pytest.mark.parametrize("path", ["../out.txt", "/etc/x", ".bashrc", "data/../x", "a\nb"])
def test_a_note_that_leads_elsewhere_restores_nothing(project: Path, path: str) -> None:
    """Who comes with a trash of their own can't have a file put where tools may not write."""
    trash(project)
    note = project / ".ozzie" / "trash" / "call1.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"path": path}))

    with pytest.raises(ToolFailed, match="holds nothing"):
        restore(project, "call1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a second file system")
def test_another_file_system_is_refused_in_words(project: Path) -> None:
    data = project / "data"
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(data)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system may be mounted here: {mounted.stderr.strip()}")
    try:
        (data / "far.csv").write_text("1")

        with pytest.raises(ToolFailed, match="another file system than the trash"):
            trash(project, "data/far.csv")

        assert (data / "far.csv").read_text() == "1"
        assert tree(project / ".ozzie") == ["trash"]
    finally:
        subprocess.run(["umount", str(data)], check=True, capture_output=True)
