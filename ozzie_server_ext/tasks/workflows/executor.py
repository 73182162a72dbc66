"""Where the attempts at steps are carried out: here, in the loop of the gateway.

An executor finds a place for an attempt and says what came of it. It keeps nothing: that a step began and ended, the
driver of its run records, so an attempt that is lost with its place is begun again from the log.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import FailureKind, MadeCall
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.steps import StepRecord
from ozzie_server_ext.skills.spec import Work
from ozzie_server_ext.store.shielded import Ended, eager

SLICE_S = 0.002
"""Of all runs together, before everybody else has a turn."""


class Pace:
    """Of one event loop. Those who have to wait go on in the order in which they came."""

    def __init__(self) -> None:
        self._until = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def keep(self) -> None:
        """To be awaited before each piece of work that does not wait itself."""
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
        if not turn.done():  # whoever waited may have been cancelled
            turn.set_result(None)
        if self._waiting:
            loop.call_soon(self._begin_slice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of a step, with how its record stands; `delay_s` is to pass before it begins. One that is `at_once` makes
    the call of a tool that only reads, and nothing of it has been recorded yet."""

    work: Work
    record: StepRecord
    delay_s: float = 0.0
    at_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """`content` is what the value is made from; `event` is what it ended with, `accepted` why what had to hold does,
    and `told` see `StepCompleted`."""

    value: Json
    content: Content
    event: str = "done"
    accepted: str = ""
    told: str = ""
    call: MadeCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """`content` is what the message may quote. `may_retry`: nothing was done that must not be done twice, and another
    try may end otherwise."""

    kind: FailureKind
    code: str
    message: str
    content: Content
    hint: str = ""
    may_retry: bool = False
    call: MadeCall | None = None


@dataclass(frozen=True, slots=True)
class NotAtOnce:
    """The call can't be made at once: a person has to be asked first, or there is more to record of it."""


Outcome = Succeeded | FailedAttempt | NotAtOnce
CarryOut = Callable[[Attempt], Coroutine[Any, Any, Outcome]]


class Executor(Protocol):
    """The port. `submit` begins an attempt; `next` waits for those that ended."""

    def submit(self, attempt: Attempt) -> None: ...

    async def next(self) -> list[tuple[Attempt, Outcome]]:
        """What ended since, at least one, or none where it was woken. Raises what an attempt raised that it should not
        have."""
        ...

    @property
    def pending(self) -> int:
        """How many attempts were begun that `next` has not told the end of."""
        ...

    def wake(self) -> None:
        """Have `next` return, whatever has ended."""
        ...

    async def close(self) -> None:
        """Let go of all that runs."""
        ...


class InProcess:
    """Each attempt is a task of the event loop: what it does, it has others do. One that is made at once gets none
    unless it waits for something; `pace` is that of all executors of the loop."""

    def __init__(self, carry_out: CarryOut, pace: Pace) -> None:
        self._carry_out = carry_out
        self._pace = pace
        self._at_once: deque[Attempt] = deque()
        self._running: dict[asyncio.Task[Outcome], Attempt] = {}
        self._ended: list[asyncio.Task[Outcome]] = []
        self._heard = asyncio.Event()

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
            begun = eager(self._carry_out(attempt))
            if isinstance(begun, Ended):
                made.append((attempt, begun.value))
            else:
                self._follow(begun, attempt)
        if not made:
            await self._heard.wait()
        self._heard.clear()
        ended, self._ended = self._ended, []
        return made + [(self._running.pop(work), work.result()) for work in ended]

    @property
    def pending(self) -> int:
        return len(self._at_once) + len(self._running)

    def wake(self) -> None:
        self._heard.set()

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
        self._heard.set()

    async def _after(self, attempt: Attempt) -> Outcome:
        if attempt.delay_s:
            await asyncio.sleep(attempt.delay_s)
        return await self._carry_out(attempt)
