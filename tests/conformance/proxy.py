"""A proxy on loopback that adds a token to each request, for programs that can't send one."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


@contextmanager
def adding_token(url: str, token: str) -> Iterator[str]:
    """Return the address of a proxy in front of `url`."""
    target = urlsplit(url)
    found: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        end = asyncio.Event()
        async with await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 20) as server:
            found.set_result((server.sockets[0].getsockname()[1], asyncio.get_running_loop(), end))
            await end.wait()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head[:-4].split(b"\r\n")
            kept = [line for line in lines if not line.lower().startswith(b"connection:")]
            more = [f"Authorization: token {token}".encode(), b"Connection: close"]
            behind, before = await asyncio.open_connection(target.hostname, target.port)
            before.write(b"\r\n".join([first, *kept, *more]) + b"\r\n\r\n")
            pipes = [asyncio.ensure_future(_pipe(reader, before)), asyncio.ensure_future(_pipe(behind, writer))]
            await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
            for pipe in pipes:
                pipe.cancel()
            before.close()
        writer.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    port, loop, end = found.result(10)
    try:
        yield f"http://127.0.0.1:{port}{target.path}"
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(10)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
