"""A broker as the gateway builds it, for tests that look at the gate alone."""

from collections.abc import Callable, Sequence

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.approvals import REQUEST_EXPIRES_S
from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.events import EventBody, Transient
from ozzie_server_ext.policy.engine import Rulings
from ozzie_server_ext.tools.broker import AnswerNeeded, ToolBroker
from ozzie_server_ext.tools.outcome import OutcomeWriter
from ozzie_server_ext.tools.permissions import Grants, Permissions
from ozzie_server_ext.tools.registry import ToolRegistry


def broker_of(
    registry: ToolRegistry,
    rulings: Rulings,
    artifacts: ArtifactStore,
    clock: Clock,
    ids: IdSource,
    grants: Grants | None = None,
    *,
    expires_s: Callable[[], float] = lambda: REQUEST_EXPIRES_S,
    known_secrets: Callable[[], Sequence[str]] = tuple,
    publish: Callable[[Transient], None] = lambda transient: None,
) -> ToolBroker:
    permissions = Permissions(artifacts, clock, ids, grants, expires_s, known_secrets)
    outcome_writer = OutcomeWriter(artifacts, known_secrets)
    return ToolBroker(registry, rulings, permissions, outcome_writer, artifacts, clock, ids, publish)


def facts_of(asks: AnswerNeeded | None) -> tuple[EventBody, ...]:
    """The events that ask, none if nobody is asked."""
    return () if asks is None else asks.facts
