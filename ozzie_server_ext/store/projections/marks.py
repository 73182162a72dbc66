"""Which files were made from outside content: one row each, by full path."""

from pathlib import Path
from typing import cast

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import (
    Event,
    Fact,
    LabelsCleared,
    MessageErased,
    SessionErased,
    ToolCallCompleted,
    ToolCallStarted,
)
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import loads
from ozzie_server_ext.store.codec import strings_text
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row, Rows, Table, integer, text

MARKS = Table("marks", (*text("path", "labels", "sources"), *integer("position")), key=("path",))
"""`labels` and `sources` are JSON lists, empty once a person has cleared them. Until then a mark stays, even if the
file is edited by hand."""

TABLES = (MARKS,)

HANDLES = (ToolCallStarted, ToolCallCompleted, LabelsCleared, SessionErased, MessageErased)


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. A file is marked when a call that writes it starts, as the call may be cut off midway and others
    may read the file meanwhile; what the call itself brings in is added at its end."""
    match event.body:
        case ToolCallStarted(writes=paths) | ToolCallCompleted(wrote=paths) if event.labels:
            for path in paths:
                _add(path, event.content, event, rows)
        case SessionErased(remains=remains) | MessageErased(remains=remains):
            for mark in remains.marks:
                _add(mark.path, Content(labels=mark.labels, sources=mark.sources), event, rows)
        case LabelsCleared(path=path) if path:
            rows.put(MARKS, _mark(path, event, (), ()))
        case _:
            pass


def _add(path: str, content: Content, event: Event, rows: Rows) -> None:
    found = rows.get(MARKS, (path,))
    both = content if found is None else content | content_of(found)
    rows.put(MARKS, _mark(path, event, both.labels, both.sources))


def content_of(row: Row) -> Content:
    """Return what the row's file was made from."""
    return Content(labels=_strings(row["labels"]), sources=_strings(row["sources"]))


def _strings(text: Json) -> tuple[str, ...]:
    return tuple(map(str, cast("list[Json]", loads(str(text)))))


def _mark(path: str, event: Event, labels: tuple[str, ...], sources: tuple[str, ...]) -> Row:
    labels_text, sources_text = strings_text(labels), strings_text(sources)
    return MARKS.row(path=path, labels=labels_text, sources=sources_text, position=event.position)


class FileMarks:
    """The marks of one project's files, cached until the log changes one. `project` is an absolute path without links;
    paths are relative to it."""

    def __init__(self, log: EventLog, project: Path) -> None:
        self._log = log
        self._root = f"{project}/".replace("//", "/")
        self._known: dict[str, Content] | None = None
        self._changes = 0
        log.on_commit(self._follow, types={fact.type for fact in HANDLES})

    async def all(self) -> dict[str, Content]:
        """Return what each marked file is made from, by path."""
        while self._known is None:
            seen = self._changes
            rows = await self._log.rows("marks")
            found = {str(row["path"]): content_of(row) for row in rows if str(row["path"]).startswith(self._root)}
            if seen == self._changes:  # else something was marked meanwhile
                self._known = {path.removeprefix(self._root): content for path, content in found.items() if content}
        return self._known

    async def below(self, path: str = "") -> Content:
        """Return what a file, or all files of a folder, are made from; without a path, all files of the project."""
        marked = await self.all()
        if path in marked:
            return marked[path]
        return Content.of_all(content for each, content in marked.items() if not path or each.startswith(f"{path}/"))

    def _follow(self, events: tuple[Event, ...]) -> None:
        if any(_marks(event.body) for event in events):
            self._changes += 1
            self._known = None


def _marks(body: Fact) -> bool:
    match body:
        case ToolCallStarted(writes=paths) | ToolCallCompleted(wrote=paths):
            return bool(paths)
        case LabelsCleared(path=path):
            return bool(path)
        case SessionErased() | MessageErased():
            return True
        case _:
            return False
