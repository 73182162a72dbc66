"""`labels`: what of a session or a file came from outside, and taking that off."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.gateway.methods import answerer_of
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import SessionId

FilePath = Annotated[
    str, Meta(min_length=1, max_length=4096, title="path below the project's folder", description="As GET /labels has.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """`labels` are the kinds of places that content came from (web, file, mcp, channel, remote, output), `sources` the
    places, such as "web:example.org"; both are empty where nothing came from outside."""

    labels: list[str]
    sources: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledFile:
    """A file of the project, by its path below it, that was made from content from outside."""

    path: str
    labels: list[str]
    sources: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledFiles:
    """All of them."""

    items: list[LabelledFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSession:
    session_id: SessionId


async def get_session_labels(call: Call, asked: LabelledSession) -> Labels:
    """What of a session came from outside. Effects and requests that may be made from that ask first."""
    return _shown(await call.ozzie.labels.of_session(ids.SessionId(asked.session_id)))


async def clear_session_labels(call: Call, asked: LabelledSession) -> Labels:
    """Take off what a session has read so far, which a person answers for; what that was."""
    session_id = ids.SessionId(asked.session_id)
    return _shown(await call.ozzie.labels.clear_session(session_id, answerer_of(call.principal)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsQuery:
    """Nothing."""


async def list_labelled_files(call: Call, asked: LabelsQuery) -> LabelledFiles:
    """The files of the project that were made from content from outside."""
    found = await call.ozzie.labels.files()
    items = [
        LabelledFile(path=file.path, labels=[*file.content.labels], sources=[*file.content.sources]) for file in found
    ]
    return LabelledFiles(items=items)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledFileNamed:
    path: FilePath


async def clear_file_labels(call: Call, asked: LabelledFileNamed) -> Labels:
    """Take off what a file was made from, which a person answers for; what that was."""
    return _shown(await call.ozzie.labels.clear_file(asked.path, answerer_of(call.principal)))


def _shown(content: Content) -> Labels:
    return Labels(labels=[*content.labels], sources=[*content.sources])
