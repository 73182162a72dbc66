"""What a turn is given before it begins: its plan, and the parts that it works with."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from ozzie_server_ext.domain.budget import Budget
from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.events import Brief, Limits
from ozzie_server_ext.models.chain import Chain, Health, RetryPolicy
from ozzie_server_ext.models.driver import ModelChoice, ModelDriver
from ozzie_server_ext.models.ledger import Ledger
from ozzie_server_ext.models.rates import RateLimits, Rates
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.tools.broker import ToolBroker
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.offering import Offers
from ozzie_server_ext.tools.registry import ToolRegistry

CHECK_S = 30.0


async def _nobody() -> None:
    return None


async def _goes_on() -> None:
    """What is not to be held."""


def _stays() -> bool:
    return False


async def _as_it_is(choice: ModelChoice) -> ModelChoice:
    return choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a turn may use up, as things are now, and the project's folder and the day that its calls count for."""

    budgets: tuple[Budget, ...] = ()
    project: str = ""
    day: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """For how many seconds a turn may work; `budget` is the task's, which says what then. What is `within` raises
    OutOfTime once that is over, with what was worked before counted."""

    limit_s: float
    budget: Budget
    within: Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """What is settled before a turn begins: who answers, within which limits, and the versions that shaped it.

    `cheaper` tells who answers where a budget has no room for the chain any more; `attended`, whether anybody is there
    to be asked. `brief` is what a delegated turn works by. `checker` tells who looks at calls that a rule has checked,
    None for nobody, and `check_s` how many seconds that may take. `offers` says which tools are offered. `priced` finds
    the prices of a model, and raises Unavailable where nobody can be asked for them. `pause` raises TurnHeld before
    the turn does anything, where somebody wants it held.
    """

    chain: Chain
    limits: Limits
    max_history: int
    soul: str
    custom_prompt: str
    session_title: str
    config_version: str
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    rates_of: Callable[[ModelChoice], RateLimits] = lambda choice: RateLimits()
    recovered: bool = False
    allowance: Callable[[], Allowance] = Allowance
    priced: Callable[[ModelChoice], Awaitable[ModelChoice]] = _as_it_is
    deadline: Deadline | None = None
    cheaper: Callable[[], Awaitable[Chain | None]] = _nobody
    attended: bool = True
    brief: Brief = field(default_factory=Brief)
    checker: Callable[[], Awaitable[Chain | None]] = _nobody
    check_s: float = CHECK_S
    offers: Offers = field(default_factory=Offers)
    pause: Callable[[], Awaitable[None]] = _goes_on


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnParts:
    """What every turn works with. `known_secrets`: see `Telling`. `leaving` tells whether a turn that is cancelled now
    goes on at the next start, because the gateway stops."""

    models: ModelDriver
    health: Health
    rates: Rates
    ledger: Ledger
    registry: ToolRegistry
    index: ToolIndex
    broker: ToolBroker
    blobs: BlobStore
    feed: Feed
    clock: Clock
    ids: IdSource
    known_secrets: Callable[[], Sequence[str]] = tuple
    leaving: Callable[[], bool] = _stays
