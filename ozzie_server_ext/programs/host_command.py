"""Watches over one command on the user's own machine: whatever ends, nothing of its process group goes on.

`python -m ozzie_server_ext.programs.host_command CONTROL PARENT FOLDER PROGRAM` reads what to run from its standard
input; the numbers are those of descriptors, and of the process that starts it. It begins at a word on CONTROL,
and tells there what became of it: `{"code": …}`, or `{"errno": …}` where it could not be started.
`execution.host_commands` starts it.

The command is a child of this process, in its group, and ends with it. It may end before what it started: that
is asked to end then, too, and killed where it does not. Where the gateway ends, all are killed at once.
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
"""How long what a command leaves behind may take to end by itself."""
_MAX_BYTES = 16 << 20
"""The words are bounded before; this is for what the escapes of JSON make of them, and for the environment."""
_LOOK_MS = 500
_LOOK_AGAIN_S = 0.02


def main() -> None:
    try:
        _watch(*map(int, sys.argv[1:]))
    finally:
        _end_all()


def _watch(control: int, parent: int, folder: int, program: int) -> None:
    for descriptor in (control, folder, program):
        os.set_inheritable(descriptor, False)  # the command gets none of them

    def gone(number: int, frame: FrameType | None) -> None:
        if os.getppid() != parent:  # the command itself may send this signal to its group
            _end_all()

    signal.signal(signal.SIGHUP, gone)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda number, frame: None)  # for the command, which gets them too; and not inherited
    tie_to(parent, sends=signal.SIGHUP)
    adopt_orphans()
    task = loads_object(sys.stdin.buffer.read(), max_bytes=_MAX_BYTES)
    if not os.read(control, 1):
        return  # nobody is there, or it is not wanted any more
    watched = select.poll()
    watched.register(control, select.POLLIN)  # readable when the gateway is gone, or its side closed
    child, failed = _start(task, folder, program)
    if failed:
        os.write(control, canonical_bytes({"errno": failed}))
        return
    held = os.pidfd_open(child)
    watched.register(held, select.POLLIN)
    code = None
    while code is None:
        if any(descriptor == control for descriptor, _ in watched.poll(_LOOK_MS)):
            return
        code = _reaped(child)
    os.write(control, canonical_bytes({"code": code}))
    watched.unregister(held)
    _end_the_rest(watched)


def _end_all() -> NoReturn:
    """Everything of the group, this process too."""
    if os.getpgrp() == os.getpid():  # else somebody else's: it was not started as it is meant to be
        os.killpg(0, signal.SIGKILL)
    raise SystemExit(1)


def _start(task: JsonObject, folder: int, program: int) -> tuple[int, int]:
    """The command's process, and the number of the error for which it could not be started; 0 where it was."""
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
    said = os.read(reading, 16)
    os.close(reading)
    return child, int(said or b"0")


def _become(task: JsonObject, folder: int, program: int, watcher: int) -> None:
    """Never returns; raises OSError."""
    argv, env = task["argv"], task["env"]
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    tie_to(watcher)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and who is run inherits that
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


def _bytes(told: Json) -> bytes:
    """As the system has them, of which not all are text: each byte came as the character of its number."""
    return str(told).encode("latin-1")


def _reaped(child: int) -> int | None:
    """What the command ended with, 128 and the signal where one ended it; None while it runs. Others that were left
    to this process are let go of."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        if pid == 0:
            return None


def _end_the_rest(watched: "select.poll") -> None:
    """Give what the command left in its group a while to end."""
    if not _are_left():
        return
    os.killpg(0, signal.SIGTERM)
    os.killpg(0, signal.SIGCONT)
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and _are_left():
        if watched.poll(_LOOK_AGAIN_S * 1000):
            return


def _are_left() -> bool:
    """Whether any child of this process, its own or one that was left to it, is in its group."""
    try:
        while os.waitpid(0, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
