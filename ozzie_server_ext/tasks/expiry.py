"""Notices which approvals nobody answered in time."""

import asyncio

from ozzie_server_ext.domain.events import ApprovalRequested, Event
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.approvals import Approvals

log = logger(__name__)

LOOK_S = 60.0
"""At least so often it looks, while any waits or where the log could not be used: a timer stands still while a machine
sleeps, and an approval's time does not."""


class Expiry:
    """Records, while a gateway runs, which approvals nobody answered in time."""

    def __init__(self, log_: EventLog, approvals: Approvals) -> None:
        self._approvals = approvals
        self._again = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        log_.on_commit(self._follow)

    def start(self) -> None:
        self._work = asyncio.create_task(self._run(), name="approvals expire")

    def stop(self) -> None:
        """At once: while somebody waited for its end, turns would get on in a gateway that stops."""
        if self._work is not None:
            self._work.cancel()

    def _follow(self, events: tuple[Event, ...]) -> None:
        if any(isinstance(event.body, ApprovalRequested) for event in events):
            self._again.set()

    async def _run(self) -> None:
        while True:
            self._again.clear()
            try:
                left = await self._approvals.expire()
            except Exception:
                log.exception("it can't be recorded that an approval expired")
                left = LOOK_S
            try:
                async with asyncio.timeout(None if left is None else min(left, LOOK_S)):
                    await self._again.wait()
            except TimeoutError:
                pass
