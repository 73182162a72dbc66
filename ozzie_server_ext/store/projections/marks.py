"""Which files were made from content from outside: one row each, by its whole path (TL-8)."""

from typing import cast

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import Event, LabelsCleared, ToolCallCompleted, ToolCallStarted
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import loads
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

HANDLES = (ToolCallStarted, ToolCallCompleted, LabelsCleared)


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. What a call is about to write bears what the call is made from, beside what it bore: it may be
    cut off in the middle, and who reads the file meanwhile is to know. What it brought itself comes with its end."""
    match event.body:
        case ToolCallStarted(writes=paths) | ToolCallCompleted(wrote=paths) if event.labels:
            content = event.content
            for path in paths:
                found = rows.get(MARKS, (path,))
                both = content if found is None else content | content_of(found)
                rows.put(MARKS, _mark(path, event, both.labels, both.sources))
        case LabelsCleared(path=path) if path:
            rows.put(MARKS, _mark(path, event, (), ()))
        case _:
            pass


def content_of(row: Row) -> Content:
    """What the file of that row was made from."""
    return Content(labels=_strings(row["labels"]), sources=_strings(row["sources"]))


def _strings(text: Json) -> tuple[str, ...]:
    return tuple(map(str, cast("list[Json]", loads(str(text)))))


def _mark(path: str, event: Event, labels: tuple[str, ...], sources: tuple[str, ...]) -> Row:
    return {
        "path": path,
        "labels": strings_text(labels),
        "sources": strings_text(sources),
        "position": event.position,
    }
