"""Following the feed from a terminal, also behind a restart of the gateway."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

from ozzie_server_ext.cli.http import Answered, Object, handshakes
from ozzie_server_ext.domain.events import FINAL_TYPES
from ozzie_server_ext.protocol.frames import EventFrame, Request, Response, decode_frames, encode_frame
from ozzie_server_ext.protocol.handshake import Handshake

POLL_S = 0.5
CONNECT_S = 10.0
MAX_MESSAGE_BYTES = 64 << 20


def follow(
    position: int,
    wanted: Mapping[str, Any],
    show: Callable[[Object], None],
    say: Callable[[str], None],
    *,
    until_end_of: str = "",
    within_s: float | None = None,
) -> None:
    """Show every event behind `position` until interrupted, or until the one task that is `wanted`, or `until_end_of`
    which it is, has ended.

    Where the gateway goes, `say` tells, and the next one is gone on with. Raises Answered where it refuses,
    TimeoutError after `within_s`.
    """
    asyncio.run(_within(within_s, _follow(position, wanted, show, say, until_end_of)))


async def _within(within_s: float | None, following: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(within_s):
        await following


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
    told = False
    while True:
        connection = await _connect()
        if connection is None:
            if not told:
                say("There is no connection to a gateway. What happens is shown once one runs.")
            told = True
            await asyncio.sleep(POLL_S)
            continue
        told = False
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
                        # Of one task, nothing of another comes.
                        is_of_it = frame.task_id == until_end_of if until_end_of else bool(params["task_id"])
                        if is_of_it and frame.canonical in FINAL_TYPES:
                            return
        except WebSocketClosedError:
            pass  # it ended before it was asked anything
        finally:
            connection.close()
        await asyncio.sleep(POLL_S)


async def _connect() -> WebSocketClientConnection | None:
    """A connection to the first gateway that answers."""
    for handshake in handshakes():
        try:
            return await websocket_connect(_request(handshake), max_message_size=MAX_MESSAGE_BYTES)
        except (OSError, HTTPClientError, TimeoutError):
            continue
    return None


def _request(handshake: Handshake) -> HTTPRequest:
    return HTTPRequest(
        f"ws{handshake.url.removeprefix('http')}ozzie/api/ws",
        headers={"Authorization": f"token {handshake.token}"},
        connect_timeout=CONNECT_S,
        # The address is this machine's own and came with the token from a private file.
        validate_cert=False,
    )


def _event(frame: EventFrame) -> Object:
    """The frame with the names of the REST interface."""
    return {
        "position": frame.position,
        "ts": frame.ts,
        "type": frame.canonical,
        "session_id": frame.session_id,
        "task_id": frame.task_id,
        "labels": list(frame.labels),
        "payload": frame.payload,
    }
