"""The plan of a turn, made before it begins, and the objects that it works with."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal

import msgspec

from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.structured_output import find_misfit
from ozzie_server_ext.domain.budget import Budget
from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.events import Brief, Limits, TaskSucceeded, Transient
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.chain import Chain, Health, RetryPolicy
from ozzie_server_ext.models.driver import ModelChoice, ModelDriver
from ozzie_server_ext.models.ledger import Ledger
from ozzie_server_ext.models.rates import RateLimits, Rates
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.offering import Offers
from ozzie_server_ext.tools.registry import ToolRegistry

if TYPE_CHECKING:  # budgets are counted before the first task needs it
    from ozzie_server_ext.tools.broker import ToolBroker

CHECK_S = 30.0


async def _none() -> None:
    return None


async def _unpriced(choice: ModelChoice) -> ModelChoice:
    return choice


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The current budgets of a turn, and the project's folder and the day that its calls count for."""

    budgets: tuple[Budget, ...] = ()
    project: str = ""
    day: str = ""


class Deadline(msgspec.Struct, frozen=True, kw_only=True):
    """How many seconds a turn may work. The context manager `within()` raises OutOfTime when that time is over; earlier
    work counts. `budget` is the task's and says what follows."""

    limit_s: float
    budget: Budget
    within: Callable[[], AbstractAsyncContextManager[None]]


class TurnPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which models answer a turn, its limits, and the versions of prompt and configuration.

    - `allowance`: returns the current budgets.
    - `priced`: finds the prices of a model. Raises Unavailable if they can't be looked up.
    - `cheaper`: the chain to use if a budget has no room for `chain`, or None.
    - `attended`: whether a person can be asked.
    - `brief`: the instructions of a delegated turn.
    - `checker`: the chain that checks tool calls, or None; `check_s` is its time limit.
    - `offers`: which tools are offered.
    - `compact_tokens`: from how many tokens on earlier turns are summarized; None leaves it to the model's context.
    - `summarizer`: the chain that summarizes them, or None; `result_summarizer`: that for long results of tools.
    - `pause_if_requested`: raises TaskHeld if a pause was requested; `is_pausing` says whether one was.
    - `success`: returns the event that ends the task after so many rounds, to be recorded with the last answer. Without
      it, or where an answer turns out to be the last only later, the caller of the turn ends the task.
    """

    chain: Chain
    limits: Limits
    max_history: int
    soul: str
    custom_prompt: str
    session_title: str
    config_version: str
    retry: RetryPolicy = msgspec.field(default_factory=RetryPolicy)
    rates_of: Callable[[ModelChoice], RateLimits] = lambda choice: RateLimits()
    recovered: bool = False
    allowance: Callable[[], Allowance] = Allowance
    priced: Callable[[ModelChoice], Awaitable[ModelChoice]] = _unpriced
    deadline: Deadline | None = None
    cheaper: Callable[[], Awaitable[Chain | None]] = _none
    attended: bool = True
    brief: Brief = msgspec.field(default_factory=Brief)
    checker: Callable[[], Awaitable[Chain | None]] = _none
    check_s: float = CHECK_S
    offers: Offers = msgspec.field(default_factory=Offers)
    compact_tokens: int | None = None
    summarizer: Callable[[], Awaitable[Chain | None]] = _none
    result_summarizer: Callable[[], Awaitable[Chain | None]] = _none
    pause_if_requested: Callable[[], Awaitable[None]] = _none
    is_pausing: Callable[[], bool] = lambda: False
    success: Callable[[int], Awaitable[TaskSucceeded]] | None = None


class TurnParts(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that all turns of a project share. `known_secrets` returns texts to remove from whatever is recorded.
    `leaving`: the gateway stops, so a turn that is cancelled now goes on at the next start. `find_misfit`: see
    `agent.structured_output`. `failed_summaries`: when summarizing the earlier turns of a session last failed, in
    monotonic seconds."""

    models: ModelDriver
    health: Health
    rates: Rates
    ledger: Ledger
    registry: ToolRegistry
    index: ToolIndex
    broker: "ToolBroker"
    blobs: BlobStore
    feed: Feed
    clock: Clock
    ids: IdSource
    known_secrets: Callable[[], Sequence[str]] = tuple
    leaving: Callable[[], bool] = lambda: False
    find_misfit: Callable[[JsonObject, str], Awaitable[str]] = find_misfit
    failed_summaries: dict[SessionId, float] = msgspec.field(default_factory=dict[SessionId, float])


class TurnContext(msgspec.Struct, frozen=True):
    """One turn while it is carried on: its plan and conversation, the recorder of its task, and the shared parts."""

    parts: TurnParts
    plan: TurnPlan
    conversation: Conversation
    recorder: Recorder

    @property
    def task_id(self) -> TaskId:
        return self.recorder.task_id

    def publish(self, kind: Literal["task.progress", "reply.delta", "reply.reset"], payload: JsonObject) -> None:
        """Send a live message to the turn's followers."""
        session_id = self.recorder.session_id
        self.parts.feed.publish(Transient(type=kind, session_id=session_id, task_id=self.task_id, payload=payload))
