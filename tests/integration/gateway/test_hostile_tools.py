"""Tools that hang, flood, ignore being stopped or give no text, in a real gateway: each call has a clear outcome, and
health is answered all the while."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from tests.fakes.hostile_gateway import GIB
from tests.integration.gateway.asked import events
from tests.integration.gateway.test_rest import get, post, until
from tests.rig import Gateway, new_home, start_gateway

pytestmark = pytest.mark.timeout(180)

ASK_EVERY_S = 0.02
MOST_WAIT_S = {"hang": 2.0, "ignore": 2.0, "flood": 2.0, "garble": 2.0, "deluge": 6.0}
"""For an answer of health. A tool that makes one text of a gigabyte holds up the loop itself while it does."""
MOST_MORE_BYTES = 128 << 20
"""Beside what the tool itself holds."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = new_home(tmp_path_factory.mktemp("hostile"))
    with start_gateway(home, program="tests.fakes.hostile_gateway") as running:
        yield running


@dataclass
class Watched:
    """How often health was answered, the longest that an answer took, and the most memory that was held."""

    answers: int = 0
    longest_s: float = 0.0
    most_bytes: int = 0


@contextmanager
def watched(server: Gateway) -> Iterator[Watched]:
    found = Watched()
    over = threading.Event()
    process = psutil.Process(server.process.pid)

    def watch() -> None:
        while not over.wait(ASK_EVERY_S):
            began = time.monotonic()
            assert get(server, "health")["status"] == "ok"
            found.longest_s = max(found.longest_s, time.monotonic() - began)
            found.answers += 1
            found.most_bytes = max(found.most_bytes, process.memory_info().rss)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield found
    finally:
        over.set()
        watching.join()


def called(server: Gateway, name: str) -> dict[str, Any]:
    """What became of the call that a turn made, once the turn has ended."""
    task_id = post(server, "message", 202, content=name, session_name=name)["task_id"]
    until(lambda: get(server, f"tasks/{task_id}")["finished_at"])
    assert get(server, f"tasks/{task_id}")["status"] == "SUCCEEDED"
    (requested,) = [each for each in events(server, "tool.call.requested") if each["name"] == name]
    (failed,) = [each for each in events(server, "tool.call.failed") if each["call_id"] == requested["call_id"]]
    return failed


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("hang", "tool.timed_out", "hang did not finish within 0.5 s."),
        pytest.param("ignore", "tool.timed_out", "ignore did not finish within 0.5 s.", marks=pytest.mark.soak),
        ("flood", "tool.too_large", "It returned more than 4 MiB"),
        ("deluge", "tool.too_large", "It returned more than 4 MiB"),
        ("garble", "input.json", "Can't be written as JSON"),
    ],
)
def test_it_has_a_clear_outcome_and_the_gateway_lives(server: Gateway, name: str, code: str, message: str) -> None:
    before = psutil.Process(server.process.pid).memory_info().rss

    with watched(server) as seen:
        failed = called(server, name)

    assert failed["code"] == code
    assert failed["message"].startswith(message)
    assert seen.answers > 0
    assert seen.longest_s < MOST_WAIT_S[name]
    own = GIB if name in ("flood", "deluge") else 0
    assert seen.most_bytes - before < own + MOST_MORE_BYTES
    # And the next one is served.
    assert post(server, "message", content="well?", session_name=name, wait=True)["status"] == "SUCCEEDED"


@pytest.mark.soak
def test_a_gateway_whose_tool_ignores_everything_stops_in_order(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = new_home(tmp_path_factory.mktemp("stopped"))

    with start_gateway(home, program="tests.fakes.hostile_gateway") as server:
        assert called(server, "ignore")["code"] == "tool.timed_out"
        server.process.terminate()
        assert server.process.wait(20) == 0
