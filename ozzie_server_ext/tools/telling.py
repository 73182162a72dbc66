"""How the outcome of a call is told: without secrets, and of a large result its beginning and end (TL-5).

Here, and nowhere else, secrets are taken out of what tools say, before it reaches an event, a model or a page.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from ozzie_server_ext.artifacts.store import ArtifactStore, Kept
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import ToolCallCompleted, ToolCallFailed, ToolCallUncertain
from ozzie_server_ext.domain.ids import ArtifactId, CallId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.redaction import redact, redact_text
from ozzie_server_ext.domain.toolmeta import Made, ToolMeta, ToolResult
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads
from ozzie_server_ext.render.text import byte_count
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.output import LargeResult, large

log = logger(__name__)

_LONG = 4096
"""In bytes, of a result that is looked at beside the loop."""


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
            data, whole = await self._told(call_id, meta, args, result)
        except Exception as error:
            if not isinstance(error, OzzieError):
                log.exception("a result of tool %s can't be told", meta.tool_id)
            if meta.may_be_repeated:
                return self.failure(call_id, error_of(meta, error), duration_ms), None
            data, whole = {"done": True, "note": f"It was done. {_untold(error)}"}, None
        return ToolCallCompleted(
            call_id=call_id,
            ok=result.ok,
            data=data,
            summary=redact_text(result.summary, self._known_secrets()) or (byte_count(whole.size) if whole else ""),
            duration_ms=duration_ms,
            artifacts=(*((whole.artifact_id,) if whole else ()), *map(ArtifactId, result.artifact_refs)),
        ), whole

    async def kept(self, call_id: CallId, meta: ToolMeta, made: Made) -> Kept:
        """What a call makes, without secrets, and durable. Raises OzzieError."""
        text = await asyncio.to_thread(redact_text, made.text, self._known_secrets())
        return await self._artifacts.keep(
            text.encode(),
            kind=made.kind,
            name=made.name,
            mime=made.mime,
            call_id=call_id,
            meta={"tool_id": meta.tool_id},
        )

    def failure(self, call_id: CallId, error: OzzieError, duration_ms: float) -> ToolCallFailed:
        """The outcome of a call that gave no result, and had no effect."""
        said = redact_text(str(error), self._known_secrets())
        return ToolCallFailed(call_id=call_id, code=error.code, message=said, duration_ms=duration_ms)

    def unknown(self, call_id: CallId, why: OzzieError) -> ToolCallUncertain:
        """The outcome of a call of which nobody knows whether it was had."""
        said = " ".join(filter(None, [str(why), why.hint]))
        return ToolCallUncertain(call_id=call_id, reason=redact_text(said, self._known_secrets()))

    async def _told(
        self, call_id: CallId, meta: ToolMeta, args: JsonObject, result: ToolResult
    ) -> tuple[Json, Kept | None]:
        said = result.data if result.error is None else encode(result.error)
        raw = canonical_bytes(said)
        looking = partial(_redacted, raw, self._known_secrets(), meta.max_inline_chars)
        data, found = await asyncio.to_thread(looking) if len(raw) > _LONG else looking()
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


def _redacted(raw: bytes, known: Sequence[str], max_chars: int) -> tuple[Json, LargeResult | None]:
    """Of a result as JSON: what a tool gives back may hold tuples and the like, which nobody would look into."""
    data = redact(loads(raw, max_bytes=len(raw)), known)
    return data, large(data, max_chars)


def _untold(error: Exception) -> str:
    return f"Its result can't be shown: {error}" if isinstance(error, OzzieError) else "Its result can't be shown."
