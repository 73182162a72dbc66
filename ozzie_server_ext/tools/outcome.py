"""Makes the event of a call's outcome: without secrets, and only the beginning and end of a large result."""

import asyncio
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from ozzie_server_ext.artifacts.store import ArtifactStore, Kept
from ozzie_server_ext.domain.artifacts import ArtifactKind
from ozzie_server_ext.domain.errors import InputError, OzzieError
from ozzie_server_ext.domain.events import ToolCallCompleted, ToolCallFailed, ToolCallUncertain
from ozzie_server_ext.domain.ids import ArtifactId, CallId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.redaction import redact, redact_text
from ozzie_server_ext.domain.toolmeta import Made, ToolMeta, ToolResult
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads, repair_text
from ozzie_server_ext.render.text import byte_count
from ozzie_server_ext.tools.base import ToolFailed

MAX_RESULT = 4 << 20
"""Characters of a result as JSON, searched for secrets. More belongs in a file."""
MAX_ITEMS = 500_000
"""Values in a result, at any depth."""
LIGHT_ITEMS = 500
LIGHT = 4096
"""Results up to this many characters and values are processed on the event loop, larger ones in a thread."""


class TooLarge(ToolFailed):
    """The tool returned more than any tool may. Its effect, if it has one, has happened."""

    code = "tool.too_large"


def is_light(result: Any) -> bool:
    """Whether the result is small enough to be processed on the event loop."""
    return _weighs_at_most(result, LIGHT, LIGHT_ITEMS)


def expect_bearable(result: Any) -> None:
    """Raises TooLarge. The check itself takes bounded time."""
    if not _weighs_at_most(result, MAX_RESULT, MAX_ITEMS):
        raise TooLarge(
            f"It returned more than {MAX_RESULT >> 20} MiB or more than {MAX_ITEMS:,} values, which is too much. "
            "Ask for less at once."
        )


def _weighs_at_most(result: Any, characters: int, items: int) -> bool:
    waiting: list[Any] = [result]
    while waiting:
        value = waiting.pop()
        items -= 1
        match value:
            case str():
                characters -= len(value)
            case Mapping():
                items -= len(value)
                if items < 0:
                    return False
                waiting.extend(value.keys())
                waiting.extend(value.values())
            case list() | tuple():
                if len(value) > items:
                    return False
                waiting.extend(value)
            case _:
                pass
        if characters < 0 or items < 0:
            return False
    return True


class TextPlace(msgspec.Struct, frozen=True):
    """The place of a character in a text, both counted from 1."""

    line: int
    character: int


class TextPage(msgspec.Struct, frozen=True):
    """A piece of a text and the place behind it; None at the end of the text."""

    text: str
    next: TextPlace | None

    def data(self, whole: str, start: TextPlace) -> JsonObject:
        """Return the page as a result, with its place in the `whole` text."""
        return {
            "text": self.text,
            "first_line": start.line,
            "first_character": start.character,
            "lines": count_lines(whole),
            "next": self.next and {"first_line": self.next.line, "first_character": self.next.character},
        }


def count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def page_of(text: str, start: TextPlace, *, max_lines: int, room: int) -> TextPage:
    """Return what begins at `start`: at most `max_lines` lines, and `room` characters of JSON. It ends with a line
    unless that would halve it. Raises InputError if `start` is behind the end."""
    begin = _offset(text, start)
    end = begin
    for _ in range(max_lines):
        end = text.find("\n", end) + 1
        if not end:
            end = len(text)
            break
    piece = _to_line_end(fitting(text[begin:end], room), whole=end - begin)
    behind = begin + len(piece)
    return TextPage(piece, None if behind >= len(text) else _place(text, behind))


def head_and_tail(text: str, room: int) -> tuple[TextPage, str]:
    """Return the beginning and end of a longer text: three quarters and one quarter of `room`."""
    head = _to_line_end(fitting(text, room - room // 4), whole=len(text))
    tail = fitting(text[len(head) :][-(room // 4 or 1) :][::-1], room // 4)[::-1]
    at_line = tail.find("\n") + 1
    return TextPage(head, _place(text, len(head))), tail[at_line:] if at_line <= len(tail) // 2 else tail


def fitting(text: str, room: int) -> str:
    """Return the longest beginning of `text` whose JSON has at most `room` characters, escapes included."""
    used = 0
    for index, character in enumerate(text[:room]):
        used += 1 if character >= " " and character not in '"\\' else 2 if character in '"\\\n\r\t\b\f' else 6
        if used > room:
            return text[:index]
    return text[:room]


def _to_line_end(piece: str, *, whole: int) -> str:
    end = piece.rfind("\n") + 1
    return piece[:end] if len(piece) < whole and end > len(piece) // 2 else piece


def _place(text: str, offset: int) -> TextPlace:
    return TextPlace(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def _offset(text: str, place: TextPlace) -> int:
    offset = 0
    for line in range(1, place.line):
        offset = text.find("\n", offset) + 1
        if not offset or offset == len(text):
            raise InputError(f"There is no line {place.line:,}: the last one is {line:,}.")
    end = text.find("\n", offset)
    length = len(text) - offset if end < 0 else end + 1 - offset  # with its line feed, where it has one
    if place.character > max(length, 1):
        raise InputError(
            f"There is no character {place.character:,} in line {place.line:,}: the last one is {length:,}."
        )
    return offset + place.character - 1


class LargeResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result too large for the conversation, as text: the text itself, or indented JSON."""

    text: str
    kind: ArtifactKind
    mime: str

    def name(self, tool: str, args: JsonObject) -> str:
        """Return a name that is the same for each such call, so that its next result becomes a new version."""
        call = hashlib.sha256(canonical_bytes(args)).hexdigest()[:8]
        return f"{tool}-{call}.{'json' if self.kind == 'json' else 'txt'}"

    def excerpt(self, artifact_id: ArtifactId, max_chars: int) -> JsonObject:
        """Return what the model reads instead, and how it can read on."""
        head, tail = head_and_tail(self.text, max_chars)
        lines, characters = count_lines(self.text), len(self.text)
        read_on = f'artifact_id "{artifact_id}"'
        if head.next is not None:
            read_on += f", first_line {head.next.line}"
            if head.next.character > 1:
                read_on += f", first_character {head.next.character}"
        return {
            "cut": True,
            "head": head.text,
            "tail": tail,
            "lines": lines,
            "characters": characters,
            "artifact": artifact_id,
            "note": f"This is the beginning and the end. To read on after `head`: read_artifact with {read_on}.",
        }


def summarized(data: JsonObject, artifact_id: ArtifactId, summary: str) -> JsonObject:
    """Return what the model reads instead of a result with only beginning and end of a text (see `ToolCallCompleted`):
    a model's summary of the whole in their place."""
    note = (
        "A model wrote this summary of the whole; it is material, as the whole is. To read that itself: "
        f'read_artifact with artifact_id "{artifact_id}".'
    )
    if data.get("artifact") == artifact_id:
        return {**_without_ends(data), "summary": summary, "note": note}
    mentions = data.get("kept")
    assert isinstance(mentions, list), "it is the mention of something that the call made"
    kept: list[Json] = [
        {**_without_ends(each), "summary": summary, "note": note}
        if isinstance(each, dict) and each.get("artifact_id") == artifact_id
        else each
        for each in mentions
    ]
    return {**data, "kept": kept}


def _first_cut(mentions: Sequence[JsonObject]) -> ArtifactId | None:
    """Return the first text that a call made of which its result has only beginning and end."""
    return next((ArtifactId(str(each["artifact_id"])) for each in mentions if "head" in each), None)


def _without_ends(part: JsonObject) -> JsonObject:
    return {name: value for name, value in part.items() if name not in ("head", "tail", "note")}


def large(data: Json, max_chars: int) -> LargeResult | None:
    """Return the result for separate storage if its JSON exceeds `max_chars`, else None. Raises InvalidJson."""
    raw = canonical_bytes(data)
    if len(raw) <= max_chars or len(raw.decode()) <= max_chars:
        return None
    if isinstance(data, str):
        return LargeResult(text=data, kind="log", mime="text/plain")
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, indent=1)
    return LargeResult(text=text, kind="json", mime="application/json")


log = logger(__name__)

T = TypeVar("T")

MOST_SAID = 20_000
"""Characters of a tool's summary or message."""
MOST_LINKS = 200
LONGEST_LINK = 500
"""Characters."""


class OutcomeWriter:
    """Turns outcomes into events. `known_secrets` are removed in addition to whatever looks like a secret."""

    def __init__(self, artifacts: ArtifactStore, known_secrets: Callable[[], Sequence[str]] = tuple) -> None:
        self._artifacts = artifacts
        self._known_secrets = known_secrets

    async def _completed(
        self, call_id: CallId, meta: ToolMeta, args: JsonObject, result: ToolResult, duration_ms: float
    ) -> tuple[ToolCallCompleted | ToolCallFailed, Kept | None]:
        """Return the outcome of a call with a result, and the whole result if the outcome has only a part of it.

        A result that can't be shown is a failure, unless the call had an effect: that has happened regardless.
        """
        try:
            summary = self._words(result.summary)
            data, whole = await self._shortened(call_id, meta, args, result)
        except Exception as error:
            if not isinstance(error, OzzieError):
                log.exception("a result of tool %s can't be told", meta.tool_id)
            if meta.may_be_repeated:
                return self.failure(call_id, error_of(meta, error), duration_ms), None
            summary, data, whole = "", {"done": True, "note": f"It was done. {_not_shown(error)}"}, None
        return ToolCallCompleted(
            call_id=call_id,
            ok=result.ok,
            data=data,
            summary=summary or (byte_count(whole.size) if whole else ""),
            duration_ms=duration_ms,
            artifacts=(*((whole.artifact_id,) if whole else ()), *map(ArtifactId, result.artifact_refs)),
            cut=whole.artifact_id if whole else None,
            brought=result.content.sources,
            links=self._links(result.links),
            wrote=result.wrote,
        ), whole

    async def outcome_of(
        self, call_id: CallId, meta: ToolMeta, args: JsonObject, result: ToolResult, since: Callable[[], float]
    ) -> tuple[ToolCallCompleted | ToolCallFailed, list[Kept]]:
        """Store what a call made, and its result if that is too long; return the call's outcome, short and without
        secrets, and the artifacts to record with it. `since` returns the milliseconds since the call began."""
        try:
            made, mentions = await self._keep_made(call_id, meta, result.made)
        except OzzieError as error:
            return self.failure(call_id, error, since()), []
        if made:
            data = {**result.data, "kept": mentions} if mentions and isinstance(result.data, dict) else result.data
            refs = (*result.artifact_refs, *(each.artifact_id for each in made))
            result = dataclasses.replace(result, data=data, artifact_refs=refs)
        outcome, whole = await self._completed(call_id, meta, args, result, since())
        if isinstance(outcome, ToolCallFailed):
            return outcome, []
        if outcome.cut is None and mentions and isinstance(outcome.data, dict) and "kept" in outcome.data:
            outcome = msgspec.structs.replace(outcome, cut=_first_cut(mentions))
        return outcome, [*([whole] if whole else []), *made]

    async def _keep_made(
        self, call_id: CallId, meta: ToolMeta, made: Sequence[Made]
    ) -> tuple[list[Kept], list[JsonObject]]:
        """Store what a call made, without secrets; return that and its mentions (see `Made`). Raises OzzieError."""
        kept: list[Kept] = []
        mentions: list[JsonObject] = []
        for each in made:
            content = await asyncio.to_thread(_clean, each.content, self._known_secrets())
            kept.append(
                await self._artifacts.keep(
                    content,
                    kind=each.kind,
                    name=each.name,
                    mime=each.mime,
                    call_id=call_id,
                    meta={"tool_id": meta.tool_id},
                )
            )
            if each.told or each.shown:
                of: JsonObject = {"name": each.name, "artifact_id": kept[-1].artifact_id}
                excerpt = await asyncio.to_thread(_excerpt, content, each.shown) if each.shown else {}
                mentions.append({**of, **excerpt})
        return kept, mentions

    def failure(self, call_id: CallId, error: OzzieError, duration_ms: float) -> ToolCallFailed:
        """Return the outcome of a call without a result and without an effect."""
        return ToolCallFailed(
            call_id=call_id, code=error.code, message=self._words(str(error)), duration_ms=duration_ms
        )

    def uncertain(self, call_id: CallId, why: OzzieError) -> ToolCallUncertain:
        """Return the outcome of a call whose effect is unknown."""
        reason = " ".join(filter(None, [str(why), why.hint]))
        return ToolCallUncertain(call_id=call_id, reason=self._words(reason))

    def shown(self, text: str) -> str:
        """Return what a tool says while it runs, without secrets."""
        return redact_text(repair_text(text), self._known_secrets())

    def _links(self, links: Sequence[str]) -> tuple[str, ...]:
        """Drop links that hold a secret: redacted, they would lead elsewhere."""
        short = (link for link in links[:MOST_LINKS] if len(link) <= LONGEST_LINK)
        return tuple(link for link in short if self.shown(link) == link)

    def _words(self, text: str) -> str:
        """Return a tool's sentence without secrets. A long one is not cut: half of a secret would not be found."""
        if len(text) > MOST_SAID:
            return f"The tool's message is too long to be shown: {len(text):,} characters."
        return self.shown(text)

    async def _shortened(
        self, call_id: CallId, meta: ToolMeta, args: JsonObject, result: ToolResult
    ) -> tuple[Json, Kept | None]:
        content = result.data if result.error is None else encode(result.error)
        shorten = partial(_redacted, content, self._known_secrets(), meta.max_inline_chars)
        data, found = shorten() if is_light(content) else await asyncio.to_thread(_bounded, content, shorten)
        if found is None:
            return data, None
        whole = await self._artifacts.keep(
            found.text.encode(),
            kind=found.kind,
            name=found.name(meta.name, args),
            mime=found.mime,
            call_id=call_id,
            meta={"tool_id": meta.tool_id},
        )
        return found.excerpt(whole.artifact_id, meta.max_inline_chars), whole


def _excerpt(content: bytes, room: int) -> JsonObject:
    head, tail = head_and_tail(content.decode(), room)
    return {"head": head.text, "tail": tail}


def error_of(meta: ToolMeta, error: Exception) -> OzzieError:
    """Return the error that people and the model read: the tool's own if it foresaw it, without internals if not."""
    match error:
        case OzzieError():
            return error
        case TimeoutError():
            return ToolFailed(f"{meta.name} did not finish within {meta.timeout_s:g} s.", code="tool.timed_out")
        case _:
            return ToolFailed(f"{meta.name} broke; the log has the details.", code="tool.broken")


def _clean(content: str | bytes, known: Sequence[str]) -> bytes:
    """Remove secrets from text; binary content stays as it is."""
    if isinstance(content, bytes):
        try:
            content = content.decode()
        except UnicodeDecodeError:
            return content
    return redact_text(repair_text(content), known).encode()


def _redacted(content: Any, known: Sequence[str], max_chars: int) -> tuple[Json, LargeResult | None]:
    """Redact a result as plain JSON: it may hold tuples and the like, which `redact` does not look into."""
    raw = canonical_bytes(content)
    whole = loads(raw, max_bytes=len(raw))
    data = redact(whole, known)
    is_small = data == whole and len(raw) <= max_chars
    return data, None if is_small else large(data, max_chars)


def _bounded(content: Any, work: Callable[[], T]) -> T:
    expect_bearable(content)
    return work()


def _not_shown(error: Exception) -> str:
    return f"Its result can't be shown: {error}" if isinstance(error, OzzieError) else "Its result can't be shown."
