"""Pages of lists: one item more than asked is fetched, to know whether another page follows."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from ozzie_server_ext.gateway.rest.shapes import Page

R = TypeVar("R")
T = TypeVar("T")


def page(rows: Sequence[R], limit: int, shape: Callable[[R], T], cursor: Callable[[R], object]) -> Page[T]:
    """The first `limit` of `rows`, which may hold one more; `cursor` is what the next page begins behind."""
    shown = rows[:limit]
    return Page(items=[shape(row) for row in shown], next=next_of(rows, limit, cursor))


def next_of(rows: Sequence[R], limit: int, cursor: Callable[[R], object]) -> str | None:
    return str(cursor(rows[limit - 1])) if len(rows) > limit else None
