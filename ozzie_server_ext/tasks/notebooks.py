"""Which session a notebook has: by the note in its metadata where it has one, else by its path (NB-15)."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.sessions import SessionInfo, Sessions

_KEY = "notebook:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """`copy_of` is the title of the session that the notebook's was forked from just now; empty where it was not."""

    info: SessionInfo
    copy_of: str = ""


class Notebooks:
    """The sessions of notebooks. A `path` is that of the file system, as Jupyter gives it to a kernel."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        # What is found out about a notebook has to hold until what follows from it is recorded.
        self._opening = asyncio.Lock()

    async def open(self, path: str, *, noted: SessionId | None = None, by: str = "") -> Opened:
        """The session of the notebook at `path`, in whose metadata the session `noted` stands.

        A notebook that was moved goes on in its session, a copy in a fork of it, and one from elsewhere, whose note
        means nothing here, begins a new one.
        """
        async with self._opening:
            held = await self._sessions.holder(_key(path))
            row = await self._known(noted) if noted and noted != held else None
            if row is None or (held is not None and await self._left_behind(row, held)):
                return Opened(info=await self._at(path, by))
            session_id = SessionId(str(row["session_id"]))
            if await asyncio.to_thread(_is_elsewhere, row, path):
                fork = await self._sessions.fork(
                    session_id, _key(path), title=os.path.basename(path), channel="notebook", by=by
                )
                return Opened(info=fork, copy_of=str(row["title"]))
            # Not resumed: to open a notebook is no wish to go on in a session that was closed or put away.
            return Opened(info=await self._sessions.place(session_id, _key(path), by=by))

    async def begin(self, path: str, *, by: str = "") -> SessionInfo:
        """A new session for the notebook at `path`."""
        return await self._sessions.begin(_key(path), channel="notebook", by=by)

    async def resume(self, session_id: SessionId, path: str, *, by: str = "") -> SessionInfo:
        """Go on in this session in the notebook at `path`. Raises NotFound."""
        return await self._sessions.resume(session_id, _key(path), by=by)

    async def moved(self, before: str, after: str, *, by: str = "") -> None:
        """The notebook at `before`, or all those of that folder, lie at `after` now."""
        for path in await self._below(before):
            there = after + path.removeprefix(before)
            session_id = await self._sessions.move(_key(path), _key(there), by=by)
            if session_id is not None and (await self._sessions.get(session_id)).title == os.path.basename(path):
                await self._sessions.rename(session_id, os.path.basename(there), by=by)

    async def deleted(self, path: str, *, by: str = "") -> None:
        """The notebook at `path`, or that folder, is gone: another one of that name begins anew."""
        for gone in await self._below(path):
            await self._sessions.move(_key(gone), "", by=by)

    async def _at(self, path: str, by: str) -> SessionInfo:
        return await self._sessions.open(_key(path), title=os.path.basename(path), channel="notebook", by=by)

    async def _known(self, noted: SessionId) -> Row | None:
        try:
            return await self._sessions.row(noted)
        except NotFound:
            return None

    async def _left_behind(self, noted: Row, held: SessionId) -> bool:
        """Whether the notebook has gone on from the session that it notes to the one that its path opens: by `%session`
        or as a copy, and was not saved since."""
        return not noted["key"] or (await self._sessions.row(held))["parent"] == noted["session_id"]

    async def _below(self, path: str) -> list[str]:
        keys = await self._sessions.keys(_key(path))
        return [key.removeprefix(_KEY) for key in keys if key == _key(path) or key.startswith(f"{_key(path)}/")]


def _key(path: str) -> str:
    return f"{_KEY}{path}"


def _is_elsewhere(noted: Row, path: str) -> bool:
    """Whether the session is still where it was, so that the notebook at `path` is a copy: in a notebook of its own
    that still lies there, and is not this one by another name, or in a terminal or a program, which no note takes it
    from."""
    own = str(noted["key"])
    if not own.startswith(_KEY):
        return own != ""
    there = Path(own.removeprefix(_KEY))
    return own != _key(path) and there.is_file() and not _is_same_file(there, path)


def _is_same_file(there: Path, path: str) -> bool:
    try:
        return there.samefile(path)
    except OSError:
        return False
