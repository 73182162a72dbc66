"""What stays true after facts were erased: what their model calls used, which files were made from outside content, and
which models forks have.

The facts that say so are gone, so the fact of the erasure says it again. It has numbers, names of models and of
sessions, and paths of files, never what was said (docs/adr/0060-erasure.md).
"""

import msgspec

from ozzie_server_ext.domain.budget import Scope


class BudgetUse(msgspec.Struct, frozen=True, kw_only=True):
    """What erased calls count against a budget, and how much a person raised it there. Money in 1e-9 USD."""

    scope: Scope
    key: str
    cost: int = 0
    tokens: int = 0
    raised_cost: int = 0
    raised_tokens: int = 0


class ModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """How often a session called a model on a day, and with what use. The fields are those of the table `usage`."""

    session_id: str
    alias: str
    provider: str
    model: str
    day: str
    calls: int = 0
    failed_calls: int = 0
    unknown_price_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: int = 0


class FileMark(msgspec.Struct, frozen=True, kw_only=True):
    """A file made from outside content, by its full path."""

    path: str
    labels: tuple[str, ...]
    sources: tuple[str, ...]


class ChosenModel(msgspec.Struct, frozen=True, order=True):
    """The model that a fork has from its parent."""

    session_id: str
    model: str
    base_url: str


class Remains(msgspec.Struct, frozen=True, kw_only=True):
    budgets: tuple[BudgetUse, ...] = ()
    usage: tuple[ModelUse, ...] = ()
    marks: tuple[FileMark, ...] = ()
    models: tuple[ChosenModel, ...] = ()
    keys: tuple[str, ...] = ()
    """Of sessions: they open none any more, though an earlier session has the fact that gave it the key."""
