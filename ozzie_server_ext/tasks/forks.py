"""Forks of a session, from any of its turns or events (docs/forks.md).

A fork shares the history up to there by reference. What it does not know has happened nevertheless: calls with effects
that were started since, and files that are not as its history read them.
"""

import asyncio
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.calls import CALL_TYPES, CallRecord, Calls, fold_calls
from ozzie_server_ext.domain.errors import Conflict, NotFound
from ozzie_server_ext.domain.events import (
    CallCount,
    SessionCreated,
    SessionForked,
    SessionModelChosen,
    SessionRenamed,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import CallId, SessionId, TaskId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.store.lineage import Stretch, lineage_of, read_part
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.sessions import TITLE_LENGTH
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import above, run_of, task_of
from ozzie_server_ext.tasks.sessions import SessionInfo, Sessions, name_of, started_with_effect
from ozzie_server_ext.tasks.turns import SessionTurn, turns_of
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.builtin.files import MAX_BYTES, version_of
from ozzie_server_ext.tools.registry import ToolRegistry
from ozzie_server_ext.tools.safe_open import open_below, parts_below

MOST_FILES = 500
"""Of the files that a history has read or written, the latest ones that are looked at."""

_FILES = "fs."
"""The ids of the tools that name a file's version in their results begin with this."""
_WHERE = r"(turn \d+|event \d+|the start)"
_FORKED = re.compile(rf"Fork from {_WHERE}$| \(from {_WHERE}\)$")


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
    how: Literal["changed", "gone", "not readable"]


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """A new fork. `turn` is the number of the last turn of its history, 0 if it was forked from an event or has none.
    `left_out` are the numbers of earlier turns that are not over, and so no part of it."""

    info: SessionInfo
    turn: int
    left_out: tuple[int, ...]
    done: tuple[DoneCall, ...]
    files: tuple[ChangedFile, ...]


class _Point(msgspec.Struct, frozen=True, kw_only=True):
    """Where a history ends: see `SessionForked`. `left_out`: see `Forked`."""

    position: int
    turn: int = 0
    left_out: tuple[int, ...] = ()
    without: frozenset[TaskId] = frozenset()
    cut: tuple[TaskId, ...] = ()

    def of(self, part: Stretch) -> Stretch:
        """Return as much of a part as comes before the point."""
        until = self.position if part.until is None else min(part.until, self.position)
        return replace(part, until=until, without=part.without | self.without)


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

        Raises NotFound, Gone; Conflict if the turn is not over or was erased, or a session has the key.
        """
        row = await self._sessions.row(session_id)
        head = (await self._log.head()).position  # what comes later is no part of it
        lineage = await lineage_of(self._log, session_id)
        turns = [each for each in await turns_of(self._log, lineage) if each.position <= head]
        if event is not None:
            point = await self._at_event(lineage, turns, event)
        else:
            point = await self._after_turn(turns, turn, head)
        history = [point.of(part) for part in lineage]
        known = fold_calls([event.body for part in history for event in await read_part(self._log, part, CALL_TYPES)])
        done = await self._done(history, known, turns)
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
        model = await self._model_then(history, row)
        where = f"event {event}" if event is not None else f"turn {point.turn}" if point.turn else "the start"
        title = title or await self._title(session_id, where)
        info = await self._sessions.fork(fork, key, title=title, channel=channel, model=model)
        return Forked(
            info=info,
            turn=point.turn,
            left_out=point.left_out,
            done=tuple(done),
            files=await asyncio.to_thread(_changed, self._folder, _versions(known, self._folder)),
        )

    async def _title(self, session_id: SessionId, where: str) -> str:
        """Return the title of a fork: the title that the session was given, and where it was forked. A title that was
        made from a message is not copied: the message may have labels, and may be erased."""
        types = frozenset({SessionCreated.type, SessionRenamed.type})
        events = await read_part(self._log, Stretch(session_id=session_id), types)
        given = [each.body.title for each in events if isinstance(each.body, SessionCreated | SessionRenamed)]
        title = _FORKED.sub("", next(filter(None, reversed(given)), "")).removesuffix(".ipynb")
        if not title:
            return f"Fork from {where}"
        end = f" (from {where})"
        room = TITLE_LENGTH - len(end)
        return f"{title if len(title) <= room else f'{title[: room - 1]}…'}{end}"

    # --- where the history ends ---------------------------------------------------------------------------------------

    async def _after_turn(self, turns: Sequence[SessionTurn], number: int | None, head: int) -> _Point:
        if number is not None:
            _expect_over(turns, number, head)
        within = [turn for turn in turns if turn.row is not None and (number is None or turn.number <= number)]
        over = {turn.number: end for turn in within if (end := _end(turn, head)) is not None}
        position = head if number is None else max(over.values())
        others = [turn for turn in turns if turn.row is not None and turn.number not in over]
        return _Point(
            position=position,
            turn=max(over, default=0),
            left_out=tuple(turn.number for turn in within if turn.number not in over),
            without=await self._with_delegated({turn.task_id for turn in others if turn.position <= position}),
            cut=tuple(turn.task_id for turn in within if turn.number in over and turn.is_cut),
        )

    async def _at_event(self, lineage: Sequence[Stretch], turns: Sequence[SessionTurn], position: int) -> _Point:
        found = await self._log.read(after=position - 1, before=position + 1, limit=1, erased=True)
        if not any(part.session_id == each.session_id and part.of([each]) for part in lineage for each in found):
            raise NotFound(
                f"The session has no event {position}.", hint="ozzie events list --session ID shows those that it has."
            )
        begun = [turn for turn in turns if turn.row is not None and turn.position <= position]
        return _Point(position=position, cut=tuple(turn.task_id for turn in begun if turn.end_at(position) is None))

    async def _with_delegated(self, tasks: set[TaskId]) -> frozenset[TaskId]:
        found = pending = tasks
        while pending:
            rows = await self._log.rows("tasks", where={"parent_id": list[Json](sorted(pending))})
            pending = set(map(task_of, rows)) - found
            found = found | pending
        return frozenset(found)

    async def _model_then(self, history: Sequence[Stretch], row: Row) -> SessionModelChosen | None:
        """Return the choice of the model that the session had, None if that is the one that it has now."""
        then = SessionModelChosen(model="")
        for part in history:
            for event in await read_part(self._log, part, frozenset({SessionModelChosen.type})):
                then = event.body if isinstance(event.body, SessionModelChosen) else then
        is_same = (then.model, then.base_url) == (row["chosen_model"], row["chosen_base_url"])
        return None if is_same else then

    # --- what has happened since --------------------------------------------------------------------------------------

    async def _done(self, history: Sequence[Stretch], known: Calls, turns: Sequence[SessionTurn]) -> list[DoneCall]:
        """Return the calls with effects of these sessions of which the history has no outcome, nor tells otherwise."""
        started: dict[CallId, TaskId | None] = {}
        calls: dict[CallId, CallRecord] = {}
        for part, told in zip(history, await self._told(history), strict=True):
            events = await read_part(self._log, Stretch(session_id=part.session_id), CALL_TYPES)
            folded = fold_calls([event.body for event in events])
            for event in events:
                if isinstance(event.body, ToolCallStarted) and (event.position > told or part.of([event])):
                    started[event.body.call_id] = event.task_id
                    calls[event.body.call_id] = folded[event.body.call_id]
        fresh = [
            call
            for call_id, call in calls.items()
            if started_with_effect(call, self._tools) and not _is_known(known, call_id) and not call.is_repeated
        ]
        tasks = list[Json](sorted({str(started[call.call_id]) for call in fresh}))
        rows = await self._log.rows("tasks", where={"task_id": tasks})
        chains = await above(self._log, rows)
        topmost = {str(row["task_id"]): run_of(row, chains) for row in rows}
        numbers = {str(turn.task_id): turn.number for turn in turns if turn.row is not None}
        return [
            DoneCall(
                turn=numbers.get(topmost.get(str(started[call.call_id]), ""), 0),
                tool=name_of(call),
                path=_path_of(call),
                outcome=_outcome_of(call),
            )
            for call in fresh
        ]

    async def _told(self, history: Sequence[Stretch]) -> list[int]:
        """Return, for each session of the history, up to where the history tells what it has done: a fork in it does,
        of the session before."""
        told = [0] * len(history)
        for index, part in enumerate(history[1:]):
            forks = await read_part(self._log, part, frozenset({SessionForked.type}))
            told[index] = max((fork.position for fork in forks), default=0)
        return told


def _end(turn: SessionTurn, head: int) -> int | None:
    """Return where a turn has ended in this session; None if it goes on. One that a fork has cut goes on elsewhere."""
    if turn.until is not None:
        return turn.end_at(turn.until) or turn.until
    return turn.end_at(head)


def _expect_over(turns: Sequence[SessionTurn], number: int, head: int) -> None:
    """Raise NotFound if there is no such turn; Conflict if it is not over, or was erased."""
    turn = next((turn for turn in turns if turn.number == number), None)
    if turn is None:
        have = f"has {len(turns)} turns" if len(turns) > 1 else "has one turn" if turns else "has no turn yet"
        hint = "%session turns lists them, and ozzie sessions show."
        raise NotFound(f"There is no turn {number}: the session {have}.", hint=hint)
    if turn.row is None:
        hint = "Fork from another turn."
        raise Conflict(f"Turn {number} was erased.", hint=hint, code="conflict.erased_turn")
    if _end(turn, head) is None:
        hint = "Wait for its end, stop it, or fork from the turn before it."
        raise Conflict(f"Turn {number} is not over.", hint=hint, code="conflict.open_task")


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
    for call in calls.values():
        for path in call.started.writes if call.started is not None else ():
            found.pop(path.removeprefix(f"{folder}/"), None)
        outcome, requested = call.outcome, call.requested
        if requested is None or not isinstance(outcome, ToolCallCompleted) or not requested.tool_id.startswith(_FILES):
            continue
        data = outcome.data if isinstance(outcome.data, dict) else {}
        path, version = _plain(data.get("path", requested.args.get("path"))), data.get("version")
        found.pop(path, None)  # the latest ones stand last
        if isinstance(version, str) and version:
            found[path] = version.partition("-")[0]
    return found


def _plain(path: object) -> str:
    """Return a path as the file is called, however the model wrote it; empty if it can't be one of the project."""
    try:
        return "/".join(parts_below(str(path)))
    except ToolFailed:
        return ""


def _changed(folder: Path, versions: Mapping[str, str]) -> tuple[ChangedFile, ...]:
    found: list[ChangedFile] = []
    for path, version in list(versions.items())[-MOST_FILES:]:
        try:
            with os.fdopen(open_below(folder, path, folder=False), "rb") as file:
                content = file.read(MAX_BYTES + 1)
        except (ToolFailed, OSError):
            how = "not readable" if os.path.lexists(folder / path) else "gone"
            found.append(ChangedFile(path=path, how=how))
        else:
            if version_of(content) != version:
                found.append(ChangedFile(path=path, how="changed"))
    return tuple(sorted(found, key=lambda each: each.path))
