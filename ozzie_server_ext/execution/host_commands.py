"""One command on the user's own machine, outside the sandbox: resolved to a program and files, run, watched."""

import asyncio
import contextlib
import errno
import hashlib
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Protocol

from ozzie_server_ext.domain.errors import InputError, OzzieError, Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.execution.runner import MIB, JobState, JobStatus
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.child import child_environment
from ozzie_server_ext.planes.identity import ProcessMark, mark_of
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object, repair_text
from ozzie_server_ext.render.text import spelled

MOST_FILES = 32
"""Of those that the words name; a list that is longer is not read to its end."""
MAX_HASHED = 32 << 20
"""In bytes. Of a larger file, its size and the moments of its last changes have to do."""
_LONGEST_PATH = 4096
_MADE_UP = ("/proc/", "/sys/", "/dev/")
"""What the system makes up while it is read is never the same twice."""
_BINARY = b"\x7fELF"


class NoProgram(InputError):
    """What is to be run is not there, or is nothing that can be run."""

    code = "host.no_program"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A file by all that makes it another one when it changes. `path` is as it was found, `real` without links on the
    way; `sha256` is empty for one that can't be read, or is larger than MAX_HASHED."""

    path: str
    real: str
    device: int
    inode: int
    mode: int
    owner: int
    size: int
    mtime_ns: int
    ctime_ns: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`file.path` is what the system is given to run, absolute or relative to the command's folder. A binary is run by
    the descriptor of what was looked at; a script by its path, since its interpreter opens it once more."""

    file: NamedFile
    is_binary: bool


def open_program(word: str, folder: int, searched: str) -> tuple[int, Program]:
    """An open descriptor of the program that `word` names, and what it is; the caller closes it. A word without a slash
    is looked for in the folders of `searched`, those of them that are absolute: a folder of the project is to offer no
    program by a common name. Any other word is a path, relative to the open `folder`.

    Raises NoProgram.
    """
    if "/" in word:
        return _open(word, folder)
    for place in repair_text(searched).split(":"):
        path = f"{place.rstrip('/')}/{word}"
        if place.startswith("/") and word and os.path.isfile(path) and os.access(path, os.X_OK):
            return _open(path, folder)
    raise NoProgram(f"There is no program {spelled(word)} in the folders of PATH on this machine.")


def files_named(words: Sequence[str], folder: int) -> tuple[NamedFile, ...]:
    """The plain files that words name, as they are or relative to the open `folder`: a script, a list, a picture."""
    found: list[NamedFile] = []
    for word in words:
        if len(found) == MOST_FILES:
            break
        if not word or len(word) > _LONGEST_PATH:
            continue
        with suppress(OSError, ValueError):  # ValueError: a zero byte
            descriptor = os.open(word, os.O_PATH | os.O_CLOEXEC, dir_fd=folder)
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode) and not _real(descriptor).startswith(_MADE_UP):
                    found.append(_look(descriptor, word)[0])
            finally:
                os.close(descriptor)
    return tuple(found)


def _open(path: str, folder: int) -> tuple[int, Program]:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC, dir_fd=folder)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it has a zero byte"
        raise NoProgram(f"The program {spelled(path)} can't be run: {why}.") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NoProgram(f"{spelled(path)} is no program: it is no plain file.")
        if not os.access(f"/proc/self/fd/{descriptor}", os.X_OK):
            raise NoProgram(f"{spelled(path)} is no program: you may not run it.")
        file, begin = _look(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    # One that can't be read can be no script: its interpreter could not read it either.
    return descriptor, Program(file=file, is_binary=begin is None or begin.startswith(_BINARY))


def _look(descriptor: int, path: str) -> tuple[NamedFile, bytes | None]:
    """What an open plain file is, and its first bytes; None where it can't be read."""
    digest, begin = "", None
    with suppress(PermissionError):
        reading = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(reading, "rb") as file:
            begin = file.read(len(_BINARY))
            if os.fstat(reading).st_size <= MAX_HASHED:
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
    info = os.fstat(descriptor)
    return NamedFile(
        path=path,
        real=_real(descriptor),
        device=info.st_dev,
        inode=info.st_ino,
        mode=info.st_mode,
        owner=info.st_uid,
        size=info.st_size,
        mtime_ns=info.st_mtime_ns,
        ctime_ns=info.st_ctime_ns,
        sha256=digest,
    ), begin


def _real(descriptor: int) -> str:
    return repair_text(os.readlink(f"/proc/self/fd/{descriptor}"))


log = logger(__name__)

MAX_PRINTED = 4 * MIB
PATIENCE_S = 2.0
"""How long a command that is to end may take to end by itself."""
_PROGRAM = "ozzie_server_ext.programs.host_command"
_LAST_WORDS_S = 0.5
"""How long what was printed last may take to come. Somebody may hold the other end of the pipe for ever."""
_KILLED_S = 5.0
_GO = b"g"
_CHUNK = 64 * 1024
_MAX_TOLD = 4096


class Children(Protocol):
    """Remembers child processes, so that a gateway that comes after this one waits until they are gone."""

    async def started(self, mark: ProcessMark) -> None:
        """Durable when it returns, if it can be."""
        ...

    def lost(self, pid: int, reason: str) -> None:
        """That it has ended, and how."""
        ...


class NoChildren:
    """Where none comes after."""

    async def started(self, mark: ProcessMark) -> None: ...

    def lost(self, pid: int, reason: str) -> None: ...


class NotStarted(OzzieError):
    """The command was not begun: nothing was done."""

    code = "host.not_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """A command: its words, the program that is run by them, open as `descriptor`, the open folder that it starts in,
    and all that it sees of an environment."""

    argv: Sequence[str]
    program: Program
    descriptor: int
    folder: int
    env: Mapping[str, str]
    wall_s: float
    printed: int = MAX_PRINTED


class HostCommand:
    """To be used once, from the thread of a loop that outlives it: the system ends the command with the thread that
    started it. `children` are told of it before it begins; `show` is told what it prints, as it comes."""

    def __init__(self, spec: HostSpec, children: Children, show: Callable[[bytes], None] = lambda data: None) -> None:
        self.printed = bytearray()
        self._spec = spec
        self._children = children
        self._show = show
        self._has_begun = False
        self._cut: tuple[JobState, str] | None = None
        self._unwanted = asyncio.Event()

    async def run(self) -> JobStatus:
        """Run it to its end; when this returns, nothing of its group is left. Raises NotStarted, and Unavailable where
        that can't be promised.

        Where the caller is cancelled, it is ended, and what became of it is still returned: something may have been
        done. Who has to stop then asks their own task for it (`cancelling()`).
        """
        if sys.platform != "linux":
            raise Unavailable(
                "Commands can't be run on this machine by Ozzie: it ends them reliably on Linux only.",
                code="host.unavailable",
            )
        work = asyncio.create_task(self._run(), name="a command on this machine")
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                self.end(JobState.CANCELLED, "It was ended because the turn was stopped.")
        return work.result()

    def end(self, state: JobState, reason: str) -> None:
        """End it, for that reason; the first one counts."""
        if self._cut is None:
            self._cut = state, reason
            self._unwanted.set()

    async def _run(self) -> JobStatus:
        began = time.monotonic()
        ours, theirs = socket.socketpair()
        with contextlib.closing(ours):
            with contextlib.closing(theirs):
                process = _spawn(self._spec, theirs)
            ours.setblocking(False)
            told = await self._watched(process, ours)
        if not self._has_begun:
            raise NotStarted("It was ended before it was begun.")
        if self._cut is None and "errno" in told:
            raise _not_started(int(str(told["errno"])))
        state, reason, code = self._how(told)
        took = time.monotonic() - began
        return JobStatus(state=state, exit_code=code, reason=reason, printed=len(self.printed), wall_s=took)

    def _how(self, told: JsonObject) -> tuple[JobState, str, int | None]:
        if self._cut is not None:
            return *self._cut, None
        code = told.get("code")
        if not isinstance(code, int):
            return JobState.FAILED, "It ended everything in its process group, also what watches over it.", None
        return (JobState.FAILED if code else JobState.SUCCEEDED), "", code

    async def _watched(self, process: "subprocess.Popen[bytes]", ours: socket.socket) -> JsonObject:
        """What was told of its end, once nothing of its group is left; nothing where it could not be told."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        held = os.pidfd_open(process.pid)
        loop.add_reader(held, ended.set)  # not process.poll(): its number is to stay its own until its group is gone
        reading = asyncio.create_task(self._read(process))
        try:
            await self._begin(process, ours)
            await self._ended(process, ended)
            _signal(process, signal.SIGKILL)
            await asyncio.wait({reading}, timeout=_LAST_WORDS_S)
            return _told(ours)
        finally:
            _signal(process, signal.SIGKILL)
            loop.remove_reader(held)
            os.close(held)
            reading.cancel()
            await asyncio.wait({reading})
            if process.poll() is None:  # the system holds it up; so it is not to hold us up
                loop.run_in_executor(None, process.wait)
            self._children.lost(process.pid, self._cut[1] if self._cut else "It ended by itself.")

    async def _begin(self, process: "subprocess.Popen[bytes]", ours: socket.socket) -> None:
        """Let it begin, once it is known for what it is, and unless it is not wanted any more."""
        await self._children.started(mark_of(process.pid))
        if not self._unwanted.is_set():
            with contextlib.suppress(OSError):  # where it has ended meanwhile
                ours.send(_GO)
                self._has_begun = True

    async def _ended(self, process: "subprocess.Popen[bytes]", ended: asyncio.Event) -> None:
        """Until it has ended by itself, or was made to."""
        if not await _first(self._spec.wall_s, ended, self._unwanted):
            self.end(JobState.TIMED_OUT, f"It was ended after {self._spec.wall_s:g} s.")
        if ended.is_set():
            return
        _signal(process, signal.SIGTERM)
        _signal(process, signal.SIGCONT)  # it may sleep
        if not await _first(PATIENCE_S, ended):
            _signal(process, signal.SIGKILL)
            if not await _first(_KILLED_S, ended):
                log.error("process %d does not end though it was killed", process.pid)

    async def _read(self, process: "subprocess.Popen[bytes]") -> None:
        """Keep what it prints. Of more than it may, the beginning is kept, and it is ended."""
        assert process.stdout is not None
        reader = asyncio.StreamReader(limit=_CHUNK)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        with contextlib.closing(transport):
            while chunk := await reader.read(_CHUNK):
                kept = chunk[: self._spec.printed - len(self.printed)]
                self.printed += kept
                if kept:
                    self._show(kept)
                if len(kept) < len(chunk):
                    most = self._spec.printed / MIB
                    self.end(JobState.CUT, f"It was ended: it printed more than {most:g} MiB.")


def _spawn(spec: HostSpec, control: socket.socket) -> "subprocess.Popen[bytes]":
    """Raises NotStarted."""
    task: JsonObject = {
        "argv": [_told_bytes(word) for word in spec.argv],
        "env": {_told_bytes(name): _told_bytes(value) for name, value in spec.env.items()},
        "path": _told_bytes(spec.program.file.path),
        "is_binary": spec.program.is_binary,
    }
    descriptors = (control.fileno(), spec.folder, spec.descriptor)
    numbers = (control.fileno(), os.getpid(), spec.folder, spec.descriptor)
    try:
        with TemporaryFile() as asked:  # not among the words: those of every process can be read by all users
            asked.write(canonical_bytes(task))
            asked.seek(0)
            return subprocess.Popen(
                [sys.executable, "-P", "-m", _PROGRAM, *map(str, numbers)],
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=child_environment(os.environ),
                # A relative path must not mean a file of the user's project.
                cwd="/",
                pass_fds=descriptors,
                # Its own group, to be ended as a whole, and no terminal.
                start_new_session=True,
            )
    except OSError as error:
        raise NotStarted(f"It could not be started: {error.strerror}.") from None


def _told_bytes(text: str) -> str:
    """As the system has it, a character for each byte: not all that it has is text."""
    return os.fsencode(text).decode("latin-1")


async def _first(seconds: float, *events: asyncio.Event) -> bool:
    """Whether one of them came in that time."""
    waiting = {asyncio.ensure_future(event.wait()) for event in events}
    try:
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
    return bool(done)


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """To all of its group. It is not reaped yet, so the number is no other group's."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # what runs as somebody else by now is left
            os.killpg(process.pid, number)


def _told(ours: socket.socket) -> JsonObject:
    """It has ended, so all that it said is there."""
    try:
        return loads_object(ours.recv(_MAX_TOLD))
    except (OSError, OzzieError):
        return {}


def _not_started(number: int) -> NotStarted:
    match number:
        case errno.ESTALE:
            why = "another program has come into its place in this moment"
        case errno.ENOEXEC:
            why = "it is neither a binary of this machine nor a script that begins with #!. Name what runs it first"
        case errno.ENOENT:
            why = "it, or the interpreter that its first line names, is not there"
        case _:
            why = os.strerror(number)
    return NotStarted(f"It could not be started, and nothing was done: {why}.", code="host.not_started")
