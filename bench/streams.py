"""How late a Jupyter Server's loop wakes while fifty turns stream through it, ten tokens a second each."""

import argparse
import asyncio
import tempfile
from pathlib import Path

from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from bench.result import Result, emit
from bench.servers import Server, server
from ozzie_kernel.client import GatewayClient
from tests.fakes.openai_server import FakeOpenAI
from tests.rig import JUPYTER_TOKEN, new_home

TURNS = 50
TOKENS = 100
MODEL = f"paced-300-100-{TOKENS}"
IDLE_S = 5.0
TURN_S = 120.0
TARGET_MS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    options = parser.parse_args()
    with FakeOpenAI() as provider, tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder))
        home.use_provider(provider.url, MODEL)
        with server(home, ozzie=True, probe=True) as started:
            emit([asyncio.run(_measure(started, options.turns))])


async def _measure(started: Server, turns: int) -> Result:
    # The first turn starts the worker; what is measured is a server at work.
    await _turn(started, "warm")
    await asyncio.to_thread(started.ask, "bench/probe")
    await asyncio.sleep(IDLE_S)
    idle = (await asyncio.to_thread(started.ask, "bench/probe"))["lag"]
    before = (await asyncio.to_thread(started.ask, "bench/probe"))["cpu_s"]
    loop = asyncio.get_running_loop()
    began = loop.time()
    replies = await asyncio.gather(*(_turn(started, f"turn {number}") for number in range(turns)))
    took = loop.time() - began
    busy = await asyncio.to_thread(started.ask, "bench/probe")
    if any(reply != TOKENS for reply in replies):
        raise ValueError(f"not every reply came whole: {replies}")
    return Result(
        name=f"loop lag p99 under {turns} streaming turns, against the same server idle",
        ours=round(busy["lag"]["p99_ms"], 1),
        against=round(idle["p99_ms"], 1),
        ratio=None,
        unit="ms",
        target=f"<= {TARGET_MS} ms",
        met=busy["lag"]["p99_ms"] <= TARGET_MS,
        note=f"median {busy['lag']['p50_ms']:.1f} ms, worst {busy['lag']['max_ms']:.0f} ms; "
        f"the server used {(busy['cpu_s'] - before) / took:.0%} of a core",
    )


async def _turn(started: Server, name: str) -> int:
    """How many words the reply of a turn in a session of its own has."""
    request = HTTPRequest(
        f"ws{started.url.removeprefix('http')}ozzie/api/ws", headers={"Authorization": f"token {JUPYTER_TOKEN}"}
    )
    client = GatewayClient(await websocket_connect(request))
    try:
        session = await client.request("session.open", {"session_name": name})
        sent = await client.request("message.send", {"session_id": session["session_id"], "content": "go"})
        task_id = str(sent["task_id"])
        frames = await client.follow(task_id, int(str(sent["position"])) - 1)
        words = 0
        async with asyncio.timeout(TURN_S):
            while (frame := await frames.get()) is not None:
                if frame.canonical == "message.completed":
                    words = len(str(frame.payload["text"]).split())
                if frame.canonical == "task.failed":
                    raise ValueError(f"the turn failed: {frame.payload}")
                if frame.canonical == "task.succeeded":
                    return words
        raise ValueError("the connection ended")
    finally:
        await client.close()


if __name__ == "__main__":
    main()
