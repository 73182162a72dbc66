"""Looking up which files of a project were made from content from outside (TL-8)."""

from pathlib import Path
from typing import cast

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import loads
from ozzie_server_ext.store.log import EventLog


class FileMarks:
    """The marks of one project."""

    def __init__(self, log: EventLog, project: Path) -> None:
        self._log = log
        self._project = project

    async def below(self, path: str = "") -> Content:
        """What a file is made from, or all files of a folder; of the whole project for none. `path` is relative to the
        project's folder."""
        root = f"{self._project.resolve()}/{path}".rstrip("/")
        found = CLEAN
        for row in await self._log.rows("marks"):
            if str(row["path"]) == root or str(row["path"]).startswith(f"{root}/"):
                found = found | Content(labels=_strings(row["labels"]), sources=_strings(row["sources"]))
        return found


def _strings(text: Json) -> tuple[str, ...]:
    return tuple(map(str, cast("list[Json]", loads(str(text)))))
