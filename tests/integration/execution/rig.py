"""Runs a command in the sandbox, and tells what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ozzie_server_ext.execution.runner import Collected, JobRunner, JobSpec, JobState, JobStatus


@dataclass(frozen=True)
class Ran:
    status: JobStatus
    printed: str
    left: Collected

    @property
    def state(self) -> JobState:
        return self.status.state


async def ran(runner: JobRunner, project: Path, argv: Sequence[str] | str, **given: Any) -> Ran:
    """What came of a command; a text is one for a shell."""
    words = ["sh", "-c", argv] if isinstance(argv, str) else argv
    job_id = await runner.start(JobSpec(argv=words, project=project, **given))
    printed = b"".join([piece.data async for piece in runner.stream_logs(job_id)])
    return Ran(await runner.status(job_id), printed.decode(errors="replace"), await runner.collect_artifacts(job_id))
