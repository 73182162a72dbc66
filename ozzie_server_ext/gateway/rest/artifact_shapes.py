"""The shapes that the REST interface answers of artifacts, and their content as it is sent."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias
from urllib.parse import quote

from msgspec import Meta

from ozzie_server_ext.domain.artifacts import ArtifactKind, ErasedWhy
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.rest.shapes import Time

ArtifactId: TypeAlias = Annotated[
    str, Meta(pattern="^[0-7][0-9A-HJKMNP-TV-Z]{25}$", title="the id of an artifact, a ULID")
]

_AS_IT_IS = frozenset({"application/json", "image/gif", "image/jpeg", "image/png", "image/webp"})
"""Media types in which nothing can run. Text of any kind is sent as plain text, all else as bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """How a content went: it was older than `bound` days (`age`), all contents together had more than `bound` bytes
    (`size`), or a person, `by`, erased it. `told` says that in a sentence."""

    at: Time
    why: ErasedWhy
    by: str
    bound: int
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One version of what a session has under a name (S4 §8.1.2). `size` is in bytes, `hash` the content's SHA-256 in
    hexadecimal; `call_id` is the call of a tool that it came from and `superseded_by` the next version, each null where
    there is none. `labels` and `sources` say what of it came from outside, and from where. `erased` is null where the
    content is there."""

    artifact_id: str
    session_id: str | None
    task_id: str | None
    ts: Time
    kind: ArtifactKind
    name: str
    version: int
    storage_ref: str
    mime: str
    size: int
    hash: str
    call_id: str | None
    meta: JsonObject
    labels: list[str]
    sources: list[str]
    superseded_by: str | None
    erased: Erasure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """Bytes instead of JSON. A browser saves them, whatever they say that they are."""

    content: bytes
    mime: str
    name: str

    @property
    def media_type(self) -> str:
        if self.mime.startswith("text/"):
            return "text/plain; charset=utf-8"
        return self.mime if self.mime in _AS_IT_IS else "application/octet-stream"

    @property
    def disposition(self) -> str:
        """RFC 6266, with the last part of the name: it names a file, and no folder."""
        return f"attachment; filename*=UTF-8''{quote(self.name.rsplit('/', 1)[-1], safe='', errors='replace')}"
