"""Which files were made from content from outside: one row each, by its whole path (TL-8)."""

from ozzie_server_ext.domain.events import Event, LabelsCleared, ToolCallCompleted
from ozzie_server_ext.store.codec import strings_text
from ozzie_server_ext.store.tables import Column, Row, Rows, Table

MARKS = Table(
    "marks",
    (Column("path"), Column("labels"), Column("sources"), Column("position", "INTEGER")),
    key=("path",),
)
"""`labels` and `sources` are JSON lists, empty once a person has cleared them. Until then a mark stays, whoever writes
to the file by hand."""

TABLES = (MARKS,)

HANDLES = (ToolCallCompleted, LabelsCleared)


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. What a call wrote bears what the call was made from; a tool that keeps a part of a file has told
    the labels of that part with it."""
    match event.body:
        case ToolCallCompleted(wrote=paths) if event.labels:
            for path in paths:
                rows.put(MARKS, _mark(path, event, event.labels, event.sources))
        case LabelsCleared(path=path) if path:
            rows.put(MARKS, _mark(path, event, (), ()))
        case _:
            pass


def _mark(path: str, event: Event, labels: tuple[str, ...], sources: tuple[str, ...]) -> Row:
    return {
        "path": path,
        "labels": strings_text(labels),
        "sources": strings_text(sources),
        "position": event.position,
    }
