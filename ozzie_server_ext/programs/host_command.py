"""Supervises one command on the user's own machine, so that nothing of its process group outlives it.

`python -m ozzie_server_ext.programs.host_command CONTROL PARENT FOLDER PROGRAM` reads the command from standard input.
CONTROL, FOLDER and PROGRAM are file descriptors, PARENT is the id of the process that starts it. It starts the command
on the first byte from CONTROL, and writes the outcome there: `{"code": …}`, or `{"errno": …}` if it could not be
started. `execution.host_commands` starts it.

The command is a child of this process, in its group, and ends with it. When the command ends before its own children,
they get SIGTERM and, if they stay, SIGKILL. When the gateway ends, all are killed at once.
"""

import os
import select
import signal
import sys
import time
from errno import ESTALE
from types import FrameType
from typing import NoReturn

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.planes.child import adopt_orphans, tie_to
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object

PATIENCE_S = 2.0
"""Time for the command's leftover children to end by themselves."""
_MAX_BYTES = 16 << 20
"""The gateway bounds the arguments; this leaves room for JSON escapes and for the environment."""
_POLL_MS = 500
_POLL_LEFT_S = 0.02


def main() -> None:
    try:
        _watch(*map(int, sys.argv[1:]))
    finally:
        _end_all()


def _watch(control: int, parent: int, folder: int, program: int) -> None:
    for descriptor in (control, folder, program):
        os.set_inheritable(descriptor, False)  # the command gets none of them

    def gone(number: int, frame: FrameType | None) -> None:
        if os.getppid() != parent:  # else the command itself sent this signal to its group
            _end_all()

    signal.signal(signal.SIGHUP, gone)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda number, frame: None)  # the command gets them too; a handler is not inherited
    tie_to(parent, sends=signal.SIGHUP)
    adopt_orphans()
    task = loads_object(sys.stdin.buffer.read(), max_bytes=_MAX_BYTES)
    if not os.read(control, 1):
        return  # the gateway is gone, or has cancelled it
    watched = select.poll()
    watched.register(control, select.POLLIN)  # readable when the gateway is gone or closes its side
    child, failed = _start(task, folder, program)
    if failed:
        os.write(control, canonical_bytes({"errno": failed}))
        return
    child_fd = os.pidfd_open(child)
    watched.register(child_fd, select.POLLIN)
    code = None
    while code is None:
        if any(descriptor == control for descriptor, _ in watched.poll(_POLL_MS)):
            return
        code = _reaped(child)
    os.write(control, canonical_bytes({"code": code}))
    watched.unregister(child_fd)
    _end_the_rest(watched)


def _end_all() -> NoReturn:
    """Kill the whole group, this process included."""
    if os.getpgrp() == os.getpid():  # else the group is somebody else's: this was not started as intended
        os.killpg(0, signal.SIGKILL)
    raise SystemExit(1)


def _start(task: JsonObject, folder: int, program: int) -> tuple[int, int]:
    """Start the command. Return its process id and the errno of a failed start, or 0."""
    reading, writing = os.pipe()
    watcher = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _become(task, folder, program, watcher)
        except OSError as error:
            os.write(writing, str(error.errno or 0).encode())
        finally:
            os._exit(127)
    os.close(writing)
    failed = os.read(reading, 16)
    os.close(reading)
    return child, int(failed or b"0")


def _become(task: JsonObject, folder: int, program: int, watcher: int) -> None:
    """Become the command. Never returns; raises OSError."""
    argv, env = task["argv"], task["env"]
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    tie_to(watcher)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the command would inherit that
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.fchdir(folder)
    words, path = [*map(_bytes, argv)], _bytes(task["path"])
    environment = {_bytes(name): _bytes(value) for name, value in env.items()}
    if task["is_binary"]:
        os.execve(program, words, environment)
    now, looked_at = os.stat(path), os.fstat(program)
    if (now.st_dev, now.st_ino, now.st_ctime_ns) != (looked_at.st_dev, looked_at.st_ino, looked_at.st_ctime_ns):
        raise OSError(ESTALE, os.strerror(ESTALE))
    os.execve(path, words, environment)


def _bytes(text: Json) -> bytes:
    """Return the original bytes: each came as the character with its number, because not all bytes are text."""
    return str(text).encode("latin-1")


def _reaped(child: int) -> int | None:
    """Return the command's exit status (128 + signal number), or None while it runs. Also reap orphans."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        if pid == 0:
            return None


def _end_the_rest(watched: "select.poll") -> None:
    """Give the command's leftover children some time to end."""
    if not _are_left():
        return
    os.killpg(0, signal.SIGTERM)
    os.killpg(0, signal.SIGCONT)
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and _are_left():
        if watched.poll(_POLL_LEFT_S * 1000):
            return


def _are_left() -> bool:
    """Return whether any child of this process, own or adopted, is left in its group."""
    try:
        while os.waitpid(0, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
