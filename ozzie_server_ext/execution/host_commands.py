"""Host commands: resolving a command on the user's own machine, outside the sandbox, running and watching it."""

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
"""Files named by a command's words; further ones are ignored."""
MAX_HASHED = 32 << 20
"""Bytes. A larger file is identified by its size and times only."""
_LONGEST_PATH = 4096
_VIRTUAL = ("/proc/", "/sys/", "/dev/")
"""Generated while being read, so never the same twice."""
_BINARY = b"\x7fELF"


class NoProgram(InputError):
    """The program does not exist or can't be run."""

    code = "host.no_program"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """The identity of a file: any change of it makes another one. `path` is as found, `real` without links; `sha256` is
    empty for an unreadable file or one larger than MAX_HASHED."""

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
    """A resolved program. `file.path` is what the system runs, absolute or relative to the command's folder. A binary
    is run by the descriptor that was examined; a script by its path, since its interpreter opens it again."""

    file: NamedFile
    is_binary: bool


def open_program(word: str, folder: int, searched: str) -> tuple[int, Program]:
    """Open the program that `word` names; return its descriptor, for the caller to close, and its description. A word
    without a slash is looked up in the absolute folders of `searched`, so that a folder of the project can't offer a
    program by a common name. Any other word is a path relative to the open `folder`. Raises NoProgram.
    """
    if "/" in word:
        return _open(word, folder)
    for place in repair_text(searched).split(":"):
        path = f"{place.rstrip('/')}/{word}"
        if place.startswith("/") and word and os.path.isfile(path) and os.access(path, os.X_OK):
            return _open(path, folder)
    raise NoProgram(f"There is no program {spelled(word)} in the folders of PATH on this machine.")


def files_named(words: Sequence[str], folder: int) -> tuple[NamedFile, ...]:
    """Return the plain files that words name, absolute or relative to the open `folder`: a script, list or picture."""
    found: list[NamedFile] = []
    for word in words:
        if len(found) == MOST_FILES:
            break
        if not word or len(word) > _LONGEST_PATH:
            continue
        with suppress(OSError, ValueError):  # ValueError: a zero byte
            descriptor = os.open(word, os.O_PATH | os.O_CLOEXEC, dir_fd=folder)
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode) and not _real(descriptor).startswith(_VIRTUAL):
                    found.append(_describe(descriptor, word)[0])
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
            raise NoProgram(f"{spelled(path)} is not a program: it is not a plain file.")
        if not os.access(f"/proc/self/fd/{descriptor}", os.X_OK):
            raise NoProgram(f"{spelled(path)} is not a program: you may not run it.")
        file, begin = _describe(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    # An unreadable file can't be a script: its interpreter could not read it either.
    return descriptor, Program(file=file, is_binary=begin is None or begin.startswith(_BINARY))


def _describe(descriptor: int, path: str) -> tuple[NamedFile, bytes | None]:
    """Return the identity of an open plain file and its first bytes; None if it can't be read."""
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
"""How long a command may take to end when asked to."""
_PROGRAM = "ozzie_server_ext.programs.host_command"
_LAST_WORDS_S = 0.5
"""How long to wait for the last output: something may keep the pipe open forever."""
_KILLED_S = 5.0
_GO = b"g"
_CHUNK = 64 * 1024
_MAX_REPORT = 4096


class Children(Protocol):
    """Remembers child processes, so that the next gateway waits until they are gone."""

    async def started(self, mark: ProcessMark) -> None:
        """Record the process, durably if possible."""

    def lost(self, pid: int, reason: str) -> None:
        """Record that it has ended, and how."""


class NoChildren(Children):
    """For programs without a successor."""


class NotStarted(OzzieError):
    """The command did not begin: nothing was done."""

    code = "host.not_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """A command: its words, the open program, the open folder to start in, and its complete environment."""

    argv: Sequence[str]
    program: Program
    descriptor: int
    folder: int
    env: Mapping[str, str]
    wall_s: float
    printed: int = MAX_PRINTED


class HostCommand:
    """A command to run once, from the thread of an event loop that outlives it: the system ends it with that thread.
    `children` learns of it before it begins; `show` gets its output as it comes."""

    def __init__(self, spec: HostSpec, children: Children, show: Callable[[bytes], None] = lambda data: None) -> None:
        self.printed = bytearray()
        self._spec = spec
        self._children = children
        self._show = show
        self._has_begun = False
        self._cut: tuple[JobState, str] | None = None
        self._unwanted = asyncio.Event()

    async def run(self) -> JobStatus:
        """Run the command; when this returns, nothing of its process group is left. Raises NotStarted, and Unavailable
        if that can't be guaranteed.

        If the caller is cancelled, the command is ended and its status is still returned: something may have been done.
        A caller that has to stop checks `cancelling()`.
        """
        if sys.platform != "linux":
            raise Unavailable(
                "Ozzie can't run commands on this machine: it can end them reliably only on Linux.",
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
        """End it for that reason; the first one counts."""
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
            report = await self._watched(process, ours)
        if not self._has_begun:
            raise NotStarted("It was ended before it was begun.")
        if self._cut is None and "errno" in report:
            raise _not_started(int(str(report["errno"])))
        state, reason, code = self._outcome(report)
        took = time.monotonic() - began
        return JobStatus(state=state, exit_code=code, reason=reason, printed=len(self.printed), wall_s=took)

    def _outcome(self, report: JsonObject) -> tuple[JobState, str, int | None]:
        if self._cut is not None:
            return *self._cut, None
        code = report.get("code")
        if not isinstance(code, int):
            return JobState.FAILED, "It ended everything in its process group, including its supervisor.", None
        return (JobState.FAILED if code else JobState.SUCCEEDED), "", code

    async def _watched(self, process: "subprocess.Popen[bytes]", ours: socket.socket) -> JsonObject:
        """Return the supervisor's report once nothing of the process group is left; {} if there is none."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        held = os.pidfd_open(process.pid)
        loop.add_reader(held, ended.set)  # not process.poll(): its number must stay reserved until its group is gone
        reading = asyncio.create_task(self._read(process))
        try:
            await self._begin(process, ours)
            await self._ended(process, ended)
            _signal(process, signal.SIGKILL)
            await asyncio.wait({reading}, timeout=_LAST_WORDS_S)
            return _report(ours)
        finally:
            _signal(process, signal.SIGKILL)
            loop.remove_reader(held)
            os.close(held)
            reading.cancel()
            await asyncio.wait({reading})
            if process.poll() is None:  # the system delays its end; don't wait for it
                loop.run_in_executor(None, process.wait)
            self._children.lost(process.pid, self._cut[1] if self._cut else "It ended by itself.")

    async def _begin(self, process: "subprocess.Popen[bytes]", ours: socket.socket) -> None:
        """Let it begin once it is recorded, unless it has been ended already."""
        await self._children.started(mark_of(process.pid))
        if not self._unwanted.is_set():
            with contextlib.suppress(OSError):  # if it has ended meanwhile
                ours.send(_GO)
                self._has_begun = True

    async def _ended(self, process: "subprocess.Popen[bytes]", ended: asyncio.Event) -> None:
        """Wait until it has ended by itself or by force."""
        if not await _wait_any(self._spec.wall_s, ended, self._unwanted):
            self.end(JobState.TIMED_OUT, f"It was ended after {self._spec.wall_s:g} s.")
        if ended.is_set():
            return
        _signal(process, signal.SIGTERM)
        _signal(process, signal.SIGCONT)  # it may be stopped
        if not await _wait_any(PATIENCE_S, ended):
            _signal(process, signal.SIGKILL)
            if not await _wait_any(_KILLED_S, ended):
                log.error("process %d does not end though it was killed", process.pid)

    async def _read(self, process: "subprocess.Popen[bytes]") -> None:
        """Keep the output up to the limit; then end the command."""
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
    """Start the supervisor. Raises NotStarted."""
    task: JsonObject = {
        "argv": [_latin1(word) for word in spec.argv],
        "env": {_latin1(name): _latin1(value) for name, value in spec.env.items()},
        "path": _latin1(spec.program.file.path),
        "is_binary": spec.program.is_binary,
    }
    descriptors = (control.fileno(), spec.folder, spec.descriptor)
    numbers = (control.fileno(), os.getpid(), spec.folder, spec.descriptor)
    try:
        with TemporaryFile() as request:  # not as arguments: all users can read those of every process
            request.write(canonical_bytes(task))
            request.seek(0)
            return subprocess.Popen(
                [sys.executable, "-P", "-m", _PROGRAM, *map(str, numbers)],
                stdin=request,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=child_environment(os.environ),
                # A relative path must not mean a file of the user's project.
                cwd="/",
                pass_fds=descriptors,
                # A group of its own, to be ended as a whole, and no terminal.
                start_new_session=True,
            )
    except OSError as error:
        raise NotStarted(f"It could not be started: {error.strerror}.") from None


def _latin1(text: str) -> str:
    """Return the system's bytes as one character each: not all of them are text."""
    return os.fsencode(text).decode("latin-1")


async def _wait_any(seconds: float, *events: asyncio.Event) -> bool:
    """Return whether one of the events came in time."""
    waiting = {asyncio.ensure_future(event.wait()) for event in events}
    try:
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
    return bool(done)


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Signal the whole group. The process is not reaped yet, so no other group has its number."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # processes of another user are left alone
            os.killpg(process.pid, number)


def _report(ours: socket.socket) -> JsonObject:
    """Read the report of the supervisor, which has ended."""
    try:
        return loads_object(ours.recv(_MAX_REPORT))
    except (OSError, OzzieError):
        return {}


_START_ERRORS = {
    errno.ESTALE: "another program has just taken its place",
    errno.ENOEXEC: "it is neither a binary of this machine nor a script that begins with #!. Name what runs it first",
    errno.ENOENT: "it, or the interpreter that its first line names, is not there",
}


def _not_started(number: int) -> NotStarted:
    why = _START_ERRORS.get(number) or os.strerror(number)
    return NotStarted(f"It could not be started, and nothing was done: {why}.", code="host.not_started")
