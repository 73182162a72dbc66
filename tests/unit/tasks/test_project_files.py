"""Files as somebody sees them who types: names below the project, and what is at a path."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.tasks import completion
from ozzie_server_ext.tasks.completion import HEAD_LINES, MOST_FOUND, ProjectFiles
from ozzie_server_ext.tools.base import ToolFailed


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "data" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git" / "config").touch()
    (root / ".env").write_text("KEY=secret")
    (root / "data" / "sales.csv").write_text("a,b\n1,2\n")
    (root / "data" / "my file.csv").touch()
    (root / "Data.md").write_text("# Data\n")
    (tmp_path / "outside.txt").write_text("secret")
    (root / "link").symlink_to(tmp_path)
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    os.mkfifo(root / "pipe")
    return root


async def names(project: Path, typed: str) -> list[str]:
    return [entry.path for entry in await ProjectFiles(project).completions(typed)]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", ["Data.md", "data/"]),
        ("d", ["Data.md", "data/"]),
        ("data/", ["data/deep/", "data/my file.csv", "data/sales.csv"]),
        ("data/s", ["data/sales.csv"]),
        (".", [".env", ".git/"]),
        (".g", [".git/"]),
        (".git/", [".git/config"]),
        ("nothing/here", []),
        ("data/sales.csv/", []),
        ("../", []),
        ("link/", []),
        ("/", []),
        ("/etc/pass", []),
        ("~/", []),
        ("da\0ta/", []),
    ],
)
async def test_what_is_offered_for_what_was_typed(project: Path, typed: str, found: list[str]) -> None:
    assert await names(project, typed) == found


async def test_a_large_folder_is_looked_at_in_part(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = project / "many"
    many.mkdir()
    for number in range(MOST_FOUND + 50):
        (many / f"f{number:04}").touch()

    assert len(await names(project, "many/")) == MOST_FOUND
    monkeypatch.setattr(completion, "MOST_LOOKED_AT", 3)
    assert len(await names(project, "many/")) == 3


async def test_a_look_that_hangs_costs_one_thread(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, go_on = ProjectFiles(project), threading.Event()
    slow = completion._completions
    monkeypatch.setattr(completion, "_completions", lambda root, typed: (go_on.wait(20), slow(root, typed))[1])
    hanging = asyncio.ensure_future(files.completions("d"))
    await asyncio.sleep(0)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging

    with pytest.raises(Unavailable, match="has not answered yet"):
        await files.completions("d")
    go_on.set()
    assert files._reading is not None
    await asyncio.wait_for(files._reading, 20)
    assert await files.completions("data/s")


async def test_a_text_file_has_a_head(project: Path) -> None:
    facts = await ProjectFiles(project).facts("data/sales.csv")

    assert (facts.kind, facts.size, facts.is_text, facts.is_whole) == ("file", 8, True, True)
    assert facts.head == ("a,b", "1,2", "")


async def test_a_long_file_is_shown_in_part_and_a_binary_one_not(project: Path) -> None:
    (project / "long.txt").write_text("line\n" * 5000)
    (project / "raw.bin").write_bytes(b"\x89PNG\0\0\xff\xfe")
    files = ProjectFiles(project)

    long, raw = await files.facts("long.txt"), await files.facts("raw.bin")

    assert (len(long.head), long.is_whole) == (HEAD_LINES, False)
    assert (raw.is_text, raw.head, raw.size) == (False, (), 8)


async def test_a_folder_is_counted_without_what_is_hidden(project: Path) -> None:
    (project / "data" / ".hidden").touch()

    facts = await ProjectFiles(project).facts("data")

    assert (facts.kind, facts.entries) == ("folder", 3)


@pytest.mark.parametrize(
    "path", [".env", ".git/config", "../outside.txt", "link.txt", "link/outside.txt", "pipe", "no"]
)
async def test_what_no_tool_reads_is_not_shown_either(project: Path, path: str) -> None:
    with pytest.raises(ToolFailed):
        await ProjectFiles(project).facts(path)
