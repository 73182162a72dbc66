"""One job of the sandbox: what it printed, what it is in, and why it was ended."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from ozzie_server_ext.execution.runner import MIB, Collected, JobSpec, JobState, JobStatus, Opened, Was

_MOST_SAID = 300


class Job:
    """Of `before`, see `Collected`. `news` is set when there is something new, and is another one then."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.before: Mapping[str, Was] = {}
        self.status = JobStatus(state=JobState.QUEUED)
        self.printed = bytearray()
        self.collected = Collected()
        self.opened: Opened | None = Opened()
        self.news = asyncio.Event()
        self.work: asyncio.Task[None] | None = None
        self._kill: Callable[[], None] | None = None
        self._cut: tuple[JobState, str] | None = None
        self._began = 0.0
        self._has_begun = False
        self._code: int | None = None

    @property
    def is_cut(self) -> bool:
        """Whether we wanted its end."""
        return self._cut is not None

    def begin(self, kill: Callable[[], None]) -> None:
        self._kill = kill
        self._began = time.monotonic()
        self._now(replace(self.status, state=JobState.RUNNING))

    def print(self, data: bytes) -> None:
        """Of more than it may print, the beginning is kept, and the job is ended."""
        most = self.spec.limits.output
        room = most - len(self.printed)
        self.printed += data[:room]
        if len(data) > room:
            self.cut(JobState.CUT, f"It was ended: it printed more than {most / MIB:g} MiB.")
        self._now(replace(self.status, printed=len(self.printed)))

    def cut(self, state: JobState, reason: str) -> None:
        """End it, for that reason; the first one counts."""
        if self._cut is None and not self.status.state.is_final:
            self._cut = state, reason
            self.kill()

    def time_is_up(self) -> None:
        """Its command is asked to end, and what it left is taken out."""
        if self._cut is None and not self.status.state.is_final:
            self._cut = JobState.TIMED_OUT, f"It was ended after {self.spec.limits.wall_s:g} s."

    def kill(self) -> None:
        """End it at once, with all that it started."""
        if self._kill is not None:
            self._kill()

    def told(self, *, code: int | None) -> None:
        """That its command was begun, and what it ended with, as the sandbox says."""
        self._has_begun, self._code = True, code

    def end(self) -> None:
        """What came first is what counts."""
        if self.status.state.is_final:
            return
        took = time.monotonic() - self._began if self._began else 0.0
        state, reason, code = self._how()
        self._now(JobStatus(state=state, exit_code=code, reason=reason, printed=len(self.printed), wall_s=took))

    def _how(self) -> tuple[JobState, str, int | None]:
        if self._cut is not None:
            return *self._cut, None
        if not self._has_begun:
            said = self.printed.decode(errors="replace").strip()[-_MOST_SAID:] or "no reason was given"
            return JobState.FAILED, f"The sandbox could not be set up: {said}", None
        if self._code is None:
            return JobState.FAILED, "It ended everything in its sandbox, also what takes out its files.", None
        return (JobState.FAILED if self._code else JobState.SUCCEEDED), "", self._code

    def _now(self, status: JobStatus) -> None:
        self.status = status
        told, self.news = self.news, asyncio.Event()
        told.set()
