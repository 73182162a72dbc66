"""A Jupyter Server extension for benchmarks only: what can be seen of a server's loop and CPU from inside.

`GET /bench/probe` tells what was noted since the last time and begins anew. `POST /bench/publish` sends the deltas of
one streamed reply to everyone, through Ozzie's feed or, as the rival, with one `write_message` each.
"""

import asyncio
import json
import resource
import time
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from tornado.web import authenticated
from tornado.websocket import WebSocketHandler

from ozzie_server_ext.domain.events import Transient
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.protocol.frames import encode_frame, event_frame

TICK_S = 0.005


class Lag:
    """How late the loop wakes who asked to be woken."""

    def __init__(self) -> None:
        self.late_s: list[float] = []

    async def watch(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK_S)
            self.late_s.append(time.perf_counter() - began - TICK_S)

    def take(self) -> dict[str, float]:
        found, self.late_s = sorted(self.late_s), []
        if not found:
            return {}
        return {
            "ticks": len(found),
            "p50_ms": found[len(found) // 2] * 1000,
            "p99_ms": found[int(len(found) * 0.99)] * 1000,
            "max_ms": found[-1] * 1000,
        }


class PlainHandler(WebSocketHandler):
    """The rival: a list of sockets."""

    clients: "set[PlainHandler]" = set()  # noqa: RUF012

    def check_origin(self, origin: str) -> bool:
        return True

    def get_compression_options(self) -> None:
        return None

    def open(self, *args: str, **kwargs: str) -> None:
        self.clients.add(self)

    def on_close(self) -> None:
        self.clients.discard(self)


class ProbeHandler(JupyterHandler):
    @authenticated
    def get(self) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        lag: Lag = self.settings["bench_lag"]
        self.finish({"lag": lag.take(), "cpu_s": usage.ru_utime + usage.ru_stime, "plain": len(PlainHandler.clients)})


class PublishHandler(JupyterHandler):
    def check_xsrf_cookie(self) -> None:
        """Only a script with the server's token comes here."""

    @authenticated
    async def post(self) -> None:
        asked = json.loads(self.request.body)
        state: GatewayState = self.settings["ozzie"]
        publish = _plainly if asked["plainly"] else state.require().feed.publish
        before = time.process_time()
        await _stream(publish, asked["events"], asked["per_s"], asked["session_id"])
        self.finish({"cpu_s": time.process_time() - before})


async def _stream(publish: Any, events: int, per_s: float, session_id: str) -> None:
    """The deltas of a reply, at an even pace."""
    offset, began = 0, time.perf_counter()
    for number in range(events):
        ahead = number / per_s - (time.perf_counter() - began)
        if ahead > 0:
            await asyncio.sleep(ahead)
        content = f"word{number:06d} "
        publish(
            Transient(
                type="reply.delta",
                session_id=SessionId(session_id),
                task_id=TaskId("01BENCH0000000000000000000"),
                payload={
                    "reply_id": "01BENCHREPLY00000000000000",
                    "offset": offset,
                    "phase": "delta",
                    "content": content,
                },
            )
        )
        offset += len(content)
    await asyncio.sleep(0.2)


def _plainly(item: Transient) -> None:
    text = encode_frame(event_frame(item))
    for client in PlainHandler.clients:
        client.write_message(text)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "bench.probe"}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    web: Any = server.web_app
    lag = Lag()
    web.settings["bench_lag"] = lag
    server.io_loop.add_callback(lag.watch)
    base = web.settings["base_url"]
    web.add_handlers(
        ".*$",
        [
            (url_path_join(base, "bench", "probe"), ProbeHandler),
            (url_path_join(base, "bench", "publish"), PublishHandler),
            (url_path_join(base, "bench", "plain"), PlainHandler),
        ],
    )
