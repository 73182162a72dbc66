"""Storing, listing and opening artifacts."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

import msgspec

from ozzie_server_ext.domain.artifacts import (
    MAX_NAME,
    Artifact,
    ArtifactKind,
    ErasedWhy,
    Erasure,
    blob_of,
    storage_ref,
)
from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import Gone, InputError, NotFound
from ozzie_server_ext.domain.events import ArtifactCreated, ArtifactSuperseded, Event, EventBody
from ozzie_server_ext.domain.ids import ArtifactId, BlobRef, CallId, SessionId, TaskId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.jsontext import loads, loads_object
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.lineage import lineage_of
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.blobs import HANDLES, named_by
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Durable content that no event names yet."""

    artifact_id: ArtifactId
    kind: ArtifactKind
    name: str
    mime: str
    size: int
    blob: BlobRef
    call_id: CallId | None = None
    meta: JsonObject = msgspec.field(default_factory=dict["str", "Json"])


class ArtifactStore:
    """The artifacts of all sessions. Each log has one, made before anything is put into `blobs`: it numbers the
    versions and tells `blobs` which files the log names."""

    def __init__(self, log: EventLog, blobs: BlobStore, ids: IdSource) -> None:
        self._log = log
        self._blobs = blobs
        self._ids = ids
        self._numbering = asyncio.Lock()
        log.on_commit(self._follow, types={fact.type for fact in HANDLES})

    async def keep(
        self,
        content: bytes,
        *,
        kind: ArtifactKind,
        name: str,
        mime: str,
        call_id: CallId | None = None,
        meta: JsonObject | None = None,
    ) -> Kept:
        """Make the content durable, so that an event may name it. Raises InputError for an invalid name, Unavailable if
        nothing can be written."""
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise InputError(f"An artifact's name is one line of at most {MAX_NAME} characters.")
        return Kept(
            artifact_id=ArtifactId(self._ids.new()),
            kind=kind,
            name=name,
            mime=mime,
            size=len(content),
            blob=await self._blobs.put(content),
            call_id=call_id,
            meta=meta or {},
        )

    async def record(self, recorder: Recorder, kept: Kept, *facts: EventBody) -> None:
        """Record the artifact, as the next version of its name, and then the events. Raises as `EventLog.append`."""
        await self.record_all(recorder, [kept], *facts)

    async def record_all(self, recorder: Recorder, together: Sequence[Kept], *facts: EventBody) -> tuple[Event, ...]:
        """As `record`, for several artifacts with different names, or none: then there is no lock. Return the events of
        all."""
        if not together:
            return await recorder.append(*facts)
        async with self._numbering:  # no other version may be recorded between reading the newest and appending
            made = [fact for kept in together for fact in await self._numbered(recorder.session_id, kept)]
            return await recorder.append(*made, *facts)

    async def _numbered(self, session_id: SessionId, kept: Kept) -> tuple[EventBody, ...]:
        """Return the events that create it and supersede its predecessor."""
        newest = await self._log.rows("artifact_names", where={"session_id": session_id, "name": kept.name}, limit=1)
        created = ArtifactCreated(
            artifact_id=kept.artifact_id,
            kind=kept.kind,
            name=kept.name,
            version=int(str(newest[0]["version"])) + 1 if newest else 1,
            storage_ref=storage_ref(kept.blob),
            mime=kept.mime,
            size=kept.size,
            hash=kept.blob.removeprefix("sha256:"),
            call_id=kept.call_id,
            meta=kept.meta,
        )
        before = [ArtifactId(str(row["artifact_id"])) for row in newest]
        return (created, *(ArtifactSuperseded(artifact_id=id_, by=kept.artifact_id) for id_ in before))

    async def list(
        self,
        *,
        limit: int = 50,
        after: ArtifactId | None = None,
        session_id: SessionId | None = None,
        task_id: TaskId | None = None,
        kinds: tuple[ArtifactKind, ...] = (),
    ) -> list[Artifact]:
        """Return artifacts, newest first. `after` is the last one of the previous page; empty `kinds` means all."""
        requested: Mapping[str, Json] = {"session_id": session_id, "task_id": task_id, "kind": list(kinds)}
        where = {name: value for name, value in requested.items() if value}
        rows = await self._log.rows("artifacts", where=where, descending=True, after=after, limit=limit)
        return [_artifact(row) for row in rows]

    async def get(self, artifact_id: ArtifactId) -> Artifact:
        """Raises NotFound."""
        rows = await self._log.rows("artifacts", where={"artifact_id": artifact_id}, limit=1)
        if not rows:
            raise _missing(artifact_id)
        return _artifact(rows[0])

    async def content(self, artifact: Artifact) -> bytes:
        """Return the content. Raises Gone if it was erased, NotFound if lost, DamagedStore if altered, InputError if
        stored elsewhere."""
        expect_there(artifact)
        try:
            return await self._blobs.get(blob_of(artifact.storage_ref))
        except NotFound:
            expect_there(await self.get(artifact.artifact_id))  # it may have been erased since it was looked up
            raise

    async def oldest(self, *, after: int, limit: int) -> Sequence[Artifact]:
        """Return artifacts with a content, oldest first, from the position `after` on."""
        rows = await self._log.rows("artifacts", where={"erased_at": ""}, order_by="position", after=after, limit=limit)
        return [_artifact(row) for row in rows]

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            for ref in named_by(event.body):
                self._blobs.named(ref)

    def of(self, session_id: SessionId) -> "SessionArtifacts":
        """Return the artifacts that a session may read."""
        return SessionArtifacts(self, self._log, session_id)


class SessionArtifacts:
    """The artifacts of one session and, as they were then, of the sessions it was forked from."""

    def __init__(self, store: ArtifactStore, log: EventLog, session_id: SessionId) -> None:
        self._store = store
        self._log = log
        self._session_id = session_id

    async def open(self, artifact_id: ArtifactId) -> tuple[Artifact, bytes]:
        """Return an artifact and its content. Raises NotFound for another session's, and as `ArtifactStore.content`."""
        artifact = await self._store.get(artifact_id)
        if not await self._may_read(artifact):
            raise _missing(artifact_id)
        return artifact, await self._store.content(artifact)

    async def under(self, beginning: str, kind: ArtifactKind) -> Sequence[Artifact]:
        """Return the newest version of each name with this beginning, erased ones too; a fork's before its parent's."""
        found: dict[str, Artifact] = {}
        for part in reversed(await lineage_of(self._log, self._session_id)):
            rows = await self._log.rows("artifacts", where={"session_id": part.session_id, "kind": kind})
            here = [artifact for artifact in map(_artifact, rows) if part.has(artifact.position, artifact.task_id)]
            here.sort(key=lambda artifact: artifact.position)
            newest = {artifact.name: artifact for artifact in here if artifact.name.startswith(beginning)}
            found = {**newest, **found}
        return sorted(found.values(), key=lambda artifact: artifact.name)

    async def _may_read(self, artifact: Artifact) -> bool:
        lineage = await lineage_of(self._log, self._session_id)
        return any(
            part.session_id == artifact.session_id and part.has(artifact.position, artifact.task_id) for part in lineage
        )


def _artifact(row: Row) -> Artifact:
    text = {name: str(value) for name, value in row.items()}
    return Artifact(
        artifact_id=ArtifactId(text["artifact_id"]),
        session_id=None if row["session_id"] is None else SessionId(text["session_id"]),
        task_id=None if row["task_id"] is None else TaskId(text["task_id"]),
        ts=datetime.fromisoformat(text["ts"]),
        kind=cast(ArtifactKind, text["kind"]),
        name=text["name"],
        version=int(text["version"]),
        storage_ref=text["storage_ref"],
        mime=text["mime"],
        size=int(text["size"]),
        hash=text["hash"],
        call_id=None if row["call_id"] is None else CallId(text["call_id"]),
        meta=loads_object(text["meta"]),
        labels=_strings(text["labels"]),
        sources=_strings(text["sources"]),
        superseded_by=ArtifactId(text["superseded_by"]) if text["superseded_by"] else None,
        superseded_at=datetime.fromisoformat(text["superseded_at"]) if text["superseded_at"] else None,
        erased=_erasure(text) if text["erased_at"] else None,
        position=int(text["position"]),
    )


def _erasure(row: Mapping[str, str]) -> Erasure:
    return Erasure(
        at=datetime.fromisoformat(row["erased_at"]),
        why=cast(ErasedWhy, row["erased_why"]),
        by=row["erased_by"],
        bound=int(row["erased_bound"]),
    )


def expect_there(artifact: Artifact) -> None:
    """Raises Gone if the content was erased."""
    if artifact.erased is not None:
        raise Gone(f'"{artifact.name}" has no content any more. {artifact.erased.told}')


def _strings(text: str) -> tuple[str, ...]:
    return tuple(str(item) for item in cast("list[Json]", loads(text)))


def _missing(artifact_id: ArtifactId) -> NotFound:
    return NotFound(f"There is no artifact {artifact_id[:64]} here.", hint="A list of the artifacts has their ids.")
