"""Checks the whole store once a day, in a process of its own that steps back behind everything else."""

import asyncio
import os
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from ozzie_server_ext.config.files import replace_file
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.errand import ErrandFailed, run_errand
from ozzie_server_ext.protocol.jsontext import canonical_bytes

log = logger(__name__)

EVERY = timedelta(days=1)
SETTLE_S = 600.0
"""After a start: what waits for the gateway comes first."""
LOOK_S = 60.0
"""So often it looks whether it is time: a timer stands still while a machine sleeps."""
MAX_WALL_S = 6 * 3600.0

_PROGRAM = "ozzie_server_ext.programs.deep_check"


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """When the store was checked last, and what was found: sentences, none where all is well."""

    at: datetime
    findings: tuple[str, ...] = ()


class _Answer(msgspec.Struct):
    faults: tuple[str, ...]


class DailyCheck:
    """Runs the check a day after the last one, also of an earlier gateway: `home.last_check` keeps the outcome."""

    def __init__(
        self, home: Home, key: Path, clock: Clock, *, settle_s: float = SETTLE_S, look_s: float = LOOK_S
    ) -> None:
        self._home = home
        self._key = key
        self._clock = clock
        self._settle_s = settle_s
        self._look_s = look_s
        self._work: asyncio.Task[None] | None = None
        self.last: Checked | None = None

    async def start(self) -> None:
        self.last = await asyncio.to_thread(_read, self._home.last_check)
        self._work = asyncio.create_task(self._run(), name="the store is checked once a day")

    async def stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])

    async def check(self) -> Checked:
        """Check now."""
        task = {"home": str(self._home.root.absolute()), "key": str(self._key), "parent": os.getpid()}
        try:
            answer = await run_errand(_PROGRAM, canonical_bytes(task), wall_s=MAX_WALL_S)
            findings = msgspec.json.decode(answer, type=_Answer).faults
        except (ErrandFailed, msgspec.MsgspecError) as error:
            findings = (f"The check came to no end: {error}. Run `ozzie events verify --deep`.",)
        for finding in findings:
            log.error("the daily check found: %s", finding)
        self.last = Checked(at=self._clock.now(), findings=findings)
        try:
            await asyncio.to_thread(replace_file, self._home.last_check, msgspec.json.encode(self.last))
        except OSError as error:
            log.warning("the outcome of the daily check can't be kept: %s", error)
        return self.last

    async def _run(self) -> None:
        await asyncio.sleep(self._settle_s)
        while True:
            last, now = self.last, self._clock.now()
            if last is None or not timedelta(0) <= now - last.at < EVERY:
                await self.check()
            await asyncio.sleep(self._look_s)


def _read(path: Path) -> Checked | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Checked)
    except (OSError, msgspec.MsgspecError):
        return None
