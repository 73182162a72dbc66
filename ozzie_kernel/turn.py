"""Drives one turn from the cell's side: sends the text, folds the frames, draws, stops when told to."""

import asyncio
import contextvars
import os
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, TypeVar

from ozzie_kernel.client import REQUEST_TIMEOUT_S, GatewayLost, GatewaySilent
from ozzie_kernel.connect import Link
from ozzie_kernel.display import TurnDisplay
from ozzie_kernel.gateway import Gateway
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.ids import ulid_text
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.frames import EventFrame
from ozzie_server_ext.protocol.made_from import content_in
from ozzie_server_ext.render.graph.view import GraphView, fold_graph
from ozzie_server_ext.render.turn import fold, new_turn
from ozzie_server_ext.render.turnview import TurnView

TICK_S = 1.0
"""How often the elapsed time is drawn anew while nothing else happens."""
STOP_WAIT_S = 5.0
"""How long the gateway has, in all, to stop a turn and record its end before the cell gives up waiting for it."""
MAX_LOST_IN_VAIN = 5
"""How often the connection may end without an event of the turn in between: a feed that breaks at the same place each
time would be asked for without end."""

_STOPPED_LATER = "The turn is stopped as soon as a gateway runs, unless this kernel ends before."
_STOPPED_IF_TAKEN = (
    "If your message was taken, its turn is stopped as soon as a gateway runs, unless this kernel ends before."
)
_TAKEN_OR_NOT = (
    "Whether your message was taken is not known. If `ozzie tasks list` shows it, its turn goes on; else run the cell "
    "again."
)

_background: set[asyncio.Task[None]] = set()

T = TypeVar("T")


class CellTurn:
    """One turn in one cell. `link` is the one that `gateway` has; where it ends, another is asked for. Where it is not
    `attended`, nobody is there to be asked."""

    def __init__(self, link: Link, gateway: Gateway, display: TurnDisplay, *, attended: bool = True) -> None:
        self._link = link
        self._gateway = gateway
        self._display = display
        self._attended = attended
        self._message_id = new_message_id()
        self._may_be_taken = False
        self._position = 0
        self._left = False
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # names the cell that the output belongs to
        self.view: TurnView = new_turn()
        self.graph: GraphView | None = None

    async def run(self, text: str, cell_id: str, skill: JsonObject | None = None) -> TurnView:
        """The finished turn, or run of a `skill` where one is named, whatever its end. Cancelling stops it in the
        gateway as well, also one that the gateway takes in only after this has given up waiting for it.

        Raises OzzieError where the gateway did not take the message, or can't be reached any more.
        """
        sending = asyncio.ensure_future(self._send(text, cell_id, skill))
        turn = asyncio.ensure_future(self._to_its_end(sending))
        stopped = False
        try:
            stopped = await _interrupted(turn)
            if stopped:
                self._display.stop()
                await self._stop(sending, turn)
            return await turn
        except GatewaySilent:
            raise
        except Unavailable as error:
            raise self._with_its_fate(error, stopped=stopped) from None
        finally:
            # Whatever happened, also a second interrupt: nothing that looks alive is left in the cell.
            turn.cancel()
            self._finish()

    def leave(self) -> "Future[None]":
        """Leave in the cell what there is so far, and draw nothing more: the kernel goes, and the turn goes on without
        it. For any thread; done when it is sent."""
        left: Future[None] = Future()

        def finish() -> None:
            self._finish()
            left.set_result(None)

        self._loop.call_soon_threadsafe(finish, context=self._context)
        return left

    def _finish(self) -> None:
        if self.view.task_id and not self._left:
            self._display.finish(self.view, self.graph)
            if self.graph is not None:
                self._display.graph(self.graph, datetime.now(UTC), is_final=True)
        self._left = True

    async def _send(self, text: str, cell_id: str, skill: JsonObject | None) -> JsonObject:
        """The gateway's answer to the message. It has an id, which is its task's as well: sent again where a connection
        ended before the answer, it is still one message."""
        params = {
            "content": text,
            "cell_id": cell_id,
            "message_id": self._message_id,
            "attended": self._attended,
            **({"skill": skill} if skill else {}),
            **({"made_from": [*sources]} if (sources := content_in(os.environ).sources) else {}),
        }
        for _ in range(MAX_LOST_IN_VAIN):
            try:
                # Without a time limit: what is taken in late has to be known, to be stopped.
                return await self._link.client.request("message.send", params, timeout_s=None)
            except GatewayLost:
                self._may_be_taken = True
                self._link = await self._gateway.link()
        raise GatewayLost

    async def _to_its_end(self, sending: "asyncio.Future[JsonObject]") -> TurnView:
        try:
            sent = await asyncio.wait_for(asyncio.shield(sending), REQUEST_TIMEOUT_S)
        except TimeoutError:
            _in_background(self._cancel(sending))
            raise GatewaySilent from None
        task_id = str(sent["task_id"])
        self.view = new_turn(task_id=task_id, session_id=self._link.session_id, ahead=int(str(sent["ahead"])))
        self._position = int(str(sent["position"])) - 1
        in_vain = 0
        while not self.view.is_final:
            before = self._position
            try:
                await self._fold_until_end(task_id)
            except GatewayLost:
                in_vain = 0 if self._position > before else in_vain + 1
                if in_vain > MAX_LOST_IN_VAIN:
                    raise GatewayLost(task_id) from None
                self._link = await self._gateway.link()
        return self.view

    async def _fold_until_end(self, task_id: str) -> None:
        queue = await self._link.client.follow(task_id, self._position)
        try:
            while not self.view.is_final:
                frames = await _next_frames(queue)
                for frame in frames:
                    self._take(frame)
                if not self.view.is_final and not self._left:  # the final form is about to take this one's place
                    self._display.show(self.view, datetime.now(UTC))
                    if self.graph is not None:
                        self._display.graph(self.graph, datetime.now(UTC), is_final=False)
        finally:
            self._link.client.unfollow(task_id, ended=self.view.is_final)

    def _take(self, frame: EventFrame) -> None:
        if frame.position is not None:
            self._position = max(self._position, frame.position)
        self.view = fold_frame(self.view, frame)
        self.graph = fold_graph(self.graph, frame.canonical, frame.payload, moment_of(frame))

    async def _stop(self, sending: "asyncio.Future[JsonObject]", turn: "asyncio.Future[TurnView]") -> None:
        """Have the turn stopped, and wait for its end. Raises GatewaySilent."""
        _in_background(self._cancel(sending))
        ended, _ = await asyncio.wait({turn}, timeout=STOP_WAIT_S)
        if not ended:
            raise GatewaySilent(hint="The turn is stopped as soon as it does. If it never does, restart Jupyter.")

    async def _cancel(self, sending: "asyncio.Future[JsonObject]") -> None:
        try:
            await asyncio.shield(sending)
        except Unavailable:
            if not self._may_be_taken:
                return
        except OzzieError:
            return  # what was not taken need not be stopped
        # A gateway that goes before it has taken this leaves the turn to the next one, which has to be told too.
        self._gateway.owe("task.cancel", {"task_id": self._message_id})

    def _with_its_fate(self, error: Unavailable, *, stopped: bool) -> Unavailable:
        """`error` kept the turn's end from being seen: with what becomes of the turn, where that has to be said."""
        fate = ""
        if self.view.task_id:
            fate = _STOPPED_LATER if stopped else ""
        elif self._may_be_taken:
            fate = _STOPPED_IF_TAKEN if stopped else _TAKEN_OR_NOT
        if not fate:
            return error
        if isinstance(error, GatewayLost):
            return GatewayLost(hint=fate)
        return Unavailable(str(error), hint=f"{error.hint} {fate}".lstrip(), code=error.code)


def new_message_id() -> str:
    """An id for a message that may have to be sent twice, and is still one."""
    return ulid_text(time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10), "big"))


def _in_background(work: Coroutine[Any, Any, None]) -> None:
    """Let `work` go on when the cell has ended."""
    task = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_background.discard)


async def _interrupted(work: "asyncio.Future[T]") -> bool:
    """Wait for `work`; True where the cell was interrupted first, and `work` goes on."""
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        if work.cancelled():
            raise
        return True
    return False


def fold_frame(view: TurnView, frame: EventFrame) -> TurnView:
    """The view after a frame."""
    return fold(view, frame.canonical, frame.payload, moment_of(frame))


def moment_of(frame: EventFrame) -> datetime | None:
    """When it was recorded; None for what was not."""
    return datetime.fromisoformat(frame.ts) if frame.ts else None


async def _next_frames(queue: "asyncio.Queue[EventFrame | None]") -> list[EventFrame]:
    """All frames that are there, waiting for the first of them at most a tick. Raises GatewayLost."""
    try:
        async with asyncio.timeout(TICK_S):
            found = [await queue.get()]
    except TimeoutError:
        return []
    while not queue.empty():
        found.append(queue.get_nowait())
    frames = [frame for frame in found if frame is not None]
    if len(frames) < len(found):
        if not frames:
            raise GatewayLost
        queue.put_nowait(None)  # what came before the end is shown first
    return frames
