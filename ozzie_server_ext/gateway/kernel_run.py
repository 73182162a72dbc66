"""One piece of code in one kernel, followed to its end: by its time, by its output, or because nobody wants it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ozzie_server_ext.gateway.kernel_line import KernelLine, Message
from ozzie_server_ext.jupyter.kernels import Ended, Ran
from ozzie_server_ext.jupyter.outputs import Outputs, count_of

GRACE_S = 3.0
"""How long a kernel may take to let go of what was interrupted."""
TICK_S = 0.5
"""How often it is looked whether the kernel is still there."""
_SEND_S = 1.0
_ANSWER_S = 1.0
_MOST_WAITING = 32
"""Messages that may have come before it is decided to interrupt; of a flood there are always more."""
_IDLE_S = 2.0
"""How long what is shown may come behind the reply. A kernel that was cut off shows nothing any more."""


class KernelRun:
    """`is_there` tells whether the same process is running and stays; `interrupt` interrupts whatever runs in it."""

    def __init__(
        self,
        line: KernelLine,
        process: str,
        *,
        is_there: Callable[[], Awaitable[bool]],
        interrupt: Callable[[], Awaitable[Any]],
        show: Callable[[str], None],
    ) -> None:
        self._line = line
        self._process = process
        self._is_there = is_there
        self._interrupt = interrupt
        self._show = show
        self._outputs = Outputs()
        self._request = ""
        self._has_begun = False
        self._reply: Message | None = None
        self._replied = 0.0
        self._is_idle = False
        self._is_lost = False
        self._was_interrupted = False
        self._is_free = False
        self._count: int | None = None

    async def to_its_end(self, code: str, timeout_s: float) -> Ran:
        """What became of the code, also where the caller is cancelled once it was sent. Raises TimeoutError where it
        was not."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            # The user's own cells that wait behind it are not to be given up because it failed.
            "stop_on_error": False,
        }
        self._request = await self._line.send("execute_request", content, _SEND_S)
        why = Ended.TIMED_OUT
        try:
            await self._follow(self._now + timeout_s)
            if self._line.is_cut_off:  # of one huge print, the end is near
                await self._follow(self._now + _IDLE_S, anyway=True)
        except asyncio.CancelledError:
            why = Ended.STOPPED
        if self._is_cut and why is not Ended.STOPPED:
            why = Ended.CUT
        if not self._is_over and not self._is_lost and self._has_begun:
            await self._stop()
        if self._has_failed and not await self._is_there():
            # Jupyter interrupts a kernel before it ends it, and the reply to that can come first.
            self._is_lost = True
        return self._ran(why)

    async def _stop(self) -> None:
        """Interrupt it, where it is still what runs: what came meanwhile may say that it ended."""
        for _ in range(_MOST_WAITING):
            self._take_all(await self._line.read(0))
        if not await self._is_there():
            self._is_lost = self._reply is None
            return
        if self._reply is None:
            self._was_interrupted = True
            await self._interrupt()
        await self._follow(self._now + GRACE_S, anyway=True)
        if self._reply is None and not self._is_lost:
            # An interrupt that comes at the very end can hit the kernel while it replies.
            greeting = await self._line.greet(_ANSWER_S)
            self._is_free = greeting is not None and greeting.process == self._process

    async def _follow(self, end: float, *, anyway: bool = False) -> None:
        """Read until it is over or lost, the time is up, or, unless `anyway`, it has shown too much."""
        looked = self._now
        while not self._is_over and (left := end - self._now) > 0:
            self._take_all(await self._line.read(min(left, TICK_S)))
            if self._reply is not None:
                continue
            if self._is_cut and not anyway:
                return
            if self._line.is_cut_off or self._now - looked >= TICK_S:
                looked = self._now
                if not await self._is_there():
                    self._is_lost = True
                    return

    @property
    def _has_failed(self) -> bool:
        return self._reply is not None and self._reply.content.get("status") == "error"

    @property
    def _is_cut(self) -> bool:
        return self._outputs.is_cut or self._line.is_cut_off

    @property
    def _is_over(self) -> bool:
        if self._reply is None:
            return False
        return self._is_idle or self._line.is_cut_off or self._now - self._replied > _IDLE_S

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _take_all(self, messages: list[Message]) -> None:
        for message in messages:
            if message.process != self._process:
                self._is_lost = self._reply is None
            elif message.parent == self._request:
                self._take(message)

    def _take(self, message: Message) -> None:
        if message.is_reply:
            self._reply, self._replied = message, self._now
            self._count = count_of(message.content) or self._count
            return
        match message.kind:
            case "execute_input":
                self._has_begun = True
                self._count = count_of(message.content)
            case "status":
                self._is_idle = message.content.get("execution_state") == "idle"
            case _:
                if text := self._outputs.take(message.kind, message.content):
                    self._show(text)

    def _ran(self, why: Ended) -> Ran:
        return Ran(
            ended=self._ended(why),
            outputs=self._outputs.done(),
            execution_count=self._count,
            left_out=self._outputs.left_out,
            is_cut=self._is_cut or not self._is_idle,
        )

    def _ended(self, why: Ended) -> Ended:
        if self._is_lost:
            return Ended.LOST
        if self._reply is None:
            if self._is_free:
                return why
            return Ended.RUNS_ON if self._has_begun else Ended.QUEUED
        match self._reply.content.get("status"):
            case "ok":
                return Ended.DONE
            case "error":
                return why if self._was_interrupted else Ended.FAILED
            case _:
                return Ended.NOT_BEGUN
