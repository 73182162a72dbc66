"""What becomes of a plane's processes, as facts: so that a later gateway knows whom to wait for."""

import asyncio

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import Draft, EventBody, WorkerLost, WorkerStarted
from ozzie_server_ext.domain.ids import worker_stream
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.identity import ProcessMark
from ozzie_server_ext.store.log import EventLog

log = logger(__name__)


class WorkerRecord:
    """Records for one plane what its supervisor tells. A log that can't be written keeps no worker from running."""

    def __init__(self, event_log: EventLog, plane: str) -> None:
        self._log = event_log
        self._plane = plane
        self._losses: set[asyncio.Task[None]] = set()

    async def started(self, mark: ProcessMark) -> None:
        """See `planes.supervisor`; durable when it returns, if it can be."""
        await self._record(WorkerStarted(plane=self._plane, pid=mark.pid, started=mark.started, boot=mark.boot))

    def lost(self, pid: int, reason: str) -> None:
        """See `planes.supervisor`, which does not wait for it."""
        task = asyncio.create_task(self._record(WorkerLost(plane=self._plane, pid=pid, reason=reason)))
        self._losses.add(task)
        task.add_done_callback(self._losses.discard)

    async def settle(self) -> None:
        """Wait until what was told is recorded."""
        await asyncio.gather(*self._losses, return_exceptions=True)

    async def _record(self, body: EventBody) -> None:
        draft = Draft(body=body, actor="system", source="planes")
        try:
            await self._log.append(worker_stream(self._plane), [draft])
        except OzzieError as error:
            log.error("%s of the %s plane was not recorded: %s", body.type, self._plane, error)
