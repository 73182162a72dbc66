"""Executors carry out attempts at steps and return their outcomes.

An executor keeps no state: the driver of the run records starts and ends, so a lost attempt is started again from the
log. The only one here runs attempts in the gateway's event loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

import msgspec

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import EventBody, FailureKind
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.steps import StepRecord
from ozzie_server_ext.skills.spec import Work
from ozzie_server_ext.store.shielded import Ended, eager_task

SLICE_S = 0.002
"""How long all runs together may work before other tasks of the event loop get a turn."""


class Pace:
    """Time slices of one event loop. Waiters go on in the order in which they came."""

    def __init__(self) -> None:
        self._until = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def keep(self) -> None:
        """Await this before each piece of work that does not wait itself."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._until:
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._begin_slice)
        await turn

    def _begin_slice(self) -> None:
        loop = asyncio.get_running_loop()
        self._until = loop.time() + SLICE_S
        turn = self._waiting.popleft()
        if not turn.done():  # the waiter may have been cancelled
            turn.set_result(None)
        if self._waiting:
            loop.call_soon(self._begin_slice)


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a step; it begins after `delay_s`. With `at_once`, it is a call of a read-only tool of which
    nothing has been recorded yet. `is_resumed`: it began before the run was driven from here."""

    work: Work
    record: StepRecord
    delay_s: float = 0.0
    at_once: bool = False
    is_resumed: bool = False


Facts: TypeAlias = tuple[tuple[EventBody, Content], ...]
"""Events, each with what it is made from."""


class Succeeded(msgspec.Struct, frozen=True, kw_only=True):
    """`content` is the value's provenance; for `event`, `accepted` and `told` see `StepCompleted`. `facts` are those of
    a call made at once, to be recorded before the end of its step."""

    value: Json
    content: Content
    event: str = "done"
    accepted: str = ""
    told: str = ""
    facts: Facts = ()


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """`content` is the message's provenance. `may_retry`: another attempt may succeed, and nothing was done that must
    not be done twice. `facts`: see `Succeeded`."""

    kind: FailureKind
    code: str
    message: str
    content: Content
    hint: str = ""
    may_retry: bool = False
    facts: Facts = ()


class NotAtOnce(msgspec.Struct, frozen=True):
    """The call can't be made at once: it needs an approval, or has more to record."""


Outcome = Succeeded | FailedAttempt | NotAtOnce
CarryOut = Callable[[Attempt], Coroutine[Any, Any, Outcome]]


class Executor(Protocol):
    """The port. `submit` starts an attempt; `next` waits for ended ones."""

    def submit(self, attempt: Attempt) -> None: ...

    async def next(self) -> list[tuple[Attempt, Outcome]]:
        """Wait for ended attempts and return them; none only after `wake`. Raises unexpected errors of attempts."""
        ...

    @property
    def pending(self) -> int:
        """The number of started attempts that `next` has not returned."""
        ...

    def wake(self) -> None:
        """Make `next` return."""
        ...

    async def close(self) -> None:
        """Cancel all attempts."""
        ...


class InProcess:
    """Runs each attempt as a task of the event loop; an attempt at once gets one only if it has to wait. All executors
    of the loop share `pace`."""

    def __init__(self, carry_out: CarryOut, pace: Pace) -> None:
        self._carry_out = carry_out
        self._pace = pace
        self._at_once: deque[Attempt] = deque()
        self._running: dict[asyncio.Task[Outcome], Attempt] = {}
        self._ended: list[asyncio.Task[Outcome]] = []
        self._wake = asyncio.Event()

    def submit(self, attempt: Attempt) -> None:
        if attempt.at_once:
            self._at_once.append(attempt)
        else:
            self._follow(asyncio.create_task(self._after(attempt), name=f"step {attempt.work.id}"), attempt)

    async def next(self) -> list[tuple[Attempt, Outcome]]:
        made: list[tuple[Attempt, Outcome]] = []
        while self._at_once:
            await self._pace.keep()
            attempt = self._at_once.popleft()
            begun = eager_task(self._carry_out(attempt))
            if isinstance(begun, Ended):
                made.append((attempt, begun.value))
            else:
                self._follow(begun, attempt)
        if not made:
            await self._wake.wait()
        self._wake.clear()
        ended, self._ended = self._ended, []
        return made + [(self._running.pop(work), work.result()) for work in ended]

    @property
    def pending(self) -> int:
        return len(self._at_once) + len(self._running)

    def wake(self) -> None:
        self._wake.set()

    async def close(self) -> None:
        self._at_once.clear()
        for work in self._running:
            work.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running.clear()

    def _follow(self, work: "asyncio.Task[Outcome]", attempt: Attempt) -> None:
        self._running[work] = attempt
        work.add_done_callback(self._note)

    def _note(self, work: "asyncio.Task[Outcome]") -> None:
        self._ended.append(work)
        self._wake.set()

    async def _after(self, attempt: Attempt) -> Outcome:
        if attempt.delay_s:
            await asyncio.sleep(attempt.delay_s)
        return await self._carry_out(attempt)
