"""The one path by which a tool runs: validate, decide, record the intent, run, record the outcome (DESIGN §2.4).

Until it can ask, whatever would have to be asked for is refused.
"""

import asyncio
from dataclasses import dataclass

from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.errors import OzzieError, PolicyError
from ozzie_server_ext.domain.events import (
    EventBody,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
    ToolUse,
)
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.policy.action import Caller
from ozzie_server_ext.policy.decision import Decision, Verdict
from ozzie_server_ext.policy.ruling import Ruling, Rulings
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import InvalidArguments, Tool, ToolContext
from ozzie_server_ext.tools.output import compact
from ozzie_server_ext.tools.registry import ToolRegistry

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a turn a call stands: the round of the model, from 1, and its index among that round's calls, from 0."""

    round: int
    index: int


class ToolBroker:
    """Enforces what was decided. Results and failures go to the log; the model reads them from there."""

    def __init__(self, registry: ToolRegistry, rulings: Rulings, blobs: BlobStore, clock: Clock, ids: IdSource) -> None:
        self._registry = registry
        self._rulings = rulings
        self._blobs = blobs
        self._clock = clock
        self._ids = ids

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
            return ToolCallFailed(call_id=call_id, code=error.code, message=str(error), duration_ms=self._since(began))

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
            outcome = await self._run(tool, args, context, call_id, began)
        except asyncio.CancelledError:
            stopped = "The turn was stopped."
            await recorder.append(
                ToolCallCancelled(call_id=call_id, reason=stopped)
                if tool.meta.may_be_repeated
                else ToolCallUncertain(call_id=call_id, reason=stopped)
            )
            raise
        await recorder.append(outcome)

    async def _run(
        self, tool: Tool, args: JsonObject, context: ToolContext, call_id: CallId, began: float
    ) -> EventBody:
        try:
            async with asyncio.timeout(tool.meta.timeout_s):
                result = await tool.run(args, context)
            said = result.data if result.error is None else encode(result.error)
            data, blob = await compact(said, max_chars=tool.meta.max_inline_chars, blobs=self._blobs)
        except TimeoutError:
            code, message = "tool.timed_out", f"{tool.meta.name} did not finish within {tool.meta.timeout_s:g} s."
        except OzzieError as error:
            code, message = error.code, str(error)
        except Exception:
            log.exception("tool %s broke", tool.meta.tool_id)
            code, message = "tool.broken", f"{tool.meta.name} broke; the log has the details."
        else:
            return ToolCallCompleted(
                call_id=call_id,
                ok=result.ok,
                data=data,
                summary=result.summary,
                duration_ms=self._since(began),
                blob=blob,
            )
        return ToolCallFailed(call_id=call_id, code=code, message=message, duration_ms=self._since(began))

    def _since(self, began: float) -> float:
        return round((self._clock.monotonic() - began) * 1000, 3)


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
