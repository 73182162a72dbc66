"""How events and sessions become lines of the readable files (docs/readable-files.md)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date
from typing import cast

import msgspec

from ozzie_server_ext.domain.events import (
    FINAL_TYPES,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    Event,
    EventBody,
    MessageCompleted,
    MessageReceived,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    PromptAnswered,
    PromptRequested,
    TaskCancelled,
    TaskFailed,
    TaskUpdated,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import CallId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.frames import wire_name
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.render.markdown_source import line_source
from ozzie_server_ext.render.text import cut_end, visible_label
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.feed import size_of
from ozzie_server_ext.store.tables import Row

MESSAGE_TYPES = frozenset(kind.type for kind in (MessageReceived, MessageCompleted, PromptAnswered, TaskUpdated))
"""The types of events that may be messages of a session."""
ANSWER_TYPES = frozenset(
    kind.type
    for kind in (
        ModelCallStarted,
        ModelCallCompleted,
        ModelCallFailed,
        ToolCallRequested,
        ToolCallCompleted,
        ToolCallFailed,
    )
)
"""The types of events that `answer_fields` reads."""
_LINES = msgspec.json.Encoder()
_TITLE_CHARS = 60
_DIARY_CHARS = 400
_LABELLED_CHARS = 8000
"""The most characters of a text that are made visible for a line of `_DIARY_CHARS`: blanks in it are joined."""


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


def meta_text(row: Row) -> str:
    """Return the whole of `meta.json`."""
    return json.dumps(session_meta(row), indent=2, ensure_ascii=False) + "\n"


def index_text(rows: Iterable[Row]) -> str:
    """Return lines of `index.jsonl`."""
    return "".join(f"{dumps(session_meta(row))}\n" for row in rows)


def message_line(row: Row, led_to_it: Sequence[Event]) -> str:
    """Return a message as a line of `messages.jsonl`. `led_to_it` are the events before an answer, see
    `answer_fields`. Raises InvalidJson for what JSON can't express."""
    line: JsonObject = {"role": row["role"], "content": row["text"], "ts": row["ts"]}
    return dumps(line | answer_fields(led_to_it))


def diary_entry(body: EventBody, tool: str = "") -> str:
    """Return a sentence about an event for the diary, or "" for events that a person would not miss. `tool` is the
    name of the tool whose call it ends."""
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


def diary_line(event: Event, title: str, sentence: str) -> str:
    """Return a line of the diary: the time in UTC, the session's title if it has one, and the sentence on one line."""
    where = f" **{line_source(_label(title, _TITLE_CHARS))}**" if title else ""
    return f"- {event.ts.astimezone(UTC):%H:%M:%S}{where}: {line_source(_label(sentence, _DIARY_CHARS))}"


def _label(text: str, width: int) -> str:
    within = cut_end(text, _LABELLED_CHARS)  # a message may have a megabyte, and what follows takes time for each
    return cut_end(visible_label(" ".join(within.split())), width)


def answer_fields(events: Sequence[Event]) -> JsonObject:
    """Return `tokens_in` and `tokens_out` of an answer, and as `tool_calls` the calls that led to it, each if known.
    `events` are its task's, from the previous answer up to this one."""
    calls: dict[CallId, ToolCallRequested] = {}
    results: dict[CallId, Json] = {}
    asked: CallId | None = None
    used: ModelCallCompleted | None = None
    for event in events:
        match event.body:
            case ModelCallStarted(call_id=call_id, purpose="answer"):
                asked, used = call_id, None
            case ModelCallCompleted(call_id=call_id) as completed if call_id == asked:
                used = completed
            case ModelCallFailed(call_id=call_id) if call_id == asked:
                asked, used = None, None
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


class LedToAnswers:
    """Finds what led to answers (see `answer_fields`) in successive events of the log, so that it need not be read
    again: for tasks whose beginning it has seen, unless they had more than `most_bytes` meanwhile."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._since: dict[TaskId, list[Event]] = {}
        self._bytes = 0

    def take(self, events: Sequence[Event]) -> dict[int, Sequence[Event]]:
        """Take the next events; return what led to their answers, by the position of the answer."""
        led: dict[int, Sequence[Event]] = {}
        for event in events:
            task_id = event.task_id
            if task_id is None:
                continue
            if event.version == 1 and event.stream == task_stream(task_id):
                self._since[task_id] = []
            if (before := self._since.get(task_id)) is None:
                continue
            if isinstance(event.body, MessageCompleted):
                led[event.position], self._since[task_id] = before, []
                self._bytes -= sum(map(size_of, before))
            elif event.type in FINAL_TYPES:
                self._bytes -= sum(map(size_of, self._since.pop(task_id)))
            elif event.type in ANSWER_TYPES:
                before.append(event)
                self._bytes += size_of(event)
        if self._bytes > self._most_bytes:
            self.clear()
        return led

    def clear(self) -> None:
        """Forget all tasks, before events that do not follow the last ones."""
        self._since.clear()
        self._bytes = 0


def message_id(event: Event) -> str:
    """Return the id of the message that an event may be, "" if it is none."""
    match event.body:
        case MessageCompleted(reply_id=found):
            return found
        case MessageReceived(message_id=found) | PromptAnswered(message_id=found) | TaskUpdated(message_id=found):
            return found or ""
        case _:
            return ""


def row_of(event: Event, known: Mapping[str, Row]) -> Row | None:
    """Return the message that the event is; None for one within a delegated task, such as an update passed on to it."""
    row = known.get(message_id(event))
    is_passed_on = row is not None and isinstance(event.body, TaskUpdated) and row["position"] != event.position
    return None if is_passed_on else row


def day_of(event: Event) -> date:
    """Return the event's day in UTC."""
    return event.ts.astimezone(UTC).date()
