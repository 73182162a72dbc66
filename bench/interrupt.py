"""How soon an interrupt stops a stream: from the kernel's signal to the cell that says so, and to the provider that
sees the connection end. A person should feel no delay: 100 ms at most."""

import argparse
import os
import signal
import statistics
import time

from bench.first_token import home_with
from bench.kernels import Kernel, kernel, shown
from bench.result import Result, emit
from tests.fakes.openai_server import FakeOpenAI

RUNS = 20
TARGET_MS = 100
TEXT = 'class="oz-md'  # the live form draws the reply's text in this


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    with FakeOpenAI() as provider, home_with(provider, "endless") as home, kernel("ozzie", dict(home.env)) as ours:
        _stop_one(ours, provider)  # the first starts the worker
        times = [_stop_one(ours, provider) for _ in range(options.runs)]
    cell, upstream = zip(*times, strict=True)
    emit(
        [
            Result(
                name="interrupt: from the signal to the cell's Stopped",
                ours=round(statistics.median(cell), 1),
                against=None,
                ratio=None,
                unit="ms",
                target=f"<= {TARGET_MS} ms, each",
                met=max(cell) <= TARGET_MS,
                note=f"worst of {options.runs}: {max(cell):.1f} ms; "
                f"the provider sees the end after {statistics.median(upstream):.1f} ms",
            )
        ]
    )


def _stop_one(ours: Kernel, provider: FakeOpenAI) -> tuple[float, float]:
    """Milliseconds from the signal to the final output, and to the provider's end of the connection."""
    provider.forget()
    request = ours.send("go on for ever")
    seen, signalled, in_cell = 0, 0.0, 0.0
    for kind, content in ours.outputs(request):
        if not signalled and TEXT in shown(kind, content):
            seen += 1
            if seen == 3:
                signalled = time.perf_counter()
                os.kill(ours.pid, signal.SIGINT)
        if kind == "update_display_data":
            in_cell = time.perf_counter() - signalled
    provider.wait_for(lambda fake: "endless" in fake.disconnects)
    return in_cell * 1000, (time.perf_counter() - signalled) * 1000


if __name__ == "__main__":
    main()
