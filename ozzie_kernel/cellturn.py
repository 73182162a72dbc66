"""Runs one turn for a cell: sends the text, folds the frames, draws, and stops on request."""

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
from ozzie_kernel.gateway import GatewayConnection
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.ids import ulid_text
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.frames import EventFrame
from ozzie_server_ext.protocol.made_from import content_in
from ozzie_server_ext.render.graph.view import GraphView, fold_graph
from ozzie_server_ext.render.turnfold import fold, new_turn, turn_of
from ozzie_server_ext.render.turnview import TurnView

TICK_S = 1.0
"""How often to redraw the elapsed time while nothing else happens."""
STOP_WAIT_S = 5.0
"""How long the gateway has to stop a turn and record its end before the cell gives up."""
MAX_LOST = 5
"""How often the connection may be lost without a new event: else a feed that always breaks would loop forever."""

_STOPPED_LATER = "The turn is stopped as soon as a gateway runs, unless this kernel ends before."
_STOPPED_IF_SENT = (
    "If your message arrived, its turn is stopped as soon as a gateway runs, unless this kernel ends before."
)
_MAYBE_SENT = (
    "Your message may or may not have arrived. If `ozzie tasks list` shows it, its turn goes on; else run the cell "
    "again."
)

_background: set[asyncio.Task[None]] = set()

T = TypeVar("T")


class CellTurn:
    """One turn in one cell. `link` is the gateway's current link. Unless `attended`, nobody is there to answer."""

    def __init__(self, link: Link, gateway: GatewayConnection, display: TurnDisplay, *, attended: bool = True) -> None:
        self._link = link
        self._gateway = gateway
        self._display = display
        self._attended = attended
        self._message_id = new_message_id()
        self._maybe_sent = False
        self._position = 0
        self._is_finished = False
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # identifies the cell for output
        self.view: TurnView = new_turn()
        self.graph: GraphView | None = None

    async def run(self, text: str, cell_id: str, more: JsonObject | None = None) -> TurnView:
        """Run the turn to its end; `more`: further parameters of `message.send`, which may make it a skill's.
        Cancelling also stops it in the gateway, even one that the gateway accepts only after this gave up.

        Raises OzzieError if the gateway did not accept the message, or can't be reached any more.
        """
        sending = asyncio.ensure_future(self._send(text, cell_id, more or {}))
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
            raise self._with_turn_state(error, stopped=stopped) from None
        finally:
            # Whatever happened, even a second interrupt: nothing in the cell may look alive.
            turn.cancel()
            self._finish()

    def leave(self) -> "Future[None]":
        """Leave the current state in the cell and draw nothing more: the kernel stops, and the turn goes on. Callable
        from any thread; the future is done once it is sent."""
        left: Future[None] = Future()

        def finish() -> None:
            self._finish()
            left.set_result(None)

        self._loop.call_soon_threadsafe(finish, context=self._context)
        return left

    def _finish(self) -> None:
        if self.view.task_id and not self._is_finished:
            self._display.finish(self.view, self.graph)
            if self.graph is not None:
                self._display.graph(self.graph, datetime.now(UTC), is_final=True)
        self._is_finished = True

    async def _send(self, text: str, cell_id: str, more: JsonObject) -> JsonObject:
        """Send the message and return the gateway's answer. Sent twice, it is still one message: it has an id."""
        params = {
            "content": text,
            "cell_id": cell_id,
            "message_id": self._message_id,
            "attended": self._attended,
            **more,
            **({"made_from": [*sources]} if (sources := content_in(os.environ).sources) else {}),
        }
        for _ in range(MAX_LOST):
            try:
                # Without a time limit: a message that is accepted late must be known, so that it can be stopped.
                return await self._link.client.request("message.send", params, timeout_s=None)
            except GatewayLost:
                self._maybe_sent = True
                self._link = await self._gateway.link()
        raise GatewayLost

    async def _to_its_end(self, sending: "asyncio.Future[JsonObject]") -> TurnView:
        try:
            sent = await asyncio.wait_for(asyncio.shield(sending), REQUEST_TIMEOUT_S)
        except TimeoutError:
            _in_background(self._cancel(sending))
            raise GatewaySilent from None
        task_id, self.view = str(sent["task_id"]), turn_of(sent)
        self._position = int(str(sent["position"])) - 1
        lost = 0
        while not self.view.is_final:
            before = self._position
            try:
                await self._fold_until_end(task_id)
            except GatewayLost:
                lost = 0 if self._position > before else lost + 1
                if lost > MAX_LOST:
                    raise GatewayLost(task_id) from None
                self._link = await self._gateway.link()
        return self.view

    async def _fold_until_end(self, task_id: str) -> None:
        queue = await self._link.client.follow(task_id, self._position)
        try:
            while not self.view.is_final:
                frames = await _next_frames(queue)
                for frame in frames:  # recorded events and live text, in one order
                    self._take(frame)
                if not self.view.is_final and not self._is_finished:  # the final form replaces this one
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
        """Stop the turn and wait for its end. Raises GatewaySilent."""
        _in_background(self._cancel(sending))
        ended, _ = await asyncio.wait({turn}, timeout=STOP_WAIT_S)
        if not ended:
            raise GatewaySilent(hint="The turn is stopped as soon as it does. If it never does, restart Jupyter.")

    async def _cancel(self, sending: "asyncio.Future[JsonObject]") -> None:
        task_id = self._message_id  # a new task has the id of its message
        try:
            task_id = str((await asyncio.shield(sending))["task_id"])
        except Unavailable:
            if not self._maybe_sent:
                return
        except OzzieError:
            return  # a refused message has no turn to stop
        # A gateway that stops before it gets this leaves the turn to the next one, which has to be told too.
        self._gateway.deliver("task.cancel", {"task_id": task_id})

    def _with_turn_state(self, error: Unavailable, *, stopped: bool) -> Unavailable:
        """Add to `error` what happens to the turn, if needed."""
        state = ""
        if self.view.task_id:
            state = _STOPPED_LATER if stopped else ""
        elif self._maybe_sent:
            state = _STOPPED_IF_SENT if stopped else _MAYBE_SENT
        if not state:
            return error
        if isinstance(error, GatewayLost):
            return GatewayLost(hint=state)
        return Unavailable(str(error), hint=f"{error.hint} {state}".lstrip(), code=error.code)


def new_message_id() -> str:
    """Return an id for a message, so that it is still one message if sent twice."""
    return ulid_text(time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10), "big"))


def _in_background(work: Coroutine[Any, Any, None]) -> None:
    """Let `work` continue after the cell has ended."""
    task = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_background.discard)


async def _interrupted(work: "asyncio.Future[T]") -> bool:
    """Wait for `work`; return True if the cell was interrupted first, and `work` goes on."""
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        if work.cancelled():
            raise
        return True
    return False


def fold_frame(view: TurnView, frame: EventFrame) -> TurnView:
    """Return the view after a frame."""
    return fold(view, frame.canonical, frame.payload, moment_of(frame))


def moment_of(frame: EventFrame) -> datetime | None:
    """Return when the frame was recorded, or None if it was not."""
    return datetime.fromisoformat(frame.ts) if frame.ts else None


async def _next_frames(queue: "asyncio.Queue[EventFrame | None]") -> list[EventFrame]:
    """Return all frames in the queue, waiting for the first at most a tick. Raises GatewayLost."""
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
        queue.put_nowait(None)  # show what came before the end first
    return frames
