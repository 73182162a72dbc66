"""The log as files that a person can read and git can compare (docs/readable-files.md):

- `sessions/index.jsonl`, `sessions/<id>/meta.json` and `messages.jsonl`
- `events/YYYY-MM-DD.jsonl`, and `logs/YYYY-MM-DD.md` as a diary

They are projections that Ozzie never reads. They are written behind the log, lines are appended, and a note says up to
which event they are known to be whole. After a crash, the files that later events belong to are written anew.
"""

import asyncio
import contextlib
import itertools
import json
import os
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, cast

import msgspec

from ozzie_server_ext.config.files import replace_file
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    Event,
    EventBody,
    MessageCompleted,
    MessageReceived,
    ModelCallCompleted,
    PromptAnswered,
    PromptRequested,
    TaskCancelled,
    TaskFailed,
    TaskUpdated,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import CallId, SessionId, task_stream
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.frames import wire_name
from ozzie_server_ext.protocol.jsontext import dumps, loads_object
from ozzie_server_ext.render.markdown_source import line_source
from ozzie_server_ext.render.text import cut_end, visible_label
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.session_models import with_providers
from ozzie_server_ext.store.shielded import shielded
from ozzie_server_ext.store.tables import Row

log = logger(__name__)

GATHER_S = 1.0
"""How long the files may be behind the log."""
SETTLE_S = 30.0
"""How often the written files are synced and the position is noted up to which they are whole."""
_PAGE = 1000
_LINES = msgspec.json.Encoder()
_DIARY_CHARS = 400
MESSAGES = (MessageReceived, MessageCompleted, PromptAnswered, TaskUpdated)


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
        self._is_abandoned = False
        self._unsynced: set[Path] = set()
        self._tools: dict[CallId, str] = {}
        """The names of tools whose calls have no outcome yet."""
        self._new = asyncio.Event()
        self._fresh: list[Event] = []
        """The next events of the log, as far as they need not be read again."""
        self._work: asyncio.Task[None] | None = None
        event_log.on_commit(self._committed)

    def _committed(self, events: tuple[Event, ...]) -> None:
        if len(self._fresh) < _PAGE:  # of more, the rest is read
            self._fresh += events
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
        """Leave the files to another gateway, which has taken over."""
        self._is_abandoned = True
        if self._work is not None:
            self._work.cancel()

    async def stop(self) -> None:
        """Write what is missing, unless the files could not be written before or are another gateway's now."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
            if self._is_taken_up and not self._is_abandoned:
                with _logged():
                    await self.catch_up()

    async def _follow(self) -> None:
        while True:
            with _logged():
                if await asyncio.to_thread(renewal_of(self._root).exists):
                    self._is_taken_up = False
                await self.catch_up()
                await self._write_until(asyncio.get_running_loop().time() + SETTLE_S)
                continue
            self._is_taken_up = False  # an append may have been cut: what it touched is written anew
            await asyncio.sleep(SETTLE_S)

    async def _write_until(self, moment: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(moment):
                while True:
                    await self._new.wait()
                    self._new.clear()
                    await self._write_new()
                    await asyncio.sleep(GATHER_S)

    async def _take_up(self) -> None:
        """Write anew the files that events after the noted position belong to: a crash may have cut them, or the note
        may be older than they are."""
        renewal = renewal_of(self._root)
        is_wanted = await asyncio.to_thread(renewal.exists)
        self._position = self._settled = 0 if is_wanted else await asyncio.to_thread(_noted, self._note)
        sessions: set[SessionId] = set()
        days: set[date] = set()
        last = self._position
        while page := await self._log.read(after=last, limit=_PAGE):
            last = page[-1].position
            sessions |= {event.session_id for event in page if event.session_id}
            days |= {_day(event) for event in page}
        for day in sorted(days):
            await self._renew_day(day, last)
        for session_id in sorted(sessions):
            await self._renew_session(session_id, last)
        await self._write(await self._of_sessions(sessions, with_index=bool(sessions)))
        self._position, self._is_taken_up = last, True
        if is_wanted:
            await asyncio.to_thread(_remove, (renewal,))

    async def _renew_day(self, day: date, until: int) -> None:
        paths = (self._events_file(day), self._diary_file(day))
        await asyncio.to_thread(_remove, paths)
        begin = datetime.combine(day, time(), UTC)
        after = 0
        while page := await self._log.read(
            after=after, before=until + 1, since=begin, until=begin + timedelta(days=1), limit=_PAGE
        ):
            after = page[-1].position
            await self._write_days(page)

    async def _renew_session(self, session_id: SessionId, until: int) -> None:
        await asyncio.to_thread(_remove, (self._messages_file(session_id),))
        after = 0
        types = frozenset(kind.type for kind in MESSAGES)
        while page := await self._log.read(
            after=after, before=until + 1, session_id=session_id, types=types, limit=_PAGE
        ):
            after = page[-1].position
            await self._write(await self._of_messages(page))

    async def _write_new(self) -> None:
        """Write what the log has at this moment. What comes meanwhile waits for the next time: written at once, it
        would be pages of a few events each."""
        end = (await self._log.head()).position
        while self._position < end and (page := await self._next_page()):
            await shielded(self._write_page(page))

    async def _next_page(self) -> Sequence[Event]:
        fresh, self._fresh = self._fresh, []
        if fresh and fresh[0].position == self._position + 1:
            return fresh
        return await self._log.read(after=self._position, limit=_PAGE)

    async def _write_page(self, page: Sequence[Event]) -> None:
        sessions = {event.session_id for event in page if event.session_id}
        await self._write_days(page)
        for batch in (await self._of_messages(page), await self._of_sessions(sessions, with_index=False)):
            await self._write(batch)
        self._position = page[-1].position

    async def _settle(self) -> None:
        if self._position == self._settled:
            return
        position = self._position
        await self._write(await self._of_sessions((), with_index=True))
        unsynced, self._unsynced = self._unsynced, set()
        await asyncio.to_thread(_sync, unsynced)
        await asyncio.to_thread(replace_file, self._note, dumps({"position": position}).encode())
        self._settled = position

    async def _write(self, batch: _Batch) -> None:
        self._unsynced |= batch.lines.keys() | batch.whole.keys()
        await asyncio.to_thread(_store, batch)

    # --- what the files say -----------------------------------------------------------------------------------------

    async def _write_days(self, events: Sequence[Event]) -> None:
        titles = await self._titles(events)
        known = {str(row["message_id"]): row for row in await self._messages(events)}
        await self._write(await asyncio.to_thread(self._of_days, events, titles, known))

    def _of_days(self, events: Sequence[Event], titles: Mapping[str, str], known: Mapping[str, Row]) -> _Batch:
        """Return the lines of the days. `known` are the sessions' own messages; others are those of delegated tasks."""
        batch = _Batch()
        for day, of_day in itertools.groupby(events, _day):
            all_events, diary = batch.lines[self._events_file(day)], batch.lines[self._diary_file(day)]
            for event in of_day:
                all_events.append(event_line(event))
                is_within = bool(_message_id(event)) and _row_of(event, known) is None
                if not is_within and (sentence := self._entry(event)):
                    diary.append(_diary_line(event, titles.get(str(event.session_id), ""), sentence))
        return batch

    def _entry(self, event: Event) -> str:
        match event.body:
            case ToolCallRequested(call_id=call_id, name=name, step_id=step_id):
                self._tools[call_id] = "" if step_id else name
            case ToolCallCompleted(call_id=call_id) | ToolCallFailed(call_id=call_id) as outcome:
                tool = self._tools.pop(call_id, "a tool")
                return diary_entry(outcome, tool) if tool else ""  # a person doesn't miss it
            case ToolCallCancelled(call_id=call_id):
                self._tools.pop(call_id, None)
            case _:
                pass
        return diary_entry(event.body)

    async def _of_messages(self, events: Sequence[Event]) -> _Batch:
        batch = _Batch()
        known = {str(row["message_id"]): row for row in await self._messages(events)}
        for event in events:
            row = _row_of(event, known)
            if row is not None and event.session_id is not None:
                line = await self._message_line(row, event)
                batch.lines[self._messages_file(event.session_id)].append(line)
        return batch

    async def _messages(self, events: Sequence[Event]) -> list[Row]:
        """Return the rows of the events' messages, without those within delegated tasks."""
        wanted: list[Json] = [found for event in events if (found := _message_id(event))]
        return await self._log.rows("messages", where={"message_id": wanted}) if wanted else []

    async def _message_line(self, row: Row, event: Event) -> str:
        line: JsonObject = {"role": row["role"], "content": row["text"], "ts": row["ts"]}
        if isinstance(event.body, MessageCompleted) and event.task_id is not None:
            line |= _of_answer(await self._log.read_stream(task_stream(event.task_id)), event)
        return dumps(line)

    async def _of_sessions(self, sessions: Iterable[SessionId], *, with_index: bool) -> _Batch:
        batch = _Batch()
        wanted: list[Json] = [*sorted(sessions)]
        rows = await self._log.rows("sessions", where={"session_id": wanted}) if wanted else []
        for row in await with_providers(self._log, rows):
            folder = self._messages_file(SessionId(str(row["session_id"]))).parent
            batch.whole[folder / "meta.json"] = json.dumps(session_meta(row), indent=2, ensure_ascii=False) + "\n"
        if with_index:
            rows = await with_providers(self._log, await self._log.rows("sessions", order_by="session_id"))
            index = "".join(f"{dumps(session_meta(row))}\n" for row in rows)
            batch.whole[self._root / "sessions" / "index.jsonl"] = index
        return batch

    async def _titles(self, events: Sequence[Event]) -> dict[str, str]:
        wanted: list[Json] = [*sorted({event.session_id for event in events if event.session_id})]
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
    """Return the file that notes the position up to which the files are whole. Without it, all are written anew."""
    return root / "data" / "readable.json"


def renewal_of(root: Path) -> Path:
    """Return the file whose presence has all files written anew, by the running gateway or the next one."""
    return root / "data" / "readable.renew"


def event_line(event: Event) -> str:
    """Return an event as a line of `events/YYYY-MM-DD.jsonl`, under its name in WebSocket frames."""
    line = {
        "id": event.event_id,
        "session_id": event.session_id or "",
        "type": wire_name(event.type),
        "ts": time_text(event.ts),
        "source": event.source,
        "payload": event.body,
    }
    return _LINES.encode(line).decode()


def session_meta(row: Row) -> JsonObject:
    """Return a session as `meta.json` and the index say it. `cost` is in USD, null if a call had no known price."""
    cost = cast(int, row["cost"]) / 1e9 if row["cost_known"] else None
    return {
        "id": row["session_id"],
        "title": row["title"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "status": row["status"],
        "model": row["model"],
        "message_count": row["message_count"],
        "token_usage": {"input": row["input_tokens"], "output": row["output_tokens"]},
        "cost": cost,
    }


def diary_entry(body: EventBody, tool: str = "") -> str:
    """Return a sentence about an event for the diary; "" for those that a person would not miss. `tool` is the name of
    that whose call it ends."""
    match body:
        case MessageReceived(text=text, origin=origin):
            return f"{origin.sender_name or origin.sender_id or 'Somebody'}: {text}"
        case MessageCompleted(text=text, finish=finish):
            return f"Ozzie: {text}" if finish == "stop" else f"Ozzie ({finish}): {text}"
        case ToolCallCompleted(summary=summary):
            return f"{tool}: {summary}" if summary else tool
        case ToolCallFailed(message=message):
            return f"{tool} failed: {message}"
        case ApprovalRequested(sentence=sentence):
            return f"Approval asked: {sentence}"
        case ApprovalGranted(by=by):
            return f"Approved by {by}"
        case ApprovalRejected(by=by, comment=comment):
            return f"Rejected by {by}: {comment}" if comment else f"Rejected by {by}"
        case PromptRequested(question=question):
            return f"Question: {question}"
        case PromptAnswered(option=option, by=by, text=text):
            return f"Answered by {by}: {text or option}"
        case TaskUpdated(text=text, by=by):
            return f"{by} added: {text}"
        case TaskFailed(message=message):
            return f"Failed: {message}"
        case TaskCancelled(reason=reason):
            return f"Stopped: {reason}" if reason else "Stopped"
        case _:
            return ""


def _diary_line(event: Event, title: str, sentence: str) -> str:
    where = f" **{line_source(cut_end(visible_label(title), 60))}**" if title else ""
    text = line_source(cut_end(visible_label(" ".join(sentence.split())), _DIARY_CHARS))
    return f"- {event.ts.astimezone(UTC):%H:%M:%S}{where}: {text}"


def _of_answer(events: Sequence[Event], answer: Event) -> JsonObject:
    """Return the tokens of an answer and the calls that led to it, by its task's events."""
    calls: dict[str, ToolCallRequested] = {}
    results: dict[str, Json] = {}
    used: ModelCallCompleted | None = None
    for event in events:
        if event.position >= answer.position:
            break
        match event.body:
            case MessageCompleted():
                calls, results = {}, {}
            case ModelCallCompleted() as completed:
                used = completed
            case ToolCallRequested(step_id="") as requested:
                calls[requested.call_id] = requested
            case ToolCallCompleted(call_id=call_id, data=data):
                results[call_id] = data
            case ToolCallFailed(call_id=call_id, message=message):
                results[call_id] = {"error": message}
            case _:
                pass
    found: JsonObject = {}
    if used is not None:
        found |= {"tokens_in": used.usage.input_tokens, "tokens_out": used.usage.output_tokens}
    if calls:
        made: list[Json] = [
            {"name": call.name, "args": call.args, "result": results.get(call_id)} for call_id, call in calls.items()
        ]
        found["tool_calls"] = made
    return found


def _message_id(event: Event) -> str:
    match event.body:
        case MessageCompleted(reply_id=found):
            return found
        case MessageReceived(message_id=found) | PromptAnswered(message_id=found) | TaskUpdated(message_id=found):
            return found or ""
        case _:
            return ""


def _row_of(event: Event, known: Mapping[str, Row]) -> Row | None:
    """Return the message that the event is; None for one within a delegated task, such as an update passed on to it."""
    row = known.get(_message_id(event))
    is_passed_on = row is not None and isinstance(event.body, TaskUpdated) and row["position"] != event.position
    return None if is_passed_on else row


def _day(event: Event) -> date:
    return event.ts.astimezone(UTC).date()


def _noted(note: Path) -> int:
    try:
        position: Any = loads_object(note.read_bytes()).get("position")
    except (OSError, OzzieError, ValueError):
        return 0
    return position if isinstance(position, int) else 0


def _store(batch: _Batch) -> None:
    for path, lines in batch.lines.items():
        if not lines:
            continue
        _private_folder(path.parent)
        is_diary, is_new = path.suffix == ".md", not path.exists()
        text = "".join(f"{line}\n" for line in lines)
        heading = f"# {path.stem}\n\nTimes are UTC.\n\n" if is_diary and is_new else ""
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write((heading + text).encode("utf-8", "replace"))
    for path, text in batch.whole.items():
        _private_folder(path.parent)
        new = path.with_name(f".new-{path.name}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        new.replace(path)


def _private_folder(folder: Path) -> None:
    for each in (folder.parent, folder):  # `parents` would not make them private
        each.mkdir(mode=0o700, exist_ok=True)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _sync(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
