"""The appends of a gateway, recorded as they are made, and logs that end behind any of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import Draft, Event
from ozzie_server_ext.observability.clock import FakeClock, SystemClock, UlidSource
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.tiers import cut_points

Append = tuple[int, str, Sequence[Draft]]
"""The position of its first event, its stream, and its drafts with the ids of their events: a later event may name
one."""


@contextmanager
def recorded_appends(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Append]]:
    """The appends to SQLite logs within the block; at its end they are in the order of the log."""
    appends: list[Append] = []
    append = SqliteEventLog.append

    async def recording(log: SqliteEventLog, stream: str, drafts: Sequence[Draft], **how: Any) -> tuple[Event, ...]:
        events = await append(log, stream, drafts, **how)
        with_ids = [draft._replace(event_id=event.event_id) for draft, event in zip(drafts, events, strict=True)]
        appends.append((events[0].position, stream, with_ids))
        return events

    with monkeypatch.context() as patch:
        patch.setattr(SqliteEventLog, "append", recording)
        yield appends
    appends.sort(key=lambda item: item[0])


async def cut_off(home: Home, appends: Sequence[Append], clock: SystemClock | FakeClock | None = None) -> None:
    """Write a log that ends behind these appends, as a gateway leaves it that is killed there, by default now."""
    clock = clock or SystemClock()
    log = await SqliteEventLog.open(home.database, clock=clock, ids=UlidSource(clock))
    for _, stream, drafts in appends:
        await log.append(stream, drafts)
    await log.close()


def cuts_of(stream: str, appends: Sequence[Append], begins: int) -> list[int]:
    """Return how many appends are whole at each cut: behind each of the task's, or one for each type of event."""
    behind = [index for index in range(begins + 1, len(appends) + 1) if appends[index - 1][1] == stream]
    return cut_points(behind, lambda index: " ".join(draft.body.type for draft in appends[index - 1][2]))
