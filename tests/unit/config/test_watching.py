"""Quiet means unchanged: whatever happens to files and folders, a watch that says nothing changed is right."""

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ozzie_server_ext.config import watching
from ozzie_server_ext.config.files import Stamps, replace_file, stamps_of
from ozzie_server_ext.config.watching import FileWatch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere files are looked at each time")


class Reader:
    """Looks at files and folders as the configuration and the skills do."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._watch = FileWatch()
        self.looks = 0
        self.found: Stamps = ()

    def refresh(self) -> None:
        if self._watch.is_quiet():
            return
        self._watch.begin()
        self._watch.add(self._paths)
        self.found = stamps_of(self._paths)
        self.looks += 1
        self._watch.settle()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "config.jsonc"
    path.parent.mkdir()
    path.write_text("{}")
    return path


def test_what_does_not_change_is_looked_at_once(file: Path) -> None:
    reader = Reader(file, file.with_name("missing"))
    for _ in range(10):
        reader.refresh()
    assert reader.looks == 1


def _written(file: Path) -> None:
    file.write_text("{ }")


def _replaced(file: Path) -> None:
    replace_file(file, b"[]")


def _removed(file: Path) -> None:
    file.unlink()


def _made_unreadable(file: Path) -> None:
    file.chmod(0)


def _moved_away_with_its_folder(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))


def _touched(file: Path) -> None:
    os.utime(file, ns=(1, 1))


@pytest.mark.parametrize(
    "change", [_written, _replaced, _removed, _made_unreadable, _moved_away_with_its_folder, _touched]
)
def test_a_change_is_seen_at_once(file: Path, change: Callable[[Path], None]) -> None:
    reader = Reader(file)
    reader.refresh()
    change(file)
    reader.refresh()
    assert reader.looks == 2
    assert reader.found == stamps_of([file])


def test_a_file_and_its_folders_that_are_made_later_are_seen(tmp_path: Path) -> None:
    file = tmp_path / ".ozzie" / "skills" / "a.jsonc"
    reader = Reader(file)
    reader.refresh()
    file.parent.parent.mkdir()
    reader.refresh()
    file.parent.mkdir()
    reader.refresh()
    file.write_text("{}")
    reader.refresh()
    assert reader.looks == 4


def test_a_path_that_no_file_can_have_is_no_failure(tmp_path: Path) -> None:
    reader = Reader(tmp_path / ("x" * 300) / "a.jsonc", tmp_path / "a" / ("y" * 5000))
    reader.refresh()
    (tmp_path / "a").mkdir()
    reader.refresh()
    assert reader.looks == 2


def test_a_folder_that_is_made_while_it_is_added_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "later" / "a.jsonc"
    real = os.path.isdir

    def made_meanwhile(path: Path) -> bool:
        found = real(path)
        if path == file.parent and not found:
            file.parent.mkdir()
        return found

    monkeypatch.setattr(os.path, "isdir", made_meanwhile)
    reader = Reader(file)
    reader.refresh()
    monkeypatch.undo()
    file.write_text("{}")
    reader.refresh()
    assert reader.looks == 2


def test_other_files_beside_it_do_not_count(file: Path) -> None:
    reader = Reader(file)
    reader.refresh()
    file.with_name("other").write_text("x")
    reader.refresh()
    assert reader.looks == 1


def test_all_files_of_a_folder_count(file: Path) -> None:
    reader = Reader(file.parent)
    reader.refresh()
    file.with_name("other").write_text("x")
    reader.refresh()
    assert reader.looks == 2


def test_the_target_of_a_link_counts_and_so_does_the_link(tmp_path: Path, file: Path) -> None:
    link = tmp_path / "link.jsonc"
    link.symlink_to(file)
    reader = Reader(link)
    reader.refresh()
    file.write_text("[1]")
    reader.refresh()
    link.unlink()
    reader.refresh()
    assert reader.looks == 3


def test_two_readers_of_a_folder_both_see_a_change(file: Path) -> None:
    readers = Reader(file), Reader(file), Reader(file.parent)
    for reader in readers:
        reader.refresh()
    file.write_text("[]")
    for reader in readers:
        reader.refresh()
    assert [reader.looks for reader in readers] == [2, 2, 2]


def test_a_look_that_failed_is_made_again(file: Path) -> None:
    watch = FileWatch()
    watch.begin()
    watch.add([file])
    assert not watch.is_quiet()
    watch.settle()
    assert watch.is_quiet()


def test_a_change_between_adding_and_settling_is_seen(file: Path) -> None:
    watch = FileWatch()
    watch.begin()
    watch.add([file])
    file.write_text("[]")
    watch.settle()
    assert not watch.is_quiet()


def test_no_notice_is_not_believed_for_long(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(file)
    reader.refresh()
    now = watching.time.monotonic()
    monkeypatch.setattr(watching.time, "monotonic", lambda: now + watching.POLL_S)
    reader.refresh()
    assert reader.looks == 2


def test_where_there_are_no_notices_files_are_looked_at_each_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_notices", lambda: None)
    reader = Reader(file)
    for _ in range(3):
        reader.refresh()
    assert reader.looks == 3


def test_where_notices_were_lost_files_are_looked_at(file: Path) -> None:
    reader = Reader(file.with_name("missing"))
    reader.refresh()
    Reader(file.parent).refresh()  # has the kernel queue notices of all names
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    other = file.with_name("other")
    for _ in range(most // 2 + 1):  # two notices each, unlike the last, so that they are not joined
        other.touch()
        other.unlink()
    reader.refresh()
    assert reader.looks == 2


@pytest.mark.parametrize("seed", range(8))
def test_quiet_means_unchanged_whatever_happens(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    names = [tmp_path / name for name in ("a", "a/b", "a/b/c", "d", "a/e")]
    reader = Reader(*names)
    for _ in range(200):
        path = chance.choice(names)
        try:
            match chance.randrange(7):
                case 0:
                    path.mkdir()
                case 1:
                    path.write_text(str(chance.random()))
                case 2:
                    path.rename(chance.choice(names))
                case 3:
                    path.unlink()
                case 4:
                    path.rmdir()
                case 5:
                    path.symlink_to(chance.choice(names))
                case _:
                    pass
        except OSError:
            pass
        reader.refresh()
        assert reader.found == stamps_of(names)
