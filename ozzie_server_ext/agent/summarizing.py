"""Calls of a model that sums up for another: earlier turns, long results (docs/adr/0055).

A summary is material, like what it was made from: its event bears all labels of the conversation.
"""

import hashlib
from dataclasses import dataclass, replace

from ozzie_server_ext.agent.model_call import ModelCaller
from ozzie_server_ext.agent.plan import Allowance, TurnContext
from ozzie_server_ext.agent.requests import injected_tools, toolset_version
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import ChatMessage, ModelChoice, ModelRequest
from ozzie_server_ext.protocol.jsontext import dumps

ASSUMED_CONTEXT = 128_000
"""Tokens that a model reads at once if its limit is unknown."""
READ = 0.5
"""The share of the summarizer's own context that one call of it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A text, and the call that wrote it."""

    call_id: CallId
    text: str


class Summarizer:
    """Makes such calls for one turn."""

    def __init__(self, turn: TurnContext, caller: ModelCaller) -> None:
        self._turn = turn
        self._caller = caller

    async def first_of(self, chain: Chain, longest: int) -> tuple[ModelChoice, Allowance]:
        """Return the model to call, whose answer may have `longest` tokens, and the budgets now. Raises ModelError."""
        allowance = self._turn.plan.allowance()
        longest = min(chain.first.longest_answer or longest, longest)
        return await self._caller.priced(replace(chain.first, max_tokens=longest), allowance), allowance

    async def write(
        self, choice: ModelChoice, allowance: Allowance, instructions: str, data: JsonObject, *, number: int
    ) -> Summary | None:
        """Have `data` summed up as the instructions say, in round `number`; return None if the answer is of no use.
        Raises what `ModelCaller.make` raises."""
        request = ModelRequest(
            call_id=CallId(self._turn.parts.ids.new()),
            choice=choice,
            messages=(
                ChatMessage(role="system", content=instructions),
                ChatMessage(role="user", content=dumps(data)),
            ),
        )
        version = hashlib.sha256(instructions.encode()).hexdigest()[:16]
        started = self._caller.started(
            request, allowance, number=number, prompt=version, tools=toolset_version(injected_tools(()))
        )
        answer = await self._caller.make(request, replace(started, purpose="summary"), allowance)
        text = answer.text.strip()
        if not text or answer.finished.finish not in ("stop", "length") or answer.finished.tool_uses:
            return None
        return Summary(call_id=request.call_id, text=text)


def read_at_once(choice: ModelChoice) -> int:
    """Return how many tokens of material one call of the summarizer reads."""
    return int((choice.context or ASSUMED_CONTEXT) * READ)
