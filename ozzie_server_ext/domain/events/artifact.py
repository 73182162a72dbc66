"""Facts about artifacts. The content lies in a blob, never in the event."""

from dataclasses import dataclass, field
from typing import ClassVar

from ozzie_server_ext.domain.artifacts import ArtifactKind, ErasedWhy
from ozzie_server_ext.domain.events.fact import Fact
from ozzie_server_ext.domain.ids import ArtifactId, CallId
from ozzie_server_ext.domain.json import Json, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactCreated(Fact):
    """A session has something under a name, or a new version of it. `size` is in bytes, `hash` SHA-256 in hexadecimal;
    `storage_ref` leads to the content, and `call_id` is the call of a tool that it came from."""

    type: ClassVar[str] = "artifact.created"
    artifact_id: ArtifactId
    kind: ArtifactKind
    name: str
    version: int
    storage_ref: str
    mime: str
    size: int
    hash: str
    call_id: CallId | None = None
    meta: JsonObject = field(default_factory=dict["str", "Json"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactSuperseded(Fact):
    """There is a newer version: the artifact `by`. This one is kept."""

    type: ClassVar[str] = "artifact.superseded"
    artifact_id: ArtifactId
    by: ArtifactId


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactErased(Fact):
    """The content is gone; what is known of the artifact stays. `why`: it was older than `bound` days, all contents
    together had more than `bound` bytes, or the person `by` erased it. `bound` is 0 and `by` empty where they tell
    nothing. The file goes behind this fact, and only where nothing else needs it."""

    type: ClassVar[str] = "artifact.erased"
    artifact_id: ArtifactId
    why: ErasedWhy
    by: str = ""
    bound: int = 0
