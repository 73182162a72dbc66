"""What is seen at a path, and all that is not looked at."""

import os
import socket
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from ozzie_server_ext.protocol.jsontext import dumps, loads_object
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.seen import MAX_BYTES, Seen, look
from ozzie_server_ext.tools.safe_open import OutsideProject


def test_a_file_is_seen_with_its_bytes(project: Path) -> None:
    info = os.stat(project / "data" / "sales.csv")

    looked = look(project, "data/sales.csv")

    assert looked.content == b"a,b\n1,2\n"
    assert looked.seen.file is not None
    assert looked.seen.file.sha256 == sha256(b"a,b\n1,2\n").hexdigest()
    assert (looked.seen.file.device, looked.seen.file.inode) == (info.st_dev, info.st_ino)
    assert (looked.seen.file.mode, looked.seen.file.mtime_ns) == (info.st_mode, info.st_mtime_ns)
    assert looked.seen.missing == ()


def test_a_path_is_written_in_one_way_whatever_was_asked_for(project: Path) -> None:
    assert look(project, "./data//sales.csv").seen == look(project, "data/sales.csv").seen


def test_nothing_there_is_seen_as_well(project: Path) -> None:
    looked = look(project, "data/new.csv")

    assert (looked.seen.file, looked.seen.missing, looked.content) == (None, (), b"")


def test_the_folders_that_would_have_to_be_made_are_named_from_the_outermost(project: Path) -> None:
    assert look(project, "data/a/b/new.csv").seen.missing == ("data/a", "data/a/b")
    assert look(project, "x/new.csv").seen.missing == ("x",)


def test_what_was_seen_goes_into_a_record_and_comes_back(project: Path) -> None:
    for path in ("readme.md", "x/y/new.csv"):
        seen = look(project, path).seen

        assert msgspec.convert(loads_object(dumps(msgspec.to_builtins(seen))), Seen) == seen


def test_any_change_of_a_file_is_seen(project: Path) -> None:
    file = project / "readme.md"
    before = look(project, "readme.md").seen
    os.chmod(file, 0o600)
    assert look(project, "readme.md").seen != before

    os.chmod(file, 0o644)
    os.utime(file, ns=(1, 1))
    assert look(project, "readme.md").seen != before


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "data/../../secret.txt", "/etc/passwd", "~/x", ".env", ".git/config", "data/.hidden", ".."],
)
def test_what_leads_out_or_is_hidden_is_refused(project: Path, path: str) -> None:
    with pytest.raises(OutsideProject):
        look(project, path)


@pytest.mark.parametrize(
    "path",
    [
        "a\nb",
        "a.txt\n",
        "a\rb",
        "a\tb",
        "a\x1b[2Jb",
        "a\x00b",
        "a\x7fb",
        "a\x9bb",
        "txt.\u202eslx",
        "a\u2066b",
        "a\u200bb",
        "a\u200db",
        "\ufeffa",
        "a\u00adb",
        "a\u2028b",
        "a\u3164b",
        "a\ufe0fb",
        "a\U000e0041b",
        "a\ud800b",
        " a",
        "a ",
        "a  b",
        "a\u00a0b",
        "data /x",
    ],
)
def test_a_name_that_a_person_can_not_read_as_it_is_is_refused(project: Path, path: str) -> None:
    with pytest.raises(ToolFailed, match="characters that nobody can see or read"):
        look(project, path)


@pytest.mark.parametrize("path", ["Zahlen für Müller.txt", "日本語/帳簿.csv", "données.md", "😀.txt", "-rf", "a b.txt"])
def test_names_of_all_scripts_are_taken(project: Path, path: str) -> None:
    assert look(project, path).seen.path == path


def test_a_name_that_is_too_long_is_refused(project: Path) -> None:
    assert look(project, "é" * 127).seen.file is None
    with pytest.raises(ToolFailed, match="longer than 255 bytes"):
        look(project, "é" * 128)
    with pytest.raises(ToolFailed, match="longer than 255 bytes"):
        look(project, "x" * 256 + "/y")


@pytest.mark.parametrize("path", ["", ".", "./"])
def test_the_project_itself_is_refused(project: Path, path: str) -> None:
    with pytest.raises(ToolFailed, match="the project folder itself"):
        look(project, path)


def test_a_link_on_the_way_is_refused_wherever_it_leads(project: Path) -> None:
    (project / "up").symlink_to("..")
    (project / "in.txt").symlink_to("readme.md")
    (project / "dangling").symlink_to("nowhere")

    for path in ("up/secret.txt", "up", "in.txt", "dangling", "up/new/file.txt"):
        with pytest.raises(OutsideProject, match="symbolic link"):
            look(project, path)


def test_only_a_plain_file_with_one_name_is_taken(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(project / "pipe")
    os.link(project.parent / "secret.txt", project / "linked.txt")
    monkeypatch.chdir(project)  # a socket's path may have 100 characters only
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("door")
        for path, says in (
            ("pipe", "not a plain file"),
            ("data", "not a plain file"),
            ("door", "can't be opened"),
            ("linked.txt", "hard link"),
            ("readme.md/x", "not a folder"),
        ):
            with pytest.raises(ToolFailed, match=says):
                look(project, path)


def test_a_device_is_refused() -> None:
    with pytest.raises(ToolFailed, match="not a plain file"):
        look(Path("/dev"), "null")


def test_a_file_above_the_limit_is_refused_and_one_at_it_is_read(project: Path) -> None:
    (project / "large.bin").write_bytes(b"x" * MAX_BYTES)
    assert len(look(project, "large.bin").content) == MAX_BYTES

    (project / "large.bin").write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(ToolFailed, match="larger than 2,097,152 bytes"):
        look(project, "large.bin")


def test_looking_leaves_no_descriptor_open(project: Path) -> None:
    (project / "link").symlink_to("..")
    os.link(project / "readme.md", project / "second.md")
    before = len(os.listdir("/proc/self/fd"))

    for path in ("data/sales.csv", "data/x", "x/y", "link/x", "second.md", "data", "readme.md/x"):
        try:
            look(project, path)
        except ToolFailed:
            continue

    assert len(os.listdir("/proc/self/fd")) == before
