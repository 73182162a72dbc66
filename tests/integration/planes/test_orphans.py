"""Processes of a gateway that is gone: known again, waited for, killed only where they are surely ours."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from ozzie_server_ext.planes.identity import ProcessMark, is_running, mark_of, see_off


@pytest.fixture
def children() -> Iterator[list["subprocess.Popen[bytes]"]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for child in started:
        child.kill()
        child.wait(10)


def sleeping(children: list["subprocess.Popen[bytes]"], seconds: float = 600) -> ProcessMark:
    children.append(subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({seconds})"]))
    return mark_of(children[-1].pid)


def test_a_process_is_known_again_as_long_as_it_runs(children: list["subprocess.Popen[bytes]"]) -> None:
    mark = sleeping(children)
    assert is_running(mark)
    assert not is_running(replace(mark, started=str(int(mark.started) + 1))), "the number was used again"
    assert not is_running(replace(mark, boot="another boot")), "the machine was started again"
    assert not is_running(ProcessMark(pid=mark.pid)), "one that nothing is known of is nobody's"

    children[0].kill()
    deadline = time.monotonic() + 10
    while is_running(mark):
        assert time.monotonic() < deadline
    assert children[0].returncode is None, "it has ended without being reaped"


def test_a_name_with_spaces_and_brackets_does_not_hide_a_process() -> None:
    program = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'a) R 1 (b', 0, 0, 0); print(flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert is_running(mark_of(child.pid))
        child.kill()


async def test_who_has_gone_is_not_waited_for(children: list["subprocess.Popen[bytes]"]) -> None:
    mark = sleeping(children)
    children[0].kill()
    children[0].wait(10)
    assert await see_off([mark]) == {mark: "It was gone."}
    assert await see_off([]) == {}


async def test_who_is_going_is_waited_for(children: list["subprocess.Popen[bytes]"]) -> None:
    mark = sleeping(children, seconds=0.3)
    assert await see_off([mark], patience_s=20) == {mark: "It ended after its gateway."}


async def test_who_stays_is_killed_and_nobody_else(
    children: list["subprocess.Popen[bytes]"], caplog: pytest.LogCaptureFixture
) -> None:
    ours, stranger = sleeping(children), sleeping(children)
    reused = replace(stranger, started="1")
    fates = await see_off([ours, reused], patience_s=0.1, killed_s=20)
    assert fates == {ours: "It had outlived its gateway and was killed.", reused: "It was gone."}
    assert await asyncio.to_thread(children[0].wait, 10) == -signal.SIGKILL
    assert children[1].poll() is None
    assert f"process {ours.pid} has outlived its gateway" in caplog.text


async def test_one_that_cannot_be_killed_holds_nobody_up(
    children: list["subprocess.Popen[bytes]"], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(descriptor: int, signal_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    mark = sleeping(children)
    assert await see_off([mark], patience_s=0.05, killed_s=0.05) == {}
    assert f"process {mark.pid} has outlived its gateway and can't be killed" in caplog.text
    assert is_running(mark_of(os.getpid()))
