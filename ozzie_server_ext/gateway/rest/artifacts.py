"""`artifacts`: list, look at one, open one."""

from dataclasses import dataclass

from ozzie_server_ext.domain import artifacts, ids
from ozzie_server_ext.domain.artifacts import ArtifactKind
from ozzie_server_ext.gateway.rest import shapes
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import (
    Artifact,
    ArtifactId,
    Done,
    Download,
    Erasure,
    Limit,
    Page,
    SessionId,
    TaskCursor,
    TaskId,
)
from ozzie_server_ext.store.codec import time_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsQuery:
    """Of several kinds where `kind` stands several times."""

    session_id: SessionId | None = None
    task_id: TaskId | None = None
    kind: tuple[ArtifactKind, ...] = ()
    limit: Limit = 50
    cursor: TaskCursor | None = None


async def list_artifacts(call: Call, asked: ArtifactsQuery) -> Page[Artifact]:
    """The artifacts, every version, the newest first."""
    found = await call.ozzie.artifacts.list(
        limit=asked.limit + 1,
        after=None if asked.cursor is None else ids.ArtifactId(asked.cursor),
        session_id=None if asked.session_id is None else ids.SessionId(asked.session_id),
        task_id=None if asked.task_id is None else ids.TaskId(asked.task_id),
        kinds=asked.kind,
    )
    return shapes.page(found, asked.limit, _shown, lambda artifact: artifact.artifact_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactQuery:
    artifact_id: ArtifactId


async def get_artifact(call: Call, asked: ArtifactQuery) -> Artifact:
    """What is known of an artifact."""
    return _shown(await call.ozzie.artifacts.get(ids.ArtifactId(asked.artifact_id)))


async def get_artifact_content(call: Call, asked: ArtifactQuery) -> Download:
    """The content of an artifact, as a file to save.

    Text is sent as plain text, and what could run in a browser as mere bytes.
    """
    artifact = await call.ozzie.artifacts.get(ids.ArtifactId(asked.artifact_id))
    content = await call.ozzie.artifacts.content(artifact)
    return Download(content=content, mime=artifact.mime, name=artifact.name)


async def erase_artifact(call: Call, asked: ArtifactQuery) -> Done:
    """Erase the content of an artifact.

    What is known of it stays. That of one that a task made which has not ended can't be erased yet.
    """
    await call.ozzie.eraser.erase(ids.ArtifactId(asked.artifact_id), call.principal.name)
    return Done()


def _shown(artifact: artifacts.Artifact) -> Artifact:
    return Artifact(
        artifact_id=artifact.artifact_id,
        session_id=artifact.session_id,
        task_id=artifact.task_id,
        ts=time_text(artifact.ts),
        kind=artifact.kind,
        name=artifact.name,
        version=artifact.version,
        storage_ref=artifact.storage_ref,
        mime=artifact.mime,
        size=artifact.size,
        hash=artifact.hash,
        call_id=artifact.call_id,
        meta=artifact.meta,
        labels=list(artifact.labels),
        sources=list(artifact.sources),
        superseded_by=artifact.superseded_by,
        erased=_erasure(artifact.erased),
    )


def _erasure(erased: artifacts.Erasure | None) -> Erasure | None:
    if erased is None:
        return None
    return Erasure(at=time_text(erased.at), why=erased.why, by=erased.by, bound=erased.bound, told=erased.told)
