"""Quiet means unchanged: whatever happens to files and folders, a watch that says nothing changed is right."""

import asyncio
import gc
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ozzie_server_ext.config import watching
from ozzie_server_ext.config.files import Stamps, replace_file, stamps_of
from ozzie_server_ext.config.watching import FileWatch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere files are looked at each time")


@pytest.fixture(autouse=True)
def only_notices_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "POLL_S", float("inf"))


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
    monkeypatch.setattr(watching, "POLL_S", 0.0)
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
    all_names = Reader(file.parent)
    all_names.refresh()  # has Linux queue notices of all names
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    other = file.with_name("other")
    for _ in range(most // 2 + 1):  # two notices each, unlike the last, so that they are not joined
        other.touch()
        other.unlink()
    reader.refresh()
    assert reader.looks == 2


def watched() -> watching._Notices:
    found = watching._notices()
    assert found is not None
    return found


def test_notices_that_never_end_are_not_waited_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(file)
    reader.refresh()
    with open("/dev/zero", "rb") as endless:
        monkeypatch.setattr(watched(), "_descriptor", endless.fileno())
        reader.refresh()
        monkeypatch.undo()
    assert reader.looks == 2


def test_a_folder_that_hangs_holds_up_no_other_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hung, go_on = threading.Event(), threading.Event()
    real = watched()._add_watch

    def add_watch(descriptor: int, folder: bytes, mask: int) -> int:
        if folder.endswith(b"hangs"):
            hung.set()
            go_on.wait(30)
        return real(descriptor, folder, mask)

    for name in ("hangs", "answers"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(watched(), "_add_watch", add_watch)
    waiting = threading.Thread(target=Reader(tmp_path / "hangs" / "a").refresh)
    waiting.start()
    assert hung.wait(30)
    reader = Reader(tmp_path / "answers" / "a")
    beside = threading.Thread(target=lambda: (reader.refresh(), reader.refresh()))
    beside.start()
    beside.join(10)
    assert reader.looks == 1
    go_on.set()
    waiting.join()
    beside.join()


async def test_who_is_cancelled_need_not_wait_for_the_disk_and_looks_never_overlap() -> None:
    watch, go_on, begun = FileWatch(), threading.Event(), threading.Event()
    order: list[str] = []

    def look(name: str) -> str:
        order.append(f"{name} begins")
        begun.set()
        go_on.wait(30)
        order.append(f"{name} ends")
        return name

    first = asyncio.create_task(watch.in_thread(lambda: look("first")))
    assert await asyncio.to_thread(begun.wait, 30)
    first.cancel()
    await asyncio.wait([first], timeout=10)
    assert first.cancelled()
    second = asyncio.create_task(watch.in_thread(lambda: look("second")))
    await asyncio.wait([second], timeout=0.2)
    assert order == ["first begins"]
    go_on.set()
    assert await second == "second"
    assert order == ["first begins", "first ends", "second begins", "second ends"]


async def test_a_look_that_failed_is_reported_to_who_waits_for_it() -> None:
    def look() -> None:
        raise OSError("no disk")

    watch = FileWatch()
    for _ in range(2):
        with pytest.raises(OSError, match="no disk"):
            await watch.in_thread(look)


def test_folders_whose_readers_are_gone_are_left(file: Path) -> None:
    reader = Reader(file.parent)
    reader.refresh()
    number = watched()._add_folder(file.parent)
    assert number in watched()._followers
    del reader
    gc.collect()
    file.write_text("[]")
    watched().take()
    assert number not in watched()._followers


FORKED = """
import os, sys
from pathlib import Path
from tests.unit.config.test_watching import Reader

file = Path(sys.argv[1])
reader = Reader(file)
reader.refresh()
child = os.fork()
if not child:
    code = 1
    try:
        file.write_text("[]")
        reader.refresh()
        own = Reader(file)
        own.refresh()
        own.refresh()
        code = 10 * reader.looks + own.looks
    finally:
        os._exit(code)
found = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
reader.refresh()
print(found, reader.looks)
"""


def test_a_forked_child_leaves_the_notices_to_its_parent(file: Path) -> None:
    command = [sys.executable, "-c", FORKED, str(file)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout == "21 2\n"


@pytest.mark.parametrize("are_held_open", [False, True], ids=["", "held open"])
@pytest.mark.parametrize("seed", range(8))
def test_quiet_means_unchanged_whatever_happens(
    tmp_path: Path, seed: int, are_held_open: bool, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(seed)
    names = [tmp_path / name for name in ("a", "a/b", "a/b/c", "d", "a/e")]
    reader = Reader(*names)
    for _ in range(200):
        path = chance.choice(names)
        try:
            match chance.randrange(7):
                case 0:
                    path.mkdir()
                    if are_held_open:  # as by a shell in it
                        descriptor = os.open(path, os.O_RDONLY)
                        request.addfinalizer(lambda held=descriptor: os.close(held))
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
