"""The port behind which commands run apart from the gateway, and what goes through it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ozzie_server_ext.domain.errors import NotFound, Unavailable

MIB = 1024 * 1024


class JobState(StrEnum):
    """What a job can be in, and how it can end. The last three are ours: we ended it."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    CUT = "cut"

    @property
    def is_final(self) -> bool:
        return self not in (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """What a job may use up. Sizes are in bytes. `wall_s` is measured from its first step, `cpu_s` for each of its
    processes; `memory` is that of all of them together; `disk` is that of each place where it may write, and `files`
    the number of files in all of them; `output` is what it may print."""

    wall_s: float = 120.0
    cpu_s: float = 300.0
    memory: int = 2048 * MIB
    processes: int = 256
    disk: int = 256 * MIB
    files: int = 100_000
    output: int = 4 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A command and what it is given.

    `argv` is run as it is, by no shell. It sees `project` at `/project`, read-only and without what is hidden at its
    top, and starts in `folder` of it. Of a folder that is named as `copied`, it gets a copy that it may change. It may
    write to `/tmp`; what it leaves in `/tmp/out` (the variable OUT) is collected. `files` stand in `/job`, read-only.
    """

    argv: Sequence[str]
    project: Path
    folder: str = ""
    copied: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    limits: JobLimits = field(default_factory=JobLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """`exit_code` is what the command ended with, 128 and the signal where one ended it; None where it did not come to
    its end. `reason` is a sentence about what we ended it for; empty where it ended by itself."""

    state: JobState
    exit_code: int | None = None
    reason: str = ""
    printed: int = 0
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A piece of what a job printed, standard output and errors as they came; `cursor` is where the next one begins."""

    data: bytes
    cursor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """A file that a job left behind; `path` is relative to `/tmp/out`, or to the folder that was copied."""

    path: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Was:
    """What a file of the copied folder was when the job began; `sha256` of its content, hexadecimal."""

    sha256: str
    executable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What is left of a job. Of the folder that was copied, `changed` are the files that are new or different, and
    `deleted` the paths of those that are gone; `before` is what both were, but for new ones. `incomplete` is a sentence
    about why that is not all that was changed; empty where it is. `left_out` are names that can't be taken along, each
    with the reason."""

    out: tuple[JobFile, ...] = ()
    changed: tuple[JobFile, ...] = ()
    deleted: tuple[str, ...] = ()
    before: Mapping[str, Was] = field(default_factory=dict)
    incomplete: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What of its project a job opened, or may have opened: paths of files, and of folders, whose names it then knows.
    They are relative to the project, which is "" itself; a folder that it got as a copy is not watched. If anything was
    missed while it ran, it may have opened more (not `is_whole`)."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    is_whole: bool = True


class JobRunner(Protocol):
    """Runs commands apart from the gateway. A job belongs to the runner's process: when that ends, its jobs do."""

    async def start(self, spec: JobSpec) -> str:
        """Begin with a job, or let it wait for its turn; its id.

        Raises InputError for a folder that can't be offered, Unavailable where no command can be run; the hint says
        what is missing.
        """
        ...

    async def status(self, job_id: str) -> JobStatus:
        """Raises NotFound, also for a job that ended long ago."""
        ...

    def stream_logs(self, job_id: str, cursor: int = 0) -> AsyncIterator[LogPiece]:
        """What the job prints, from `cursor` on; it ends when the job has. Raises NotFound."""
        ...

    async def cancel(self, job_id: str) -> None:
        """End a job and all that it started; it has ended when this returns. One that has ended stays as it is.
        Raises NotFound."""
        ...

    async def collect_artifacts(self, job_id: str) -> Collected:
        """What an ended job left behind: nothing where it was cancelled. Raises NotFound, or Conflict while it runs."""
        ...

    async def opened(self, job_id: str) -> Opened | None:
        """Return what an ended job opened, however it ended; None where that can't be watched. Raises NotFound, or
        Conflict while it runs."""
        ...


class NoJobs:
    """Where no commands are run."""

    async def start(self, spec: JobSpec) -> str:
        raise Unavailable("Commands can't be run here.", code="sandbox.unavailable")

    async def status(self, job_id: str) -> JobStatus:
        raise NotFound("There are no jobs here.")

    async def stream_logs(self, job_id: str, cursor: int = 0) -> AsyncIterator[LogPiece]:
        raise NotFound("There are no jobs here.")
        yield LogPiece(b"", 0)

    async def cancel(self, job_id: str) -> None:
        raise NotFound("There are no jobs here.")

    async def collect_artifacts(self, job_id: str) -> Collected:
        raise NotFound("There are no jobs here.")

    async def opened(self, job_id: str) -> Opened | None:
        raise NotFound("There are no jobs here.")
