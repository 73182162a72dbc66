"""Calls of a model that summarizes for another: earlier turns, long results (docs/adr/0055).

A summary is material, like what it was made from: its event bears all labels of the conversation.
"""

import hashlib
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.agent.model_call import ModelCaller
from ozzie_server_ext.agent.plan import Allowance, TurnContext
from ozzie_server_ext.agent.requests import injected_tools, toolset_version
from ozzie_server_ext.domain.budget import tokens_in
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import ChatMessage, ModelChoice, ModelRequest
from ozzie_server_ext.protocol.jsontext import canonical_bytes, dumps

ASSUMED_CONTEXT = 128_000
"""Tokens that a model reads at once if its limit is unknown."""
READ = 0.5
"""The share of the summarizer's own context that one call of it reads."""
_TOO_LONG = 3
"""A text with so many times the tokens that were asked for is rejected: its model keeps to no limit. Tokens are counted
roughly, and twice too high for some languages."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A text, and the call that wrote it. `is_whole`: no limit of its length cut it off."""

    call_id: CallId
    text: str
    is_whole: bool


class Summarizer:
    """Makes such calls for one turn."""

    def __init__(self, context: TurnContext, caller: ModelCaller) -> None:
        self._context = context
        self._caller = caller

    async def first_of(self, chain: Chain, longest: int) -> tuple[ModelChoice, Allowance]:
        """Return the model to call, whose answer may have `longest` tokens, and the budgets now. Raises ModelError."""
        allowance = self._context.plan.allowance()
        longest = min(chain.first.longest_answer or longest, longest)
        return await self._caller.priced(replace(chain.first, max_tokens=longest), allowance), allowance

    async def write(
        self, choice: ModelChoice, allowance: Allowance, instructions: str, data: JsonObject, *, number: int
    ) -> Summary | None:
        """Have `data` summarized as the instructions say, in round `number`; return None if the answer is unusable.
        `Summary.is_whole` tells whether it came to its end. Raises what `ModelCaller.make` raises."""
        request = ModelRequest(
            call_id=CallId(self._context.parts.ids.new()),
            choice=choice,
            messages=(
                ChatMessage(role="system", content=instructions),
                ChatMessage(role="user", content=dumps(data)),
            ),
        )
        version = hashlib.sha256(instructions.encode()).hexdigest()[:16]
        started = self._caller.start_event(
            request, allowance, number=number, prompt=version, tools=toolset_version(injected_tools(()))
        )
        answer = await self._caller.make(request, msgspec.structs.replace(started, purpose="summary"), allowance)
        text = answer.text.strip()
        finish = answer.finished.finish
        if not text or finish not in ("stop", "length") or answer.finished.tool_uses:
            return None
        if choice.max_tokens is not None and tokens_in(text.encode()) > _TOO_LONG * choice.max_tokens:
            return None
        return Summary(call_id=request.call_id, text=text, is_whole=finish == "stop")


def within(room: int, most: int, least: int, data: Callable[[int], Json]) -> Json:
    """Return `data(most)`, whose texts have at most `most` characters each. If that has more than `room` tokens, they
    are cut further, but not below `least`."""
    found = data(most)
    while tokens_in(canonical_bytes(found)) > room and most > least:
        most //= 2
        found = data(most)
    return found


def read_at_once(choice: ModelChoice) -> int:
    """Return how many tokens of material one call of the summarizer reads."""
    return int((choice.context or ASSUMED_CONTEXT) * READ)
