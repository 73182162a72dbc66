"""All projections: their tables, and the folds of each type of fact."""

import hashlib
from collections.abc import Callable

from ozzie_server_ext.domain.events import Event, Fact
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store import search
from ozzie_server_ext.store.projections import (
    approvals,
    artifacts,
    blobs,
    budgets,
    marks,
    messages,
    sessions,
    steps,
    tasks,
    usage,
    workers,
)
from ozzie_server_ext.store.tables import Rows, Table

_FOLDS_VERSION = 8
"""Raise it when a fold changes its result for the same events: stored projections are then rebuilt."""

# Tasks first, as it refuses the most. Budgets before usage, and blobs before artifacts: they read rows of the latter as
# they were before the event.
_PROJECTIONS = (tasks, steps, sessions, messages, budgets, usage, blobs, artifacts, approvals, marks, workers)

TABLES: dict[str, Table] = {
    table.name: table
    for table in sorted((table for part in _PROJECTIONS for table in part.TABLES), key=lambda table: table.name)
}
"""By name, in the order of the canonical dump."""

_FOLDS: dict[type[Fact], tuple[Callable[[Event, Rows], None], ...]] = {
    fact: tuple(part.apply for part in _PROJECTIONS if fact in part.HANDLES)
    for fact in {fact for part in _PROJECTIONS for fact in part.HANDLES}
}

FOLDED_TYPES = frozenset(fact.type for fact in _FOLDS)
"""The types of events that change any projection."""


def apply(event: Event, rows: Rows) -> None:
    """Fold one event into every projection that handles it. Raises what a projection raises for a fact that it refuses;
    `rows` may then hold part of the change."""
    for fold in _FOLDS.get(type(event.body), ()):
        fold(event, rows)


def fingerprint() -> str:
    """Return a value that changes whenever stored projections have to be rebuilt."""
    shapes = [
        [table.name, [[c.name, c.kind, c.nullable] for c in table.columns], table.key, table.indexes]
        for table in TABLES.values()
    ]
    return hashlib.sha256(canonical_bytes([_FOLDS_VERSION, search.VERSION, shapes])).hexdigest()
