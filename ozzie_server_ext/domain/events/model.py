"""Facts about the calls of models."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from ozzie_server_ext.domain.budget import Spending, Usage
from ozzie_server_ext.domain.events.fact import Fact, Finish
from ozzie_server_ext.domain.ids import BlobRef, CallId, ReplyId

Purpose: TypeAlias = Literal["answer", "check"]
INTERRUPTED = "interrupted"
"""The code of a call that the end of its gateway cut off; its turn asks anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """What the model asked for, as it came: the name that the provider saw, arguments not yet checked.

    `call_id` is the model's own and unique within one response only; our events about the call carry a ULID.
    """

    call_id: CallId
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallStarted(Fact):
    """One request to a model. `config`, `prompt`, `tools` are the content hashes of what shaped it, so that a
    deterministic replay can say which of them changed (DESIGN §2.7). A round may take several calls: `attempt` counts
    them, and `instead_of` names the provider in whose place this one is asked, if it is (MD-4).

    It reserves `reserved_tokens` and `reserved_cost` (1e-9 USD; None for an unknown price) in the budgets of its task,
    its session, its `project` (a folder) and its `day` (YYYY-MM-DD where the gateway runs): DESIGN §2.8.

    `updates` counts what was said to the task while it went on (`task.updated`) and stands in the request.

    `purpose`: whether it is to answer the user, or to look at a call that a rule has checked; the `reply_id` of that
    one is no reply's."""

    type: ClassVar[str] = "model.call.started"
    call_id: CallId
    reply_id: ReplyId
    round: int
    alias: str
    provider: str
    model: str
    request_blob: BlobRef
    config: str
    prompt: str
    tools: str
    attempt: int = 1
    instead_of: str = ""
    reserved_cost: int | None = None
    reserved_tokens: int = 0
    project: str = ""
    day: str = ""
    purpose: Purpose = "answer"
    updates: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallCompleted(Fact):
    """The whole response came. `cost` in 1e-9 USD, None for an unknown price; `ttft_ms` None where no token came."""

    type: ClassVar[str] = "model.call.completed"
    call_id: CallId
    response_blob: BlobRef
    finish: Finish
    tool_uses: tuple[ToolUse, ...]
    usage: Usage
    cost: int | None
    latency_ms: float
    ttft_ms: float | None

    def settled(self, reserved_cost: int | None) -> Spending:
        """What budgets count of the call, whatever was reserved for it. Where nobody tells a cost that was expected, it
        is what was reserved: the price is known to somebody."""
        cost = reserved_cost if self.cost is None else self.cost
        return Spending(cost or 0, self.usage.total_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallFailed(Fact):
    """The call ended without a whole response. `partial_blob` holds what had come, where anything had. `latency_ms` is
    None, and nothing is known of what had come, where the gateway itself ended in the middle.

    Where the provider may charge for it all the same, nobody says how much: budgets then count all that was reserved,
    `settled_cost` (1e-9 USD; None for an unknown price) and `settled_tokens`. Logs of before have neither."""

    type: ClassVar[str] = "model.call.failed"
    call_id: CallId
    code: str
    message: str
    latency_ms: float | None
    partial_blob: BlobRef | None = None
    settled_cost: int | None = None
    settled_tokens: int = 0

    @property
    def cost_is_unknown(self) -> bool:
        """Whether it may have cost something. What costs nothing at the most costs nothing."""
        may_be_billed = self.settled_tokens > 0 or self.partial_blob is not None or self.latency_ms is None
        return may_be_billed and self.settled_cost != 0

    @property
    def settled(self) -> Spending:
        """What budgets count of it."""
        return Spending(self.settled_cost or 0, self.settled_tokens)
