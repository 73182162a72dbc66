"""Which files were made from content from outside: one row each, by its whole path."""

from pathlib import Path
from typing import cast

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import Event, Fact, LabelsCleared, ToolCallCompleted, ToolCallStarted
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import loads
from ozzie_server_ext.store.codec import strings_text
from ozzie_server_ext.store.log import EventLog
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


class FileMarks:
    """The marks of one project's files, kept in memory as long as the log changes none. Paths are relative to its
    folder."""

    def __init__(self, log: EventLog, project: Path) -> None:
        self._log = log
        self._root = f"{project.resolve()}/".replace("//", "/")
        self._known: dict[str, Content] | None = None
        self._changes = 0
        log.on_commit(self._follow)

    async def all(self) -> dict[str, Content]:
        """What each marked file is made from, by their paths."""
        while self._known is None:
            seen = self._changes
            rows = await self._log.rows("marks")
            found = {str(row["path"]): content_of(row) for row in rows if str(row["path"]).startswith(self._root)}
            if seen == self._changes:  # else something was marked while it was read
                self._known = {path.removeprefix(self._root): content for path, content in found.items() if content}
        return self._known

    async def below(self, path: str = "") -> Content:
        """What a file is made from, or all files of a folder; of the whole project for none."""
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
        case _:
            return False
