"""Jobs in the operating system's own sandbox, made by bubblewrap: the backend that needs no service (WK-2)."""

import asyncio
import contextlib
import os
import random
import shlex
import signal
import stat
import subprocess
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound, Unavailable
from ozzie_server_ext.execution.box import Box, Walls, box
from ozzie_server_ext.execution.copies import collected, copy_of, open_folder
from ozzie_server_ext.execution.first import FirstProcess
from ozzie_server_ext.execution.handed import Handed, read_page
from ozzie_server_ext.execution.host import find_programs, own_interpreter
from ozzie_server_ext.execution.job import Job
from ozzie_server_ext.execution.runner import MIB, Collected, JobLimits, JobSpec, JobState, JobStatus, LogPiece
from ozzie_server_ext.execution.seccomp import machine, program
from ozzie_server_ext.execution.usage import usage
from ozzie_server_ext.observability.logs import logger

log = logger(__name__)

AT_ONCE = 4
KEPT = 32
"""Ended jobs whose output and files can still be asked for."""
_LOOK_S = 0.1
_PATIENCE_S = 2.0
"""How long a command whose time is up may take to end by itself."""
_GRACE_S = 5.0
"""How long the files of an ended command may take to be taken out, and a box to go."""
_POLL_S = 0.005
_FOR_ALL = stat.S_IROTH | stat.S_IXOTH
_CHUNK = 64 * 1024


class BubblewrapRunner:
    """See `JobRunner`. To be used from the thread of one loop, which has to be the one that outlives the jobs: the
    system ends them when the thread that started them ends."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._walls: Walls | None = None
        self._probing = asyncio.Lock()
        self._next = random.SystemRandom().randrange(1 << 30)

    async def ready(self) -> None:
        """Find out whether commands can be run here, by running one. Raises Unavailable."""
        async with self._probing:
            if self._walls is not None:
                return
            walls = await asyncio.to_thread(_walls)
            with TemporaryDirectory() as empty:
                os.chmod(empty, 0o755)  # as root, a job is somebody else
                spec = JobSpec(argv=["true"], project=Path(empty), limits=JobLimits(wall_s=10, disk=MIB))
                job = Job(spec, *await self._box(spec, walls))
                await self._run(job)
            if job.status.state is not JobState.SUCCEEDED:
                raise Unavailable(
                    f"Commands can't run here: {job.status.reason or 'a first one failed'}",
                    hint="A container has to be allowed to make namespaces (Docker: --security-opt seccomp=unconfined, "
                    "and as root --cap-add SYS_ADMIN); elsewhere, user namespaces have to be switched on.",
                    code="sandbox.unavailable",
                )
            self._walls = walls

    async def start(self, spec: JobSpec) -> str:
        await self.ready()
        assert self._walls is not None
        job = Job(spec, *await self._box(spec, self._walls))
        job_id = self._ids.new()
        self._jobs[job_id] = job
        job.work = asyncio.create_task(self._take_turn(job), name=f"job {job_id}")
        self._forget()
        return job_id

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
        if job.work is not None:
            await asyncio.wait({job.work})

    async def collect_artifacts(self, job_id: str) -> Collected:
        job = self._job(job_id)
        if not job.status.state.is_final:
            raise Conflict(f"The job is {job.status.state.value}; what it made is collected when it has ended.")
        return job.collected

    async def close(self) -> None:
        """End all jobs."""
        for job_id in list(self._jobs):
            await self.cancel(job_id)

    def _job(self, job_id: str) -> Job:
        if (job := self._jobs.get(job_id)) is None:
            raise NotFound("There is no such job, or it ended long ago.")
        return job

    def _forget(self) -> None:
        ended = [job_id for job_id, job in self._jobs.items() if job.status.state.is_final]
        for job_id in ended[:-KEPT]:
            del self._jobs[job_id]

    async def _box(self, spec: JobSpec, walls: Walls) -> tuple[Box, dict[str, str]]:
        self._next += 1
        return await asyncio.to_thread(_closed_in, spec, walls, self._next)

    async def _take_turn(self, job: Job) -> None:
        async with self._places:
            await self._run(job)

    async def _run(self, job: Job) -> None:
        """Run a job to its end, and take out what it left. It never raises: what went wrong is the job's end."""
        try:
            with job.box.handed:
                if not job.is_cut:
                    await self._carry_out(job)
        except OSError as error:
            job.cut(JobState.FAILED, f"It could not be started: {error.strerror}.")
        except Exception:
            log.exception("a job broke")
            job.cut(JobState.FAILED, "Ozzie made a mistake of its own; logs/app has the details.")
        finally:
            job.end()

    async def _carry_out(self, job: Job) -> None:
        # From the loop's thread: bubblewrap asks to be ended with the thread that starts it.
        process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
            job.box.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={},
            cwd="/",
            pass_fds=job.box.handed.all,
            start_new_session=True,
        )
        first = FirstProcess(job.box.info)
        job.begin(first.end)
        watching = asyncio.create_task(_watch(job, first))
        try:
            await _follow(process, job)
        finally:
            watching.cancel()
            first.end()  # where this is left early
            await asyncio.shield(_ended(process, first))
        await asyncio.to_thread(_look, job)


async def _follow(process: "subprocess.Popen[bytes]", job: Job) -> None:
    """Until nobody in the box can print any more, and it has ended."""
    assert process.stdout is not None
    reader = asyncio.StreamReader(limit=_CHUNK)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
    with contextlib.closing(transport):
        while chunk := await reader.read(_CHUNK):
            job.print(chunk)
    while process.poll() is None:  # noqa: ASYNC110 - it may have closed its output, and go on up to its limits
        await asyncio.sleep(_POLL_S)


async def _ended(process: "subprocess.Popen[bytes]", first: FirstProcess) -> None:
    """Until bubblewrap has ended, and with it all that was in the box."""
    for _ in range(int(_GRACE_S / _POLL_S)):
        if process.poll() is not None and first.is_gone:
            break
        await asyncio.sleep(_POLL_S)
    else:
        log.error("the sandbox %s does not end", process.pid)
        process.kill()
    first.close()


async def _watch(job: Job, first: FirstProcess) -> None:
    """End the job where it uses too much, or more time than it has."""
    limits = job.spec.limits
    loop = asyncio.get_running_loop()
    end = loop.time() + limits.wall_s
    while not first.look():  # noqa: ASYNC110 - ends with the job at the latest
        await asyncio.sleep(_POLL_S)
    assert first.pid is not None
    while (left := end - loop.time()) > 0:
        await asyncio.sleep(min(_LOOK_S, left))
        used = await asyncio.to_thread(usage, first.pid, limits.memory, job.box.writable)
        if used.memory > limits.memory:
            job.cut(JobState.CUT, f"It was ended: it took more than {limits.memory // MIB} MiB of memory.")
        elif used.files > limits.files:
            job.cut(JobState.CUT, f"It was ended: it made more than {limits.files:,} files.")
    job.time_is_up()
    await asyncio.to_thread(first.signal_command, signal.SIGTERM)
    await asyncio.sleep(_PATIENCE_S)
    await asyncio.to_thread(first.signal_command, signal.SIGKILL)
    await asyncio.sleep(_GRACE_S)
    job.kill()


def _walls() -> Walls:
    is_root = os.geteuid() == 0
    programs = find_programs(root=is_root)
    kind = machine()
    assert kind is not None
    return Walls(programs=programs, interpreter=own_interpreter(), seccomp=program(kind), is_root=is_root)


def _closed_in(spec: JobSpec, walls: Walls, number: int) -> tuple[Box, dict[str, str]]:
    """The box of a job, and what was in the folder that is copied. Raises InputError."""
    handed = Handed()
    try:
        try:
            project = handed.take(os.open(spec.project, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError as error:
            raise InputError(f"The project's folder can't be opened: {error.strerror}.") from None
        if walls.is_root and os.fstat(project).st_mode & _FOR_ALL != _FOR_ALL:
            raise InputError(
                "Commands run as another user here, who may not read the project's folder.",
                hint=f"Run chmod o+rx {shlex.quote(str(spec.project))}, or Jupyter as an ordinary user.",
            )
        archive, contents = None, {}
        if spec.copied is not None:
            folder = open_folder(project, spec.copied)
            try:
                copy = copy_of(folder)
            finally:
                os.close(folder)
            archive, contents = copy.archive, dict(copy.contents)
        return box(spec, walls, project, archive, number, handed), contents
    except BaseException:
        handed.close()
        raise


def _look(job: Job) -> None:
    """What the job told of its end, and what it left."""
    words = read_page(job.box.status).decode(errors="replace").split()
    job.told(begun=bool(words), code=int(words[1]) if len(words) > 1 and words[1].isdigit() else None)
    if len(words) > 1:
        with ExitStack() as open_:
            pages = [
                page if page is None else open_.enter_context(open(page, "rb", closefd=False))
                for page in (job.box.out, job.box.changed)
            ]
            assert pages[0] is not None
            job.collected = collected(pages[0], pages[1], job.before)
