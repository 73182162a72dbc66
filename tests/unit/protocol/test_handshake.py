"""How a client finds the gateway: private files of living processes, the newest first."""

import os
from pathlib import Path

import pytest

from ozzie_server_ext.protocol.handshake import (
    Handshake,
    find_handshakes,
    find_other_versions,
    find_owner,
    handshake_path,
    owner_lock_path,
    write_handshake,
)

HOME = Path("/srv/ozzie")


def handshake(pid: int | None = None, *, started: float = 1.0, home: Path = HOME, v: int = 1) -> Handshake:
    return Handshake(
        v=v,
        url="http://127.0.0.1:1/",
        token="secret-token",
        pid=os.getpid() if pid is None else pid,
        home=str(home),
        started=started,
    )


def found(folder: Path, home: Path = HOME) -> list[Handshake]:
    return list(find_handshakes(folder, home))


def test_a_handshake_is_found_again_as_it_was_written(tmp_path: Path) -> None:
    write_handshake(handshake_path(tmp_path, 7), handshake())

    assert found(tmp_path) == [handshake()]


def test_nobody_else_can_read_it_and_nothing_half_written_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "runtime"
    old = os.umask(0)
    try:
        write_handshake(handshake_path(folder, 7), handshake())
    finally:
        os.umask(old)

    assert [path.name for path in folder.iterdir()] == ["ozzie-7.json"]
    assert handshake_path(folder, 7).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_link_that_lies_where_it_is_written_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    handshake_path(tmp_path, 7).with_suffix(".new").symlink_to(elsewhere)
    handshake_path(tmp_path, 7).symlink_to(elsewhere)

    write_handshake(handshake_path(tmp_path, 7), handshake())

    assert not elsewhere.exists()
    assert found(tmp_path) == [handshake()]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o602, 0o601])
def test_a_file_that_others_can_touch_is_ignored(tmp_path: Path, mode: int) -> None:
    write_handshake(handshake_path(tmp_path, 7), handshake())
    handshake_path(tmp_path, 7).chmod(mode)

    assert found(tmp_path) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to somebody else")
def test_a_file_of_another_user_is_ignored(tmp_path: Path) -> None:
    write_handshake(handshake_path(tmp_path, 7), handshake())
    os.chown(handshake_path(tmp_path, 7), 65534, 65534)

    assert found(tmp_path) == []


def test_a_dead_gateways_handshake_is_passed_over(tmp_path: Path, dead_pid: int) -> None:
    write_handshake(handshake_path(tmp_path, dead_pid), handshake(dead_pid))

    assert found(tmp_path) == []


@pytest.mark.parametrize("pid", [0, -1, 2**70])
def test_a_number_that_is_no_process_is_passed_over(tmp_path: Path, pid: int) -> None:
    write_handshake(handshake_path(tmp_path, 7), handshake(pid))

    assert found(tmp_path) == []


def test_the_newest_comes_first_and_other_homes_and_versions_not_at_all(tmp_path: Path) -> None:
    write_handshake(handshake_path(tmp_path, 1), handshake(started=5))
    write_handshake(handshake_path(tmp_path, 2), handshake(started=9))
    write_handshake(handshake_path(tmp_path, 3), handshake(started=7))
    write_handshake(handshake_path(tmp_path, 4), handshake(started=8, home=Path("/srv/other")))
    write_handshake(handshake_path(tmp_path, 5), handshake(started=8, v=2))

    assert [item.started for item in found(tmp_path)] == [9, 7, 5]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v":1}', '{"v":1,"v":1}', "\x00"])
def test_a_file_that_is_no_handshake_is_passed_over(tmp_path: Path, text: str) -> None:
    path = handshake_path(tmp_path, 7)
    path.touch(mode=0o600)
    path.write_text(text)

    assert found(tmp_path) == []


def test_a_runtime_folder_that_is_not_there_holds_none(tmp_path: Path) -> None:
    assert found(tmp_path / "nowhere") == []


def test_the_token_does_not_show_when_a_handshake_is_printed() -> None:
    assert "secret-token" not in f"{handshake()!r} {handshake()}"


def test_the_owner_is_the_process_in_the_lock_whoever_else_left_a_handshake(tmp_path: Path) -> None:
    lock = owner_lock_path(tmp_path)
    lock.parent.mkdir()
    write_handshake(handshake_path(tmp_path, 1), handshake(os.getppid(), started=9, home=tmp_path))
    assert find_owner(tmp_path, tmp_path) is None
    lock.write_text(str(os.getpid()))
    assert find_owner(tmp_path, tmp_path) is None
    write_handshake(handshake_path(tmp_path, 2), handshake(started=1, home=tmp_path))

    assert find_owner(tmp_path, tmp_path) == handshake(started=1, home=tmp_path)


def test_a_gateway_of_another_version_is_found_apart_and_only_for_its_home(tmp_path: Path, dead_pid: int) -> None:
    write_handshake(handshake_path(tmp_path, 1), handshake(v=2))
    write_handshake(handshake_path(tmp_path, 2), handshake(v=2, home=Path("/srv/other")))
    write_handshake(handshake_path(tmp_path, 3), handshake(dead_pid, v=2))
    write_handshake(handshake_path(tmp_path, 4), handshake())

    assert find_other_versions(tmp_path, HOME) == [os.getpid()]
    assert [known.v for known in found(tmp_path)] == [1]
