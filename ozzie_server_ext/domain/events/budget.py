"""Facts about budgets. What a call reserves stands in its `model.call.started`, what it is settled at follows from its
end (docs/adr/0021-budgets.md)."""

from dataclasses import dataclass
from typing import ClassVar

from ozzie_server_ext.domain.budget import Measure, OnBreach, Scope
from ozzie_server_ext.domain.events.fact import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExceeded(Fact):
    """The next call did not fit into a budget, and was not made. In 1e-9 USD, tokens or milliseconds, by `measure`:
    `limit` with all that was allowed in addition, `used` so far, `wanted` by the call at the most. `action` is what
    was done about it."""

    type: ClassVar[str] = "budget.exceeded"
    scope: Scope
    key: str
    measure: Measure
    limit: int
    used: int
    wanted: int
    action: OnBreach


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRaised(Fact):
    """A person allowed more. `amount` is added to what `key` may use up, in the unit of `measure`."""

    type: ClassVar[str] = "budget.raised"
    scope: Scope
    key: str
    measure: Measure
    amount: int
    by: str
