"""What a turn is given before it begins: its plan, and the parts that it works with."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.events import Limits
from ozzie_server_ext.models.attempts import RetryPolicy
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import ModelChoice, ModelDriver
from ozzie_server_ext.models.health import Health
from ozzie_server_ext.models.rates import RateLimits, Rates
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.tools.broker import ToolBroker
from ozzie_server_ext.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """What is settled before a turn begins: who answers, within which limits, and the versions that shaped it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnParts:
    """What every turn works with."""

    models: ModelDriver
    health: Health
    rates: Rates
    registry: ToolRegistry
    broker: ToolBroker
    blobs: BlobStore
    feed: Feed
    clock: Clock
    ids: IdSource
