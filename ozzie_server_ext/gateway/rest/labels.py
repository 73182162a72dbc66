"""`labels`: what in a session or a file came from outside, and how to clear that."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.gateway.access import answerer_of
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.shapes import ProjectFolder, SessionId

FilePath = Annotated[
    str, Meta(min_length=1, max_length=4096, title="path below the project's folder", description="As GET /labels has.")
]


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """`labels` are the kinds of sources (web, file, mcp, channel, remote, output), `sources` the sources themselves,
    such as "web:example.org"; both are empty without outside content."""

    labels: list[str]
    sources: list[str]


class LabelledFile(msgspec.Struct, frozen=True, kw_only=True):
    """A project file that was made from outside content, by its path in the project."""

    path: str
    labels: list[str]
    sources: list[str]


class LabelledFiles(msgspec.Struct, frozen=True, kw_only=True):
    """All labelled files."""

    items: list[LabelledFile]


class LabelledSession(msgspec.Struct, frozen=True, kw_only=True):
    session_id: SessionId


async def get_session_labels(call: Call, request: LabelledSession) -> Labels:
    """List what a session has read from outside. Effects and requests that may be made from it ask first."""
    return _shown(await (await call.project(request.session_id)).labels.of_session(ids.SessionId(request.session_id)))


async def clear_session_labels(call: Call, request: LabelledSession) -> Labels:
    """Clear a session's labels, on the caller's responsibility; return what they were."""
    session_id = ids.SessionId(request.session_id)
    return _shown(await (await call.project(session_id)).labels.clear_session(session_id, answerer_of(call.principal)))


class LabelsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`project`: the folder whose files are listed."""

    project: ProjectFolder | None = None


async def list_labelled_files(call: Call, request: LabelsQuery) -> LabelledFiles:
    """List the project's files that were made from outside content."""
    found = await (await call.project(folder=request.project)).labels.files()
    items = [
        LabelledFile(path=file.path, labels=[*file.content.labels], sources=[*file.content.sources]) for file in found
    ]
    return LabelledFiles(items=items)


class LabelledFileNamed(msgspec.Struct, frozen=True, kw_only=True):
    """`project`: the folder that the path is relative to."""

    path: FilePath
    project: ProjectFolder | None = None


async def clear_file_labels(call: Call, request: LabelledFileNamed) -> Labels:
    """Clear a file's labels, on the caller's responsibility; return what they were."""
    labels = (await call.project(folder=request.project)).labels
    return _shown(await labels.clear_file(request.path, answerer_of(call.principal)))


def _shown(content: Content) -> Labels:
    return Labels(labels=[*content.labels], sources=[*content.sources])
