"""Looking up which files of a project were made from content from outside (TL-8)."""

from pathlib import Path
from typing import cast

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import loads
from ozzie_server_ext.store.log import EventLog


class FileMarks:
    """The marks of one project's files. Paths are relative to its folder."""

    def __init__(self, log: EventLog, project: Path) -> None:
        self._log = log
        self._project = project

    async def all(self) -> list[tuple[str, Content]]:
        """Each marked file with what it is made from, by their paths."""
        root = f"{self._project.resolve()}/".replace("//", "/")
        found = [(str(row["path"]), _content(row["labels"], row["sources"])) for row in await self._log.rows("marks")]
        return [(path.removeprefix(root), content) for path, content in found if content and path.startswith(root)]

    async def below(self, path: str = "") -> Content:
        """What a file is made from, or all files of a folder; of the whole project for none."""
        marked = await self.all()
        return Content.of_all(content for each, content in marked if not path or _is_below(each, path))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _content(labels: Json, sources: Json) -> Content:
    return Content(labels=_strings(labels), sources=_strings(sources))


def _strings(text: Json) -> tuple[str, ...]:
    return tuple(map(str, cast("list[Json]", loads(str(text)))))
