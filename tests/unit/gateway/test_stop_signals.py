"""Stop signals of a server are taken over and given back."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from types import FrameType, SimpleNamespace

import pytest

from ozzie_server_ext.gateway.stop_signals import StopSignals


class Server:
    """As much of a ServerApp as its signals have."""

    def __init__(self) -> None:
        self.io_loop = SimpleNamespace(asyncio_loop=asyncio.get_running_loop())
        self.stopped_by: list[int] = []
        self.stopped = asyncio.Event()

    def init_signal(self) -> None:
        signal.signal(signal.SIGTERM, self._signal_stop)

    def _signal_stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped_by.append(number)
        self.stopped.set()

    def ask_twice(self) -> None:
        """As for the second Ctrl-C."""
        signal.signal(signal.SIGINT, self._signal_stop)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", ["linked", "initialized"])
async def test_a_stop_runs_on_the_loop_and_not_where_the_signal_came(first: str) -> None:
    server = Server()
    if first == "initialized":
        server.init_signal()
    StopSignals(server).install()
    if first == "linked":
        server.init_signal()

    signal.raise_signal(signal.SIGTERM)

    assert server.stopped_by == []
    await asyncio.wait_for(server.stopped.wait(), 10)
    assert server.stopped_by == [signal.SIGTERM]


async def test_the_question_on_a_terminal_stays_and_the_stop_behind_it_runs_on_the_loop() -> None:
    server = Server()
    question = signal.getsignal(signal.SIGINT)
    StopSignals(server).install()
    server.init_signal()
    asks = signal.getsignal(signal.SIGINT)
    server.ask_twice()

    signal.raise_signal(signal.SIGINT)

    assert asks == question
    assert server.stopped_by == []
    await asyncio.wait_for(server.stopped.wait(), 10)
    assert server.stopped_by == [signal.SIGINT]


async def test_the_former_handlers_are_put_back_and_those_of_others_are_left_alone() -> None:
    server = Server()
    former = server._signal_stop
    signals = StopSignals(server)
    signals.install()
    server.init_signal()
    server.ask_twice()
    signals.remove()
    back = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

    signals.install()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # somebody's own
    signals.remove()
    signals.remove()

    assert back == [former, former]
    assert server._signal_stop == former
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == [signal.SIG_IGN, former]


async def test_beside_the_main_thread_no_handler_changes() -> None:
    server = Server()
    server.init_signal()
    before = signal.getsignal(signal.SIGTERM)

    beside = threading.Thread(target=StopSignals(server).install)
    beside.start()
    beside.join(10)

    assert signal.getsignal(signal.SIGTERM) == before
