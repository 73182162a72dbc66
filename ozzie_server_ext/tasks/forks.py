"""Forks of a session, from any of its turns or events (docs/forks.md).

A fork shares the history up to there by reference. What it does not know has happened nevertheless: calls with effects
that were started since, and files that are not as its history read them.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ozzie_server_ext.domain.calls import CallRecord, Calls, fold_calls
from ozzie_server_ext.domain.errors import Conflict, NotFound
from ozzie_server_ext.domain.events import (
    FINAL_TYPES,
    CallCount,
    Event,
    SessionForked,
    SessionModelChosen,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import CallId, SessionId, TaskId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import OPEN
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.store.lineage import Stretch, lineage_of
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.sessions import TITLE_LENGTH
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import above, run_of, task_of
from ozzie_server_ext.tasks.sessions import SessionInfo, Sessions
from ozzie_server_ext.tasks.turns import SessionTurn, turns_of
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.builtin.files import MAX_BYTES, version_of
from ozzie_server_ext.tools.registry import ToolRegistry
from ozzie_server_ext.tools.safe_open import open_below

MOST_FILES = 500
"""Of the files that a history has read or written, the latest ones that are looked at."""

_PAGE = 1000
_CALLS = frozenset(
    {
        ToolCallRequested.type,
        ToolCallStarted.type,
        ToolCallCompleted.type,
        ToolCallFailed.type,
        ToolCallCancelled.type,
        ToolCallUncertain.type,
    }
)
_FILES = "fs."
"""The ids of the tools that name a file's version in their results begin with this."""


class DoneCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call with effects that a fork does not know: the number of its turn, the tool, the path that it was given, if
    any, and in a few words how it ended."""

    turn: int
    tool: str
    path: str
    outcome: str


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the project that is not as the history has read or written it."""

    path: str
    is_gone: bool


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """A new fork. `turn` is the number of the last turn of its history, 0 if it was forked from an event or has none.
    `left_out` are the numbers of earlier turns that are not over, and so no part of it."""

    info: SessionInfo
    turn: int
    left_out: tuple[int, ...]
    done: tuple[DoneCall, ...]
    files: tuple[ChangedFile, ...]


class _Point(msgspec.Struct, frozen=True, kw_only=True):
    """Where a history ends: see `SessionForked`."""

    position: int
    turn: int = 0
    left_out: tuple[int, ...] = ()
    without: frozenset[TaskId] = frozenset()
    cut: tuple[TaskId, ...] = ()

    def has(self, event: Event) -> bool:
        return event.position <= self.position and event.task_id not in self.without


class Forks:
    """Forks sessions of the project in `folder`, with its `tools`."""

    def __init__(self, log: EventLog, sessions: Sessions, tools: ToolRegistry, folder: Path) -> None:
        self._log = log
        self._sessions = sessions
        self._tools = tools
        self._folder = folder

    async def fork(
        self,
        session_id: SessionId,
        key: str = "",
        *,
        channel: str,
        by: str = "",
        title: str = "",
        turn: int | None = None,
        event: int | None = None,
    ) -> Forked:
        """Create a session with the history of this one up to the turn of that number, or up to the event at that
        position; by default with all turns that are over. The key opens it from now on. Without a `title`, it is called
        after the session.

        Raises NotFound, Gone; Conflict if the turn is not over or was erased.
        """
        row = await self._sessions.row(session_id)
        lineage = await lineage_of(self._log, session_id)
        turns = _Turns(lineage, await turns_of(self._log, lineage), await self._ends(lineage))
        if event is not None:
            point = await self._at_event(turns, event)
        else:
            point = await self._after_turn(turns, turn)
        calls = await self._read(lineage, _CALLS)
        done = await self._done(calls, point, turns.all)
        counts = Counter(call.tool for call in done)
        fork = SessionForked(
            parent=session_id,
            position=point.position,
            by=by,
            turn=point.turn,
            without=tuple(sorted(point.without)),
            cut=point.cut,
            done=tuple(CallCount(tool, count) for tool, count in counts.items()),
        )
        model = await self._model_then(lineage, row, point.position)
        title = title or _title(str(row["title"]), f"turn {point.turn}" if event is None else f"event {event}")
        info = await self._sessions.fork(fork, key, title=title, channel=channel, model=model)
        read = _versions(fold_calls(each.body for each in calls if point.has(each)), self._folder)
        return Forked(
            info=info,
            turn=point.turn,
            left_out=point.left_out,
            done=tuple(done),
            files=await asyncio.to_thread(self._changed, read),
        )

    # --- where the history ends ---------------------------------------------------------------------------------------

    async def _after_turn(self, turns: "_Turns", number: int | None) -> _Point:
        if number is None:
            last, position = sys.maxsize, (await self._log.head()).position
        else:
            last, position = number, 0
            turns.expect_over(number)
        within = [turn for turn in turns.all if turn.row is not None and turn.number <= last]
        over = [turn for turn in within if turns.is_over(turn)]
        numbers = {turn.number for turn in over}
        position = max([position, *map(turns.end, over)])
        others = [turn for turn in turns.all if turn.row and turn.number not in numbers and turn.position <= position]
        return _Point(
            position=position,
            turn=over[-1].number if over else 0,
            left_out=tuple(turn.number for turn in within if turn.number not in numbers),
            without=await self._with_delegated(_task_of(turn) for turn in others),
            cut=tuple(_task_of(turn) for turn in over if turns.is_cut(turn)),
        )

    async def _at_event(self, turns: "_Turns", position: int) -> _Point:
        found = await self._log.read(after=position - 1, before=position + 1, limit=1, erased=True)
        if not any(part.session_id == each.session_id and part.of([each]) for part in turns.lineage for each in found):
            raise NotFound(
                f"The session has no event {position}.", hint="ozzie events list --session ID shows those that it has."
            )
        begun = [turn for turn in turns.all if turn.row is not None and turn.position <= position]
        return _Point(position=position, cut=tuple(_task_of(turn) for turn in begun if turns.end(turn) > position))

    async def _ends(self, lineage: Sequence[Stretch]) -> dict[TaskId | None, int]:
        """Return the position of each task's last end."""
        return {event.task_id: event.position for event in await self._read(lineage, FINAL_TYPES)}

    async def _with_delegated(self, tasks: Iterator[TaskId]) -> frozenset[TaskId]:
        found = pending = set(tasks)
        while pending:
            rows = await self._log.rows("tasks", where={"parent_id": list[Json](sorted(pending))})
            pending = set(map(task_of, rows)) - found
            found = found | pending
        return frozenset(found)

    async def _model_then(self, lineage: Sequence[Stretch], row: Row, position: int) -> SessionModelChosen | None:
        """Return the choice of the model that the session had, None if that is the one that it has now."""
        then = SessionModelChosen(model="")
        for part in reversed(lineage):
            before = position + 1 if part.before is None else min(position + 1, part.before)
            chosen = await self._log.read(
                session_id=part.session_id,
                types=frozenset({SessionModelChosen.type}),
                before=before,
                limit=1,
                newest_first=True,
            )
            if chosen and isinstance(chosen[0].body, SessionModelChosen):
                then = chosen[0].body
                break
        is_same = (then.model, then.base_url) == (row["chosen_model"], row["chosen_base_url"])
        return None if is_same else then

    # --- what has happened since --------------------------------------------------------------------------------------

    async def _read(self, lineage: Sequence[Stretch], types: frozenset[str]) -> list[Event]:
        """Return the events of these types, in order."""
        found: list[Event] = []
        for part in lineage:
            after = 0
            while page := await self._log.read(
                after=after, before=part.before, session_id=part.session_id, types=types, limit=_PAGE
            ):
                found += part.of(page)
                after = page[-1].position
        return found

    async def _done(self, events: Sequence[Event], point: _Point, turns: Sequence[SessionTurn]) -> list[DoneCall]:
        """Return the calls with effects that were started, and of which the history has no outcome."""
        known = fold_calls(event.body for event in events if point.has(event))
        tasks = {event.body.call_id: event.task_id for event in events if isinstance(event.body, ToolCallStarted)}
        calls = fold_calls(event.body for event in events)
        fresh = [
            calls[call_id]
            for call_id in tasks
            if self._has_effects(calls[call_id]) and not _is_known(known, call_id) and not calls[call_id].is_repeated
        ]
        rows = await self._log.rows(
            "tasks", where={"task_id": list[Json](sorted({str(tasks[call.call_id]) for call in fresh}))}
        )
        chains = await above(self._log, rows)
        topmost = {str(row["task_id"]): run_of(row, chains) for row in rows}
        numbers = {str(turn.row["task_id"]): turn.number for turn in turns if turn.row is not None}
        return [
            DoneCall(
                turn=numbers.get(topmost.get(str(tasks[call.call_id]), ""), 0),
                tool="an unknown tool" if call.requested is None else call.requested.name,
                path=_path_of(call),
                outcome=_outcome_of(call),
            )
            for call in fresh
        ]

    def _has_effects(self, call: CallRecord) -> bool:
        return call.requested is None or self._tools.has_effects(call.requested.tool_id)

    def _changed(self, versions: Mapping[str, str]) -> tuple[ChangedFile, ...]:
        found: list[ChangedFile] = []
        for path, version in list(versions.items())[-MOST_FILES:]:
            try:
                with os.fdopen(open_below(self._folder, path, folder=False), "rb") as file:
                    content = file.read(MAX_BYTES + 1)
            except (ToolFailed, OSError):
                found.append(ChangedFile(path=path, is_gone=True))
            else:
                if version_of(content) != version:
                    found.append(ChangedFile(path=path, is_gone=False))
        return tuple(sorted(found, key=lambda each: each.path))


class _Turns:
    """The turns of a session. One that a fork has cut is over here: it goes on in the ancestor only."""

    def __init__(
        self, lineage: Sequence[Stretch], turns: Sequence[SessionTurn], ends: Mapping[TaskId | None, int]
    ) -> None:
        self.lineage = lineage
        self.all = turns
        self._ends = ends
        self._until = {part.session_id: part.until for part in lineage}

    def is_over(self, turn: SessionTurn) -> bool:
        is_own = self._until[turn.session_id] is None
        return not (is_own and turn.row is not None and turn.row["status"] in OPEN)

    def is_cut(self, turn: SessionTurn) -> bool:
        return _task_of(turn) not in self._ends

    def end(self, turn: SessionTurn) -> int:
        """Return the position of its last event in this session; beyond all of them while it goes on."""
        if not self.is_over(turn):
            return sys.maxsize
        return self._ends.get(_task_of(turn)) or self._until[turn.session_id] or turn.position

    def expect_over(self, number: int) -> None:
        """Raise NotFound if there is no such turn; Conflict if it is not over, or was erased."""
        turn = next((turn for turn in self.all if turn.number == number > 0), None)
        if turn is None:
            count = sum(turn.number > 0 for turn in self.all)
            have = f"has {count} turns" if count > 1 else "has one turn" if count else "has no turn yet"
            raise NotFound(
                f"There is no turn {number}: the session {have}.",
                hint="%session turns lists them, and ozzie sessions show.",
            )
        if turn.row is None:
            raise Conflict(
                f"Turn {number} was erased.", hint="Fork from the turn before it.", code="conflict.erased_turn"
            )
        if not self.is_over(turn):
            raise Conflict(
                f"Turn {number} is not over.",
                hint="Wait for its end, stop it, or fork from the turn before it.",
                code="conflict.open_task",
            )


def _task_of(turn: SessionTurn) -> TaskId:
    assert turn.row is not None, "the turn was not erased"
    return task_of(turn.row)


def _title(title: str, where: str) -> str:
    """Return the title of a fork: the session's, shortened so that it can be told from it."""
    title, end = title.removesuffix(".ipynb"), f" (from {where})"
    room = TITLE_LENGTH - len(end)
    return f"{title if len(title) <= room else f'{title[: room - 1]}…'}{end}".strip()


def _is_known(known: Calls, call_id: CallId) -> bool:
    return call_id in known and known[call_id].outcome is not None


def _path_of(call: CallRecord) -> str:
    path = call.requested.args.get("path") if call.requested is not None else None
    return visible_label(path)[:200] if isinstance(path, str) else ""


def _outcome_of(call: CallRecord) -> str:
    match call.outcome:
        case ToolCallCompleted(summary=summary):
            return visible_label(summary)[:200]
        case ToolCallFailed():
            return "failed"
        case ToolCallCancelled():
            return "stopped"
        case ToolCallUncertain():
            return "may have happened"
        case None:
            return "not over"


def _versions(calls: Calls, folder: Path) -> dict[str, str]:
    """Return the version of each file of the project that the calls have read or written last; those whose version they
    don't tell are left out."""
    found: dict[str, str] = {}
    root = f"{folder}/"
    for call in calls.values():
        for path in call.started.writes if call.started is not None else ():
            found.pop(path.removeprefix(root), None)
        outcome, requested = call.outcome, call.requested
        if requested is None or not isinstance(outcome, ToolCallCompleted) or not requested.tool_id.startswith(_FILES):
            continue
        match outcome.data:
            case {"path": str(path), "version": str(version)} if version:
                found.pop(path, None)  # the latest ones stand last
                found[path] = version.partition("-")[0]
            case _:
                found.pop(str(requested.args.get("path", "")), None)
    return found
