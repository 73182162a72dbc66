"""Artifacts: what a task made or was told at length, kept beside the log by name and version (S4 §8.1.2)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.ids import ArtifactId, BlobRef, CallId, SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject

ArtifactKind: TypeAlias = Literal["file", "markdown", "json", "log", "image", "link"]
"""S4's six. A `log` is text as a program gave it."""

MAX_NAME = 200
"""In characters, of an artifact's name."""

_SCHEME = "artifact://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One version of what a session has under a name. `size` is in bytes, `hash` the SHA-256 of the content in
    hexadecimal. `call_id` is the call of a tool that it came from, if one did; `superseded_by` the next version."""

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
    position: int

    @property
    def is_text(self) -> bool:
        """Whether the content is UTF-8 that can be read line by line."""
        return self.mime.startswith("text/") or self.mime == "application/json"


def storage_ref(blob: BlobRef) -> str:
    """Where the content of an artifact lies that is kept as this blob."""
    return _SCHEME + blob.removeprefix("sha256:")


def blob_of(ref: str) -> BlobRef:
    """The blob behind a storage reference. Raises InputError for one that leads elsewhere."""
    if not ref.startswith(_SCHEME):
        raise InputError(f"{ref[:80]} is not kept by Ozzie itself, so it can't be opened here.")
    return BlobRef("sha256:" + ref.removeprefix(_SCHEME))
