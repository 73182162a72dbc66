"""The log as files that a person can read and git can compare (docs/readable-files.md):

- `sessions/index.jsonl`, `sessions/<id>/meta.json` and `messages.jsonl`
- `events/YYYY-MM-DD.jsonl`, and `logs/YYYY-MM-DD.md` as a diary

They are projections that Ozzie never reads. They are written behind the log, lines are appended, and a note says up to
which event they are known to be whole: its position and hash. After a crash, the files that later events belong to are
written anew. A note of position 0, or none that fits the log, has all files removed and written anew.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import ParamSpec, TypeAlias, TypeVar, Unpack

from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.events import (
    Event,
    MessageCompleted,
    MessageErased,
    SessionErased,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import CallId, SessionId, TaskId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store import readable_disk as disk
from ozzie_server_ext.store.feed import size_of
from ozzie_server_ext.store.log import EventFilter, EventLog
from ozzie_server_ext.store.readable_lines import (
    ANSWER_TYPES,
    MESSAGE_TYPES,
    LedToAnswers,
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
"""How long the files may be behind the log. Under load they are written sooner: see `_FRESH_BYTES`."""
SETTLE_S = 30.0
"""How often the written files are synced and the position is noted up to which they are whole."""
_PAGE = 1000
_PAGE_BYTES = 2 << 20
"""The most that is read at a time, exceeded by one event at most."""
_FRESH_BYTES = 1 << 20
"""Write as soon as so much was recorded since the last writing. Runs record up to 15,000 events in `GATHER_S`, and
reading them from the log again takes longer than writing them."""
_MOST_FRESH_BYTES = 4 << 20
"""The most that is kept of what was recorded since the last writing, exceeded by one commit at most."""
_MOST_TOOLS = 10_000


_Message: TypeAlias = tuple[SessionId, Row, Sequence[Event]]
"""A session, its message, and the events that led to it."""


class ReadableFiles:
    """Writes the files below `root` behind a log. Errors of the disk are logged, and the files caught up later."""

    def __init__(self, event_log: EventLog, root: Path) -> None:
        self._log = event_log
        self._root = root
        self._note = disk.note_of(root)
        self._position = 0
        self._settled = 0
        self._is_taken_up = False
        self._writing = asyncio.Lock()
        self._is_renewing = False
        self._is_stopping = False
        self._is_abandoned = False
        self._unsynced: set[Path] = set()
        self._failed: set[Path] = set()
        """Left out until they are taken up again. The note stays where it is, so that they are then written anew."""
        self._tools: dict[CallId, str] = {}
        """The names of tools by call, "" for a call of a workflow's step."""
        self._led = LedToAnswers(_MOST_FRESH_BYTES)
        self._new = asyncio.Event()
        self._fresh: list[Event] = []
        """Successive events of the log that need not be read again."""
        self._fresh_bytes = 0
        self._is_much = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        event_log.on_commit(self._committed)

    def _committed(self, events: tuple[Event, ...]) -> None:
        if self._is_stopping:
            return
        if any(isinstance(event.body, SessionErased | MessageErased) for event in events):
            self._fresh, self._fresh_bytes = [], 0
            self._led.clear()
        if self._fresh_bytes < _MOST_FRESH_BYTES:  # of more, the rest is read
            self._fresh += events
            self._fresh_bytes += sum(map(size_of, events))
        if self._fresh_bytes >= _FRESH_BYTES:
            self._is_much.set()
        self._new.set()

    def start(self) -> None:
        """Catch up and follow the log, in the background."""
        self._new.set()
        self._work = asyncio.create_task(self._follow(), name="readable files")

    async def catch_up(self) -> None:
        """Write all that the log has by now. Raises OSError, and what reading the log raises."""
        async with self._writing:
            await self._catch_up()

    async def _catch_up(self) -> None:
        if not self._is_taken_up:
            await self._take_up()
        await self._write_new()
        await self._settle()

    async def forget(self, sessions: Collection[SessionId], days: Collection[date]) -> None:
        """Write anew, without what is erased by now, the files of these sessions and of all days on which something
        happened in them. If it fails or is cancelled, it has to be done again. Raises as `catch_up`; Unavailable if a
        file can't be replaced."""
        with_titles = [self._index_file(), *map(self._meta_file, sessions)]
        files = {*self._files_of(sessions, days), *with_titles}
        async with self._writing:
            await self._catch_up()
            self._failed -= files
            await self._write_anew(sessions, days)
            self._settled = 0  # so that the index is due
            await self._settle()
            if failed := self._failed & files:
                raise Unavailable(
                    f"{min(failed)} can't be written anew, and may still have what was erased.",
                    hint="Remove it, or let Ozzie's user write there.",
                )

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
                while not self._is_stopping:
                    await self._new.wait()
                    self._new.clear()
                    async with self._writing:
                        await self._write_new()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(GATHER_S):  # unlike `wait_for`, it never swallows a cancellation
                            await self._is_much.wait()

    # --- from the note to the end of the log ------------------------------------------------------------------------

    async def _take_up(self) -> None:
        """Write anew what may not be whole."""
        self._unsynced, self._failed, self._tools = set(), set(), {}
        self._led.clear()
        is_due = await asyncio.to_thread(disk.is_renewal_due, self._root)
        self._position = self._settled = 0 if is_due else await self._noted()
        await self._change(disk.tighten_folders, self._root)
        if self._position:
            await self._repair()
        else:
            await self._change(disk.begin_renewal, self._root, is_due=is_due)
            await self._renew()
        self._is_taken_up = True

    async def _noted(self) -> int:
        """Return the position of the note, 0 if the log has another event there, or none: it was restored."""
        position, noted = await asyncio.to_thread(disk.read_note, self._note)
        return position if position and await self._log.hash_at(position) == noted else 0

    async def _renew(self) -> None:
        """Remove all files and write them anew in one pass. Files whose events were erased are gone then."""
        self._leave_out(await self._change(disk.clear, self._root))
        sessions: set[SessionId] = set()
        last, end = 0, (await self._log.head()).position
        self._is_renewing = True
        try:
            async for page in self._pages(before=end + 1):
                known = await self._messages(page)
                await self._write(await self._of_days(page, known))
                await self._write_messages(page, known, self._led.take(page))
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
        self._position = last
        await self._write_anew(sessions, days)

    async def _write_anew(self, sessions: Collection[SessionId], days: Collection[date]) -> None:
        """Remove the files of sessions and days, and write them anew up to the position that is reached."""
        end = self._position + 1
        self._leave_out(await self._change(disk.remove, self._files_of(sessions, days)))
        if days:  # `ts` has no index, so the days share one pass
            since, until = (datetime.combine(day, time(), UTC) for day in (min(days), max(days)))
            async for page in self._pages(before=end, since=since, until=until + timedelta(days=1)):
                wanted = [event for event in page if day_of(event) in days]
                await self._write(await self._of_days(wanted, await self._messages(wanted)))
        for session_id in sorted(sessions):
            async for page in self._pages(before=end, session_id=session_id, types=MESSAGE_TYPES):
                await self._write_messages(page, await self._messages(page), {})
        await self._write_sessions(sessions)

    def _files_of(self, sessions: Collection[SessionId], days: Collection[date]) -> list[Path]:
        of_days = [file for day in days for file in (self._events_file(day), self._diary_file(day))]
        return [*of_days, *map(self._messages_file, sessions)]

    async def _write_new(self) -> None:
        """Write what the log has at this moment. What comes meanwhile waits for the next time: written at once, it
        would be pages of a few events each."""
        end = (await self._log.head()).position
        while self._position < end and (page := await self._next_page()):
            await shielded(self._write_page(page))

    async def _next_page(self) -> Sequence[Event]:
        """Return the events after the last written one: the fresh ones, else those before them, read from the log."""
        which: EventFilter = {"after": self._position, "limit": _PAGE, "most_bytes": _PAGE_BYTES}
        if self._fresh and self._fresh[0].position > self._position + 1:
            gap: EventFilter = {**which, "before": self._fresh[0].position}
            if page := await self._log.read(**gap):
                return page
        fresh, self._fresh, self._fresh_bytes = self._fresh, [], 0
        self._is_much.clear()
        page = [event for event in fresh if event.position > self._position]  # the others were caught up with
        return page or await self._log.read(**which)

    async def _pages(self, **which: Unpack[EventFilter]) -> AsyncIterator[Sequence[Event]]:
        """Yield the events in pages, in order of position."""
        which["limit"], which["most_bytes"] = _PAGE, _PAGE_BYTES
        while page := await self._log.read(**which):
            yield page
            which["after"] = page[-1].position

    async def _write_page(self, page: Sequence[Event]) -> None:
        known = await self._messages(page)
        await self._write(await self._of_days(page, known))
        await self._write_messages(page, known, self._led.take(page))
        await self._write_sessions(_sessions_of(page))
        self._position = page[-1].position

    async def _settle(self) -> None:
        if self._position == self._settled:
            return
        position = self._position
        await self._write(await self._index())
        unsynced, self._unsynced = self._unsynced - self._failed, set()
        await self._change(disk.sync, unsynced)
        if not self._failed:
            await self._change(disk.write_note, self._note, position, await self._log.hash_at(position) or "")
        self._settled = position

    async def _write(self, batch: disk.Batch) -> None:
        paths = {path for path, lines in batch.lines.items() if lines} | batch.whole.keys()
        if not paths:
            return
        anew = paths - self._unsynced if self._is_renewing else set[Path]()
        self._unsynced |= paths
        self._leave_out(await self._change(disk.store, batch, anew, self._failed))

    def _leave_out(self, failures: Mapping[Path, OSError] | None) -> None:
        for path, error in (failures or {}).items():
            self._failed.add(path)
            log.warning("%s can't be written and is left out until the next start: %s", path, error)

    async def _change(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | None:
        """Do `work` on the files in a thread, to its end even if cancelled; do nothing if they were abandoned."""
        return None if self._is_abandoned else await shielded(asyncio.to_thread(work, *args, **named))

    # --- what the files say -----------------------------------------------------------------------------------------

    async def _of_days(self, events: Sequence[Event], known: Mapping[str, Row]) -> disk.Batch:
        await self._learn_tools(events)
        titles = await self._titles(events)
        return await asyncio.to_thread(self._day_lines, events, titles, known)

    def _day_lines(self, events: Sequence[Event], titles: Mapping[str, str], known: Mapping[str, Row]) -> disk.Batch:
        """Return the lines of the days. `known` are the sessions' own messages; others are those of delegated tasks."""
        batch = disk.Batch()
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

    async def _write_messages(
        self, events: Sequence[Event], known: Mapping[str, Row], led: Mapping[int, Sequence[Event]]
    ) -> None:
        """Write the messages among the events. `led` has the events that led to answers, as far as they are known."""
        messages: list[_Message] = []
        size = 0
        for event in events:
            row = row_of(event, known)
            if row is not None and event.session_id is not None:
                led_to_it = led[event.position] if event.position in led else await self._before_answer(event)
                messages.append((event.session_id, row, led_to_it))
                size += event.body_bytes + sum(each.body_bytes for each in led_to_it)
                if size > _PAGE_BYTES:  # an answer's line has the results of its calls, however few bytes it has itself
                    await self._write(await asyncio.to_thread(self._message_lines, messages))
                    messages, size = [], 0
        if messages:
            await self._write(await asyncio.to_thread(self._message_lines, messages))

    def _message_lines(self, messages: Sequence[_Message]) -> disk.Batch:
        batch = disk.Batch()
        for session_id, row, led_to_it in messages:
            batch.lines[self._messages_file(session_id)].append(message_line(row, led_to_it))
        return batch

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

    def _metas(self, rows: Sequence[Row]) -> disk.Batch:
        batch = disk.Batch()
        for row in rows:
            batch.whole[self._meta_file(SessionId(str(row["session_id"])))] = meta_text(row)
        return batch

    async def _index(self) -> disk.Batch:
        texts: list[str] = []
        after = ""
        while rows := await self._log.rows("sessions", order_by="session_id", after=after, limit=_PAGE):
            after = str(rows[-1]["session_id"])
            texts.append(await asyncio.to_thread(index_text, await with_providers(self._log, rows)))
        return disk.Batch(whole={self._index_file(): "".join(texts)})

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

    def _meta_file(self, session_id: SessionId) -> Path:
        return self._root / "sessions" / str(session_id) / "meta.json"

    def _index_file(self) -> Path:
        return self._root / "sessions" / "index.jsonl"


@contextlib.contextmanager
def _logged() -> Generator[None, None, None]:
    """Log a failure of the disk or the log instead of raising it."""
    try:
        yield
    except (OSError, OzzieError) as error:
        log.warning("the readable files can't be written now: %s", error)


def _sessions_of(events: Iterable[Event]) -> set[SessionId]:
    return {event.session_id for event in events if event.session_id}
