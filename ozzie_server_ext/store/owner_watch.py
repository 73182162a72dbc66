"""Notices that another gateway has taken over the log, also where nothing is being written."""

import asyncio
from collections.abc import Callable

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store.log import EventLog, OwnerLost

log = logger(__name__)

CHECK_S = 2.0


class OwnerWatch:
    """Asks the log now and then; `on_lost` is told once, and after that nothing more is asked."""

    def __init__(self, event_log: EventLog, on_lost: Callable[[OwnerLost], None], *, every_s: float = CHECK_S) -> None:
        self._log = event_log
        self._on_lost = on_lost
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch(), name="watch over the log's owner")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self._log.expect_owned()
            except OwnerLost as error:
                log.error("%s This gateway stops.", error)
                self._on_lost(error)
                return
            except OzzieError as error:
                log.warning("whether the log is still this gateway's can't be told: %s", error)
