"""The record of a session: all that a replay is fed from, read from the log at once."""

import asyncio
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import msgspec

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import Gone, NotFound, OzzieError
from ozzie_server_ext.domain.events import (
    ArtifactCreated,
    ArtifactErased,
    ConfigChanged,
    Erased,
    Event,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    SessionCreated,
    SessionForked,
    SessionMoved,
    SkillStarted,
    TaskCreated,
)
from ozzie_server_ext.domain.ids import ArtifactId, BlobRef, CallId, SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.replay.difference import UNRECORDED
from ozzie_server_ext.store import contents, sqlite_events, sqlite_rows
from ozzie_server_ext.store.blobs import digest_of, read_file
from ozzie_server_ext.store.database import open_readable
from ozzie_server_ext.store.lineage import lineage_of, read_part
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projector import TABLES
from ozzie_server_ext.store.tables import Row, query, table_named
from ozzie_server_ext.tasks.turns import SessionTurn, turns_of

_ORIGINS = frozenset({SessionCreated.type, SessionForked.type})
_LEFT_OUT = frozenset({UNRECORDED, ArtifactErased.type})
_SETTINGS = frozenset({ConfigChanged.type})


class MissingFact(OzzieError):
    """The log lacks something that a replay needs: it was erased, or it was recorded by an earlier version that did not
    record it."""

    code = "replay.missing"

    def __init__(self, what: str) -> None:
        super().__init__(f"The log does not have {what}.", hint="It can be replayed up to there.")


class Record:
    """A session as the log has it.

    - `history`: the events that it shares with the sessions that it was forked from; they are taken as they are.
    - `events`: its own, in their order, those of delegated tasks included.
    - `turns`: all of its turns, those of the history too.
    - `project`: the folder that it works in.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        blobs: Path,
        *,
        session: Row,
        history: Sequence[Event],
        events: Sequence[Event],
        turns: Sequence[SessionTurn],
        settings: Sequence[Event],
        missing: MissingFact | None = None,
    ) -> None:
        """`missing` is what follows the events and is not there any more."""
        self._connection = connection
        self._has_contents = contents.is_there(connection)
        self._blobs = blobs
        self.session_id = SessionId(str(session["session_id"]))
        self.project = Path(str(session["project"]) or "/")
        self.history = history
        self.events = events
        self.turns = turns
        self._settings = settings
        self._projects = [(event.position, project) for event in events if (project := _project_in(event))]
        self.missing = missing
        self.calls = _model_calls(events)
        self.artifacts = {
            event.body.artifact_id: event.body
            for event in (*history, *events)
            if isinstance(event.body, ArtifactCreated)
        }
        self.for_programs = {
            event.task_id
            for event in events
            if isinstance(event.body, TaskCreated) and event.body.answer_schema is not None
        }
        """The tasks whose answer has to fit a schema."""
        self._of_tasks: dict[TaskId | None, list[Event]] = {}
        for event in events:
            self._of_tasks.setdefault(event.task_id, []).append(event)
        self.skills: dict[str, list[tuple[int, BlobRef]]] = {}
        """The files of the skills that ran, by name: where in the log each was used."""
        for event in events:
            if isinstance(event.body, SkillStarted):
                self.skills.setdefault(event.body.skill, []).append((event.position, event.body.file))

    def of_task(self, task_id: TaskId) -> Sequence[Event]:
        """Return the events of a task."""
        return self._of_tasks.get(task_id, [])

    def blob(self, ref: BlobRef, what: str) -> bytes:
        """Return a content. Raises MissingFact, which names it as `what`."""
        content = self.find(ref)
        if content is None:
            raise MissingFact(what)
        return content

    def find(self, ref: BlobRef) -> bytes | None:
        """Return a content, None if it is not there any more. Raises DamagedStore."""
        found = contents.read(self._connection, digest_of(ref)) if self._has_contents else None
        if found is not None:
            return found
        try:
            return read_file(self._blobs, ref)
        except NotFound:
            return None

    def settings_at(self, stream: str, position: int) -> ConfigChanged | None:
        """Return the settings (or, of the stream of the rules, the rules) in force at a position of the log; None if
        none had been recorded by then."""
        project = self.project_at(position)
        for event in reversed(self._settings):
            assert isinstance(event.body, ConfigChanged), "the record has these alone"
            if event.position <= position and event.stream == stream and event.body.project in ("", project):
                return event.body
        return None

    def project_at(self, position: int) -> str:
        """Return the folder that the session worked in at a position of the log."""
        return next((project for at, project in reversed(self._projects) if at <= position), str(self.project))

    def artifact(self, artifact_id: ArtifactId) -> tuple[ArtifactCreated, bytes]:
        """Return an artifact of the session with its content. Raises MissingFact."""
        created = self.artifacts.get(artifact_id)
        if created is None:
            raise MissingFact(f"the artifact {artifact_id}")
        ref = BlobRef(f"sha256:{created.hash}")
        return created, self.blob(ref, f'the content of "{created.name}", which was erased')


class ModelCall(msgspec.Struct, kw_only=True):
    """A model call as it was recorded: `started`, and the events `completed` or `failed` that ended it."""

    task_id: TaskId
    started: ModelCallStarted
    completed: ModelCallCompleted | None = None
    failed: ModelCallFailed | None = None
    end: Event | None = None

    def request(self, record: Record) -> JsonObject | None:
        """Return what its model was sent; None if that was erased."""
        content = record.find(self.started.request_blob)
        return None if content is None else msgspec.json.decode(content, type=dict[str, Any])


def _model_calls(events: Sequence[Event]) -> Mapping[CallId, ModelCall]:
    found: dict[CallId, ModelCall] = {}
    for event in events:
        match event.body:
            case ModelCallStarted(call_id=call_id) as started if event.task_id is not None:
                found[call_id] = ModelCall(task_id=event.task_id, started=started)
            case ModelCallCompleted(call_id=call_id) as completed if call_id in found:
                found[call_id].completed, found[call_id].end = completed, event
            case ModelCallFailed(call_id=call_id) as failed if call_id in found:
                found[call_id].failed, found[call_id].end = failed, event
            case _:
                pass
    return found


class Reading:
    """A home that is open for reading, beside the gateway that may write to it. Use it as a context manager."""

    def __init__(self, home: Home) -> None:
        """Raises like `store.database.open_readable`."""
        self._home = home
        self._connection = open_readable(home.database)

    def close(self) -> None:
        self._connection.close()

    def sessions(self) -> list[SessionId]:
        """Return the ids of all sessions that are there."""
        rows = asyncio.run(_ReadableLog(self._connection).rows("sessions"))
        return [SessionId(str(row["session_id"])) for row in rows if row["status"] != "erased"]

    def touched(self, since: str) -> list[Row]:
        """Return the rows of the sessions that something happened in since then, a moment as the tables have it
        (`store.codec.time_text`), the oldest first."""
        rows = asyncio.run(_ReadableLog(self._connection).rows("sessions"))
        return [row for row in rows if row["status"] != "erased" and str(row["updated_at"]) >= since]

    def tasks(self, session_id: SessionId) -> Mapping[TaskId, Row]:
        """Return the rows of a session's tasks."""
        rows = asyncio.run(_ReadableLog(self._connection).rows("tasks", where={"session_id": session_id}))
        return {TaskId(str(row["task_id"])): row for row in rows}

    def record(self, session_id: SessionId, *, until_turn: int | None = None) -> Record:
        """Read a session, up to the end of the turn `until_turn`, by default all of it.

        It ends before the first event that was erased. Raises NotFound if there is no such session or turn; Gone if all
        of it was erased.
        """
        return asyncio.run(self._read(session_id, until_turn))

    async def _read(self, session_id: SessionId, until_turn: int | None) -> Record:
        log = cast(EventLog, _ReadableLog(self._connection))
        session = await log.row("sessions", session_id)
        if session is None:
            raise NotFound(f"There is no session {session_id}.", hint="List them with ozzie sessions list.")
        if session["status"] == "erased":
            raise Gone("The session was erased.", hint="What is erased can't be replayed.")
        lineage = await lineage_of(log, session_id)
        turns = await turns_of(log, lineage)
        *ancestors, own = lineage
        history = {event.position: event for part in ancestors for event in await read_part(log, part)}
        history |= {event.position: event for event in await _origins(log, session)}
        events = await read_part(log, own, erased=True)
        until = None if until_turn is None else _end_of(turns, until_turn, session_id)
        if until is not None:
            events = [event for event in events if event.position <= until]
        whole = list(takewhile(lambda event: not isinstance(event.body, Erased), events))
        missing = MissingFact("what follows: it was erased") if len(whole) < len(events) else None
        settings = await log.read(types=_SETTINGS, limit=sys.maxsize)
        return Record(
            self._connection,
            self._home.blobs,
            session=session,
            history=[history[position] for position in sorted(history)],
            events=[event for event in whole if event.type not in _LEFT_OUT],
            turns=turns,
            settings=settings,
            missing=missing,
        )


async def _origins(log: EventLog, session: Row) -> list[Event]:
    """Return how the sessions began from which this one was forked: a fork may have nothing but that of one of them."""
    found: list[Event] = []
    row: Row | None = session
    while row is not None and row["parent"]:
        parent = SessionId(str(row["parent"]))
        found += await log.read(session_id=parent, types=_ORIGINS)
        row = await log.row("sessions", parent)
    return found


def opened(home: Home) -> "closing[Reading]":
    """Open a home for reading, in a `with`."""
    return closing(Reading(home))


def _project_in(event: Event) -> str:
    """Return the folder that a session works in from this event on; empty if it tells none."""
    return event.body.project if isinstance(event.body, SessionCreated | SessionMoved) else ""


def _end_of(turns: Sequence[SessionTurn], number: int, session_id: SessionId) -> int | None:
    if not 1 <= number <= len(turns):
        raise NotFound(
            f"There is no turn {number}: the session has {len(turns)}.", hint="ozzie sessions show has them."
        )
    turn = turns[number - 1]
    if turn.session_id != session_id:
        raise NotFound(f"Turn {number} is not this session's own: it was forked after that.", hint="Name a later one.")
    return turn.ends[-1] if turn.ends else None  # it goes on


def parents_of(events: Sequence[Event]) -> Mapping[TaskId, TaskId]:
    """Return the task that delegated each delegated one."""
    return {
        event.task_id: event.body.parent
        for event in events
        if isinstance(event.body, TaskCreated) and event.body.parent is not None and event.task_id is not None
    }


def own_threads(events: Sequence[Event]) -> frozenset[TaskId]:
    """Return the tasks that ran beside their session's turns (`tasks.rows.has_own_thread`)."""
    created = ((event.task_id, event.body) for event in events if isinstance(event.body, TaskCreated))
    return frozenset(
        task_id for task_id, body in created if task_id is not None and (body.parent or body.thread_id == task_id)
    )


class _ReadableLog:
    """The part of an `EventLog` that reads, over a connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def read(self, **which: Any) -> tuple[Event, ...]:
        return sqlite_events.read(self._connection, **which)

    async def rows(self, table: str, **which: Any) -> list[Row]:
        declared = table_named(TABLES, table)
        return sqlite_rows.select(self._connection, declared, query(declared, **which))

    async def row(self, table: str, *key: str) -> Row | None:
        return sqlite_rows.one(self._connection, table_named(TABLES, table), key)
