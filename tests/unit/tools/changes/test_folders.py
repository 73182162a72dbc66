"""The folders that were announced as missing are made, and no others."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.held import make_folders, remove_folders
from ozzie_server_ext.tools.changes.seen import FileChanged, look


def folders(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir() and not path.is_symlink())


def test_what_is_seen_afterwards_is_what_a_look_would_see(project: Path) -> None:
    made = make_folders(project, look(project, "data/a/b/new.md").seen)

    assert folders(project) == ["data", "data/a", "data/a/b"]
    assert made == look(project, "data/a/b/new.md").seen


def test_nothing_missing_is_nothing_made(project: Path) -> None:
    seen = look(project, "data/new.md").seen

    assert make_folders(project, seen) == seen
    assert folders(project) == ["data"]


def a_folder(path: Path) -> None:
    path.mkdir()


def a_file(path: Path) -> None:
    path.write_text("x")


def a_link(path: Path) -> None:
    path.symlink_to("..")


@pytest.mark.parametrize("appears", [a_folder, a_file, a_link])
def test_where_something_appeared_in_between_nothing_is_made(project: Path, appears: Callable[[Path], None]) -> None:
    seen = look(project, "data/a/b/new.md").seen
    appears(project / "data" / "a")
    before = folders(project)

    with pytest.raises(ToolFailed):
        make_folders(project, seen)

    assert folders(project) == before


def test_in_a_folder_that_is_another_one_by_now_nothing_is_made(project: Path) -> None:
    seen = look(project, "data/a/new.md").seen
    (project / "data").rename(project / "moved")
    (project / "data").mkdir()

    with pytest.raises(FileChanged, match="have changed"):
        make_folders(project, seen)

    assert folders(project) == ["data", "moved"]


def test_folders_that_nobody_uses_are_removed_and_others_stay(project: Path) -> None:
    seen = look(project, "a/b/c/new.md").seen
    make_folders(project, seen)
    (project / "a" / "kept.txt").write_text("x")

    remove_folders(project, seen.missing)

    assert folders(project) == ["a", "data"]
