"""A tool call as one row: the tool, its main argument, and the result."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias

from ozzie_server_ext.domain.toolmeta import PROMPT_GET, SERVERS, SKILL_PREFIX, SKILLS
from ozzie_server_ext.render.text import cut_end, cut_middle, visible_label, visible_prose

RowState: TypeAlias = Literal["asked", "running", "done", "failed", "cancelled", "denied", "waiting", "unknown"]

EVENTS = (
    "tool.call.requested",
    "tool.call.decided",
    "tool.call.started",
    "tool.call.progressed",
    "tool.call.completed",
    "tool.call.failed",
    "tool.call.cancelled",
    "tool.call.uncertain",
    "tool.call.resolved",
    "tool.output",
)

SERVERS_WORDS = "The server's words, which the model answers:"
_NOT_ALLOWED = frozenset({"approval.rejected", "policy.denied", "policy.unattended"})
"""The codes of calls that were not made because they were not approved."""
_SETTLED = frozenset({"done", "failed", "cancelled", "denied"})
# The most informative argument of a tool, if it has one of these; else the first text.
_TELLING = ("query", "pattern", "path", "url", "expression", "command", "code", "target", "to", "question", "timezone")
_PATHS = frozenset({"path", "file", "target", "source", "folder", "directory"})
ARGUMENT_WIDTH = 80
RESULT_WIDTH = 60
_LONGEST_PATH = 1024
OUTPUT_WIDTH = 200
WORDS_WIDTH = 4000
_RESULT_WORDS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """One call. `argument` and `result` are safe to show: one line, nothing invisible. `detail` is the whole reason or
    error whose first words are in `result`, and where a long result is kept: as the first of `artifacts`. `approved`
    says who approved it. `output`: the last of the `printed` lines, while it runs. `words`: those of an MCP server's
    prompt, which the model answers like a message: visible, over several lines."""

    call_id: str
    tool_id: str = ""
    name: str = ""
    argument: str = ""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: RowState = "asked"
    result: str = ""
    detail: str = ""
    started_at: datetime | None = None
    duration_ms: float | None = None
    brought: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    approved: str = ""
    output: tuple[str, ...] = ()
    printed: int = 0
    words: str = ""

    @property
    def outside(self) -> bool:
        """Whether its result has outside content."""
        return bool(self.brought)

    @property
    def is_settled(self) -> bool:
        return self.state in _SETTLED

    def seconds(self, now: datetime | None) -> float | None:
        """Return how long it took or has been running; None if that is unknown."""
        if self.duration_ms is not None:
            return self.duration_ms / 1000
        if self.state == "running" and self.started_at is not None and now is not None:
            return max((now - self.started_at).total_seconds(), 0.0)
        return None


def new_row(payload: Mapping[str, Any]) -> ToolRow:
    """Return the row that a call's first frame opens."""
    return ToolRow(call_id=str(payload.get("call_id", "")), name="tool")


def waiting(row: ToolRow) -> ToolRow:
    """Return the row of a call that waits for a person."""
    return replace(row, state="waiting", result="Waiting for your answer")


def going_on(row: ToolRow) -> ToolRow:
    """Return the row of a call that goes on with a person's answer."""
    return replace(row, state="running", result="")


def fold(row: ToolRow, canonical: str, payload: Mapping[str, Any], ts: datetime | None) -> ToolRow:
    """Return the row after one frame about its call. A settled row stays, unless a person resolves it."""
    row = replace(row, brought=tuple(dict.fromkeys((*row.brought, *_brought(payload)))))
    if canonical == "tool.call.requested":
        args = payload.get("args")
        args = args if isinstance(args, Mapping) else {}
        tool_id, name = str(payload.get("tool_id", "")), str(payload.get("name") or payload.get("tool_id") or "tool")
        if tool_id.startswith(SKILLS):  # one row with the skill's name
            name = name.removeprefix(SKILL_PREFIX)
        return replace(row, tool_id=tool_id, name=visible_label(name), args=args, argument=main_argument(args))
    if row.is_settled:
        return row
    match canonical:
        case "tool.call.decided":
            return _decided(row, payload)
        case "tool.call.started":
            approved = row.approved or ("approved for the session" if payload.get("approval_id") else "")
            return replace(row, state="running", started_at=row.started_at or ts, result="", approved=approved)
        case "tool.call.progressed":
            return replace(row, result=short(str(payload.get("summary", ""))))
        case "tool.output":
            return _printing(row, payload)
        case "tool.call.completed" if payload.get("ok", True):
            row = replace(row, artifacts=_artifacts(payload))
            if row.tool_id.startswith(SERVERS) and row.tool_id.endswith(PROMPT_GET):
                row = replace(row, words=prompt_words(payload.get("data")))
            return _kept(_with_result(_timed(row, payload, ts), "done", str(payload.get("summary", ""))))
        case "tool.call.completed":
            message = str(payload.get("summary") or _error_message(payload.get("data")) or "Failed")
            return _with_result(_timed(row, payload, ts), "failed", message)
        case "tool.call.failed":
            state = "denied" if payload.get("code") in _NOT_ALLOWED else "failed"
            return _with_result(_timed(row, payload, ts), state, str(payload.get("message") or "Failed"))
        case "tool.call.cancelled":
            return _with_result(_timed(row, payload, ts), "cancelled", _because("Cancelled", payload.get("reason")))
        case "tool.call.uncertain":
            reason = visible_label(str(payload.get("reason") or ""))
            return replace(row, state="unknown", result="May or may not have happened", detail=reason)
        case "tool.call.resolved":
            return _resolved(row, str(payload.get("outcome")), visible_label(str(payload.get("by") or "a person")))
        case _:
            return row


def prompt_words(data: Any) -> str:
    """Return the words of a prompt with their roles, as far as they are shown."""
    found = data if isinstance(data, Mapping) else {}
    messages = found.get("messages")
    texts: list[str] = []
    for each in messages if isinstance(messages, list) else ():
        if isinstance(each, Mapping):
            named = next((str(each[key]) for key in ("resource", "link", "file") if each.get(key)), "")
            said = "\n".join(filter(None, [named, str(each.get("text") or "")]))
            texts.append(f"{each.get('role')}: {said}")
    shown = "\n\n".join(texts) or str(found.get("head") or "")
    return cut_end(visible_prose(shown), WORDS_WIDTH)


def settle(row: ToolRow, *, stopped: bool, ts: datetime | None) -> ToolRow:
    """Return the row once its turn has ended: a call without an outcome was cancelled with it, or is unknown."""
    if row.is_settled or row.state == "unknown":
        return row
    if stopped or row.state != "running":
        return _with_result(_timed(row, {}, ts), "cancelled", "Cancelled")
    return replace(row, state="unknown", result="May or may not have happened")


def called(name: str, args: Mapping[str, Any]) -> str:
    """Return a call as a phrase: "write_file (notes/a.md)"."""
    argument = main_argument(args, path_width=_LONGEST_PATH)
    return f"{visible_label(name)} ({argument})" if argument else visible_label(name)


def main_argument(args: Mapping[str, Any], *, path_width: int = ARGUMENT_WIDTH) -> str:
    """Return the one argument that a row shows, on one line; "" if there is none."""
    words = args.get("argv")
    if isinstance(words, list) and words:
        return cut_end(visible_label(shlex.join(map(str, words))), ARGUMENT_WIDTH)
    key = next((key for key in _TELLING if _is_plain(args.get(key))), None)
    if key is None:
        key = next((key for key, value in args.items() if isinstance(value, str) and value), None)
    if key is None:
        return cut_end(visible_label(_compact(args)), ARGUMENT_WIDTH) if args else ""
    text = visible_label(str(args[key]))
    if key == "url":
        text = text.removeprefix("https://").removeprefix("http://")
    return cut_middle(text, path_width) if key in _PATHS else cut_end(text, ARGUMENT_WIDTH)


def short(text: str) -> str:
    """Return the first clause of `text`, in at most six words."""
    line = visible_label(text.strip().split("\n", 1)[0])
    words = line.split(" ")
    if len(words) > _RESULT_WORDS:
        line = " ".join(words[:_RESULT_WORDS]).rstrip(",;:") + "…"
    return cut_end(line.removesuffix("."), RESULT_WIDTH)


def _decided(row: ToolRow, payload: Mapping[str, Any]) -> ToolRow:
    match payload.get("decision"):
        case "DENY":
            return _with_result(row, "denied", _because("Not allowed", payload.get("reason")))
        case "ASK":
            return waiting(row)
        case _:
            return row


def _resolved(row: ToolRow, outcome: str, by: str) -> ToolRow:
    match outcome:
        case "done":
            return _with_result(row, "done", f"Done, as {by} says")
        case "again":
            return _with_result(row, "cancelled", f"Not done, as {by} says")
        case _:
            return row


def _printing(row: ToolRow, payload: Mapping[str, Any]) -> ToolRow:
    lines, count = payload.get("lines"), payload.get("count")
    shown = [cut_end(visible_prose(str(line)), OUTPUT_WIDTH) for line in lines] if isinstance(lines, list) else []
    return replace(row, output=tuple(shown), printed=count if isinstance(count, int) else len(shown))


def _with_result(row: ToolRow, state: RowState, text: str) -> ToolRow:
    return replace(row, state=state, result=short(text), detail=visible_label(text), output=(), printed=0)


def _kept(row: ToolRow) -> ToolRow:
    if not row.artifacts:
        return row
    return replace(row, detail=f"{row.detail}. In whole: ozzie artifacts get {row.artifacts[0]}".removeprefix(". "))


def _timed(row: ToolRow, payload: Mapping[str, Any], ts: datetime | None) -> ToolRow:
    measured = payload.get("duration_ms")
    if isinstance(measured, int | float):
        return replace(row, duration_ms=float(measured))
    return replace(row, duration_ms=None if (seconds := row.seconds(ts)) is None else seconds * 1000)


def _because(word: str, reason: Any) -> str:
    return f"{word}: {reason}" if reason else word


def _error_message(data: Any) -> str:
    error = data.get("error") if isinstance(data, Mapping) else None
    return str(error.get("message", "")) if isinstance(error, Mapping) else ""


def _brought(payload: Mapping[str, Any]) -> tuple[str, ...]:
    sources = payload.get("brought")
    return tuple(str(source) for source in sources) if isinstance(sources, list | tuple) else ()


def _artifacts(payload: Mapping[str, Any]) -> tuple[str, ...]:
    artifacts = payload.get("artifacts")
    return tuple(visible_label(str(each)) for each in artifacts) if isinstance(artifacts, list | tuple) else ()


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def _compact(args: Mapping[str, Any]) -> str:
    try:
        return json.dumps(args, ensure_ascii=False, default=str)[:400]
    except (ValueError, RecursionError):
        return "…"
