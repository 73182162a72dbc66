"""Nothing outside of the project is ever opened, however it is asked for."""

import os
import socket
import threading
from pathlib import Path

import pytest

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.safe_open import OutsideProject, open_below, parts_below


def read(root: Path, path: str) -> str:
    with os.fdopen(open_below(root, path, folder=False)) as file:
        return file.read()


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_file_below_the_root_is_opened(project: Path) -> None:
    assert read(project, "readme.md") == "hello\n"
    assert read(project, "data/sales.csv") == "a,b\n1,2\n"
    assert read(project, " ./data//sales.csv ") == "a,b\n1,2\n"


@pytest.mark.parametrize("path", [".", "", "./", "data", "data/"])
def test_a_folder_below_the_root_is_opened(project: Path, path: str) -> None:
    descriptor = open_below(project, path, folder=True)

    assert os.path.samestat(os.fstat(descriptor), os.stat(project / path))
    os.close(descriptor)


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "data/../../secret.txt",
        "data/../readme.md",
        "..",
        "/etc/passwd",
        "//etc/passwd",
        "~/x",
        "~",
        "~root/x",
        ".env",
        ".git/config",
        "data/.hidden",
        ".../x",
        "a\0b",
    ],
)
def test_a_path_that_leads_out_or_to_hidden_things_is_refused_before_anything_is_opened(path: str) -> None:
    with pytest.raises(OutsideProject):
        parts_below(path)


def test_a_link_is_not_followed_even_to_where_one_may_look(project: Path) -> None:
    (project / "out.txt").symlink_to("../secret.txt")
    (project / "in.txt").symlink_to("readme.md")
    (project / "dangling").symlink_to("nowhere")

    for name in ("out.txt", "in.txt", "dangling"):
        with pytest.raises(OutsideProject, match="symbolic link"):
            read(project, name)


def test_a_link_in_the_middle_is_not_followed(project: Path) -> None:
    (project / "up").symlink_to("..")
    (project / "data" / "up").symlink_to(project.parent, target_is_directory=True)

    for path in ("up/secret.txt", "data/up/secret.txt", "up"):
        with pytest.raises(OutsideProject, match="symbolic link"):
            open_below(project, path, folder=path == "up")


def test_the_root_itself_may_be_reached_through_a_link(project: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(project)

    assert read(tmp_path / "alias", "readme.md") == "hello\n"


def test_a_pipe_is_refused_at_once_and_not_waited_for(project: Path) -> None:
    os.mkfifo(project / "pipe")

    with pytest.raises(ToolFailed, match="not a plain file"):
        read(project, "pipe")


def test_a_socket_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)  # a socket's path may have 100 characters only
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("door")

        with pytest.raises(ToolFailed):
            read(project, "door")


def test_a_device_is_refused() -> None:
    with pytest.raises(ToolFailed, match="not a plain file"):
        read(Path("/dev"), "zero")


def test_a_folder_where_a_file_is_meant_is_refused_and_the_other_way_round(project: Path) -> None:
    with pytest.raises(ToolFailed, match="data is not a plain file"):
        read(project, "data")
    with pytest.raises(ToolFailed, match="not a plain file"):
        read(project, ".")
    with pytest.raises(ToolFailed, match=r"readme\.md is not a folder"):
        open_below(project, "readme.md", folder=True)
    with pytest.raises(ToolFailed, match=r"readme\.md is not a folder"):
        read(project, "readme.md/x")


@pytest.mark.parametrize(
    ("path", "says"),
    [("nothing.txt", "nothing.txt does not exist"), ("no/where.txt", "does not exist"), ("x" * 300, "can't be opened")],
)
def test_what_is_not_there_is_said_so(project: Path, path: str, says: str) -> None:
    with pytest.raises(ToolFailed, match=says):
        read(project, path)


def test_a_refusal_leaves_no_descriptor_open(project: Path) -> None:
    (project / "link").symlink_to("..")
    os.mkfifo(project / "pipe")
    before = open_descriptors()

    for path in ("link/x", "nothing", "data/nothing", "pipe", "data", "readme.md/x", "../x"):
        with pytest.raises(ToolFailed):
            read(project, path)

    assert open_descriptors() == before


def test_a_thread_that_swaps_a_folder_for_a_link_never_gets_the_secret_read(project: Path, tmp_path: Path) -> None:
    """What is looked at and what is opened are one act, so there is no moment in between to win."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "sales.csv").write_text("SECRET")
    spare, link, data = tmp_path / "spare", tmp_path / "link", project / "data"
    link.symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            data.rename(spare)
            link.rename(data)
            data.rename(link)
            spare.rename(data)

    racer = threading.Thread(target=swap, daemon=True)
    racer.start()
    seen: dict[str, int] = {}
    try:
        for number in range(200_000):
            if number >= 10_000 and {"a,b\n1,2\n", "OutsideProject"} <= set(seen):
                break
            try:
                outcome = read(project, "data/sales.csv")
            except ToolFailed as error:
                outcome = type(error).__name__
            seen[outcome] = seen.get(outcome, 0) + 1
    finally:
        stop.set()
        racer.join(20)

    assert set(seen) <= {"a,b\n1,2\n", "OutsideProject", "ToolFailed"}
    assert seen["a,b\n1,2\n"] > 0
    assert seen["OutsideProject"] > 0, f"the race was never run: {seen}"
