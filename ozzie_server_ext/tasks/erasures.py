"""Erasing sessions and messages for a person, and removing what is left of them (docs/adr/0060-erasure.md)."""

import asyncio
from collections.abc import Sequence

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.events import ERASURE_TYPES, ArtifactErased, Event, MessageErased, SessionErased
from ozzie_server_ext.domain.ids import BlobRef, MessageId, SessionId
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store.contents import DatabaseBlobs
from ozzie_server_ext.store.erasing import Target
from ozzie_server_ext.store.readable import ReadableFiles
from ozzie_server_ext.store.sqlite import SqliteEventLog

log = logger(__name__)

_AGAIN_S = 60.0
_LATEST_AGAIN_S = 3600.0
"""How long to wait after a failure before traces are removed again: first, and at most."""


class Erasures:
    """Erases, then removes the traces in files. What a gateway leaves that ends in between, the next start removes."""

    def __init__(self, event_log: SqliteEventLog, blobs: DatabaseBlobs, readable: ReadableFiles) -> None:
        self._log = event_log
        self._blobs = blobs
        self._readable = readable
        self._forgotten = self._rewritten = 0
        """Up to which erasure the readable files, and the database's file, were written anew."""
        self._wanted = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._work: asyncio.Task[None] | None = None
        self._is_stopped = False
        event_log.on_commit(self._erased, types=ERASURE_TYPES | {ArtifactErased.type})

    async def erase_session(self, session_id: SessionId, by: str) -> None:
        """Erase a session. Returns when no trace of it is left. Raises NotFound; Gone if it was erased before; Conflict
        while a turn of it or of a fork runs; Unavailable if it is erased and traces could not be removed yet."""
        await self._erase(Target(by, session_id))

    async def erase_message(self, message_id: MessageId, by: str) -> None:
        """Erase a message and its turn, like `erase_session`."""
        await self._erase(Target(by, await self._log.session_of_message(message_id), message_id))

    async def _erase(self, target: Target) -> None:
        await self._log.erase(target)
        await self.cleaned()

    async def cleaned(self) -> None:
        """Wait until the traces of all erasures so far are removed. Raises Unavailable if that failed; it is tried
        again."""
        if self._is_stopped:
            raise _stopped()
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(over)
        self._wanted.set()
        await over

    def start(self) -> None:
        self._wanted.set()
        self._work = asyncio.create_task(self._run(), name="traces of erased content are removed")

    async def stop(self) -> None:
        self._is_stopped = True
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])
        _end(self._waiting, _stopped())

    async def _run(self) -> None:
        again_s = _AGAIN_S
        while True:
            await self._wanted.wait()
            await asyncio.sleep(0)  # who erased hears of it in the same turn of the loop, and then waits
            self._wanted.clear()
            waiting, self._waiting = self._waiting, []
            try:
                await self._clean()
            except asyncio.CancelledError:
                self._waiting += waiting
                raise
            except Exception as error:
                log.warning("what was erased may still be in files: %s", error)
                why = str(error) or type(error).__name__
                hint = getattr(error, "hint", "") or ""
                hint = f"{hint} It is tried again {_in(again_s)}, and at the next start.".strip()
                _end(waiting, Unavailable(f"It is erased, but a trace is left: {why}", hint=hint))
                asyncio.get_running_loop().call_later(again_s, self._wanted.set)
                again_s = min(2 * again_s, _LATEST_AGAIN_S)
            else:
                _end(waiting, None)
                again_s = _AGAIN_S

    async def _clean(self) -> None:
        """Remove the traces of all erasures so far. Raises Unavailable, OSError, and what reading the log raises."""
        traces = await self._log.uncleaned()
        if not traces:
            return
        last = traces[-1].position
        if fresh := [each for each in traces if each.position > self._forgotten]:
            sessions, days = {each for trace in fresh for each in trace.sessions}, (trace.days for trace in fresh)
            await self._readable.forget(sessions, frozenset().union(*days))
            self._forgotten = last
        if self._rewritten < last:
            await self._log.write_anew()
            self._rewritten = last
        repeating = await self._log.repeating_blobs()

        async def needed(refs: Sequence[BlobRef]) -> set[BlobRef]:
            await self._log.expect_owned()  # another gateway may have stored one
            rows = await self._log.rows("blobs", where={"ref": [*refs]})
            counts = {BlobRef(str(row["ref"])): int(str(row["needed"])) for row in rows}
            return {ref for ref, count in counts.items() if count > repeating.get(ref, 0)}

        held = await self._blobs.remove_unneeded(needed)
        if again := held & {ref for trace in traces for ref in trace.blobs}:
            raise Unavailable(f"Somebody is storing the same content again ({min(again)}).")
        await self._log.note_cleaned(last)

    def _erased(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if isinstance(event.body, SessionErased | MessageErased) and event.session_id is not None:
                self._blobs.forget((event.session_id, *event.body.forks))
        self._wanted.set()  # here, as nobody may wait any more


def _stopped() -> Unavailable:
    return Unavailable("It is erased, and Ozzie stops.", hint="Its next start removes what is left in files.")


def _in(seconds: float) -> str:
    minutes = round(seconds / 60)
    return "in a minute" if minutes == 1 else f"in {minutes} minutes"


def _end(waiting: list[asyncio.Future[None]], error: Unavailable | None) -> None:
    for over in waiting:
        if not over.done():
            over.set_exception(error) if error is not None else over.set_result(None)
