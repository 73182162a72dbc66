"""One owner per home, and its lock goes with its process."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.gateway.leadership import NotOwner, OwnerLock
from ozzie_server_ext.protocol.owner import owner_alive, owner_lock_path

HOLDER = """
import sys
from pathlib import Path
from ozzie_server_ext.gateway.leadership import OwnerLock
lock = OwnerLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path


def test_the_second_is_told_which_process_owns_the_home(home: Path) -> None:
    first, second = OwnerLock(home), OwnerLock(home)
    first.acquire()

    with pytest.raises(NotOwner, match=f"process {os.getpid()}") as refused:
        second.acquire()

    assert (refused.value.pid, "OZZIE_PATH" in refused.value.hint) == (str(os.getpid()), True)
    assert owner_alive(home)
    first.release()


def test_who_gives_it_back_makes_room(home: Path) -> None:
    first, second = OwnerLock(home), OwnerLock(home)
    first.acquire()

    first.release()
    assert not owner_alive(home)
    second.acquire()

    second.release()
    second.release()  # once more is no harm
    assert owner_lock_path(home).read_text() == ""


def test_a_refused_one_can_try_again_later(home: Path) -> None:
    first, second = OwnerLock(home), OwnerLock(home)
    first.acquire()
    with pytest.raises(NotOwner):
        second.acquire()
    first.release()

    second.acquire()
    assert owner_alive(home)
    second.release()


def test_the_lock_file_is_the_users_alone_and_no_link_is_followed(home: Path) -> None:
    lock = OwnerLock(home)
    lock.acquire()
    assert owner_lock_path(home).stat().st_mode & 0o777 == 0o600
    lock.release()
    owner_lock_path(home).unlink()
    owner_lock_path(home).symlink_to(home / "elsewhere")

    with pytest.raises(Unavailable, match="symbolic"):
        OwnerLock(home).acquire()
    assert not (home / "elsewhere").exists()


def before_locking(monkeypatch: pytest.MonkeyPatch, *happenings: Callable[[], object]) -> None:
    """Have something happen to the lock's file in the moment between its being opened and locked, once each."""
    left = list(happenings)
    flock = fcntl.flock

    def locking(descriptor: int, how: int) -> None:
        if left:
            left.pop(0)()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", locking)


def test_a_file_that_is_removed_while_it_is_locked_makes_no_second_owner(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, path = OwnerLock(home), owner_lock_path(home)
    before_locking(monkeypatch, path.unlink, path.unlink)
    lock.acquire()

    with pytest.raises(NotOwner, match=f"process {os.getpid()}"):
        OwnerLock(home).acquire()
    assert owner_alive(home)
    lock.release()


def test_a_file_that_is_replaced_while_it_is_locked_belongs_to_who_locked_it_first(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, other, path = OwnerLock(home), OwnerLock(home), owner_lock_path(home)

    def replace() -> None:
        path.unlink()
        other.acquire()

    before_locking(monkeypatch, replace)
    with pytest.raises(NotOwner):
        lock.acquire()

    assert owner_alive(home)
    other.release()
    lock.acquire()
    lock.release()


def test_the_owner_of_a_file_that_lost_its_name_keeps_nobody_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, lock, path = OwnerLock(home), OwnerLock(home), owner_lock_path(home)
    gone.acquire()
    before_locking(monkeypatch, path.unlink)

    lock.acquire()

    assert path.read_text() == str(os.getpid())
    gone.release()
    lock.release()


def test_a_file_that_is_replaced_for_ever_is_told_and_nothing_stays_open(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, path = OwnerLock(home), owner_lock_path(home)
    before_locking(monkeypatch, *[path.unlink] * 1000)
    before = len(os.listdir("/proc/self/fd"))

    with pytest.raises(Unavailable, match="again and again"):
        lock.acquire()

    assert len(os.listdir("/proc/self/fd")) == before


def test_other_homes_have_owners_of_their_own(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "run").mkdir()
    first, second = OwnerLock(home), OwnerLock(other)

    first.acquire()
    second.acquire()

    assert owner_alive(home)
    assert owner_alive(other)
    first.release()
    second.release()


def test_death_gives_it_back_however_it_comes(home: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    with pytest.raises(NotOwner) as refused:
        OwnerLock(home).acquire()
    assert refused.value.pid == str(child.pid)
    assert owner_alive(home)

    child.kill()
    child.communicate(timeout=20)

    assert not owner_alive(home)
    lock = OwnerLock(home)
    lock.acquire()
    lock.release()
