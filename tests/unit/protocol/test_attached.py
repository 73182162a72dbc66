"""Attached servers are known while their processes live, and no longer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.protocol.attached import AttachedServer, Attachment, attached_servers, owner_expected
from ozzie_server_ext.protocol.owner import owner_lock_path

HOLDER = """
import os, sys
from pathlib import Path
from ozzie_server_ext.protocol.attached import AttachedServer, Attachment
Attachment(Path(sys.argv[1]), AttachedServer(pid=os.getpid(), url="http://127.0.0.1:1/", headless=True)).enter()
print("entered", flush=True)
sys.stdin.read()
"""


def server(pid: int) -> AttachedServer:
    return AttachedServer(pid=pid, url=f"http://127.0.0.1:{pid}/", headless=False, root="/w")


def test_who_enters_is_found_until_it_leaves(tmp_path: Path) -> None:
    first, second = Attachment(tmp_path, server(1)), Attachment(tmp_path, server(2))
    first.enter()
    second.enter()
    second.enter()  # once more is no harm
    both = attached_servers(tmp_path)
    first.leave()
    first.leave()
    left = attached_servers(tmp_path)
    second.leave()

    assert sorted(both, key=lambda found: found.pid) == [server(1), server(2)]
    assert left == [server(2)]
    assert attached_servers(tmp_path) == []
    assert list((tmp_path / "run" / "attached").iterdir()) == []


def test_a_file_that_can_not_be_removed_keeps_nobody_from_leaving(tmp_path: Path) -> None:
    attachment = Attachment(tmp_path, server(1))
    attachment.enter()
    path = tmp_path / "run" / "attached" / "1.json"
    path.unlink()
    path.mkdir()

    attachment.leave()

    assert attached_servers(tmp_path) == []


@pytest.mark.parametrize("also", [False, True], ids=["the file", "the folder"])
def test_who_enters_again_is_found_again_after_its_file_was_removed(tmp_path: Path, also: bool) -> None:
    attachment, folder = Attachment(tmp_path, server(1)), tmp_path / "run" / "attached"
    attachment.enter()
    open_before = len(os.listdir("/proc/self/fd"))
    (folder / "1.json").unlink()
    if also:
        folder.rmdir()
    lost = attached_servers(tmp_path)
    attachment.enter()
    found = attached_servers(tmp_path)
    open_after = len(os.listdir("/proc/self/fd"))
    attachment.leave()

    assert (lost, found, attached_servers(tmp_path)) == ([], [server(1)], [])
    assert open_after == open_before, "the removed file is let go of"


def test_the_file_that_another_put_in_its_place_is_left_to_that_one(tmp_path: Path) -> None:
    # Processes of two containers on one folder may have the same number.
    mine, others = Attachment(tmp_path, server(1)), Attachment(tmp_path, server(1))
    mine.enter()
    others.enter()
    path = tmp_path / "run" / "attached" / "1.json"
    theirs = path.stat().st_ino
    mine.enter()
    mine.leave()

    assert path.stat().st_ino == theirs
    assert attached_servers(tmp_path) == [server(1)]
    others.leave()


def test_its_file_is_the_users_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        attachment = Attachment(tmp_path, server(7))
        attachment.enter()
    finally:
        os.umask(before)

    (file,) = (tmp_path / "run" / "attached").iterdir()
    assert (file.name, file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == ("7.json", 0o600, 0o700)
    assert json.loads(file.read_text()) == {"pid": 7, "url": "http://127.0.0.1:7/", "headless": False, "root": "/w"}
    attachment.leave()


def test_one_that_is_killed_is_found_no_more_and_its_file_goes_with_the_next_one(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "entered\n"
    (alive,) = attached_servers(tmp_path)
    expected = owner_expected(tmp_path)
    child.kill()
    child.communicate(timeout=20)

    assert (alive.pid, alive.headless, expected) == (child.pid, True, True)
    assert attached_servers(tmp_path) == []
    assert not owner_expected(tmp_path)
    assert len(list((tmp_path / "run" / "attached").iterdir())) == 1
    attachment = Attachment(tmp_path, server(1))
    attachment.enter()
    assert [path.name for path in (tmp_path / "run" / "attached").iterdir()] == ["1.json"]
    attachment.leave()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid":1}', "\x00"])
def test_a_file_of_nobodys_is_passed_over(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "run" / "attached"
    folder.mkdir(parents=True)
    (folder / "1.json").write_text(text)
    (folder / "2.json").symlink_to(folder / "1.json")
    os.mkfifo(folder / "3.json")

    assert attached_servers(tmp_path) == []


def test_a_folder_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file in its place")

    with pytest.raises(Unavailable, match="can't be written"):
        Attachment(tmp_path, server(1)).enter()


def test_an_owner_is_expected_where_one_lives_or_will_come(tmp_path: Path) -> None:
    assert not owner_expected(tmp_path)
    owner_lock_path(tmp_path).parent.mkdir()
    owner_lock_path(tmp_path).write_text(str(os.getpid()))
    assert owner_expected(tmp_path)
    owner_lock_path(tmp_path).write_text("")
    assert not owner_expected(tmp_path)


def test_in_a_home_that_can_not_be_looked_into_nobody_is_attached(tmp_path: Path) -> None:
    assert attached_servers(tmp_path / ("x" * 300)) == []
    assert not owner_expected(tmp_path / ("x" * 300))
