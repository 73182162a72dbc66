"""Jobs in a bubblewrap sandbox of the operating system: the backend that needs no service."""

import asyncio
import contextlib
import os
import random
import re
import signal
import subprocess
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound, OzzieError, Unavailable
from ozzie_server_ext.execution.box import STATUS_BYTES, Box, JobDescriptors, Walls, box, find_programs, own_interpreter
from ozzie_server_ext.execution.opened_files import OpenedFiles
from ozzie_server_ext.execution.runner import (
    MIB,
    Collected,
    FileState,
    JobLimits,
    JobSpec,
    JobState,
    JobStatus,
    LogPiece,
    Opened,
)
from ozzie_server_ext.execution.sandbox_files import Copy, collected, copy_of, open_folder
from ozzie_server_ext.execution.sandbox_init import FirstProcess, usage
from ozzie_server_ext.execution.seccomp import machine, program
from ozzie_server_ext.observability.logs import logger

_MOST_REASON = 300
KEPT_ERRORS = 64 * 1024


class Job:
    """One job. `before`: see `Collected`. `news` is set on each change and then replaced."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.before: Mapping[str, FileState] = {}
        self.status = JobStatus(state=JobState.QUEUED)
        self.printed = bytearray()
        self.errors = bytearray()
        """The last of what a plugin's program wrote to its standard error."""
        self.collected = Collected()
        self.opened: Opened | None = Opened()
        self.news = asyncio.Event()
        self.work: asyncio.Task[None] | None = None
        self._kill: Callable[[], None] | None = None
        self._cut: tuple[JobState, str] | None = None
        self._began = 0.0
        self._has_begun = False
        self._code: int | None = None
        self._errors = 0

    @property
    def was_started(self) -> bool:
        """Whether its sandbox was started."""
        return self._began > 0

    @property
    def has_begun(self) -> bool:
        """Whether the command was started, as the sandbox reports; known at the end."""
        return self._has_begun

    @property
    def is_cut(self) -> bool:
        """Whether the job is to end early."""
        return self._cut is not None

    def begin(self, kill: Callable[[], None]) -> None:
        self._kill = kill
        self._began = time.monotonic()
        self._set_status(replace(self.status, state=JobState.RUNNING))

    def print(self, data: bytes) -> None:
        """Keep the output up to the limit; then end the job."""
        most = self.spec.limits.output
        room = most - len(self.printed)
        self.printed += data[:room]
        if len(data) > room:
            self.cut(JobState.CUT, f"It was ended: it printed more than {most / MIB:g} MiB.")
        self._set_status(replace(self.status, printed=len(self.printed)))

    def print_error(self, data: bytes) -> None:
        """Keep the end of what is written to standard error; end the job beyond the limit."""
        self.errors += data
        del self.errors[:-KEPT_ERRORS]
        self._errors += len(data)
        if self._errors > self.spec.limits.output:
            self.cut(JobState.CUT, f"It was ended: it wrote more than {self.spec.limits.output / MIB:g} MiB of errors.")

    def cut(self, state: JobState, reason: str) -> None:
        """End the job for that reason; the first one counts."""
        if self._cut is None and not self.status.state.is_final:
            self._cut = state, reason
            self.kill()

    def time_out(self) -> None:
        """Mark the job as timed out. Its command is asked to end, and its files are still collected."""
        if self._cut is None and not self.status.state.is_final:
            self._cut = JobState.TIMED_OUT, f"It was ended after {self.spec.limits.wall_s:g} s."

    def kill(self) -> None:
        """End it at once, with everything it started."""
        if self._kill is not None:
            self._kill()

    def record_exit(self, *, code: int | None) -> None:
        """Record that the command began, and its exit code, as the sandbox reports."""
        self._has_begun, self._code = True, code

    def end(self) -> None:
        if self.status.state.is_final:
            return
        took = time.monotonic() - self._began if self._began else 0.0
        state, reason, code = self._outcome()
        self._set_status(JobStatus(state=state, exit_code=code, reason=reason, printed=len(self.printed), wall_s=took))

    def _outcome(self) -> tuple[JobState, str, int | None]:
        if self._cut is not None:
            return *self._cut, None
        if not self._has_begun:
            detail = (self.errors or self.printed).decode(errors="replace").strip()[-_MOST_REASON:]
            detail = detail or "no reason was given"
            return JobState.FAILED, f"The sandbox could not be set up: {detail}", None
        if self._code is None:
            return JobState.FAILED, "It ended everything in its sandbox, including the collection of its files.", None
        return (JobState.FAILED if self._code else JobState.SUCCEEDED), "", self._code

    def _set_status(self, status: JobStatus) -> None:
        self.status = status
        news, self.news = self.news, asyncio.Event()
        news.set()


log = logger(__name__)

AT_ONCE = 4
MOST = 64
"""Jobs running or waiting."""
KEPT = 8
"""Ended jobs whose output and files are kept."""
_REPORT = re.compile(rb"begun\s(?:(?P<code>\d{1,3}) (?P<packed>\d{1,3})\s)?")
"""The report of the sandbox's script. The job can write it too."""
_PROBE = ": <folder/file; cd folder; : <."
_PROBED = Opened(files=frozenset({"folder/file"}), folders=frozenset({"folder"}))
"""What the probe job opens, if opening files can be watched."""
_LOOK_S = 0.1
_PATIENCE_S = 2.0
"""How long a timed-out command may take to end by itself."""
_GRACE_S = 5.0
"""How long collecting the files of an ended command may take, and its sandbox to go."""
_POLL_S = 0.005
_CHUNK = 64 * 1024


class BubblewrapRunner:
    """See `JobRunner`. Use it only from the thread of one event loop that outlives the jobs: the system ends them with
    the thread that started them."""

    def __init__(self, ids: IdSource, private: tuple[Path, ...] = ()) -> None:
        """`private` folders are hidden from all jobs, even within the project."""
        self._ids = ids
        self._private = private
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._walls: Walls | None = None
        self._sees_opens = False
        self._probing = asyncio.Lock()
        self._next = random.SystemRandom().randrange(1 << 30)
        self._is_closed = False

    async def ready(self) -> None:
        """Check that commands can run here, by running one. Raises Unavailable."""
        async with self._probing:
            if self._walls is not None:
                return
            walls = await asyncio.to_thread(_walls, self._private)
            with TemporaryDirectory() as folder:
                _prepare(Path(folder))
                limits = JobLimits(wall_s=10, disk=MIB)
                job = Job(JobSpec(argv=["sh", "-c", _PROBE], project=Path(folder), limits=limits))
                await self._run(job, walls)
            if job.status.state is not JobState.SUCCEEDED:
                raise Unavailable(
                    f"Commands can't run here: {job.status.reason or 'a first one failed'}",
                    hint="A container has to be allowed to make namespaces (Docker: --security-opt seccomp=unconfined, "
                    "and as root --cap-add SYS_ADMIN); elsewhere, user namespaces have to be switched on.",
                    code="sandbox.unavailable",
                )
            self._sees_opens = job.opened == _PROBED
            self._walls = walls

    async def start(self, spec: JobSpec) -> str:
        await self.ready()
        waiting = sum(not job.status.state.is_final for job in self._jobs.values())
        if self._is_closed or waiting >= MOST:
            raise Unavailable(
                "No command can be started: the gateway stops."
                if self._is_closed
                else f"No command can be started: {waiting} run or wait already.",
                code="sandbox.busy",
            )
        job = Job(spec)
        job_id = self._ids.new()
        self._jobs[job_id] = job
        job.work = asyncio.create_task(self._take_turn(job), name=f"job {job_id}")
        self._forget()
        return job_id

    async def run(self, job: Job) -> None:
        """Run a job to its end, after those that came before it; nothing of it is kept here. Cancelling ends it. Raises
        Unavailable."""
        await self.ready()
        async with self._slots:
            assert self._walls is not None
            await self._run(job, self._walls)

    async def status(self, job_id: str) -> JobStatus:
        return self._job(job_id).status

    async def stream_logs(self, job_id: str, cursor: int = 0) -> AsyncIterator[LogPiece]:
        job = self._job(job_id)
        while True:
            news = job.news
            if data := job.printed[cursor : cursor + _CHUNK]:
                cursor += len(data)
                yield LogPiece(bytes(data), cursor)
            elif job.status.state.is_final:
                return
            else:
                await news.wait()

    async def cancel(self, job_id: str) -> None:
        job = self._job(job_id)
        job.cut(JobState.CANCELLED, "It was stopped.")
        if job.work is None:
            return
        if job.status.state is JobState.QUEUED and not job.work.cancelling():  # cancel a job in preparation only once
            job.work.cancel()
        await asyncio.wait({job.work})
        job.end()  # if its work had not even begun

    async def collect_artifacts(self, job_id: str) -> Collected:
        return self._ended_job(job_id).collected

    async def opened(self, job_id: str) -> Opened | None:
        job = self._ended_job(job_id)
        return job.opened if self._sees_opens else None

    async def close(self) -> None:
        """End all jobs and accept no more."""
        self._is_closed = True
        for job_id in list(self._jobs):
            await self.cancel(job_id)

    def _job(self, job_id: str) -> Job:
        if (job := self._jobs.get(job_id)) is None:
            raise NotFound("There is no such job, or it ended long ago.")
        return job

    def _ended_job(self, job_id: str) -> Job:
        job = self._job(job_id)
        if not job.status.state.is_final:
            raise Conflict(f"The job is {job.status.state.value}; its results are known when it has ended.")
        return job

    def _forget(self) -> None:
        ended = [job_id for job_id, job in self._jobs.items() if job.status.state.is_final]
        for job_id in ended[:-KEPT]:
            del self._jobs[job_id]

    async def _take_turn(self, job: Job) -> None:
        try:
            async with self._slots:
                assert self._walls is not None
                await self._run(job, self._walls)
        except asyncio.CancelledError:
            job.cut(JobState.CANCELLED, "It was stopped.")
            raise
        finally:
            job.end()

    async def _run(self, job: Job, walls: Walls) -> None:
        """Run a job to its end and collect its files. Errors become the job's outcome."""
        descriptors, opened, loop = JobDescriptors(), OpenedFiles(), asyncio.get_running_loop()
        self._next += 1
        try:
            # Always finish the preparation, even if cancelled: its descriptors must be known to be closed.
            making = asyncio.ensure_future(
                asyncio.to_thread(_prepare_box, job.spec, walls, self._next, descriptors, opened)
            )
            try:
                box, job.before = await asyncio.shield(making)
            except asyncio.CancelledError:
                await asyncio.wait({making})
                making.exception()  # mark as retrieved
                raise
            if not job.is_cut:
                await self._carry_out(job, box, opened)
        except OzzieError as error:
            job.cut(JobState.FAILED, " ".join(filter(None, [str(error), error.hint])))
        except OSError as error:
            job.cut(JobState.FAILED, f"It could not be started: {error.strerror}.")
        except Exception:
            log.exception("a job broke")
            job.cut(JobState.FAILED, "Ozzie made a mistake of its own; logs/app has the details.")
        finally:
            opened.unfollow()
            # Both start before any waiting and go on if this is cancelled. The first takes a moment after much output.
            closing, removing = (loop.run_in_executor(None, each.close) for each in (descriptors, opened))
            await asyncio.shield(closing)
            job.end()
            await asyncio.shield(removing)

    async def _carry_out(self, job: Job, box: Box, opened: OpenedFiles) -> None:
        job.opened = Opened(is_whole=False)  # until it has ended
        opened.follow(asyncio.get_running_loop())
        # From the loop's thread: bubblewrap asks to be ended with the thread that starts it.
        program = job.spec.program
        network = () if program is None or program.network is None else (program.network,)
        process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
            box.argv,
            stdin=subprocess.DEVNULL if box.stdin is None else box.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if program is None else subprocess.PIPE,
            env={},
            cwd="/",
            pass_fds=(*box.descriptors.all, *network),
            start_new_session=True,
        )
        first = FirstProcess(process.pid)
        job.begin(first.end)
        watching = asyncio.create_task(_watch(job, box, first))
        try:
            await _follow(process, job)
        finally:
            watching.cancel()
            first.end()  # if this is left early
            if await asyncio.shield(_ended(process, first)):
                job.opened = opened.end()
        await asyncio.to_thread(_collect, job, box)


async def _follow(process: "subprocess.Popen[bytes]", job: Job) -> None:
    """Read the output until nothing in the sandbox can print any more and bubblewrap has ended."""
    assert process.stdout is not None
    reading = [_read(process.stdout, job.print)]
    if process.stderr is not None:
        reading.append(_read(process.stderr, job.print_error))
    await asyncio.gather(*reading)
    while process.poll() is None:  # noqa: ASYNC110 - it may have closed its output, and go on up to its limits
        await asyncio.sleep(_POLL_S)


async def _read(pipe: IO[bytes], keep: Callable[[bytes], None]) -> None:
    reader = asyncio.StreamReader(limit=_CHUNK)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    with contextlib.closing(transport):
        while chunk := await reader.read(_CHUNK):
            keep(chunk)


async def _ended(process: "subprocess.Popen[bytes]", first: FirstProcess) -> bool:
    """Wait for bubblewrap and everything in the sandbox to end; return False if it does not."""
    for _ in range(int(_GRACE_S / _POLL_S)):
        if process.poll() is not None and first.is_gone:
            first.close()
            return True
        await asyncio.sleep(_POLL_S)
    log.error("sandbox %s does not end", process.pid)
    process.kill()
    first.close()
    return False


async def _watch(job: Job, box: Box, first: FirstProcess) -> None:
    """End the job if it exceeds a limit."""
    loop = asyncio.get_running_loop()
    end = loop.time() + job.spec.limits.wall_s
    while not first.look():  # noqa: ASYNC110 - ends with the job at the latest
        await asyncio.sleep(_POLL_S)
    await _look_until(end, job, box, first)
    job.time_out()
    await asyncio.to_thread(first.signal_command, signal.SIGTERM)
    await _look_until(loop.time() + _PATIENCE_S, job, box, first)
    await asyncio.to_thread(first.signal_command, signal.SIGKILL)
    await asyncio.sleep(_GRACE_S)
    job.kill()


async def _look_until(end: float, job: Job, box: Box, first: FirstProcess) -> None:
    limits = job.spec.limits
    loop = asyncio.get_running_loop()
    assert first.pid is not None
    while (left := end - loop.time()) > 0:
        await asyncio.sleep(min(_LOOK_S, left))
        used = await asyncio.to_thread(usage, first.pid, limits.memory, box.writable)
        if used.memory > limits.memory:
            job.cut(JobState.CUT, f"It was ended: it took more than {limits.memory // MIB} MiB of memory.")
            job.kill()  # even if its time is up already
        elif used.files > limits.files:
            job.cut(JobState.CUT, f"It was ended: it made more than {limits.files:,} files.")
            job.kill()


def _prepare(project: Path) -> None:
    """Create what the probe job opens, readable for all: as root, a job is another user."""
    project.chmod(0o755)
    (project / "folder").mkdir()
    (project / "folder").chmod(0o755)
    (project / "folder" / "file").touch()
    (project / "folder" / "file").chmod(0o644)


def _walls(private: tuple[Path, ...]) -> Walls:
    is_root = os.geteuid() == 0
    programs = find_programs(root=is_root)
    kind = machine()
    assert kind is not None
    return Walls(
        programs=programs, interpreter=own_interpreter(), seccomp=program(kind), is_root=is_root, private=private
    )


def _prepare_box(
    spec: JobSpec, walls: Walls, number: int, descriptors: JobDescriptors, opened: OpenedFiles
) -> tuple[Box, Mapping[str, FileState]]:
    """Build a job's sandbox; return it and the state of the copied folder. Raises InputError and OSError."""
    try:
        project = os.open(spec.project, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"The project's folder can't be opened: {error.strerror}.") from None
    try:  # not among the job's descriptors: it leads out of the sandbox
        copy = None if spec.copied is None else _copied(project, spec.copied)
        archive = None if copy is None else copy.archive
        # After the copying, which opens files itself.
        if spec.program is None:
            opened.watch(spec.project, [Path("/usr"), *walls.interpreter.folders])
        made = box(spec, walls, project, archive, number, descriptors, opened.top)
        return made, {} if copy is None else copy.contents
    finally:
        os.close(project)


def _copied(project: int, path: str) -> Copy:
    folder = open_folder(project, path)
    try:
        return copy_of(folder)
    finally:
        os.close(folder)


def _collect(job: Job, box: Box) -> None:
    report = _REPORT.fullmatch(os.pread(box.status, STATUS_BYTES, 0).partition(b"\0")[0])
    if report is None:
        return
    job.record_exit(code=int(report["code"]) if report["code"] else None)
    if report["code"]:
        job.collected = collected(box.out, box.changed, job.before, whole=report["packed"] == b"0")
