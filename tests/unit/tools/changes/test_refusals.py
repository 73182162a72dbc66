"""What the system refuses before, during and after a change: it is said whether the change was done."""

import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.tools.changes import held
from ozzie_server_ext.tools.changes.held import NotOffered
from ozzie_server_ext.tools.changes.replace import clear_leftovers, replace
from ozzie_server_ext.tools.changes.seen import look
from ozzie_server_ext.tools.changes.several import was_replaced
from ozzie_server_ext.tools.changes.trash import move_to_trash, restore
from tests.hostile.kernel_refusals import SUPPORTED
from tests.hostile.leftovers import leftovers

ROOT = Path(__file__).resolve().parents[4]
NOBODY = 65534

CHILD = """
import errno, fcntl, json, os, resource, sys
from pathlib import Path
from tests.hostile.kernel_refusals import at_call, refuse
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.tools.changes.replace import replace
from ozzie_server_ext.tools.changes.seen import look
root, path, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
seen = look(root, path).seen
{before}
try:
    said = {{"notes": replace(root, seen, b"n" * size).notes}}
except OzzieError as error:
    said = {{"code": error.code, "message": str(error)}}
print(json.dumps(said))
"""

needs_seccomp = pytest.mark.skipif(not SUPPORTED, reason="the numbers of system calls are known for Linux only")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")


def change(root: Path, path: str = "readme.md", *, before: str = "", size: int = 4) -> dict[str, Any]:
    """What becomes of writing `size` bytes in a process of its own, in which `before` was done."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(before=before), str(root), path, str(size)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def shared() -> Iterator[Path]:
    """A project in a folder that every user reaches."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        root = Path(folder) / "project"
        root.mkdir()
        (root / "readme.md").write_text("hello\n")
        yield root


@needs_seccomp
@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS])
@pytest.mark.parametrize("path", ["readme.md", "new.md", "a/b/new.md"])
def test_without_a_safe_rename_nothing_is_done(project: Path, path: str, number: int) -> None:
    before = sorted(project.rglob("*")), files(project)

    said = change(project, path, before=f"refuse('renameat2', {number})")

    assert said["code"] == "tool.no_safe_rename"
    assert (sorted(project.rglob("*")), files(project)) == before


@needs_seccomp
def test_a_new_version_that_the_disk_does_not_keep_is_not_put_in_place(project: Path) -> None:
    before = files(project)

    said = change(project, before="refuse('fsync', errno.EIO)")

    assert said == {"code": "tool.failed", "message": "readme.md was not changed: Input/output error."}
    assert files(project) == before


@needs_seccomp
@pytest.mark.parametrize(("path", "kept"), [("readme.md", [b"hello\n"]), ("new.md", [])])
def test_a_change_of_which_the_disk_does_not_confirm_the_name_is_done_and_says_so(
    project: Path, path: str, kept: list[bytes]
) -> None:
    """The first call is for the new version, the second for its folder, after the swap."""
    said = change(project, path, before="at_call(os.fsync, 2, lambda: refuse('fsync', errno.EIO))")

    (note,) = said["notes"]
    left = leftovers(project, path)
    assert "did not confirm" in note
    assert all(name in note for name in left)
    assert (project / path).read_bytes() == b"nnnn"
    assert [(project / name).read_bytes() for name in left] == kept
    assert change(project, path) == {"notes": []}
    assert leftovers(project, path) == ()


@needs_seccomp
def test_a_replaced_version_that_can_not_be_removed_is_named_and_cleared_by_the_next_change(project: Path) -> None:
    seen = look(project, "readme.md").seen

    said = change(project, before="refuse('unlinkat', errno.EIO)")

    (left,) = leftovers(project, "readme.md")
    assert said["notes"] == [f"The replaced version could not be removed and is called {left}: Input/output error."]
    assert (project / left).read_text() == "hello\n"
    assert was_replaced(project, seen, sha256(b"nnnn").hexdigest()) is True
    assert change(project) == {"notes": []}
    assert leftovers(project, "readme.md") == ()


@needs_seccomp
def test_a_file_system_without_leases_is_good_enough(project: Path) -> None:
    said = change(project, before="refuse('fcntl', errno.EINVAL, second_argument=fcntl.F_SETLEASE)")

    assert said == {"notes": []}
    assert (project / "readme.md").read_bytes() == b"nnnn"


@pytest.mark.parametrize("path", ["readme.md", "new.md", "a/b/new.md"])
def test_where_there_is_no_room_nothing_is_done_and_nothing_is_left(project: Path, path: str) -> None:
    before = sorted(project.rglob("*")), files(project)

    said = change(project, path, before="resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))", size=100_000)

    assert said == {"code": "tool.failed", "message": f"{path} was not changed: File too large."}
    assert (sorted(project.rglob("*")), files(project)) == before


@needs_root
def test_a_full_disk_leaves_everything_as_it_was(shared: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(shared)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system may be mounted here: {mounted.stderr.strip()}")
    try:
        (shared / "readme.md").write_text("hello\n")

        said = change(shared, size=200_000)

        assert said == {"code": "tool.failed", "message": "readme.md was not changed: No space left on device."}
        assert files(shared) == {"readme.md": b"hello\n"}
        assert change(shared) == {"notes": []}
    finally:
        subprocess.run(["umount", str(shared)], check=True, capture_output=True)


@pytest.mark.parametrize("path", ["readme.md", "new.md", "a/new.md"])
def test_a_folder_in_which_nothing_may_be_made_is_left_as_it_was(shared: Path, path: str) -> None:
    if os.geteuid() == 0:
        os.chown(shared / "readme.md", NOBODY, NOBODY)
    os.chmod(shared, 0o555)

    said = change(shared, path, before=f"os.geteuid() or os.setuid({NOBODY})")

    assert said == {"code": "tool.failed", "message": f"{path} was not changed: Permission denied."}
    assert files(shared) == {"readme.md": b"hello\n"}
    os.chmod(shared, 0o755)


@needs_root
def test_an_ordinary_user_changes_files_of_their_own(shared: Path) -> None:
    os.chown(shared, NOBODY, NOBODY)
    os.chown(shared / "readme.md", NOBODY, NOBODY)

    assert change(shared, before=f"os.setgid({NOBODY}); os.setuid({NOBODY})") == {"notes": []}
    assert change(shared, "a/new.md", before=f"os.setgid({NOBODY}); os.setuid({NOBODY})") == {"notes": []}
    assert files(shared) == {"readme.md": b"nnnn", "a/new.md": b"nnnn"}


@needs_root
def test_a_file_of_another_user_is_left_alone_rather_than_given_another_owner(shared: Path) -> None:
    os.chown(shared, NOBODY, NOBODY)
    os.chmod(shared / "readme.md", 0o666)

    said = change(shared, before=f"os.setgid({NOBODY}); os.setuid({NOBODY})")

    assert "belongs to another user" in said["message"]
    assert files(shared) == {"readme.md": b"hello\n"}


@needs_root
def test_a_file_that_only_another_user_may_write_to_is_left_alone(shared: Path) -> None:
    os.chown(shared, NOBODY, NOBODY)

    said = change(shared, before=f"os.setgid({NOBODY}); os.setuid({NOBODY})")

    assert said["message"] == "readme.md is read-only, so it was left alone."
    assert files(shared) == {"readme.md": b"hello\n"}


@needs_root
def test_the_superuser_leaves_a_file_to_its_owner(shared: Path) -> None:
    os.chown(shared / "readme.md", NOBODY, NOBODY)

    assert change(shared) == {"notes": []}
    assert (os.stat(shared / "readme.md").st_uid, os.stat(shared / "readme.md").st_gid) == (NOBODY, NOBODY)


def test_what_somebody_saved_during_a_change_that_broke_off_is_kept_and_named(project: Path) -> None:
    name = f".readme.md.ozzie-01234567-{'a' * 16}-{'b' * 16}"
    (project / name).write_text("somebody's")

    said = change(project)

    assert said["notes"] == [f"What another program saved during a change that broke off is kept as {name}."]
    assert clear_leftovers(project, "readme.md").kept == (name,)
    assert (project / name).read_text() == "somebody's"


def test_a_system_that_has_no_safe_rename_refuses_before_anything_is_begun(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As macOS would, whose C library lacks it; looking works there."""
    monkeypatch.setattr(held, "_renameat2", None)
    before = sorted(project.rglob("*")), files(project)
    for act in (
        lambda: replace(project, look(project, "readme.md").seen, b"new"),
        lambda: replace(project, look(project, "a/new.md").seen, b"new"),
        lambda: move_to_trash(project, look(project, "readme.md").seen, "call1", when=datetime(2026, 1, 1, tzinfo=UTC)),
        lambda: restore(project, "call1"),
    ):
        with pytest.raises(NotOffered, match="Nothing was changed"):
            act()

    assert (sorted(project.rglob("*")), files(project)) == before
