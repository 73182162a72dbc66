"""How many facts need each blob, not counting those whose content was erased."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from ozzie_server_ext.domain.artifacts import blob_of, is_own
from ozzie_server_ext.domain.events import (
    ArtifactCreated,
    ArtifactErased,
    ConfigChanged,
    Event,
    Fact,
    MessageReceived,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    SkillCompleted,
    SkillStarted,
    StepCompleted,
    ToolCallCompleted,
)
from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.store.projections.artifacts import ARTIFACTS
from ozzie_server_ext.store.tables import Rows, Table, integer, text

BLOBS = Table("blobs", (*text("ref"), *integer("needed")), key=("ref",))
"""`needed` counts the facts that name the blob; at 0 its file may be removed, or is."""

TABLES = (BLOBS,)

_FIELDS: dict[type[Fact], Callable[[Any], BlobRef | None]] = {
    ModelCallStarted: attrgetter("request_blob"),
    ModelCallCompleted: attrgetter("response_blob"),
    ModelCallFailed: attrgetter("partial_blob"),
    ConfigChanged: attrgetter("blob"),
    SkillStarted: attrgetter("file"),
    SkillCompleted: attrgetter("blob"),
    StepCompleted: attrgetter("blob"),
    ToolCallCompleted: attrgetter("blob"),
}
"""The field that names a blob, by the class of the fact: a dictionary, as it is looked up for every event."""

HANDLES = (
    ArtifactCreated,
    ArtifactErased,
    MessageReceived,
    *_FIELDS,
)


def named_by(body: Fact) -> tuple[BlobRef, ...]:
    """Return the blobs that a fact names, repeated as often as named. Each was put for it."""
    if field := _FIELDS.get(type(body)):
        ref = field(body)
        return () if ref is None else (ref,)
    match body:
        case ArtifactCreated(storage_ref=ref):
            return (blob_of(ref),) if is_own(ref) else ()
        case MessageReceived(pictures=pictures):
            return tuple(picture.ref for picture in pictures)
        case _:
            return ()


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. Runs before the artifacts' fold, to count an erasure only once."""
    if isinstance(event.body, ArtifactErased):
        row = rows.get(ARTIFACTS, (event.body.artifact_id,))
        if row is not None and not row["erased_at"] and is_own(str(row["storage_ref"])):
            _count(rows, blob_of(str(row["storage_ref"])), -1)
        return
    for ref in named_by(event.body):
        _count(rows, ref, 1)


def _count(rows: Rows, ref: BlobRef, by: int) -> None:
    row = rows.get(BLOBS, (ref,))
    before = int(str(row["needed"])) if row is not None else 0
    rows.put(BLOBS, {"ref": ref, "needed": max(before + by, 0)})
