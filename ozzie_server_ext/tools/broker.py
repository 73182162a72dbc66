"""The one path by which a tool runs: validate, decide, record the intent, run, record the outcome (DESIGN §2.4).

Until it can ask, whatever would have to be asked for is refused.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ozzie_server_ext.artifacts.store import ArtifactStore, Kept
from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.errors import OzzieError, PolicyError
from ozzie_server_ext.domain.events import (
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
    ToolUse,
)
from ozzie_server_ext.domain.ids import ArtifactId, CallId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.redaction import redact, redact_text
from ozzie_server_ext.domain.toolmeta import ToolMeta, ToolResult
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.policy.action import Caller
from ozzie_server_ext.policy.decision import Decision, Verdict
from ozzie_server_ext.policy.ruling import Ruling, Rulings
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads, loads_object
from ozzie_server_ext.render.text import byte_count
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import InvalidArguments, Tool, ToolContext
from ozzie_server_ext.tools.output import LargeResult, large
from ozzie_server_ext.tools.registry import ToolRegistry

log = logger(__name__)

_LONG = 32_768
"""In bytes, of a result that is looked at beside the loop."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a turn a call stands: the round of the model, from 1, and its index among that round's calls, from 0."""

    round: int
    index: int


class ToolBroker:
    """Enforces what was decided. Results and failures go to the log, and the model reads them from there; before that,
    and here alone, secrets are taken out of them."""

    def __init__(
        self,
        registry: ToolRegistry,
        rulings: Rulings,
        artifacts: ArtifactStore,
        clock: Clock,
        ids: IdSource,
        known_secrets: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`known_secrets` tells those that are taken out of results as they are, beside what looks like one."""
        self._registry = registry
        self._rulings = rulings
        self._artifacts = artifacts
        self._clock = clock
        self._ids = ids
        self._known_secrets = known_secrets

    async def call(self, use: ToolUse, place: Place, context: ToolContext, recorder: Recorder) -> None:
        """Carry out one call that the model asked for, or record why not. Cancelling records that too."""
        call_id = CallId(self._ids.new())
        began = self._clock.monotonic()
        tool = self._registry.find(use.name)

        def requested(args: JsonObject) -> ToolCallRequested:
            return ToolCallRequested(
                call_id=call_id,
                use_id=use.call_id,
                tool_id=tool.meta.tool_id if tool else "",
                name=tool.meta.name if tool else use.name[:64],
                version=tool.meta.version if tool else "",
                args=args,
                round=place.round,
                index=place.index,
            )

        def failed(error: OzzieError) -> ToolCallFailed:
            return self._failed(call_id, error.code, str(error), began)

        if tool is None:
            await recorder.append(requested({}), failed(_unknown(use.name, self._registry)))
            return
        try:
            args = tool.check(_parse(use.arguments))
        except OzzieError as error:
            await recorder.append(requested({}), failed(error))
            return
        ruling = await self._rulings.of(tool.meta, args, context.caller)
        decided = _decided(call_id, ruling)
        refusal = _refusal(tool.meta, ruling.verdict, context.caller)
        if refusal is not None:
            await recorder.append(requested(args), decided, failed(refusal))
            return
        await recorder.append(requested(args), decided, ToolCallStarted(call_id=call_id))
        try:
            outcome, whole = await self._run(tool, args, context, call_id, began)
        except asyncio.CancelledError:
            stopped = "The turn was stopped."
            await recorder.append(
                ToolCallCancelled(call_id=call_id, reason=stopped)
                if tool.meta.may_be_repeated
                else ToolCallUncertain(call_id=call_id, reason=stopped)
            )
            raise
        if whole is None:
            await recorder.append(outcome)
        else:
            await self._artifacts.record(recorder, whole, outcome)

    async def _run(
        self, tool: Tool, args: JsonObject, context: ToolContext, call_id: CallId, began: float
    ) -> tuple[ToolCallCompleted | ToolCallFailed, Kept | None]:
        """The outcome, and the whole of a result of which it has only a part."""
        try:
            async with asyncio.timeout(tool.meta.timeout_s):
                result = await tool.run(args, context)
            data, whole = await self._told(tool.meta, args, result, call_id)
        except TimeoutError:
            failure = "tool.timed_out", f"{tool.meta.name} did not finish within {tool.meta.timeout_s:g} s."
        except OzzieError as error:
            failure = error.code, str(error)
        except Exception:
            log.exception("tool %s broke", tool.meta.tool_id)
            failure = "tool.broken", f"{tool.meta.name} broke; the log has the details."
        else:
            completed = ToolCallCompleted(
                call_id=call_id,
                ok=result.ok,
                data=data,
                summary=redact_text(result.summary, self._known_secrets()) or (byte_count(whole.size) if whole else ""),
                duration_ms=self._since(began),
                artifacts=(*((whole.artifact_id,) if whole else ()), *map(ArtifactId, result.artifact_refs)),
            )
            return completed, whole
        return self._failed(call_id, *failure, began), None

    async def _told(
        self, meta: ToolMeta, args: JsonObject, result: ToolResult, call_id: CallId
    ) -> tuple[Json, Kept | None]:
        """What may be told of a result: without secrets, and of a large one its beginning and end, beside the whole."""
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

    def _failed(self, call_id: CallId, code: str, message: str, began: float) -> ToolCallFailed:
        said = redact_text(message, self._known_secrets())
        return ToolCallFailed(call_id=call_id, code=code, message=said, duration_ms=self._since(began))

    def _since(self, began: float) -> float:
        return round((self._clock.monotonic() - began) * 1000, 3)


def _redacted(raw: bytes, known: Sequence[str], max_chars: int) -> tuple[Json, LargeResult | None]:
    """Of a result as JSON: what a tool gives back may hold tuples and the like, which nobody would look into."""
    data = redact(loads(raw, max_bytes=len(raw)), known)
    return data, large(data, max_chars)


def _parse(arguments: str) -> JsonObject:
    try:
        return loads_object(arguments or "{}", surrogates="repair")
    except OzzieError as error:
        raise InvalidArguments(f"The arguments are not a JSON object: {error}") from None


def _unknown(name: str, registry: ToolRegistry) -> OzzieError:
    offered = ", ".join(tool.meta.name for tool in registry.all())
    return InvalidArguments(f"There is no tool {name[:64]}; there are: {offered}.", code="tool.unknown")


def _decided(call_id: CallId, ruling: Ruling) -> ToolCallDecided:
    verdict = ruling.verdict
    return ToolCallDecided(
        call_id=call_id,
        decision=verdict.decision.value,
        rule=verdict.rule,
        reason=verdict.reason,
        place=verdict.place,
        policy=ruling.version,
    )


def _refusal(meta: ToolMeta, verdict: Verdict, caller: Caller) -> PolicyError | None:
    """Why the call does not run; None where it does."""
    match verdict.decision:
        case Decision.ALLOW:
            return None
        case Decision.DENY:
            return PolicyError(verdict.refusal)
        case Decision.ASK if not caller.attended:
            return PolicyError(f"Not done: nobody was there to ask ({meta.name}).", code="policy.unattended")
        case Decision.ASK:
            return PolicyError(f"Not done: {meta.name} needs a yes, and Ozzie can't ask for one yet.")
