"""Sessions: one isolated conversation per notebook, thread or terminal, found by its key."""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ozzie_server_ext.domain.calls import CallRecord, fold_calls
from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound
from ozzie_server_ext.domain.events import (
    HUB,
    Draft,
    Event,
    EventBody,
    MessageReceived,
    SessionArchived,
    SessionClosed,
    SessionCreated,
    SessionForked,
    SessionModelChosen,
    SessionMoved,
    SessionRenamed,
    SessionResumed,
    ToolCallRequested,
    ToolCallStarted,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, is_session_id, session_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.sessions import TITLE_LENGTH, session_gone
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import open_tasks
from ozzie_server_ext.tools.registry import ToolRegistry

MOST_SEARCHED = 1000
"""The number of sessions that `find` searches."""
SHORTEST_END = 4
"""The minimum length of an id's end to search for."""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A session for clients. `model` is the one chosen in it; empty for the default. `project` is the folder that it
    works in; empty for the gateway's own."""

    session_id: SessionId
    title: str
    channel: str
    status: str
    model: str
    base_url: str
    message_count: int
    project: str


def unknown_session(session_id: str) -> NotFound:
    """Return the error for an unknown session id."""
    return NotFound(f"There is no session {session_id[:40]}.", hint="List them with ozzie sessions list.")


class Sessions:
    """Opens, names and lists sessions. All state is in the log. `by` is the authenticated name of the caller."""

    def __init__(self, log: EventLog, ids: IdSource, project: Path | None = None) -> None:
        """`project` is the folder of new sessions for which none is given."""
        self._log = log
        self._ids = ids
        self._project = project
        # Two clients that open the same key at once must get the same session.
        self._opening = asyncio.Lock()

    async def open(
        self, key: str, *, title: str, channel: str, by: str = "", project: Path | None = None
    ) -> SessionInfo:
        """Return the session of this key, creating it in `project` if necessary."""
        async with self._opening:
            if held := await self.holder(key):
                return await self.get(held)
            session_id, folder = self._new_id(), self.folder(project)
            created = SessionCreated(key=key, title=title[:TITLE_LENGTH], channel=channel, by=by, project=folder)
            await self._append(session_id, created)
        return await self.get(session_id)

    async def begin(self, key: str, *, channel: str, by: str = "", project: Path | None = None) -> SessionInfo:
        """Create a session in `project`, which the key opens from now on. Its first message gives it a title."""
        async with self._opening:
            session_id, folder = self._new_id(), self.folder(project)
            created = SessionCreated(key=str(session_id), title="", channel=channel, by=by, project=folder)
            await self._append(session_id, created, SessionResumed(key=key, by=by))
        return await self.get(session_id)

    async def resume(self, session_id: SessionId, key: str, *, by: str = "") -> SessionInfo:
        """Make the session active; the key opens it from now on. Raises NotFound."""
        async with self._opening:
            row = await self.row(session_id)
            if row["status"] != "active" or row["key"] != key:
                await self._append(session_id, SessionResumed(key=key, by=by))
        return await self.get(session_id)

    async def copy(
        self, parent: SessionId, key: str, *, title: str, channel: str, by: str = "", project: str = ""
    ) -> SessionInfo:
        """Fork a session as it is now: a turn that is not over goes on in the parent only. It is in the
        parent's project if none is given. Raises NotFound, Gone."""
        open_ = await open_tasks(self._log, session_id=parent, parent_id=None)
        cut = tuple(TaskId(str(row["task_id"])) for row in open_)
        fork = SessionForked(parent=parent, position=(await self._log.head()).position, by=by, cut=cut)
        async with self._opening:
            return await self._begin_fork(fork, key, title, channel, project)

    async def fork(
        self,
        fork: SessionForked,
        key: str = "",
        *,
        title: str,
        channel: str,
        model: SessionModelChosen | None = None,
    ) -> SessionInfo:
        """Create a session that begins with a part of another one's history, in its project; the key opens it from now
        on. Without a `model`, it has the parent's. Raises NotFound, Gone; Conflict if the key opens another one."""
        async with self._opening:
            if key and (held := await self.holder(key)):
                raise Conflict(
                    f"A session is there already for {key.removeprefix(_KEY)[:200]}.",
                    hint=f"Choose another name, or go on in it: ozzie sessions resume {held}",
                    code="conflict.session",
                )
            return await self._begin_fork(fork, key, title, channel, "", *([] if model is None else [model]))

    async def _begin_fork(
        self, fork: SessionForked, key: str, title: str, channel: str, project: str, *more: EventBody
    ) -> SessionInfo:
        project = project or str((await self.row(fork.parent))["project"])
        session_id = self._new_id()
        created = SessionCreated(
            key=str(session_id), title=title[:TITLE_LENGTH], channel=channel, by=fork.by, project=project
        )
        resumed = [SessionResumed(key=key, by=fork.by)] if key else []
        await self._append(session_id, created, fork, *resumed, *more)
        return await self.get(session_id)

    async def move(self, before: str, key: str, *, by: str = "", project: str = "") -> SessionId | None:
        """Change the key of the session that `before` opens to `key`, or to none if that is empty, and its project if
        one is given. Return the session, or None if `before` opens none."""
        async with self._opening:
            held = await self.holder(before)
            if held is not None and before != key:
                await self._append(held, SessionMoved(before=before, key=key, by=by, project=project))
        return held

    async def place(self, session_id: SessionId, key: str, *, by: str = "", project: str = "") -> SessionInfo:
        """Replace the session's key, and its project if one is given, without activating a closed or archived session.
        Raises NotFound."""
        async with self._opening:
            before = str((await self.row(session_id))["key"]) or str(session_id)
            await self._append(session_id, SessionMoved(before=before, key=key, by=by, project=project))
        return await self.get(session_id)

    def folder(self, project: Path | None) -> str:
        """Return the folder of a new session as it is recorded: `project`, or by default the gateway's own."""
        return str(project or self._project or "")

    async def get(self, session_id: SessionId) -> SessionInfo:
        """Raises NotFound."""
        return _info(await self.row(session_id))

    async def row(self, session_id: SessionId) -> Row:
        """Return a session's row (`store.projections.sessions`). Raises NotFound; Gone if it was erased."""
        row = await self._log.row("sessions", session_id) if is_session_id(session_id) else None
        if row is None:
            raise unknown_session(session_id)
        if row["status"] == "erased":
            raise session_gone(row)
        return row

    async def tree(self, session_id: SessionId, *, most: int) -> Sequence[Row]:
        """Return the rows of all sessions forked from the same first one, erased ones too, each behind its parent, at
        most so many. Empty for an unknown session."""
        row = await self._log.row("sessions", session_id)
        found: list[Row] = []
        while row is not None:
            found = [row]
            row = await self._log.row("sessions", str(row["parent"])) if row["parent"] else None
        pending: list[Json] = [str(each["session_id"]) for each in found]
        while pending and len(found) < most:
            below = await self._log.rows("sessions", where={"parent": pending}, order_by="created_at")
            found += below
            pending = [str(each["session_id"]) for each in below]
        return found[:most]

    async def list(
        self, *, limit: int = 50, after: int | None = None, status: str | None = None, channel: str | None = None
    ) -> list[Row]:
        """Return the sessions, last used first. `after` is the `last_position` at the end of the page before; without a
        `status`, archived ones are left out."""
        where = {"status": [status] if status else ["active", "closed"], **({"channel": channel} if channel else {})}
        return await self._log.rows(
            "sessions", where=where, order_by="last_position", descending=True, after=after, limit=limit
        )

    async def find(self, text: str) -> SessionId:
        """Find a session by its id, the end of its id, or its title. Raises NotFound, or InputError if several
        match."""
        fitting = await self.fitting(text)
        if len(fitting) > 1:
            ids = ", ".join(str(row["session_id"]) for row in fitting[:5])
            raise InputError(
                f'{len(fitting)} sessions are called "{text[:40]}".',
                hint=f"Name one by its id: {ids}.",
                code="input.session",
            )
        if not fitting:
            raise NotFound(f'There is no session "{text[:40]}".', hint="List them with ozzie sessions list.")
        return SessionId(str(fitting[0]["session_id"]))

    async def fitting(self, text: str) -> Sequence[Row]:
        """Return the sessions that match, including archived ones: by id, by title, or by the end of an id."""
        if is_session_id(text):
            found = await self._log.rows("sessions", where={"session_id": text})
            return [row for row in found if row["status"] != "erased"]
        rows = await self.list(limit=MOST_SEARCHED) + await self.list(limit=MOST_SEARCHED, status="archived")
        wanted = text.strip().casefold()
        titled = [row for row in rows if str(row["title"]).casefold() == wanted] if wanted else []
        if titled or len(wanted) < SHORTEST_END:
            return titled
        return [row for row in rows if str(row["session_id"]).casefold().endswith(wanted)]

    async def rename(self, session_id: SessionId, title: str, *, by: str = "") -> None:
        """Raises NotFound, or InputError for an empty title."""
        await self.get(session_id)
        title = " ".join(title.split())
        if not title:
            raise InputError("A session needs a title.", hint="Write it behind the command.", code="input.title")
        await self._append(session_id, SessionRenamed(title=title[:TITLE_LENGTH], by=by))

    async def archive(self, session_id: SessionId, *, by: str = "") -> None:
        """Archive a session; a message in it makes it active again. Raises NotFound."""
        if (await self.get(session_id)).status != "archived":
            await self._append(session_id, SessionArchived(by=by))

    async def close(self, session_id: SessionId, *, by: str = "") -> None:
        """Accept no messages until it is resumed; its running tasks go on. Raises NotFound."""
        if (await self.get(session_id)).status != "closed":
            await self._append(session_id, SessionClosed(by=by))

    async def expect_open(self, session_id: SessionId) -> None:
        """Raise NotFound, or Conflict if the session is closed."""
        if (await self.get(session_id)).status == "closed":
            raise Conflict(
                "This session is closed.",
                hint=f"Go on in it with %session resume {session_id}, or begin another with %session new.",
                code="session.closed",
            )

    async def choose_model(self, session_id: SessionId, model: str, base_url: str = "", *, by: str = "") -> None:
        """Use `model` in this session from the next turn on; empty for the default."""
        await self.get(session_id)
        await self._append(session_id, SessionModelChosen(model=model, base_url=base_url, by=by))

    async def holder(self, key: str) -> SessionId | None:
        """Return the session that this key opens, or None."""
        rows = await self._log.rows("session_keys", where={"key": key}, limit=1)
        return SessionId(str(rows[0]["session_id"])) if rows and rows[0]["session_id"] else None

    async def keys(self, beginning: str) -> Sequence[str]:
        """Return the keys in use that begin like this."""
        rows = await self._log.rows("session_keys")
        return [key for row in rows if (key := str(row["key"])).startswith(beginning) and row["session_id"]]

    def _new_id(self) -> SessionId:
        return SessionId(f"sess_{self._ids.new()}")

    async def _append(self, session_id: SessionId, *bodies: EventBody) -> None:
        drafts = [Draft(body=body, actor="user", source=HUB, session_id=session_id) for body in bodies]
        await self._log.append(session_stream(session_id), drafts)


def _info(row: Row) -> SessionInfo:
    return SessionInfo(
        session_id=SessionId(str(row["session_id"])),
        title=str(row["title"]),
        channel=str(row["channel"]),
        status=str(row["status"]),
        model=str(row["chosen_model"]),
        base_url=str(row["chosen_base_url"]),
        message_count=int(str(row["message_count"])),
        project=str(row["project"]),
    )


_KEY = "notebook:"


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """`copy_of` is the title of the session that the notebook's was just forked from, or empty."""

    info: SessionInfo
    copy_of: str = ""


class Notebooks:
    """The sessions of notebooks. A `path` is absolute, as Jupyter gives it to a kernel."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        # The findings about a notebook must hold until the decision is recorded.
        self._opening = asyncio.Lock()

    async def open(
        self, path: str, *, noted: SessionId | None = None, by: str = "", project: Path | None = None
    ) -> Opened:
        """Return the session of the notebook at `path`, whose metadata have the session `noted`. `project` is the
        folder of the server that opens it.

        A moved notebook keeps its session, a copy gets a fork of it, and one from another home gets a new session. It
        works in the project that it began in as long as the notebook lies there.
        """
        async with self._opening:
            held = await self._sessions.holder(notebook_key(path))
            row = await self._known(noted) if noted and noted != held else None
            if row is None or (held is not None and await self._left_behind(row, held)):
                return Opened(info=await self._at(path, by, project))
            session_id = SessionId(str(row["session_id"]))
            folder = await self._folder_if_left(str(row["project"]), path, project)
            if await asyncio.to_thread(_is_elsewhere, row, path):
                title = os.path.basename(path)
                fork = await self._sessions.copy(
                    session_id, notebook_key(path), title=title, channel="notebook", by=by, project=folder
                )
                return Opened(info=fork, copy_of=str(row["title"]))
            # Opening a notebook does not activate a closed or archived session.
            return Opened(info=await self._sessions.place(session_id, notebook_key(path), by=by, project=folder))

    async def begin(self, path: str, *, by: str = "", project: Path | None = None) -> SessionInfo:
        """Create a new session in `project` for the notebook at `path`."""
        return await self._sessions.begin(notebook_key(path), channel="notebook", by=by, project=project)

    async def resume(
        self, session_id: SessionId, path: str, *, by: str = "", project: Path | None = None
    ) -> SessionInfo:
        """Use this session in the notebook at `path`. If that does not lie in the session's project, it works in
        `project` from now on, the folder of the notebook's server. Raises NotFound."""
        return await self._at_home(
            await self._sessions.resume(session_id, notebook_key(path), by=by), path, by, project
        )

    async def moved(self, before: str, after: str, *, by: str = "") -> None:
        """Follow the move of a notebook, or of a folder with notebooks."""
        for path in await self._below(before):
            there = after + path.removeprefix(before)
            project = await self._folder_after(path, before, after)
            session_id = await self._sessions.move(notebook_key(path), notebook_key(there), by=by, project=project)
            if session_id is not None and (await self._sessions.get(session_id)).title == os.path.basename(path):
                await self._sessions.rename(session_id, os.path.basename(there), by=by)

    async def deleted(self, path: str, *, by: str = "") -> None:
        """Release the key of a deleted notebook, or of those in a deleted folder, so that new ones get new sessions."""
        for gone in await self._below(path):
            await self._sessions.move(notebook_key(gone), "", by=by)

    async def _at(self, path: str, by: str, project: Path | None) -> SessionInfo:
        title = os.path.basename(path)
        info = await self._sessions.open(notebook_key(path), title=title, channel="notebook", by=by, project=project)
        return await self._at_home(info, path, by, project)

    async def _at_home(self, info: SessionInfo, path: str, by: str, project: Path | None) -> SessionInfo:
        """Return the session, with another project if its notebook does not lie in its own."""
        if folder := await self._folder_if_left(info.project, path, project):
            return await self._sessions.place(info.session_id, notebook_key(path), by=by, project=folder)
        return info

    async def _folder_after(self, path: str, before: str, after: str) -> str:
        """Return the project of the session of the notebook at `path`, if its folder moves along from `before` to
        `after`; else empty."""
        held = await self._sessions.holder(notebook_key(path))
        folder = (await self._sessions.get(held)).project if held else ""
        return await asyncio.to_thread(_moved, folder, before, after) if folder else ""

    async def _folder_if_left(self, folder: str, path: str, project: Path | None) -> str:
        """Return another project for the session of the notebook at `path`, if that does not lie in its `folder` any
        more; else empty."""
        found = self._sessions.folder(project)
        if folder in ("", found) or await asyncio.to_thread(_is_below, path, folder):
            return ""
        return found

    async def _known(self, noted: SessionId) -> Row | None:
        try:
            return await self._sessions.row(noted)
        except NotFound:
            return None

    async def _left_behind(self, noted: Row, held: SessionId) -> bool:
        """Whether the notebook's own session has replaced the one in its metadata, by `%session` or as a copy, and it
        was not saved since."""
        return not noted["key"] or (await self._sessions.row(held))["parent"] == noted["session_id"]

    async def _below(self, path: str) -> list[str]:
        keys = await self._sessions.keys(notebook_key(path))
        return [
            key.removeprefix(_KEY)
            for key in keys
            if key == notebook_key(path) or key.startswith(f"{notebook_key(path)}/")
        ]


def notebook_key(path: str) -> str:
    """Return the key of the session of the notebook at `path`."""
    return f"{_KEY}{path}"


def _moved(folder: str, before: str, after: str) -> str:
    """Return where `folder` is after the move; empty if it is elsewhere."""
    gone = os.path.realpath(before)
    if not Path(folder).is_relative_to(gone):
        return ""
    return str(Path(os.path.realpath(after)) / Path(folder).relative_to(gone))


def _is_below(path: str, folder: str) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _is_elsewhere(noted: Row, path: str) -> bool:
    """Whether the session still belongs to something else, so that the notebook at `path` is a copy: to another
    existing notebook, or to a terminal or a program."""
    own = str(noted["key"])
    if not own.startswith(_KEY):
        return own != ""
    there = Path(own.removeprefix(_KEY))
    return own != notebook_key(path) and there.is_file() and not _is_same_file(there, path)


def _is_same_file(there: Path, path: str) -> bool:
    try:
        return there.samefile(path)
    except OSError:
        return False


MOST_LOOKED_AT = 1000
"""The number of latest messages, and of tool calls in cells, that are read."""
MOST_PAGES = 10

_UNKNOWN = "a tool that is not known any more"
"""For calls whose request was erased or was not read."""


class EarlierWork(msgspec.Struct, frozen=True, kw_only=True):
    """The turns of a session's cells: their number, the time of the newest (RFC 3339), and the tools with effects that
    they started, with counts."""

    turns: int
    last_at: str
    effects: dict[str, int]


class EarlierRuns:
    """Looks cells up in the log."""

    def __init__(self, log: EventLog, registry: ToolRegistry) -> None:
        self._log = log
        self._registry = registry

    async def of_cell(self, session_id: SessionId, cell_id: str) -> EarlierWork | None:
        """Return what the session's cells did, or None if this cell was not run in it before."""
        messages = await self._log.read(
            types=frozenset({MessageReceived.type}), session_id=session_id, limit=MOST_LOOKED_AT, newest_first=True
        )
        cells = [event for event in messages if isinstance(event.body, MessageReceived) and event.body.origin.cell_id]
        if not any(isinstance(event.body, MessageReceived) and event.body.origin.cell_id == cell_id for event in cells):
            return None
        return EarlierWork(
            turns=len(cells),
            last_at=time_text(cells[0].ts),
            effects=await self._effects(session_id, frozenset(event.task_id for event in cells)),
        )

    async def _effects(self, session_id: SessionId, tasks: frozenset[str | None]) -> dict[str, int]:
        # What a run itself calls only reads, and may be thousands of calls.
        rows = await self._log.rows("tasks", where={"task_id": [task for task in tasks if task], "mode": "GRAPH"})
        turns = tasks - {str(row["task_id"]) for row in rows}
        found: list[Event] = []
        before: int | None = None
        for _ in range(MOST_PAGES):
            page = await self._log.read(
                types=frozenset({ToolCallRequested.type, ToolCallStarted.type}),
                session_id=session_id,
                limit=2 * MOST_LOOKED_AT,
                before=before,
                newest_first=True,
            )
            found += (event for event in page if event.task_id in turns)
            if len(page) < 2 * MOST_LOOKED_AT or len(found) >= 2 * MOST_LOOKED_AT:
                break
            before = page[-1].position
        own = fold_calls(event.body for event in reversed(found))
        started: Counter[str] = Counter()
        for call in own.values():
            if started_with_effect(call, self._registry):
                started[name_of(call)] += 1
        return dict(started)


def started_with_effect(call: CallRecord, tools: ToolRegistry) -> bool:
    """Whether a call was started that may have had an effect; that of an unknown tool may have."""
    return call.started is not None and (call.requested is None or tools.has_effects(call.requested.tool_id))


def name_of(call: CallRecord) -> str:
    """Return the name of a call's tool."""
    return _UNKNOWN if call.requested is None else call.requested.name
