"""One streamed reply to a hundred WebSockets: the gateway's feed, beside tornado's `write_message` for each event and
each client. What counts is the server's CPU; the clients, in another process, read and throw away."""

import argparse
import asyncio
import multiprocessing
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path

from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from bench.result import Result, emit
from bench.servers import Server, server
from tests.rig import JUPYTER_TOKEN, new_home

CLIENTS = 100
EVENTS = 1600
PER_S = 320.0
"""Sixteen in each of the gateway's intervals of 50 ms, as when a model answers fast."""
READY_S = 60.0
TARGET = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--events", type=int, default=EVENTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, server(new_home(Path(folder)), ozzie=True, probe=True) as started:
        session = asyncio.run(_open_session(started))
        cpu: dict[bool, float] = {}
        for plainly in (True, False):
            with _clients(started, session, options.clients, plainly=plainly):
                asked = {"events": options.events, "per_s": PER_S, "plainly": plainly, "session_id": session}
                cpu[plainly] = started.ask("bench/publish", asked)["cpu_s"]
    delivered = options.events * options.clients
    emit(
        [
            Result(
                name=f"fan-out of a reply to {options.clients} WebSockets, against write_message each",
                ours=round(delivered / cpu[False]),
                against=round(delivered / cpu[True]),
                ratio=round(cpu[True] / cpu[False], 1),
                unit="deltas per CPU s",
                target=f">= {TARGET}x",
                met=cpu[True] / cpu[False] >= TARGET,
            )
        ]
    )


@contextmanager
def _clients(started: Server, session: str, count: int, *, plainly: bool) -> Iterator[None]:
    """So many connected clients, in a process of their own."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(2)
    readers = context.Process(target=_read, args=(started.url, session, count, plainly, ready), daemon=True)
    readers.start()
    try:
        ready.wait(READY_S)
        yield
    finally:
        readers.terminate()
        readers.join(READY_S)


def _read(url: str, session: str, count: int, plainly: bool, ready: Barrier) -> None:
    async def run() -> None:
        connections = [await _connect(url, plainly) for _ in range(count)]
        if not plainly:
            for connection in connections:
                await connection.write_message(
                    f'{{"type":"req","id":"1","method":"feed.subscribe","params":{{"session_id":"{session}"}}}}'
                )
                await connection.read_message()
        await asyncio.to_thread(ready.wait, READY_S)
        await asyncio.gather(*map(_drain, connections))

    asyncio.run(run())


async def _drain(connection: WebSocketClientConnection) -> None:
    while await connection.read_message() is not None:
        pass


async def _connect(url: str, plainly: bool) -> WebSocketClientConnection:
    path = "bench/plain" if plainly else "ozzie/api/ws"
    address = f"ws{url.removeprefix('http')}{path}"
    return await websocket_connect(HTTPRequest(address, headers={"Authorization": f"token {JUPYTER_TOKEN}"}))


async def _open_session(started: Server) -> str:
    connection = await _connect(started.url, plainly=False)
    await connection.write_message(
        '{"type":"req","id":"1","method":"session.open","params":{"session_name":"bench","title":"bench"}}'
    )
    import json

    answer = json.loads(str(await connection.read_message()))
    connection.close()
    return str(answer["payload"]["session_id"])


if __name__ == "__main__":
    main()
