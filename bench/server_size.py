"""What Ozzie adds to a Jupyter Server: memory and CPU until it is ready, beside the same server without it."""

import argparse
import contextlib
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from bench.result import Result, emit
from bench.servers import Server, server
from tests.fakes.openai_server import FakeOpenAI
from tests.rig import new_home

RUNS = 5
WORKER_S = 60.0
RESTING_CPU_S = 0.05
"""In a second; with its heartbeat and nothing else to do, the worker uses less."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    pairs = [(_start(ozzie=True), _start(ozzie=False)) for _ in range(options.runs)]
    worker = _worker()
    emit(
        [
            _row("memory", "MB", [(ours.rss_mb, plain.rss_mb) for ours, plain in pairs], 40, worker),
            _row("CPU", "s", [(ours.cpu_s, plain.cpu_s) for ours, plain in pairs], 1, ""),
        ]
    )


def _row(what: str, unit: str, pairs: list[tuple[float, float]], most: float, note: str) -> Result:
    ours, plain = (statistics.median(figures) for figures in zip(*pairs, strict=True))
    return Result(
        name=f"Jupyter Server with Ozzie, {what} when ready, against one without",
        ours=round(ours, 2),
        against=round(plain, 2),
        ratio=round(ours / plain, 3),
        unit=unit,
        target=f"<= +{most} {unit}",
        met=ours - plain <= most,
        note=f"+{ours - plain:.2f} {unit}{note}",
    )


def _start(*, ozzie: bool) -> Server:
    with tempfile.TemporaryDirectory() as folder, server(new_home(Path(folder)), ozzie=ozzie) as started:
        return started


def _worker() -> str:
    """What the model worker weighs, which starts with the first kernel of somebody with a provider."""
    with FakeOpenAI() as provider, tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder))
        home.use_provider(provider.url, "echo")
        with server(home, ozzie=True) as started:
            started.ask("ozzie/api/kernels/bench-kernel/token", {"session_name": "bench"})
            worker = _settled(started.process)
            times = worker.cpu_times()
            return (
                f"; beside it, once a provider is used, the model worker: "
                f"{worker.memory_info().rss / 1e6:.0f} MB, {times.user + times.system:.1f} CPU s to start"
            )


def _settled(process: psutil.Process) -> psutil.Process:
    """The server's model worker, once its CPU has rested for a second. Raises TimeoutError."""
    end = time.monotonic() + WORKER_S
    before = 0.0
    while time.monotonic() < end:
        for child in process.children():
            # Others come and go, and one may go while it is looked at.
            with contextlib.suppress(psutil.NoSuchProcess):
                if any("model_worker" in word for word in child.cmdline()):
                    times = child.cpu_times()
                    now = times.user + times.system
                    if now - before < RESTING_CPU_S < now:
                        return child
                    before = now
        time.sleep(1)
    raise TimeoutError("the model worker does not come to rest")


if __name__ == "__main__":
    main()
