"""The first process of a sandbox is whom bubblewrap started, and nobody whom a command names."""

import subprocess
from collections.abc import Iterator

import pytest

from ozzie_server_ext.execution.sandbox_init import FirstProcess, with_children

WAIT_S = 10


@pytest.fixture
def parent() -> Iterator["subprocess.Popen[bytes]"]:
    """In the place of bubblewrap: it starts one child, and waits for it."""
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo started; wait"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        yield process
        for pid in with_children(process.pid)[::-1]:
            subprocess.run(["kill", "-9", str(pid)], check=False, stderr=subprocess.DEVNULL)


def test_it_is_the_child_of_bubblewrap_and_ending_it_ends_no_other(parent: "subprocess.Popen[bytes]") -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        first = FirstProcess(parent.pid)

        assert first.look()
        assert first.pid == with_children(parent.pid)[1]
        first.end()

        assert parent.wait(WAIT_S) == 0
        assert first.is_gone
        assert other.poll() is None
        first.close()
        other.kill()


def test_where_there_is_none_yet_it_is_ended_once_there_is() -> None:
    with subprocess.Popen(["sh", "-c", "read x; sleep 60 & echo; wait"], stdin=-1, stdout=-1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        first = FirstProcess(process.pid)
        first.end()
        assert (first.look(), first.pid) == (False, None)

        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()

        assert first.look()
        assert process.wait(WAIT_S) == 0
        first.close()


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait(WAIT_S)
        first = FirstProcess(process.pid)

        assert (first.look(), first.is_gone) == (False, True)
        first.end()
        first.close()
