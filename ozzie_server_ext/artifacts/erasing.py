"""Erasing the contents of artifacts: first the fact, then the file, and the file only where nothing else needs it."""

import asyncio
from collections.abc import Sequence

from ozzie_server_ext.artifacts.store import ArtifactStore, expect_there
from ozzie_server_ext.domain.artifacts import Artifact, ErasedWhy, blob_of
from ozzie_server_ext.domain.errors import Conflict, InputError, OzzieError
from ozzie_server_ext.domain.events import Actor, ArtifactErased, Draft
from ozzie_server_ext.domain.ids import ARTIFACTS_STREAM, ArtifactId, BlobRef
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import FINAL
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog

log = logger(__name__)

_PAGE = 200
"""Blobs that are looked up at a time."""


class Eraser:
    """Takes contents away. A log has one of these."""

    def __init__(self, event_log: EventLog, blobs: BlobStore, artifacts: ArtifactStore) -> None:
        self._log = event_log
        self._blobs = blobs
        self._artifacts = artifacts
        self._erasing = asyncio.Lock()

    async def erase(self, artifact_id: ArtifactId, by: str) -> None:
        """What the person `by` wants gone. Raises NotFound; Gone where it is; Conflict where a task that has not ended
        made it; InputError where it is kept elsewhere; and as `EventLog.append`."""
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
        """What the settings want gone, in one append; those that are gone or in use meanwhile stay as they are. Raises
        as `EventLog.append`."""
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
        """Those of them that a task made which has not ended, or that an approval shows which waits for an answer."""
        task_ids: list[Json] = [*{artifact.task_id for artifact in artifacts if artifact.task_id is not None}]
        rows = await self._log.rows("tasks", where={"task_id": task_ids}) if task_ids else []
        running = {str(row["task_id"]) for row in rows if row["status"] not in FINAL}
        shown = {
            str(loads_object(str(row["request"])).get("whole"))
            for row in await self._log.rows("approvals", where={"status": "pending"})
        }
        return {each.artifact_id for each in artifacts if each.task_id in running or each.artifact_id in shown}

    async def remove_left(self) -> None:
        """Take away the files that a fact has let go of and that are there: a gateway may have died in between, or the
        disk may have failed."""
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
        """Nobody is told where this fails: the fact stands, and it is tried again."""

        async def is_needed() -> bool:
            await self._log.expect_owned()  # another gateway may have put it
            rows = await self._log.rows("blobs", where={"ref": ref}, limit=1)
            return not rows or int(str(rows[0]["needed"])) > 0

        try:
            await self._blobs.remove(ref, is_needed)
        except OzzieError as error:
            log.warning("the content of an erased artifact stays for now: %s", error)
