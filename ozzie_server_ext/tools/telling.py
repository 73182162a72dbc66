"""How the outcome of a call is told: without secrets, and of a large result its beginning and end (TL-5).

Here, and nowhere else, secrets are taken out of what tools say, before it reaches an event, a model or a page.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from ozzie_server_ext.artifacts.store import ArtifactStore, Kept
from ozzie_server_ext.domain.errors import OzzieError
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
from ozzie_server_ext.tools.output import LargeResult, large
from ozzie_server_ext.tools.pages import head_and_tail
from ozzie_server_ext.tools.weight import expect_bearable, is_light

log = logger(__name__)

T = TypeVar("T")

MOST_SAID = 20_000
"""In characters, of what a tool says of itself in words."""
MOST_LINKS = 200
LONGEST_LINK = 500
"""In characters."""


class Telling:
    """Makes facts of outcomes. `known_secrets` tells what is taken out as it is, beside what looks like a secret."""

    def __init__(self, artifacts: ArtifactStore, known_secrets: Callable[[], Sequence[str]] = tuple) -> None:
        self._artifacts = artifacts
        self._known_secrets = known_secrets

    async def result(
        self, call_id: CallId, meta: ToolMeta, args: JsonObject, result: ToolResult, duration_ms: float
    ) -> tuple[ToolCallCompleted | ToolCallFailed, Kept | None]:
        """The outcome of a call that came to a result, and the whole of one of which it has only a part.

        A result that can't be told is a failure; but one of a call that had an effect was had, whatever became of it.
        """
        try:
            summary = self._words(result.summary)
            data, whole = await self._told(call_id, meta, args, result)
        except Exception as error:
            if not isinstance(error, OzzieError):
                log.exception("a result of tool %s can't be told", meta.tool_id)
            if meta.may_be_repeated:
                return self.failure(call_id, error_of(meta, error), duration_ms), None
            summary, data, whole = "", {"done": True, "note": f"It was done. {_untold(error)}"}, None
        return ToolCallCompleted(
            call_id=call_id,
            ok=result.ok,
            data=data,
            summary=summary or (byte_count(whole.size) if whole else ""),
            duration_ms=duration_ms,
            artifacts=(*((whole.artifact_id,) if whole else ()), *map(ArtifactId, result.artifact_refs)),
            brought=result.content.sources,
            links=self._links(result.links),
            wrote=result.wrote,
        ), whole

    async def kept(self, call_id: CallId, meta: ToolMeta, made: Sequence[Made]) -> tuple[list[Kept], list[Json]]:
        """What a call makes, without secrets, and durable; and what its result says of it, see `Made`. Raises
        OzzieError."""
        kept: list[Kept] = []
        told: list[Json] = []
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
                told.append({**of, **(await asyncio.to_thread(_excerpt, content, each.shown) if each.shown else {})})
        return kept, told

    def failure(self, call_id: CallId, error: OzzieError, duration_ms: float) -> ToolCallFailed:
        """The outcome of a call that gave no result, and had no effect."""
        return ToolCallFailed(
            call_id=call_id, code=error.code, message=self._words(str(error)), duration_ms=duration_ms
        )

    def unknown(self, call_id: CallId, why: OzzieError) -> ToolCallUncertain:
        """The outcome of a call of which nobody knows whether it was had."""
        said = " ".join(filter(None, [str(why), why.hint]))
        return ToolCallUncertain(call_id=call_id, reason=self._words(said))

    def shown(self, text: str) -> str:
        """What a tool says while it runs, without secrets."""
        return redact_text(repair_text(text), self._known_secrets())

    def _links(self, links: Sequence[str]) -> tuple[str, ...]:
        """Those that hold no secret: with another in its place, it is no link of that page."""
        short = (link for link in links[:MOST_LINKS] if len(link) <= LONGEST_LINK)
        return tuple(link for link in short if self.shown(link) == link)

    def _words(self, said: str) -> str:
        """A sentence of a tool's, as it can be told. A long one is not cut: half of a secret is not found."""
        if len(said) > MOST_SAID:
            return f"What it says of that is too long to be told: {len(said):,} characters."
        return self.shown(said)

    async def _told(
        self, call_id: CallId, meta: ToolMeta, args: JsonObject, result: ToolResult
    ) -> tuple[Json, Kept | None]:
        said = result.data if result.error is None else encode(result.error)
        looking = partial(_redacted, said, self._known_secrets(), meta.max_inline_chars)
        data, found = looking() if is_light(said) else await asyncio.to_thread(_bearable, said, looking)
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


def naming(result: ToolResult, made: Sequence[Kept], told: list[Json]) -> ToolResult:
    """The result with what was kept of it."""
    if not made:
        return result
    data = {**result.data, "kept": told} if told and isinstance(result.data, dict) else result.data
    return replace(result, data=data, artifact_refs=(*result.artifact_refs, *(each.artifact_id for each in made)))


def _excerpt(content: bytes, room: int) -> JsonObject:
    head, tail = head_and_tail(content.decode(), room)
    return {"head": head.text, "tail": tail}


def error_of(meta: ToolMeta, error: Exception) -> OzzieError:
    """What a person and the model read where a tool ended with this: its own words where it foresaw it, and nothing of
    its insides where it did not."""
    match error:
        case OzzieError():
            return error
        case TimeoutError():
            return ToolFailed(f"{meta.name} did not finish within {meta.timeout_s:g} s.", code="tool.timed_out")
        case _:
            return ToolFailed(f"{meta.name} broke; the log has the details.", code="tool.broken")


def _clean(content: str | bytes, known: Sequence[str]) -> bytes:
    """Without secrets, where it is text: in what is none, nobody reads one."""
    if isinstance(content, bytes):
        try:
            content = content.decode()
        except UnicodeDecodeError:
            return content
    return redact_text(repair_text(content), known).encode()


def _redacted(said: Any, known: Sequence[str], max_chars: int) -> tuple[Json, LargeResult | None]:
    """Of a result as JSON: what a tool gives back may hold tuples and the like, which nobody would look into."""
    raw = canonical_bytes(said)
    whole = loads(raw, max_bytes=len(raw))
    data = redact(whole, known)
    is_small = data == whole and len(raw) <= max_chars
    return data, None if is_small else large(data, max_chars)


def _bearable(said: Any, looking: Callable[[], T]) -> T:
    expect_bearable(said)
    return looking()


def _untold(error: Exception) -> str:
    return f"Its result can't be shown: {error}" if isinstance(error, OzzieError) else "Its result can't be shown."
