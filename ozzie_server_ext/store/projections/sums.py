"""Counters of a row: tokens and money (1e-9 USD) that add up."""

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import ModelCallCompleted
from ozzie_server_ext.store.tables import Row, Value

_MOST = (1 << 63) - 1


def plus(value: Value, more: int) -> int:
    """The counter `value` raised by `more`.

    Raises InputError where no column can hold the sum: a figure that large comes from a broken or hostile provider.
    """
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no counter")
    if more < 0 or value + more > _MOST:
        raise InputError(f"A counter at {value} can't be raised by {more}.")
    return value + more


def spent(row: Row, fact: ModelCallCompleted) -> Row:
    """What a completed call changes in a row that sums up usage."""
    return {
        "input_tokens": plus(row["input_tokens"], fact.usage.input_tokens),
        "output_tokens": plus(row["output_tokens"], fact.usage.output_tokens),
        "cost": plus(row["cost"], fact.cost or 0),
        "cost_known": 0 if fact.cost is None else row["cost_known"],
    }
