"""An event loop whose time stands still until a replay moves it on, and which says when nothing is left to do."""

import asyncio
import contextlib
import heapq
import itertools
import selectors
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context
from datetime import datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple, Unpack

import msgspec

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SLACK_S = 1.0
"""How much later than what was recorded a timer may be due: a replay notes the beginning of a wait at the time of the
event before it, and an event its time a moment after it was made."""
_MOST_ROUNDS = 20
"""How often what still runs at the end is cancelled: what is cleaned up may begin something else."""
STRETCH = 0.25
"""By which share of its length a timer may be due later than recorded: a replay chances another jitter."""


class ReplayLoop(asyncio.SelectorEventLoop):
    """Runs callbacks as any loop does. Timers are due only when `fire` is called, work for threads is done at once, and
    `on_idle` is called whenever all callbacks have run. Its time and that of its `clock` are one."""

    def __init__(self, start: datetime, on_idle: Callable[[], None]) -> None:
        super().__init__(_IdleSelector(on_idle))
        self._start = start
        self._elapsed_s = 0.0
        self._timers: list[_Timer] = []
        self._numbers = itertools.count()
        self.is_closing = False
        self.clock = LoopClock(self)

    def time(self) -> float:
        return self._elapsed_s

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed_s)

    def move_to(self, moment: datetime) -> None:
        """Set the time, which never goes back."""
        self._elapsed_s = max(self._elapsed_s, (moment - self._start).total_seconds())

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(
            self._timers, _Timer((when, next(self._numbers)), self._elapsed_s, handle, lambda: callback(*args), context)
        )
        return handle

    def fire(self, until: datetime) -> bool:
        """Let the next timer be due if it would have been by `until`, give or take what a replay can't know; return
        whether one is."""
        while self._timers and self._timers[0].handle.cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            return False
        timer = self._timers[0]
        when = timer.order[0]
        latest_s = (until - self._start).total_seconds() + SLACK_S + STRETCH * (when - timer.set_at)
        if when > latest_s:
            return False
        heapq.heappop(self._timers)
        self._elapsed_s = max(self._elapsed_s, when)
        self.call_soon(timer.run, context=timer.context)
        return True

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> "asyncio.Future[T]":
        """Do the work here and now: the order of threads is not recorded."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class _Timer(msgspec.Struct, order=True):
    """`order` is the time at which it is due, and a number for timers of the same time; `set_at` the time at which it
    was set."""

    order: tuple[float, int]
    set_at: float
    handle: Any
    run: Any
    context: Any


class LoopClock:
    """The clock of a replay. See `domain.clock.Clock`."""

    def __init__(self, loop: ReplayLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return self._loop.now()

    def monotonic(self) -> float:
        return self._loop.time()

    def milliseconds(self) -> int:
        """Return the milliseconds since 1970, for ids."""
        return int(self._loop.now().timestamp() * 1000)


class _IdleSelector(selectors.BaseSelector):
    """Waits for nothing: when the loop would wait, it calls `on_idle`, which finds something to do or stops the
    loop."""

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self._on_idle = on_idle
        self._inner = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._on_idle()
        return []  # nothing comes from outside of this thread

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()


@contextlib.contextmanager
def running(loop: ReplayLoop) -> Iterator[None]:
    """Close the loop at the end of the `with`, after all that it still runs was cancelled."""
    try:
        yield
    finally:
        loop.is_closing = True
        loop.run_forever()
        for _ in range(_MOST_ROUNDS):
            if not (left := asyncio.all_tasks(loop)):
                break
            for task in left:
                task.cancel()
            loop.run_forever()
        asyncio.set_event_loop(None)
        loop.close()
