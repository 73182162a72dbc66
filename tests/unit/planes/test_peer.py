"""Who is at the other end of a socket, and who may be."""

import os
import socket

import pytest

from ozzie_server_ext.planes.identity import is_trusted, peer_uid


def test_the_system_tells_who_is_at_the_other_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) == os.getuid()


def test_where_the_system_does_not_tell_nobody_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) is None


@pytest.mark.parametrize(("uid", "trusted"), [(1000, True), (0, True), (1001, False), (65534, False), (None, False)])
def test_only_oneself_and_root_are_trusted(monkeypatch: pytest.MonkeyPatch, uid: int | None, trusted: bool) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)

    assert is_trusted(uid) is trusted
