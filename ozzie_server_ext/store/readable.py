"""The log as files that a person can read and git can compare (docs/readable-files.md):

- `sessions/index.jsonl`, `sessions/<id>/meta.json` and `messages.jsonl`
- `events/YYYY-MM-DD.jsonl`, and `logs/YYYY-MM-DD.md` as a diary

They are projections that Ozzie never reads. They are written behind the log, lines are appended, and a note says up to
which event they are known to be whole: its position and hash. After a crash, the files that later events belong to are
written anew. A note of position 0, or none that fits the log, has all files removed and written anew.
"""

import asyncio
import contextlib
import errno
import itertools
import os
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import ParamSpec, TypeVar, Unpack

from ozzie_server_ext.config.files import replace_file, sync_folder
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    Event,
    MessageCompleted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import CallId, SessionId, TaskId, is_session_id
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.jsontext import dumps, loads_object
from ozzie_server_ext.store.database import FAILURES, open_readable, unusable
from ozzie_server_ext.store.feed import size_of
from ozzie_server_ext.store.log import EventFilter, EventLog
from ozzie_server_ext.store.readable_lines import (
    ANSWER_TYPES,
    MESSAGE_TYPES,
    day_of,
    diary_entry,
    diary_line,
    event_line,
    index_text,
    message_id,
    message_line,
    meta_text,
    row_of,
)
from ozzie_server_ext.store.session_models import with_providers
from ozzie_server_ext.store.shielded import shielded
from ozzie_server_ext.store.tables import Row

P = ParamSpec("P")
T = TypeVar("T")

log = logger(__name__)

GATHER_S = 1.0
"""How long the files may be behind the log."""
SETTLE_S = 30.0
"""How often the written files are synced and the position is noted up to which they are whole."""
_PAGE = 1000
_PAGE_BYTES = 2 << 20
"""The most that is read at a time, exceeded by one event at most."""
_MOST_FRESH_BYTES = 4 << 20
"""The most that is kept of what was recorded since the last writing, exceeded by one commit at most. Runs record 3,000
events in `GATHER_S`, and reading them again took longer than writing them."""
_MOST_TOOLS = 10_000
_ONE_PATH = frozenset({errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.EEXIST})
"""Errors of one file, unlike those of the disk."""


@dataclass(slots=True)
class _Batch:
    """What to append to each file, and the files to write whole."""

    lines: dict[Path, list[str]] = field(default_factory=lambda: defaultdict(list))
    whole: dict[Path, str] = field(default_factory=dict[Path, str])


class ReadableFiles:
    """Writes the files below `root` behind a log. Errors of the disk are logged, and the files caught up later."""

    def __init__(self, event_log: EventLog, root: Path) -> None:
        self._log = event_log
        self._root = root
        self._note = note_of(root)
        self._position = 0
        self._settled = 0
        self._is_taken_up = False
        self._is_renewing = False
        self._is_stopping = False
        self._is_abandoned = False
        self._unsynced: set[Path] = set()
        self._failed: set[Path] = set()
        """Left out until they are taken up again. The note stays where it is, so that they are then written anew."""
        self._tools: dict[CallId, str] = {}
        """The names of tools by call, "" for a call of a workflow's step."""
        self._new = asyncio.Event()
        self._fresh: list[Event] = []
        """The next events of the log, as far as they need not be read again."""
        self._fresh_bytes = 0
        self._work: asyncio.Task[None] | None = None
        event_log.on_commit(self._committed)

    def _committed(self, events: tuple[Event, ...]) -> None:
        if self._is_stopping:
            return
        if self._fresh_bytes < _MOST_FRESH_BYTES:  # of more, the rest is read
            self._fresh += events
            self._fresh_bytes += sum(map(size_of, events))
        self._new.set()

    def start(self) -> None:
        """Catch up and follow the log, in the background."""
        self._new.set()
        self._work = asyncio.create_task(self._follow(), name="readable files")

    async def catch_up(self) -> None:
        """Write all that the log has by now. Raises OSError, and what reading the log raises."""
        if not self._is_taken_up:
            await self._take_up()
        await self._write_new()
        await self._settle()

    def abandon(self) -> None:
        """Leave the files to another gateway, which has taken over. At most the write under way is finished."""
        self._is_abandoned = True
        self._end_work()

    async def stop(self) -> None:
        """Write what is missing, unless the files could not be written before or are another gateway's now."""
        if self._work is not None:
            self._end_work()
            await asyncio.gather(self._work, return_exceptions=True)
            if self._is_taken_up and not self._is_abandoned:
                with _logged():
                    await self.catch_up()

    def _end_work(self) -> None:
        self._is_stopping = True  # a write that fails meanwhile swallows the cancellation
        if self._work is not None:
            self._work.cancel()

    async def _follow(self) -> None:
        while not self._is_stopping:
            with _logged():
                await self.catch_up()
                await self._write_until(asyncio.get_running_loop().time() + SETTLE_S)
                continue
            self._is_taken_up = False  # an append may have been cut: what it touched is written anew
            if not self._is_stopping:
                await asyncio.sleep(SETTLE_S)

    async def _write_until(self, moment: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(moment):
                while True:
                    await self._new.wait()
                    self._new.clear()
                    await self._write_new()
                    await asyncio.sleep(GATHER_S)

    # --- from the note to the end of the log ------------------------------------------------------------------------

    async def _take_up(self) -> None:
        """Write anew what may not be whole."""
        self._unsynced, self._failed, self._tools = set(), set(), {}
        is_due = await asyncio.to_thread(_is_renewal_due, self._root)
        self._position = self._settled = 0 if is_due else await self._noted()
        await self._change(_tighten_folders, self._root)
        if self._position:
            await self._repair()
        else:
            await self._change(_begin_renewal, self._root, is_due=is_due)
            await self._renew()
        self._is_taken_up = True

    async def _noted(self) -> int:
        """Return the position of the note, 0 if the log has another event there, or none: it was restored."""
        position, noted = await asyncio.to_thread(_read_note, self._note)
        return position if position and await self._log.hash_at(position) == noted else 0

    async def _renew(self) -> None:
        """Remove all files and write them anew in one pass. Files whose events were erased are gone then."""
        self._leave_out(await self._change(_clear, self._root))
        sessions: set[SessionId] = set()
        last, end = 0, (await self._log.head()).position
        self._is_renewing = True
        try:
            async for page in self._pages(before=end + 1):
                known = await self._messages(page)
                await self._write(await self._of_days(page, known))
                await self._write_messages(page, known)
                sessions |= _sessions_of(page)
                last = page[-1].position
            await self._write_sessions(sessions)
        finally:
            self._is_renewing = False
        self._position = last

    async def _repair(self) -> None:
        """Write anew the files that events after the noted position belong to: a crash may have cut them, or the note
        may be older than they are."""
        sessions: set[SessionId] = set()
        days: set[date] = set()
        last = self._position
        async for page in self._pages(after=last):
            last = page[-1].position
            sessions |= _sessions_of(page)
            days |= {day_of(event) for event in page}
        files = [file for day in days for file in (self._events_file(day), self._diary_file(day))]
        self._leave_out(await self._change(_remove, [*files, *map(self._messages_file, sessions)]))
        if days:  # `ts` has no index, so the days share one pass
            since, until = (datetime.combine(day, time(), UTC) for day in (min(days), max(days)))
            async for page in self._pages(before=last + 1, since=since, until=until + timedelta(days=1)):
                wanted = [event for event in page if day_of(event) in days]
                await self._write(await self._of_days(wanted, await self._messages(wanted)))
        for session_id in sorted(sessions):
            async for page in self._pages(before=last + 1, session_id=session_id, types=MESSAGE_TYPES):
                await self._write_messages(page, await self._messages(page))
        await self._write_sessions(sessions)
        self._position = last

    async def _write_new(self) -> None:
        """Write what the log has at this moment. What comes meanwhile waits for the next time: written at once, it
        would be pages of a few events each."""
        end = (await self._log.head()).position
        while self._position < end and (page := await self._next_page()):
            await shielded(self._write_page(page))

    async def _next_page(self) -> Sequence[Event]:
        fresh, self._fresh, self._fresh_bytes = self._fresh, [], 0
        if fresh and fresh[0].position == self._position + 1:
            return fresh
        return await self._log.read(after=self._position, limit=_PAGE, most_bytes=_PAGE_BYTES)

    async def _pages(self, **which: Unpack[EventFilter]) -> AsyncIterator[Sequence[Event]]:
        """Yield the events in pages, in order of position."""
        which["limit"], which["most_bytes"] = _PAGE, _PAGE_BYTES
        while page := await self._log.read(**which):
            yield page
            which["after"] = page[-1].position

    async def _write_page(self, page: Sequence[Event]) -> None:
        known = await self._messages(page)
        await self._write(await self._of_days(page, known))
        await self._write_messages(page, known)
        await self._write_sessions(_sessions_of(page))
        self._position = page[-1].position

    async def _settle(self) -> None:
        if self._position == self._settled:
            return
        position = self._position
        await self._write(await self._index())
        unsynced, self._unsynced = self._unsynced - self._failed, set()
        await self._change(_sync, unsynced)
        if not self._failed:
            await self._change(_write_note, self._note, position, await self._log.hash_at(position) or "")
        self._settled = position

    async def _write(self, batch: _Batch) -> None:
        paths = {path for path, lines in batch.lines.items() if lines} | batch.whole.keys()
        if not paths:
            return
        anew = paths - self._unsynced if self._is_renewing else set[Path]()
        self._unsynced |= paths
        self._leave_out(await self._change(_store, batch, anew, self._failed))

    def _leave_out(self, failures: Mapping[Path, OSError] | None) -> None:
        for path, error in (failures or {}).items():
            self._failed.add(path)
            log.warning("%s can't be written and is left out until the next start: %s", path, error)

    async def _change(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | None:
        """Do `work` on the files in a thread, to its end even if cancelled; do nothing if they were abandoned."""
        return None if self._is_abandoned else await shielded(asyncio.to_thread(work, *args, **named))

    # --- what the files say -----------------------------------------------------------------------------------------

    async def _of_days(self, events: Sequence[Event], known: Mapping[str, Row]) -> _Batch:
        await self._learn_tools(events)
        titles = await self._titles(events)
        return await asyncio.to_thread(self._day_lines, events, titles, known)

    def _day_lines(self, events: Sequence[Event], titles: Mapping[str, str], known: Mapping[str, Row]) -> _Batch:
        """Return the lines of the days. `known` are the sessions' own messages; others are those of delegated tasks."""
        batch = _Batch()
        for day, of_day in itertools.groupby(events, day_of):
            all_events, diary = batch.lines[self._events_file(day)], batch.lines[self._diary_file(day)]
            for event in of_day:
                all_events.append(event_line(event))
                is_within = bool(message_id(event)) and row_of(event, known) is None
                if not is_within and (sentence := self._entry(event)):
                    diary.append(diary_line(event, titles.get(str(event.session_id), ""), sentence))
        return batch

    def _entry(self, event: Event) -> str:
        match event.body:
            case ToolCallCompleted(call_id=call_id) | ToolCallFailed(call_id=call_id) as outcome:
                tool = self._tools.get(call_id, "a tool")
                return diary_entry(outcome, tool) if tool else ""  # a person doesn't miss it
            case _:
                return diary_entry(event.body)

    async def _learn_tools(self, events: Sequence[Event]) -> None:
        """Remember the tools whose calls these events begin or end. Those begun before are looked up if need be, so
        that it makes no difference where the writing began."""
        if len(self._tools) > _MOST_TOOLS:
            self._tools.clear()
        self._remember_tools(events)
        unknown: dict[TaskId, int] = {}
        for event in events:
            match event.body:
                case ToolCallCompleted(call_id=call_id) | ToolCallFailed(call_id=call_id):
                    if call_id not in self._tools and event.task_id is not None:
                        unknown[event.task_id] = event.position
                case _:
                    pass
        requests: EventFilter = {"types": frozenset({ToolCallRequested.type}), "newest_first": True}
        requests |= {"limit": _PAGE, "most_bytes": _PAGE_BYTES}
        for task_id, position in unknown.items():
            requests |= {"task_id": task_id, "before": position}
            self._remember_tools(await self._log.read(**requests))

    def _remember_tools(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event.body, ToolCallRequested):
                self._tools[event.body.call_id] = "" if event.body.step_id else event.body.name

    async def _write_messages(self, events: Sequence[Event], known: Mapping[str, Row]) -> None:
        batch, size = _Batch(), 0
        for event in events:
            row = row_of(event, known)
            if row is not None and event.session_id is not None:
                led_to_it = await self._before_answer(event)
                line = await asyncio.to_thread(message_line, row, led_to_it)
                batch.lines[self._messages_file(event.session_id)].append(line)
                size += len(line)
                if size > _PAGE_BYTES:  # an answer's line has the results of its calls, however few bytes it has itself
                    await self._write(batch)
                    batch, size = _Batch(), 0
        await self._write(batch)

    async def _before_answer(self, answer: Event) -> list[Event]:
        """Return the calls of an answer's task since its previous answer; none for other messages."""
        if not isinstance(answer.body, MessageCompleted) or answer.task_id is None:
            return []
        answers = frozenset({MessageCompleted.type})
        previous = await self._log.read(
            task_id=answer.task_id, types=answers, before=answer.position, newest_first=True, limit=1
        )
        after = previous[0].position if previous else 0
        pages = self._pages(task_id=answer.task_id, types=ANSWER_TYPES, after=after, before=answer.position)
        return [event async for page in pages for event in page]

    async def _messages(self, events: Sequence[Event]) -> dict[str, Row]:
        """Return the rows of the events' messages by id, without those within delegated tasks."""
        wanted: list[Json] = [found for event in events if (found := message_id(event))]
        rows = await self._log.rows("messages", where={"message_id": wanted}) if wanted else []
        return {str(row["message_id"]): row for row in rows}

    async def _write_sessions(self, sessions: Iterable[SessionId]) -> None:
        wanted: list[Json] = [*sorted(sessions)]
        for begin in range(0, len(wanted), _PAGE):
            rows = await self._log.rows("sessions", where={"session_id": wanted[begin : begin + _PAGE]})
            await self._write(await asyncio.to_thread(self._metas, await with_providers(self._log, rows)))

    def _metas(self, rows: Sequence[Row]) -> _Batch:
        batch = _Batch()
        for row in rows:
            file = self._messages_file(SessionId(str(row["session_id"]))).with_name("meta.json")
            batch.whole[file] = meta_text(row)
        return batch

    async def _index(self) -> _Batch:
        texts: list[str] = []
        after = ""
        while rows := await self._log.rows("sessions", order_by="session_id", after=after, limit=_PAGE):
            after = str(rows[-1]["session_id"])
            texts.append(await asyncio.to_thread(index_text, await with_providers(self._log, rows)))
        return _Batch(whole={self._root / "sessions" / "index.jsonl": "".join(texts)})

    async def _titles(self, events: Sequence[Event]) -> dict[str, str]:
        wanted: list[Json] = [*sorted(_sessions_of(events))]
        rows = await self._log.rows("sessions", where={"session_id": wanted}) if wanted else []
        return {str(row["session_id"]): str(row["title"]) for row in rows}

    def _events_file(self, day: date) -> Path:
        return self._root / "events" / f"{day.isoformat()}.jsonl"

    def _diary_file(self, day: date) -> Path:
        return self._root / "logs" / f"{day.isoformat()}.md"

    def _messages_file(self, session_id: SessionId) -> Path:
        return self._root / "sessions" / str(session_id) / "messages.jsonl"


@contextlib.contextmanager
def _logged() -> Generator[None, None, None]:
    """Log a failure of the disk or the log instead of raising it."""
    try:
        yield
    except (OSError, OzzieError) as error:
        log.warning("the readable files can't be written now: %s", error)


def note_of(root: Path) -> Path:
    """Return the file that notes up to which event the files are whole, as JSON with its `position` and `hash`."""
    return root / "data" / "readable.json"


def renewal_of(root: Path) -> Path:
    """Return the file whose presence has all files written anew, once the tables have been made anew."""
    return root / "data" / "readable.renew"


def _sessions_of(events: Iterable[Event]) -> set[SessionId]:
    return {event.session_id for event in events if event.session_id}


# --- on the disk ----------------------------------------------------------------------------------------------------


def _is_renewal_due(root: Path) -> bool:
    """Return whether all files are to be written anew. Not before the log is opened again: until then, the tables still
    have what was erased (`store.database.forget_tables`). Raise like `open_readable`."""
    database = root / "data" / "ozzie.db"
    if not renewal_of(root).exists():
        return False
    if not database.is_file():  # a log in memory
        return True
    try:
        with closing(open_readable(database)) as connection:
            return connection.execute("SELECT fingerprint FROM projections").fetchone() is not None
    except FAILURES as error:
        raise unusable(error, database) from error


def _read_note(note: Path) -> tuple[int, str]:
    """Return position and hash, 0 and "" without a note that says them."""
    try:
        found = loads_object(note.read_bytes())
    except (OSError, OzzieError, ValueError):
        return 0, ""
    position, noted = found.get("position"), found.get("hash")
    if isinstance(position, int) and 0 < position < 1 << 63 and isinstance(noted, str):
        return position, noted
    return 0, ""


def _write_note(note: Path, position: int, noted: str) -> None:
    replace_file(note, dumps({"position": position, "hash": noted}).encode())


def _begin_renewal(root: Path, *, is_due: bool) -> None:
    """Let the note alone say that all files are to be written; remove the mark if it `is_due`. One that comes later is
    for another renewal."""
    _write_note(note_of(root), 0, "")
    if is_due:
        renewal_of(root).unlink(missing_ok=True)


_DAY = r"\d{4}-\d{2}-\d{2}"
_EVENTS, _DIARY = re.compile(rf"{_DAY}\.jsonl", re.ASCII), re.compile(rf"{_DAY}\.md", re.ASCII)
_INDEX = re.compile(r"index\.jsonl|\.new-.*")
_OF_SESSION = re.compile(r"meta\.json|messages\.jsonl|\.new-.*")


def _clear(root: Path) -> dict[Path, OSError]:
    """Remove every file that could be ours, and the sessions' empty folders; return and raise errors like `_remove`.
    Folders that are links are left alone: others may keep files of such names there."""
    failed: dict[Path, OSError] = {}
    for name, pattern in (("events", _EVENTS), ("logs", _DIARY), ("sessions", _INDEX)):
        _clear_folder(root / name, pattern, failed)
    for folder in _session_folders(root):
        _clear_folder(folder, _OF_SESSION, failed)
        with contextlib.suppress(OSError):  # not empty, a link, or kept for its failure
            folder.rmdir()
    if not (root / "sessions").is_symlink():
        _sync_folder(root / "sessions")
    return failed


def _clear_folder(folder: Path, pattern: re.Pattern[str], failed: dict[Path, OSError]) -> None:
    try:
        failed |= _remove([each for each in _entries(folder) if pattern.fullmatch(each.name)])  # of a link, the link
        if not folder.is_symlink():
            _sync_folder(folder)
    except PermissionError as error:
        failed[folder] = error


def _session_folders(root: Path) -> list[Path]:
    try:
        return [each for each in _entries(root / "sessions") if is_session_id(each.name)]
    except PermissionError:
        return []


def _entries(folder: Path) -> list[Path]:
    """Return what is in a folder; nothing if it is a link. Raise PermissionError."""
    return list(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _store(batch: _Batch, anew: Collection[Path] = (), skipped: Collection[Path] = ()) -> dict[Path, OSError]:
    """Write the batch: append the lines, but not to what was in the files `anew`. Return the errors that concern one
    path only; raise OSError for others."""
    failed: dict[Path, OSError] = {}
    for path in (batch.lines.keys() | batch.whole.keys()) - set(skipped):
        try:
            if path in batch.whole:
                _replace(path, batch.whole[path])
            elif batch.lines[path]:
                _append(path, batch.lines[path], is_anew=path in anew)
        except OSError as error:
            if error.errno not in _ONE_PATH:
                raise
            failed[path] = error
    return failed


def _append(path: Path, lines: Iterable[str], *, is_anew: bool) -> None:
    _private_folder(path.parent)
    if is_anew:
        path.unlink(missing_ok=True)
    text = "".join(f"{line}\n" for line in lines)
    with os.fdopen(_open_private(path, os.O_APPEND), "wb") as file:
        if path.suffix == ".md" and not os.fstat(file.fileno()).st_size:
            text = f"# {path.stem}\n\nTimes are UTC.\n\n{text}"
        file.write(text.encode("utf-8", "replace"))


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically. It is synced with all others when the position is noted, unlike by `replace_file`: an
    earlier crash has it written anew."""
    _private_folder(path.parent)
    new = path.with_name(f".new-{path.name}")
    with os.fdopen(_open_private(new, os.O_TRUNC), "wb") as file:
        file.write(text.encode("utf-8", "replace"))
    new.replace(path)


def _open_private(path: Path, how: int) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
    if os.fstat(descriptor).st_mode & 0o077:
        with contextlib.suppress(PermissionError):  # another user's file, which we may write
            os.fchmod(descriptor, 0o600)
    return descriptor


def _private_folder(folder: Path) -> None:
    for each in (folder.parent, folder):  # `parents` would not make them private
        each.mkdir(mode=0o700, exist_ok=True)


def _tighten_folders(root: Path) -> None:
    """Make existing folders private, apart from links: their targets are a person's own."""
    for folder in (root / "events", root / "logs", root / "sessions", *_session_folders(root)):
        if not folder.is_symlink() and folder.is_dir() and folder.stat().st_mode & 0o077:
            with contextlib.suppress(PermissionError):
                folder.chmod(0o700)


def _remove(paths: Iterable[Path]) -> dict[Path, OSError]:
    """Remove the files; return the errors that concern one path only, raise OSError for others."""
    failed: dict[Path, OSError] = {}
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            if error.errno not in _ONE_PATH:
                raise
            failed[path] = error
    return failed


def _sync(paths: Collection[Path]) -> None:
    """Make files durable, and their names."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    for folder in {folder for path in paths for folder in (path.parent, path.parent.parent)}:
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        sync_folder(folder)
