"""Erases, while a gateway runs, the contents that the settings do not want kept any longer."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from ozzie_server_ext.artifacts.erasing import Eraser
from ozzie_server_ext.artifacts.retention import Contents, is_too_old
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.settings import ArtifactsSettings
from ozzie_server_ext.domain.artifacts import Artifact, ErasedWhy
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.ids import ArtifactId
from ozzie_server_ext.observability.logs import logger

log = logger(__name__)

EVERY = timedelta(hours=1)
LOOK_S = 60.0
"""So often it looks whether it is time: a timer stands still while a machine sleeps."""
SURE_S = 10.0
"""Settings count that were the same for so long: what is erased stays so, and a file that an editor is replacing is not
there for a moment, or ends in the middle of a number."""
_PAGE = 200
"""Artifacts that are looked at in one step."""
_AT_ONCE = 20
"""Contents that are erased in one append: nobody who writes meanwhile waits for long."""


class Sweep:
    """Sweeps at the start, and then every hour of the clock. `wanted` tells the settings of the moment; None where
    nobody knows them, and then nothing is erased."""

    def __init__(
        self,
        artifacts: ArtifactStore,
        eraser: Eraser,
        clock: Clock,
        wanted: Callable[[], Awaitable[ArtifactsSettings | None]],
    ) -> None:
        self._artifacts = artifacts
        self._eraser = eraser
        self._clock = clock
        self._wanted = wanted
        self._work: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._work = asyncio.create_task(self._run(), name="artifacts are swept")

    def stop(self) -> None:
        """At once: while somebody waited for its end, turns would get on in a gateway that stops. What is being erased
        is recorded or is not; a file that is left goes with the next start."""
        if self._work is not None:
            self._work.cancel()

    async def ended(self) -> None:
        """Return once a sweep that was stopped uses the log no more."""
        if self._work is not None:
            await asyncio.wait([self._work])

    async def _run(self) -> None:
        swept_at = None
        while True:
            now = self._clock.now()
            if swept_at is None or not timedelta(0) <= now - swept_at < EVERY:
                try:
                    await self.sweep()
                except Exception:
                    log.exception("artifacts can't be swept")
                swept_at = now
            await asyncio.sleep(LOOK_S)

    async def sweep(self) -> None:
        """Erase what is due, step by step, each of them small. Raises as `EventLog.append` and `EventLog.rows`."""
        await self._eraser.remove_left()
        wanted = await self._wanted()
        if wanted is None or not (wanted.keep_days or wanted.max_bytes):
            return
        await asyncio.sleep(SURE_S)
        if await self._wanted() != wanted:
            log.info("the settings for artifacts have just changed: nothing is erased before the next sweep")
            return
        if wanted.keep_days:
            await self._erase_old(wanted.keep_days)
        if wanted.max_bytes:
            await self._erase_beyond(wanted.max_bytes)

    async def _erase_old(self, days: int) -> None:
        now, after = self._clock.now(), 0
        while page := await self._artifacts.oldest(after=after, limit=_PAGE):
            old = [each for each in page if is_too_old(each, now, days)]
            used = await self._eraser.in_use(old)
            due = [each.artifact_id for each in old if _may_go(each, used)]
            await self._erase(due, "age", days)
            if now - page[-1].ts <= timedelta(days=days):
                return
            after = page[-1].position

    async def _erase_beyond(self, most_bytes: int) -> None:
        contents, after = Contents(), 0
        while page := await self._artifacts.oldest(after=after, limit=_PAGE):
            used = await self._eraser.in_use(page)
            for each in page:
                if each.is_own:
                    contents.note(each, may_go=_may_go(each, used))
            after = page[-1].position
        due = [artifact_id for together in contents.beyond(most_bytes) for artifact_id in together]
        await self._erase(due, "size", most_bytes)

    async def _erase(self, artifact_ids: list[ArtifactId], why: ErasedWhy, bound: int) -> None:
        for start in range(0, len(artifact_ids), _AT_ONCE):
            await self._eraser.erase_all(artifact_ids[start : start + _AT_ONCE], why=why, bound=bound)
        if artifact_ids:
            log.info("%d contents of artifacts were erased (%s)", len(artifact_ids), why)


def _may_go(artifact: Artifact, used: set[ArtifactId]) -> bool:
    return artifact.is_own and artifact.artifact_id not in used
