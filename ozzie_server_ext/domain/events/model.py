"""Facts about the calls of models."""

from dataclasses import dataclass
from typing import ClassVar

from ozzie_server_ext.domain.events.fact import Fact, Finish
from ozzie_server_ext.domain.ids import BlobRef, CallId, ReplyId
from ozzie_server_ext.domain.usage import Usage

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
    them, and `instead_of` names the provider in whose place this one is asked, if it is (MD-4)."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallFailed(Fact):
    """The call ended without a whole response. `partial_blob` holds what had come, where anything had. `latency_ms` is
    None, and nothing is known of what had come, where the gateway itself ended in the middle."""

    type: ClassVar[str] = "model.call.failed"
    call_id: CallId
    code: str
    message: str
    latency_ms: float | None
    partial_blob: BlobRef | None = None

    @property
    def may_be_billed(self) -> bool:
        """Whether a provider may have begun to answer, which it charges for and never says how much."""
        return self.partial_blob is not None or self.latency_ms is None
