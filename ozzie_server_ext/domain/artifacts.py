"""Artifacts: files and long texts of a task, kept beside the log by name and version."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.ids import ArtifactId, BlobRef, CallId, SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject

ArtifactKind: TypeAlias = Literal["file", "markdown", "json", "log", "image", "link"]
"""The six kinds of SPEC.md. A `log` is a program's output as it came."""

ErasedWhy: TypeAlias = Literal["age", "size", "person"]
"""Why content was erased: too old, too much in total, or by a person."""

REPLACED_BY = "replaced_by"
"""The key in `meta` for the tool that replaced this content. Changes of files are undone by it."""

MAX_NAME = 200
"""In characters, of an artifact's name."""

_SCHEME = "artifact://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """The erasure of content: `by` a person, or because of a setting, whose limit in days or bytes is `bound`."""

    at: datetime
    why: ErasedWhy
    by: str = ""
    bound: int = 0

    @property
    def told(self) -> str:
        """A sentence about it, with the day in UTC."""
        on = f"It was erased on {self.at:%Y-%m-%d}"
        match self.why:
            case "age":
                return f"{on}, because it was older than {self.bound} {'day' if self.bound == 1 else 'days'}."
            case "size":
                return f"{on}, because the artifacts had more than {self.bound:,} bytes together."
            case "person":
                return f"{on} by {self.by}." if self.by else f"{on} by a person."


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One version of a named artifact of a session. `size` is in bytes, `hash` the SHA-256 of the content in
    hexadecimal, `call_id` the tool call that made it, if one did, `superseded_by` the next version, which exists since
    `superseded_at`. An `erased` one has lost only its content."""

    artifact_id: ArtifactId
    session_id: SessionId | None
    task_id: TaskId | None
    ts: datetime
    kind: ArtifactKind
    name: str
    version: int
    storage_ref: str
    mime: str
    size: int
    hash: str
    call_id: CallId | None
    meta: JsonObject
    labels: tuple[str, ...]
    sources: tuple[str, ...]
    superseded_by: ArtifactId | None
    superseded_at: datetime | None
    erased: Erasure | None
    position: int

    @property
    def content(self) -> Content:
        """Its provenance."""
        return Content(labels=self.labels, sources=self.sources)

    @property
    def is_text(self) -> bool:
        """Whether the content is UTF-8 text."""
        return is_text(self.mime)

    @property
    def is_own(self) -> bool:
        """Whether Ozzie stores the content itself."""
        return is_own(self.storage_ref)


def is_text(mime: str) -> bool:
    """Whether a content of this type is UTF-8 text."""
    return mime.startswith("text/") or mime == "application/json"


def storage_ref(blob: BlobRef) -> str:
    """Return the storage reference of a blob."""
    return _SCHEME + blob.removeprefix("sha256:")


def is_own(ref: str) -> bool:
    """Whether a storage reference names one of Ozzie's blobs."""
    return ref.startswith(_SCHEME)


def blob_of(ref: str) -> BlobRef:
    """Return the blob of a storage reference. Raises InputError if it is not one of Ozzie's."""
    if not is_own(ref):
        raise InputError(f"{ref[:80]} is not kept by Ozzie itself, so it can't be opened here.")
    return BlobRef("sha256:" + ref.removeprefix(_SCHEME))
