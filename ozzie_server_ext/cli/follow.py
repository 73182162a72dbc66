"""Following the event feed from a terminal, across restarts of the gateway."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tornado.websocket import WebSocketClientConnection, WebSocketClosedError

from ozzie_kernel.client import open_websocket
from ozzie_server_ext.cli.http import Answered, Object, handshakes
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.events import FINAL_TYPES
from ozzie_server_ext.protocol.frames import EventFrame, Request, Response, decode_frames, encode_frame

POLL_S = 0.5


def follow(
    position: int,
    wanted: Mapping[str, Any],
    show: Callable[[Object], None],
    say: Callable[[str], None],
    *,
    until_end_of: str = "",
    within_s: float | None = None,
) -> None:
    """Show every event after `position` until interrupted, or until the task in `wanted`, or `until_end_of`, has ended.

    If the gateway goes away, say so with `say` and continue with the next one. Raises Answered if it refuses,
    TimeoutError after `within_s`.
    """
    asyncio.run(asyncio.wait_for(_follow(position, wanted, show, say, until_end_of), within_s))


async def _follow(
    position: int,
    wanted: Mapping[str, Any],
    show: Callable[[Object], None],
    say: Callable[[str], None],
    until_end_of: str,
) -> None:
    params: Object = {"session_id": wanted.get("session_id", ""), "task_id": wanted.get("task_id", "")}
    if "type" in wanted:
        params["types"] = list(wanted["type"])
    reported = False
    while True:
        connection = await _connect()
        if connection is None:
            if not reported:
                say("No gateway is running. Events are shown once one runs.")
            reported = True
            await asyncio.sleep(POLL_S)
            continue
        reported = False
        try:
            subscribe = Request(id="1", method="feed.subscribe", params={**params, "from_position": position})
            await connection.write_message(encode_frame(subscribe))
            while (message := await connection.read_message()) is not None:
                for frame in decode_frames(message):
                    if isinstance(frame, Response) and frame.error is not None:
                        raise Answered(frame.error.message, hint=frame.error.hint, code=frame.error.code)
                    if isinstance(frame, EventFrame) and frame.position is not None:
                        position = frame.position
                        show(_event(frame))
                        # With a task in the subscription, only its events come.
                        is_own = frame.task_id == until_end_of if until_end_of else bool(params["task_id"])
                        if is_own and frame.canonical in FINAL_TYPES:
                            return
        except WebSocketClosedError:
            pass  # closed before we subscribed
        finally:
            connection.close()
        await asyncio.sleep(POLL_S)


async def _connect() -> WebSocketClientConnection | None:
    """Connect to the first gateway that answers."""
    for handshake in handshakes():
        with suppress(Unavailable):
            return await open_websocket(handshake.url, handshake.token)
    return None


def _event(frame: EventFrame) -> Object:
    """Return the frame with the field names of the REST interface."""
    return {
        "position": frame.position,
        "ts": frame.ts,
        "type": frame.canonical,
        "session_id": frame.session_id,
        "task_id": frame.task_id,
        "labels": list(frame.labels),
        "payload": frame.payload,
    }
