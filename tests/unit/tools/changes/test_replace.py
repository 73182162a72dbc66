"""A file gets a new content on exactly the version that was seen, or nothing happens."""

import fcntl
import os
import stat
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace as with_changes

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes import held
from ozzie_server_ext.tools.changes.replace import replace
from ozzie_server_ext.tools.changes.seen import MAX_BYTES, FileBusy, FileChanged, look
from ozzie_server_ext.tools.changes.several import was_replaced

NEW = b"new\n"


def tree(folder: Path) -> dict[str, str]:
    """Every name below `folder`, and what is there."""
    return {
        str(path.relative_to(folder)): f"-> {os.readlink(path)}"
        if path.is_symlink()
        else "/"
        if path.is_dir()
        else path.read_bytes().decode("latin-1")
        for path in sorted(folder.rglob("*"))
    }


def test_a_file_that_is_still_what_was_seen_gets_the_new_content(project: Path) -> None:
    before = tree(project)

    done = replace(project, look(project, "data/sales.csv").seen, NEW)

    assert tree(project) == before | {"data/sales.csv": "new\n"}
    assert done.notes == ()
    assert done.seen == look(project, "data/sales.csv").seen


@pytest.mark.parametrize(
    ("mode", "executable", "then"), [(0o640, True, 0o750), (0o755, False, 0o644), (0o711, None, 0o711)]
)
def test_a_file_is_made_executable_or_not_and_keeps_its_other_rights(
    project: Path, mode: int, executable: bool | None, then: int
) -> None:
    (project / "readme.md").chmod(mode)
    seen = look(project, "readme.md").seen

    replace(project, seen, b"hello\n", executable=executable)

    assert stat.S_IMODE((project / "readme.md").stat().st_mode) == then
    assert seen.file is not None
    assert was_replaced(project, seen, seen.file.sha256) is True, "of the same content, it is another file by now"


def test_a_new_file_can_be_made_executable(project: Path) -> None:
    replace(project, look(project, "run.sh").seen, NEW, executable=True)

    mode = stat.S_IMODE((project / "run.sh").stat().st_mode)
    assert mode & 0o111 == (mode & 0o444) >> 2


def test_changes_can_follow_one_another_without_looking_again(project: Path) -> None:
    seen = look(project, "readme.md").seen
    for number in range(3):
        seen = replace(project, seen, f"{number}".encode()).seen

    assert (project / "readme.md").read_text() == "2"


def test_a_new_file_is_made_and_the_folders_that_were_missing(project: Path) -> None:
    before = tree(project)
    seen = look(project, "reports/2026/new.md").seen

    done = replace(project, seen, NEW)

    assert tree(project) == before | {"reports": "/", "reports/2026": "/", "reports/2026/new.md": "new\n"}
    assert done.seen == look(project, "reports/2026/new.md").seen


def test_a_new_file_and_its_folders_keep_to_the_umask(project: Path) -> None:
    for umask, file, folder in ((0o022, 0o644, 0o755), (0o077, 0o600, 0o700), (0o000, 0o644, 0o755)):
        before = os.umask(umask)
        try:
            replace(project, look(project, f"u{umask}/new.md").seen, NEW)
        finally:
            os.umask(before)

        assert stat.S_IMODE(os.stat(project / f"u{umask}" / "new.md").st_mode) == file
        assert stat.S_IMODE(os.stat(project / f"u{umask}").st_mode) == folder


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o755, 0o666, 0o4755])
def test_the_permissions_of_the_file_stay_whatever_the_umask_and_what_makes_it_another_user_goes(
    project: Path, mode: int
) -> None:
    os.chmod(project / "readme.md", mode)
    before = os.umask(0o077)
    try:
        replace(project, look(project, "readme.md").seen, NEW)
    finally:
        os.umask(before)

    assert stat.S_IMODE(os.stat(project / "readme.md").st_mode) == mode & 0o777


def test_attributes_that_a_user_gave_the_file_stay(project: Path) -> None:
    try:
        os.setxattr(project / "readme.md", "user.origin", b"here")
    except OSError as error:
        pytest.skip(f"the file system has none: {error.strerror}")

    replace(project, look(project, "readme.md").seen, NEW)

    assert os.getxattr(project / "readme.md", "user.origin") == b"here"


def edited(file: Path) -> None:
    file.write_text("somebody else's\n")


def edited_to_the_same_size_and_time(file: Path) -> None:
    info = os.stat(file)
    with open(file, "r+b") as opened:
        opened.write(b"J")
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))


def saved_anew_with_the_same_content(file: Path) -> None:
    content = file.read_bytes()
    (file.parent / "saved").write_bytes(content)
    (file.parent / "saved").rename(file)


def made_readable_to_fewer(file: Path) -> None:
    os.chmod(file, 0o600)


def linked_elsewhere(file: Path) -> None:
    os.link(file, file.parent / "second.md")


def removed(file: Path) -> None:
    file.unlink()


def swapped_for_a_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("../secret.txt")


def swapped_for_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def swapped_for_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    "change",
    [
        edited,
        edited_to_the_same_size_and_time,
        saved_anew_with_the_same_content,
        made_readable_to_fewer,
        linked_elsewhere,
        removed,
        swapped_for_a_link,
        swapped_for_a_folder,
    ],
)
def test_a_file_that_changed_in_between_is_left_alone(project: Path, change: Callable[[Path], None]) -> None:
    seen = look(project, "readme.md").seen
    change(project / "readme.md")
    before = tree(project.parent)

    with pytest.raises(FileChanged):
        replace(project, seen, NEW)

    assert tree(project.parent) == before


def test_a_pipe_in_its_place_is_refused_and_not_waited_for(project: Path) -> None:
    seen = look(project, "readme.md").seen
    swapped_for_a_pipe(project / "readme.md")

    with pytest.raises(FileChanged):
        replace(project, seen, NEW)

    assert stat.S_ISFIFO(os.stat(project / "readme.md").st_mode)


def test_what_appeared_where_nothing_was_is_left_alone(project: Path) -> None:
    seen = look(project, "new.md").seen
    for make in (edited, swapped_by_a_dangling_link, Path.mkdir):
        make(project / "new.md")
        before = tree(project.parent)

        with pytest.raises(FileChanged, match="not there when it was looked at"):
            replace(project, seen, NEW)

        assert tree(project.parent) == before
        (project / "new.md").rename(project.parent / f"gone-{len(before)}")


def swapped_by_a_dangling_link(file: Path) -> None:
    file.symlink_to("../not-there.txt")


@pytest.mark.parametrize("path", ["data/sales.csv", "data/new.csv"])
def test_a_folder_that_was_swapped_for_another_one_or_a_link_is_left_alone(project: Path, path: str) -> None:
    seen = look(project, path).seen
    outside = project.parent / "outside"
    (project / "data").rename(outside)
    (project / "data").symlink_to(outside)
    linked = tree(project.parent)

    with pytest.raises(ToolFailed):
        replace(project, seen, NEW)

    assert tree(project.parent) == linked
    (project / "data").unlink()
    (project / "data").mkdir()
    another = tree(project.parent)
    with pytest.raises(FileChanged):
        replace(project, seen, NEW)

    assert tree(project.parent) == another


def test_the_same_yes_serves_once(project: Path) -> None:
    for path in ("readme.md", "new.md"):
        seen = look(project, path).seen
        replace(project, seen, NEW)

        with pytest.raises(FileChanged):
            replace(project, seen, b"again\n")

        assert (project / path).read_bytes() == NEW


def test_a_file_that_a_program_has_open_for_writing_is_left_alone_and_can_be_changed_afterwards(project: Path) -> None:
    seen = look(project, "readme.md").seen
    before = tree(project)

    with open(project / "readme.md", "ab"), pytest.raises(FileBusy, match="open for writing in another program"):
        replace(project, seen, NEW)

    assert tree(project) == before
    replace(project, seen, NEW)
    assert (project / "readme.md").read_bytes() == NEW


def test_a_file_that_a_program_reads_is_changed_and_the_program_keeps_what_it_reads(project: Path) -> None:
    with open(project / "readme.md", "rb") as reading:
        replace(project, look(project, "readme.md").seen, NEW)

        assert reading.read() == b"hello\n"


def test_a_read_only_file_is_left_alone(project: Path) -> None:
    os.chmod(project / "readme.md", 0o444)
    before = tree(project)

    with pytest.raises(ToolFailed, match="read-only"):
        replace(project, look(project, "readme.md").seen, NEW)

    assert tree(project) == before


def test_a_content_above_the_limit_is_refused(project: Path) -> None:
    with pytest.raises(ToolFailed, match="larger than"):
        replace(project, look(project, "readme.md").seen, b"x" * (MAX_BYTES + 1))


def test_a_name_as_long_as_the_file_system_takes_can_be_changed(project: Path) -> None:
    name = "日" * 85

    replace(project, replace(project, look(project, name).seen, b"one").seen, b"two")

    assert (project / name).read_bytes() == b"two"
    assert sorted(os.listdir(project)) == sorted(["data", "readme.md", name])


def test_neither_a_change_nor_a_refusal_leaves_a_descriptor_open(project: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))

    for path in ("readme.md", "new.md", "a/b/new.md"):
        seen = look(project, path).seen
        replace(project, seen, NEW)
        with pytest.raises(FileChanged):
            replace(project, seen, NEW)

    assert len(os.listdir("/proc/self/fd")) == before


def test_of_changes_at_once_on_the_same_version_one_is_made(project: Path) -> None:
    seen = look(project, "readme.md").seen

    def attempt(number: int) -> str:
        try:
            replace(project, seen, f"{number}".encode())
        except FileChanged:
            return "changed"
        return f"{number}"

    with ThreadPoolExecutor(8) as threads:
        ended = Counter(threads.map(attempt, range(8)))

    assert ended["changed"] == 7
    assert (project / "readme.md").read_text() in ended
    assert sorted(os.listdir(project)) == ["data", "readme.md"]


def test_changes_at_once_of_several_files_in_a_folder_are_all_made(project: Path) -> None:
    def attempt(number: int) -> None:
        replace(project, look(project, f"data/{number}.txt").seen, NEW)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(attempt, range(24)))

    assert sorted(os.listdir(project / "data")) == sorted(["sales.csv", *(f"{number}.txt" for number in range(24))])


def test_a_folder_in_which_another_change_hangs_is_not_waited_for_without_end(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "LOCK_WAIT_S", 0.02)
    seen = look(project, "readme.md").seen
    descriptor = os.open(project, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    with pytest.raises(FileBusy, match="Another change goes on in the folder"):
        replace(project, seen, NEW)

    os.close(descriptor)
    replace(project, seen, NEW)


def test_a_record_that_names_another_path_is_refused_like_any_other_path(project: Path) -> None:
    seen = look(project, "readme.md").seen
    for path in ("../secret.txt", ".env", "a\nb"):
        with pytest.raises(ToolFailed):
            replace(project, with_changes(seen, path=path), NEW)

    assert (project.parent / "secret.txt").read_text() == "SECRET"
