"""The port for commands that run apart from the gateway, and its data types."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ozzie_server_ext.domain.errors import NotFound, Unavailable

MIB = 1024 * 1024


class JobState(StrEnum):
    """The states of a job. The last three mean that Ozzie ended it."""

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
    """The limits of a job; sizes in bytes. `wall_s` counts from its first step, `cpu_s` per process; `memory` is for
    all processes together, `disk` for each writable place, `files` for all of these; `output` limits what it prints."""

    wall_s: float = 120.0
    cpu_s: float = 300.0
    memory: int = 2048 * MIB
    processes: int = 256
    disk: int = 256 * MIB
    files: int = 100_000
    output: int = 4 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramInput:
    """What a plugin's program is started with. `executable` are those of the job's `files` that may be run, `env`
    further variables, whose values may be secrets. It sees the project's folders `shown` ("." is all of it) in place of
    the project. `network` is the descriptor by which it hands out the socket of its proxy (`programs.box_listener`);
    without one it has no network."""

    stdin: bytes
    executable: frozenset[str] = frozenset()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    shown: tuple[str, ...] = ()
    network: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A command and its inputs.

    `argv` is run directly, without a shell. It sees `project` at `/project`, read-only and without hidden files at its
    top, and starts in its `folder`. Of the folder `copied` it gets a writable copy. It may write to `/tmp`; files that
    it leaves in `/tmp/out` (the variable OUT) are collected. `files` are in `/job`, read-only. For the program of a
    plugin (`program`), standard error is kept apart from the output, and nothing that it opens is noted.
    """

    argv: Sequence[str]
    project: Path
    folder: str = ""
    copied: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    limits: JobLimits = field(default_factory=JobLimits)
    program: ProgramInput | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """`exit_code` is the command's, or 128 plus the signal that ended it; None if it did not finish. `reason` is a
    sentence on why Ozzie ended it; empty if it ended by itself."""

    state: JobState
    exit_code: int | None = None
    reason: str = ""
    printed: int = 0
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A piece of a job's output, standard output and errors together; the next one begins at `cursor`."""

    data: bytes
    cursor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """A file that a job left; `path` is relative to `/tmp/out` or to the copied folder."""

    path: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """The state of a file of the copied folder when the job began; `sha256` of its content, hexadecimal."""

    sha256: str
    executable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The results of a job. In the copied folder, `changed` are the new or different files and `deleted` the paths of
    removed ones; `before` is their previous state, except for new ones. `incomplete` is a sentence on why not all
    changes are known, or empty. `left_out` are names that can't be collected, each with the reason."""

    out: tuple[JobFile, ...] = ()
    changed: tuple[JobFile, ...] = ()
    deleted: tuple[str, ...] = ()
    before: Mapping[str, FileState] = field(default_factory=dict)
    incomplete: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The files of its project that a job opened or may have opened, and the folders that it listed; the project itself
    is "". The copied folder is not watched. If `is_whole` is false, it may have opened more."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    is_whole: bool = True


class JobRunner(Protocol):
    """Runs commands apart from the gateway. Jobs end with the runner's process."""

    async def start(self, spec: JobSpec) -> str:
        """Start a job or queue it; return its id.

        Raises InputError for an unusable folder, Unavailable with a hint if commands can't run.
        """
        ...

    async def status(self, job_id: str) -> JobStatus:
        """Return the status. Raises NotFound, also for a job that ended long ago."""
        ...

    def stream_logs(self, job_id: str, cursor: int = 0) -> AsyncIterator[LogPiece]:
        """Yield the job's output from `cursor` on, until it has ended. Raises NotFound."""
        ...

    async def cancel(self, job_id: str) -> None:
        """End a job and everything it started, and wait for that. An ended job stays as it is. Raises NotFound."""

    async def collect_artifacts(self, job_id: str) -> Collected:
        """Return what an ended job left: nothing if it was cancelled. Raises NotFound, or Conflict while it runs."""
        ...

    async def opened(self, job_id: str) -> Opened | None:
        """Return what an ended job opened; None if unknown. Raises NotFound, or Conflict while it runs."""
        ...


class NoJobs:
    """Runs no commands."""

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
