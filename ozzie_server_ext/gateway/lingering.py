"""A refused client is read on for a moment, so that it comes to read its answer."""

import asyncio
import contextlib
import os
import socket

MAX_BYTES = 8 << 20
MAX_S = 10.0
MAX_CLIENTS = 32
_CHUNK = 64 << 10

_lingering: set[asyncio.Task[None]] = set()


def hold(connection: socket.socket) -> socket.socket | None:
    """Another handle on `connection` for `linger`; None where too many are read on already."""
    if len(_lingering) >= MAX_CLIENTS:
        return None
    return socket.socket(fileno=os.dup(connection.fileno()))  # dup() of a socket with TLS refuses


def linger(held: socket.socket) -> None:
    """End a connection whose answer is written and whose other handle is closed, once the client has had its say.

    One that is closed while data comes is reset, and a client that still sends its body sees that instead of the
    answer. What comes is dropped, within bounds.
    """
    with contextlib.suppress(OSError):
        held.shutdown(socket.SHUT_WR)
    task = asyncio.create_task(_drop(held), name="ozzie linger")
    _lingering.add(task)
    task.add_done_callback(_lingering.discard)


async def _drop(held: socket.socket) -> None:
    loop, buffer, left = asyncio.get_running_loop(), bytearray(_CHUNK), MAX_BYTES
    with held, contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(MAX_S):
            while left > 0 and (count := await loop.sock_recv_into(held, buffer)):
                left -= count
