"""A pool of children for the same work: one at first, more while those that run have no CPU left.

A child runs on one core, and its heartbeats report its share of CPU. The number of open calls says little, because
fifty slow answers cost as much as five fast ones; a late event loop may be the fault of other programs, which another
child would only delay more (docs/adr/0018-several-model-workers.md).
"""

import asyncio
import os
from collections.abc import Callable

import msgspec

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.channel import Channel
from ozzie_server_ext.planes.supervisor import PlaneUnavailable, Supervisor

log = logger(__name__)

BUSY_SHARE = 0.75
"""Share of a core at which a child is saturated; the kernel and other programs take the rest."""
BUSY_HEARTBEATS = 2
"""Consecutive busy heartbeats before another child starts: a start costs seconds of CPU, more than a short burst."""
SPARE_SHARE = 0.5
"""A child stops only if the others would stay at or below this share: well below what would start it again."""
IDLE_S = 60.0
MOST_BY_DEFAULT = 4


class ChildState(msgspec.Struct, frozen=True, kw_only=True):
    """A child's state: `ready` or starting, open `calls`, and the `share` of a core between its last two heartbeats."""

    pid: int
    ready: bool
    calls: int
    share: float


class _Member:
    """A child, its last heartbeat, and whether it stops once its calls have ended."""

    def __init__(self, number: int, plane: Supervisor) -> None:
        self.number = number
        self.plane = plane
        self.share = 0.0
        self.busy_heartbeats = 0
        self.leaving = False

    @property
    def calls(self) -> int:
        channel = self.plane.connected
        return 0 if channel is None else channel.open_calls + channel.aborting

    @property
    def busy(self) -> bool:
        # Another child would not help a single call.
        return self.busy_heartbeats > 0 and self.calls > 1

    def update(self, message: JsonObject) -> None:
        share = message.get("cpu")
        self.share = share if isinstance(share, int | float) else 0.0
        self.busy_heartbeats = self.busy_heartbeats + 1 if self.share >= BUSY_SHARE and self.calls > 1 else 0


class Pool:
    """Grows and shrinks a set of children. `make(number)` builds a child's supervisor, from 1; `limit` returns the
    current maximum.

    `start` and the first call start the first child, which stays. Another one starts when all ready ones are busy, one
    at a time, and stops after `idle_s` without need; a call stays with its child.
    """

    def __init__(self, make: Callable[[int], Supervisor], *, limit: Callable[[], int], idle_s: float = IDLE_S) -> None:
        self._make = make
        self._limit = limit
        self._idle_s = idle_s
        self._members: list[_Member] = []
        self._ending: set[asyncio.Task[None]] = set()
        self._needed_at = 0.0
        self._stopping = False
        self._add()

    def start(self) -> None:
        """Start the first child, if none is ready. Raises PlaneUnavailable."""
        if not self.ready:
            self._members[0].plane.start()

    @property
    def ready(self) -> bool:
        """Whether a call would go out at once, without waiting for a start."""
        return self._best() is not None

    @property
    def children(self) -> tuple[ChildState, ...]:
        """The running children, the first one first."""
        return tuple(
            ChildState(pid=pid, ready=member.plane.connected is not None, calls=member.calls, share=member.share)
            for member in self._members
            if (pid := member.plane.pid) is not None
        )

    async def channel(self) -> Channel:
        """Return the connection to the least busy child. Waits only if none is ready, and does not yield between its
        choice and its return, so that the next caller sees the opened call.

        Raises PlaneUnavailable if no child starts.
        """
        while (channel := self._best()) is None:
            await self._one_ready()
        return channel

    async def stop(self) -> None:
        """Stop all children for good, in bounded time."""
        self._stopping = True
        await asyncio.gather(*(member.plane.stop() for member in self._members), *self._ending)

    def _best(self) -> Channel | None:
        ready = [member for member in self._members if member.plane.connected is not None]
        if not ready:
            return None
        return min(ready, key=lambda member: (member.leaving, member.busy, member.calls, member.number)).plane.connected

    async def _one_ready(self) -> None:
        """Wait until any child is ready. Raises PlaneUnavailable once none will be."""
        try:
            self._members[0].plane.start()
        except PlaneUnavailable:
            if not any(member.plane.kept for member in self._members):
                raise
        waiting = {asyncio.create_task(_failure(member.plane)) for member in self._members if member.plane.kept}
        try:
            while True:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                failures = [failure for each in done if (failure := each.result()) is not None]
                if len(failures) < len(done):
                    return
                if not waiting:
                    raise failures[0]
        finally:
            for each in waiting:
                each.cancel()

    def _add(self) -> _Member:
        taken = {member.number for member in self._members}
        number = next(number for number in range(1, len(taken) + 2) if number not in taken)
        member = _Member(number, self._make(number))
        member.plane.on_heartbeat = lambda message: self._heard(member, message)
        self._members.append(member)
        return member

    def _heard(self, member: _Member, message: JsonObject) -> None:
        """Handle a heartbeat; heartbeats also time the pool's growing and shrinking."""
        member.update(message)
        if not self._stopping:
            self._shrink()
            self._grow()

    def _grow(self) -> None:
        ready = [member for member in self._members if member.plane.connected is not None]
        staying = [member for member in ready if not member.leaving]
        if not staying or any(member.busy_heartbeats < BUSY_HEARTBEATS or not member.busy for member in staying):
            return
        self._needed_at = asyncio.get_running_loop().time()
        coming = [member for member in self._members if member not in ready]
        if any(member.plane.kept for member in coming) or len(staying) >= self._limit():
            return
        if len(staying) < len(ready):
            next(member for member in ready if member.leaving).leaving = False
            return
        # Retry a child that was given up before adding one: its supervisor counts the failures.
        member = coming[0] if coming else self._add()
        try:
            member.plane.start()
        except PlaneUnavailable:
            return
        busy = ", ".join(f"process {each.plane.pid} at {each.share:.0%}, {each.calls} calls" for each in staying)
        log.info("the %s is started: those running are busy (%s)", member.plane.name, busy)

    def _shrink(self) -> None:
        """Retire the last child if it is not needed, and stop retired ones whose calls have ended."""
        now = asyncio.get_running_loop().time()
        staying = [member for member in self._members if not member.leaving and member.plane.connected is not None]
        if len(staying) > 1:
            used = sum(member.share for member in staying)
            if used > SPARE_SHARE * (len(staying) - 1):
                self._needed_at = now
            if len(staying) > self._limit() or now - self._needed_at > self._idle_s:
                staying[-1].leaving = True
                self._needed_at = now
        for member in [member for member in self._members if member.leaving and not member.calls]:
            self._members.remove(member)
            log.info("the %s is stopped: it is no longer needed", member.plane.name)
            task = asyncio.create_task(member.plane.stop("It was no longer needed."))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


async def _failure(plane: Supervisor) -> PlaneUnavailable | None:
    """Wait until the child is ready; return the error if it fails."""
    try:
        await plane.channel()
    except PlaneUnavailable as error:
        return error
    return None


def usual_limit() -> int:
    """Return the default maximum of children: one per usable CPU, at most 4."""
    try:
        cpus = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cpus = os.cpu_count() or 1
    return max(1, min(MOST_BY_DEFAULT, cpus))
