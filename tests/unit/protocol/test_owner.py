"""Which process owns a home, by the file of its lock."""

import os
import subprocess
import sys
from pathlib import Path

from ozzie_server_ext.protocol.handshake import owner_alive, owner_lock_path


def test_an_owner_is_alive_while_the_process_in_its_lock_is(tmp_path: Path, dead_pid: int) -> None:
    assert not owner_alive(tmp_path)
    lock = owner_lock_path(tmp_path)
    lock.parent.mkdir()
    for text, alive in [
        (str(os.getpid()), True),
        (str(dead_pid), False),
        ("", False),
        ("0", False),
        ("-1", False),
        ("9" * 30, False),
        ("me", False),
        ("é", False),
    ]:
        lock.write_text(text)
        assert owner_alive(tmp_path) is alive, text


def test_a_process_that_only_waits_to_be_reaped_is_gone(tmp_path: Path) -> None:
    lock = owner_lock_path(tmp_path)
    lock.parent.mkdir()
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    lock.write_text(str(child.pid))
    lives = owner_alive(tmp_path)
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and left as it is

    assert (lives, owner_alive(tmp_path)) == (True, False)
    child.wait(20)
