"""Artifacts: what a task made or was told at length, kept beside the log by name and version."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.ids import ArtifactId, BlobRef, CallId, SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject

ArtifactKind: TypeAlias = Literal["file", "markdown", "json", "log", "image", "link"]
"""S4's six. A `log` is text as a program gave it."""

ErasedWhy: TypeAlias = Literal["age", "size", "person"]
"""Why a content is gone: it was too old, there was too much of all, or a person erased it."""

REPLACED_BY = "replaced_by"
"""The key in `meta` of what a call replaced: the tool that did. It is by this that a change of a file is undone."""

MAX_NAME = 200
"""In characters, of an artifact's name."""

_SCHEME = "artifact://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """How a content went. `by` is a person where one erased it; `bound` the days or bytes that the settings allowed
    where they did."""

    at: datetime
    why: ErasedWhy
    by: str = ""
    bound: int = 0

    @property
    def told(self) -> str:
        """In a sentence, with the day in UTC."""
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
    """One version of what a session has under a name. `size` is in bytes, `hash` the SHA-256 of the content in
    hexadecimal. `call_id` is the call of a tool that it came from, if one did; `superseded_by` the next version, there
    since `superseded_at`. Of one that was `erased`, all but the content is left."""

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
        """Where from outside it came."""
        return Content(labels=self.labels, sources=self.sources)

    @property
    def is_text(self) -> bool:
        """Whether the content is UTF-8 that can be read line by line."""
        return self.mime.startswith("text/") or self.mime == "application/json"

    @property
    def is_own(self) -> bool:
        """Whether Ozzie keeps the content itself."""
        return is_own(self.storage_ref)


def storage_ref(blob: BlobRef) -> str:
    """Where the content of an artifact lies that is kept as this blob."""
    return _SCHEME + blob.removeprefix("sha256:")


def is_own(ref: str) -> bool:
    """Whether a storage reference leads to a blob of Ozzie's own."""
    return ref.startswith(_SCHEME)


def blob_of(ref: str) -> BlobRef:
    """The blob behind a storage reference. Raises InputError for one that leads elsewhere."""
    if not is_own(ref):
        raise InputError(f"{ref[:80]} is not kept by Ozzie itself, so it can't be opened here.")
    return BlobRef("sha256:" + ref.removeprefix(_SCHEME))
