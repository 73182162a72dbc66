"""Looking up which files of a project were made from content from outside (TL-8)."""

from pathlib import Path

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import Event, Fact, LabelsCleared, ToolCallCompleted, ToolCallStarted
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.marks import content_of


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
