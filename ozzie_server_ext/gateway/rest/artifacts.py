"""`artifacts`: list, show, download, erase."""

import msgspec

from ozzie_server_ext.domain import artifacts, ids
from ozzie_server_ext.domain.artifacts import ArtifactKind
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest import shapes
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


class ArtifactsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` may be repeated."""

    session_id: SessionId | None = None
    task_id: TaskId | None = None
    kind: tuple[ArtifactKind, ...] = ()
    limit: Limit = 50
    cursor: TaskCursor | None = None


async def list_artifacts(call: Call, request: ArtifactsQuery) -> Page[Artifact]:
    """List all versions of all artifacts, newest first."""
    found = await call.ozzie.artifacts.list(
        limit=request.limit + 1,
        after=None if request.cursor is None else ids.ArtifactId(request.cursor),
        session_id=None if request.session_id is None else ids.SessionId(request.session_id),
        task_id=None if request.task_id is None else ids.TaskId(request.task_id),
        kinds=request.kind,
    )
    return shapes.page(found, request.limit, _shown, lambda artifact: artifact.artifact_id)


class ArtifactQuery(msgspec.Struct, frozen=True, kw_only=True):
    artifact_id: ArtifactId


async def get_artifact(call: Call, request: ArtifactQuery) -> Artifact:
    """Show an artifact's record."""
    return _shown(await call.ozzie.artifacts.get(ids.ArtifactId(request.artifact_id)))


async def get_artifact_content(call: Call, request: ArtifactQuery) -> Download:
    """Download an artifact's content as a file.

    Text is sent as plain text, and anything that could run in a browser as bytes.
    """
    artifact = await call.ozzie.artifacts.get(ids.ArtifactId(request.artifact_id))
    content = await call.ozzie.artifacts.content(artifact)
    return Download(content=content, mime=artifact.mime, name=artifact.name)


async def erase_artifact(call: Call, request: ArtifactQuery) -> Done:
    """Erase an artifact's content.

    Its record stays. The content can't be erased before the task that made it has ended.
    """
    await call.ozzie.eraser.erase(ids.ArtifactId(request.artifact_id), call.principal.name)
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
