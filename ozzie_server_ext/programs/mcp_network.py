"""The network of a server or a plugin's program that was granted hosts: a proxy, outside of its sandbox, that lets
these through.

A server in its sandbox has its own loopback alone. A socket that listens there is handed out before the server begins
(`box_listener`), and a `Gate` accepts its connections. It knows CONNECT (RFC 9110, section 9.3.6) and requests with a
whole http address; what is said inside a TLS connection it can't see.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from ozzie_server_ext.plugins.hosts import HostGrant
from ozzie_server_ext.programs.checked_hosts import NotPublic, checked_addresses

MAX_HEAD = 32 * 1024
_HEAD_S = 30.0
_CONNECT_S = 15.0
_PIECE = 64 * 1024
_MOST_OPEN = 64


class _Refused(Exception):
    """Why a request is not let through; the text is for the server."""

    def __init__(self, status: str, words: str) -> None:
        super().__init__(words)
        self.status = status


class Gate:
    """Lets connections to granted hosts through. `on_refused` is told of each other one."""

    def __init__(self, hosts: Iterable[str], on_refused: Callable[[str], None]) -> None:
        self._grants = tuple(map(HostGrant.of, hosts))
        self._on_refused = on_refused
        self._open = 0
        self._serving: set[asyncio.Task[None]] = set()

    def end(self) -> None:
        """End all connections: whoever is at their other end may never do so."""
        for each in self._serving:
            each.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self._open += 1
        if (task := asyncio.current_task()) is not None:
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        try:
            if self._open > _MOST_OPEN:
                raise _Refused("503 Service Unavailable", f"At most {_MOST_OPEN} connections at once.")
            async with asyncio.timeout(_HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            await self._pass_on(head, reader, writer)
        except _Refused as refused:
            body = f"Ozzie: {refused}\n".encode()
            answer = f"HTTP/1.1 {refused.status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            with contextlib.suppress(OSError):
                writer.write(answer.encode() + body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open -= 1
            writer.close()

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port, first = _request(head)
        there, to_there = await self._connected(host, port)
        try:
            if first:
                to_there.write(first)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_copy(reader, to_there), _copy(there, writer))
        finally:
            to_there.close()

    async def _connected(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        covering = [grant for grant in self._grants if grant.covers(host, port)]
        if not covering:
            self._on_refused(f"{host}:{port}")
            raise _Refused("403 Forbidden", f"Nobody granted {host}:{port}.")
        grant = max(covering, key=lambda each: each.is_exact)
        try:
            async with asyncio.timeout(_CONNECT_S):
                for address in await checked_addresses(host, port, grant):
                    with contextlib.suppress(OSError):
                        return await asyncio.open_connection(str(address), port)
        except TimeoutError:
            pass
        except NotPublic as error:
            self._on_refused(str(error))
            raise _Refused("403 Forbidden", f"Nobody granted {error}.") from None
        except OSError as error:
            raise _Refused("502 Bad Gateway", f"{host} can't be found: {error.strerror}.") from None
        raise _Refused("502 Bad Gateway", f"{host}:{port} does not answer.")


class Network:
    """The network of one sandbox: `inside` is the descriptor for `box_listener`, to be closed here once it was passed
    on."""

    def __init__(self, hosts: Iterable[str], on_refused: Callable[[str], None]) -> None:
        self._gate = Gate(hosts, on_refused)
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self.inside = self._theirs.fileno()

    async def serve(self) -> None:
        """Wait for the sandbox's socket, and serve its connections until cancelled."""
        self._theirs.close()
        try:
            await _readable(self._ours)
            _, descriptors, _, _ = socket.recv_fds(self._ours, 1, 1)
        finally:
            self._ours.close()
        if not descriptors:  # it could not be set up; the server's end says why
            return
        listening = socket.socket(fileno=descriptors[0])
        server = await asyncio.start_server(self._gate.serve, sock=listening, limit=MAX_HEAD)
        async with server:
            try:
                await asyncio.Event().wait()
            finally:
                self._gate.end()

    def close(self) -> None:
        """Close what was not passed on."""
        self._ours.close()
        self._theirs.close()


async def _readable(end: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(end, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(end)


def _request(head: bytes) -> tuple[str, int, bytes]:
    """Return host and port of a request, and what of it goes on to there; of CONNECT, nothing. Raises _Refused."""
    line, _, rest = head.partition(b"\r\n")
    try:
        method, target, _ = line.decode("ascii").split(" ")
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _Refused("400 Bad Request", "This is no request to a proxy.") from None
    if method == "CONNECT" and host and port:
        return host, port, b""
    if parts.scheme != "http" or not host:
        raise _Refused("400 Bad Request", "This is no request to a proxy.")
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    kept = [each for each in rest.split(b"\r\n") if not each.lower().startswith((b"proxy-", b"connection:"))]
    # One request a connection: the next one may be for another host.
    first = b"\r\n".join([f"{method} {path} HTTP/1.1".encode(), b"Connection: close", *kept])
    return host, port or 80, first


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
