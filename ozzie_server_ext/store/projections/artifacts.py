"""The artifacts: one row for each version, and the newest version of each name."""

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import ArtifactCreated, ArtifactErased, ArtifactSuperseded, Event
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.codec import strings_text, time_text
from ozzie_server_ext.store.tables import Row, Rows, Table, integer, text

ARTIFACTS = Table(
    "artifacts",
    (
        *text("artifact_id"),
        *text("session_id", "task_id", nullable=True),
        *text("ts", "kind", "name"),
        *integer("version"),
        *text("storage_ref", "mime"),
        *integer("size"),
        *text("hash"),
        *text("call_id", nullable=True),
        *text("meta", "labels", "sources", "superseded_by", "superseded_at", "erased_at", "erased_why", "erased_by"),
        *integer("erased_bound", "position"),
    ),
    key=("artifact_id",),
    indexes=(("session_id", "artifact_id"), ("task_id",), ("erased_at", "position")),
)
"""`meta` is a JSON object, `labels` and `sources` are JSON lists. `superseded_by` and `superseded_at` are empty for the
newest version, `erased_at` and the columns after it while the content exists."""

ARTIFACT_NAMES = Table(
    "artifact_names", (*text("session_id", "name", "artifact_id"), *integer("version")), key=("session_id", "name")
)
"""The newest version of each name in a session; `session_id` is empty for artifacts without one."""

TABLES = (ARTIFACTS, ARTIFACT_NAMES)

HANDLES = (ArtifactCreated, ArtifactSuperseded, ArtifactErased)


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. Raises Conflict for a version that is not newer than the latest: of two created at a time, one
    wins. It need not be the next number: the event in between may have been erased."""
    match event.body:
        case ArtifactCreated() as fact:
            session_id = event.session_id or ""
            newest = rows.get(ARTIFACT_NAMES, (session_id, fact.name))
            if newest is not None and int(str(newest["version"])) >= fact.version:
                raise Conflict(
                    f'"{fact.name}" has the version {newest["version"]} already.',
                    hint="Read its versions again, then decide.",
                    code="conflict.artifact",
                )
            rows.put(
                ARTIFACT_NAMES,
                ARTIFACT_NAMES.row(
                    session_id=session_id, name=fact.name, artifact_id=fact.artifact_id, version=fact.version
                ),
            )
            rows.put(ARTIFACTS, _begin(event, fact))
        case ArtifactSuperseded(artifact_id=artifact_id, by=by):
            if (row := rows.get(ARTIFACTS, (artifact_id,))) is not None:
                rows.put(ARTIFACTS, {**row, "superseded_by": by, "superseded_at": time_text(event.ts)})
        case ArtifactErased() as fact:
            row = rows.get(ARTIFACTS, (fact.artifact_id,))
            if row is not None and not row["erased_at"]:
                rows.put(ARTIFACTS, {**row, **_erased(event, fact)})
        case _:
            return


def _begin(event: Event, fact: ArtifactCreated) -> Row:
    return ARTIFACTS.row(
        artifact_id=fact.artifact_id,
        session_id=event.session_id,
        task_id=event.task_id,
        ts=time_text(event.ts),
        kind=fact.kind,
        name=fact.name,
        version=fact.version,
        storage_ref=fact.storage_ref,
        mime=fact.mime,
        size=fact.size,
        hash=fact.hash,
        call_id=fact.call_id,
        meta=canonical_bytes(fact.meta).decode(),
        labels=strings_text(event.labels),
        sources=strings_text(event.sources),
        position=event.position,
    )


def _erased(event: Event, fact: ArtifactErased) -> Row:
    at = time_text(event.ts)
    return {"erased_at": at, "erased_why": fact.why, "erased_by": fact.by, "erased_bound": fact.bound}
