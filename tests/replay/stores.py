"""A log under test, with what a test needs beside it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ozzie_server_ext.observability.clock import FakeClock
from ozzie_server_ext.store.log import EventLog


@dataclass(frozen=True)
class Store:
    """`erase` takes away the body of the event at a position, as erasing content does."""

    log: EventLog
    clock: FakeClock
    erase: Callable[[int], Awaitable[None]]
