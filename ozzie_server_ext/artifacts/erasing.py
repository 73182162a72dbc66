"""Erasing the contents of artifacts: by retention rules or by a person. The event is recorded before the file goes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from enum import IntEnum

import msgspec

from ozzie_server_ext.artifacts.store import ArtifactStore, expect_there
from ozzie_server_ext.config.settings import ArtifactsSettings
from ozzie_server_ext.domain.artifacts import REPLACED_BY, Artifact, ErasedWhy, blob_of
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import Conflict, InputError, OzzieError
from ozzie_server_ext.domain.events import Actor, ArtifactErased, Draft
from ozzie_server_ext.domain.ids import ARTIFACTS_STREAM, ArtifactId, BlobRef
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import FINAL
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog


class Worth(IntEnum):
    """How much is lost with a content, least first."""

    OLD = 1
    """A superseded version."""
    RESULT = 2
    """A long tool result, or the proof of an approval: its beginning is in the log."""
    OLDER_UNDO = 3
    """An earlier state of a file, replaced by a call and changed again since."""
    CURRENT = 4
    """The newest version of anything else, such as a file's state before its last change."""


def worth_of(artifact: Artifact) -> Worth:
    """Rank superseded versions below current ones, and repeatable results below what undoes a change."""
    is_old = artifact.superseded_by is not None
    if REPLACED_BY in artifact.meta:
        return Worth.OLDER_UNDO if is_old else Worth.CURRENT
    if is_old:
        return Worth.OLD
    return Worth.RESULT if artifact.call_id is not None and artifact.kind in ("log", "json") else Worth.CURRENT


def is_too_old(artifact: Artifact, now: datetime, days: int) -> bool:
    """Whether a content is erased for its age. Undo states never are, nor newest versions other than results; an old
    version is kept for `days` after it was replaced. Notes keep all versions: an old one may be the newest of a session
    forked then."""
    if worth_of(artifact) > Worth.RESULT or artifact.kind == "markdown":
        return False
    return now - (artifact.superseded_at or artifact.ts) > timedelta(days=days)


class StoredContent(msgspec.Struct, frozen=True):
    """One content: its size, its artifacts' ids, and whether all of them may be erased now."""

    size: int
    artifacts: tuple[ArtifactId, ...]
    order: tuple[Worth, int]
    may_go: bool


class StoredContents:
    """All existing contents, noted artifact by artifact. Artifacts with the same content share one."""

    def __init__(self) -> None:
        self._by_hash: dict[str, StoredContent] = {}

    def note(self, artifact: Artifact, *, may_go: bool) -> None:
        there = self._by_hash.get(artifact.hash)
        order = (worth_of(artifact), artifact.position)
        self._by_hash[artifact.hash] = StoredContent(
            size=artifact.size,
            artifacts=(*(there.artifacts if there else ()), artifact.artifact_id),
            order=max(there.order, order) if there else order,
            may_go=may_go and (there is None or there.may_go),
        )

    def beyond(self, most_bytes: int) -> Iterable[tuple[ArtifactId, ...]]:
        """Yield the artifacts of each content to erase, so that at most `most_bytes` remain."""
        too_many = sum(content.size for content in self._by_hash.values()) - most_bytes
        for content in sorted(self._by_hash.values(), key=lambda content: content.order):
            if too_many <= 0:
                return
            if content.may_go and content.size:
                too_many -= content.size
                yield content.artifacts


log = logger(__name__)

_PAGE = 200
"""Rows per query."""


class Eraser:
    """Erases contents. There is one for each log."""

    def __init__(self, event_log: EventLog, blobs: BlobStore, artifacts: ArtifactStore) -> None:
        self._log = event_log
        self._blobs = blobs
        self._artifacts = artifacts
        self._erasing = asyncio.Lock()

    async def erase(self, artifact_id: ArtifactId, by: str) -> None:
        """Erase a content at the request of the person `by`. Raises NotFound; Gone if it is erased; Conflict if a task
        that has not ended made it; InputError if it is stored elsewhere; and as `EventLog.append`."""
        async with self._erasing:
            artifact = await self._artifacts.get(artifact_id)
            expect_there(artifact)
            if not artifact.is_own:
                raise InputError(f'"{artifact.name}" is not kept by Ozzie itself, so it can\'t be erased here.')
            if await self.in_use([artifact]):
                raise Conflict(
                    f'"{artifact.name}" is still needed: the task that made it has not ended.',
                    hint=f"Wait for its end, or stop it: ozzie tasks cancel {artifact.task_id}",
                    code="conflict.artifact",
                )
            await self._record([artifact], why="person", by=by, actor="user")
        await self._remove(blob_of(artifact.storage_ref))

    async def erase_all(self, artifact_ids: Sequence[ArtifactId], *, why: ErasedWhy, bound: int) -> None:
        """Erase what the settings want gone, in one append; contents that are gone or in use by now stay as they are.
        Raises as `EventLog.append`."""
        async with self._erasing:
            found = [await self._artifacts.get(artifact_id) for artifact_id in artifact_ids]
            used = await self.in_use(found)
            gone = [each for each in found if each.erased is None and each.is_own and each.artifact_id not in used]
            if not gone:
                return
            await self._record(gone, why=why, bound=bound, actor="system")
        for ref in {blob_of(each.storage_ref) for each in gone}:
            await self._remove(ref)

    async def in_use(self, artifacts: Sequence[Artifact]) -> set[ArtifactId]:
        """Return those made by a task that has not ended, or shown by an approval that waits for an answer."""
        task_ids: list[Json] = [*{artifact.task_id for artifact in artifacts if artifact.task_id is not None}]
        rows = await self._log.rows("tasks", where={"task_id": task_ids}) if task_ids else []
        running = {str(row["task_id"]) for row in rows if row["status"] not in FINAL}
        shown = {
            str(loads_object(str(row["request"])).get("whole"))
            for row in await self._log.rows("approvals", where={"status": "pending"})
        }
        return {each.artifact_id for each in artifacts if each.task_id in running or each.artifact_id in shown}

    async def remove_left(self) -> None:
        """Remove erased files that still exist, as after a crash or a disk error."""
        after: Json = None
        while page := await self._log.rows("blobs", where={"needed": 0}, after=after, limit=_PAGE):
            for ref in await self._blobs.there([BlobRef(str(row["ref"])) for row in page]):
                await self._remove(ref)
            after = str(page[-1]["ref"])

    async def _record(
        self, artifacts: Sequence[Artifact], *, why: ErasedWhy, actor: Actor, by: str = "", bound: int = 0
    ) -> None:
        drafts = [
            Draft(
                body=ArtifactErased(artifact_id=artifact.artifact_id, why=why, by=by, bound=bound),
                actor=actor,
                source="artifacts",
                session_id=artifact.session_id,
                task_id=artifact.task_id,
            )
            for artifact in artifacts
        ]
        await self._log.append(ARTIFACTS_STREAM, drafts)

    async def _remove(self, ref: BlobRef) -> None:
        """Remove a file. A failure is only logged: the event stands, and removal is retried."""

        async def is_needed() -> bool:
            await self._log.expect_owned()  # another gateway may have stored it
            rows = await self._log.rows("blobs", where={"ref": ref}, limit=1)
            return not rows or int(str(rows[0]["needed"])) > 0

        try:
            await self._blobs.remove(ref, is_needed)
        except OzzieError as error:
            log.warning("the content of an erased artifact stays for now: %s", error)


EVERY = timedelta(hours=1)
LOOK_S = 60.0
"""How often it checks whether a sweep is due: timers stand still while a machine sleeps."""
SURE_S = 10.0
"""Settings apply only if unchanged for this long: erasing is final, and a file that an editor is saving may be missing
or cut in the middle of a number."""
_AT_ONCE = 20
"""Contents erased in one append, so that other writers don't wait long."""


class Sweep:
    """Erases contents at the start and every hour. `wanted` returns the settings; None if unknown: erase nothing."""

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
        """Stop at once, so that no turn proceeds meanwhile. A leftover file is removed at the next start."""
        if self._work is not None:
            self._work.cancel()

    async def ended(self) -> None:
        """Return once a stopped sweep no longer uses the log."""
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
                    log.exception("sweeping artifacts failed")
                swept_at = now
            await asyncio.sleep(LOOK_S)

    async def sweep(self) -> None:
        """Erase what is due, in small steps. Raises as `EventLog.append` and `EventLog.rows`."""
        await self._eraser.remove_left()
        wanted = await self._wanted()
        if wanted is None or not (wanted.keep_days or wanted.max_bytes):
            return
        await asyncio.sleep(SURE_S)
        if await self._wanted() != wanted:
            log.info("the settings for artifacts have just changed; nothing is erased before the next sweep")
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
        contents, after = StoredContents(), 0
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
