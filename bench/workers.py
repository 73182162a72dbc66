"""Answers through the model workers, beside litellm in the asking process itself: 1, 10 and 50 streams at once.

Fifty tokens a second each, after 300 ms: with fifty streams more than one core can take. The provider has a process of
its own, and its share of a core is told: it must not be what both wait for. The pool begins with one worker, as it does
for a user; before fifty streams are measured it has had them long enough to start what it wants to start.

The rival is litellm as it comes. It fetches by aiohttp then; the worker has it take httpx, which closes the connection
of an aborted call at once, and costs more CPU.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from bench.result import Result, emit
from bench.servers import ROOT
from bench.streaming import Round
from ozzie_server_ext.planes.pool import usual_limit

TOKENS = 100
MODEL = f"paced-300-20-{TOKENS}"
ROUNDS = {1: 2, 10: 2, 50: 2}
GROWING_ROUNDS = 4
END_S = 20.0
TARGETS = {
    # streams: first token, total, CPU per token: each at most so many times the rival's
    1: (1.05, 1.05, 1.3),
    10: (1.1, 1.05, 1.3),
    50: (1.0, 0.8, 1.3),
}
LAG_MS = 20


class Side:
    """A process of `bench.streaming`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, streams: int) -> Round:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{streams} {MODEL}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a side ended")
        found = Round(**json.loads(line))
        if found.words != streams * TOKENS:
            raise ValueError(f"not every answer came whole: {found}")
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    with _process("tests.fakes.openai_server") as provider:
        assert provider.stdout is not None
        url = provider.stdout.readline().strip().removesuffix("/v1")
        with _process("bench.streaming", "ours", url) as ours, _process("bench.streaming", "in-process", url) as rival:
            emit(list(_results(Side(ours), Side(rival), psutil.Process(provider.pid))))


def _results(ours: Side, rival: Side, provider: psutil.Process) -> Iterator[Result]:
    for side in (ours, rival):
        side.run(1)
    for streams, rounds in ROUNDS.items():
        beside = _grow(ours, streams) if streams > 10 else ""
        before, began = _cpu_s(provider), time.perf_counter()
        pairs = [(ours.run(streams), rival.run(streams)) for _ in range(rounds)]
        share = (_cpu_s(provider) - before) / (time.perf_counter() - began)
        mine, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
        yield from _rows(streams, mine, theirs, f"{beside}the provider used {share:.0%} of a core")


def _grow(ours: Side, streams: int) -> str:
    """Let the pool have its load until it has all the workers that it may have; what it took, in words."""
    began = time.perf_counter()
    found = 1
    for _ in range(GROWING_ROUNDS):
        found = ours.run(streams).processes
        if found == usual_limit():
            break
    return f"{found} workers, {time.perf_counter() - began:.0f} s after {streams} streams came; "


def _rows(streams: int, ours: list[Round], rival: list[Round], note: str) -> Iterator[Result]:
    of = f"{streams} streams" if streams > 1 else "1 stream"
    first, total, cpu = TARGETS[streams]

    def compared(what: str, unit: str, mine: float, theirs: float, most: float, note: str, digits: int) -> Result:
        return Result(
            name=f"{what}, {of} through the workers, against litellm in-process",
            ours=round(mine, digits),
            against=round(theirs, digits),
            ratio=round(mine / theirs, 2),
            unit=unit,
            target=f"<= {most:g}x",
            met=mine / theirs <= most,
            note=note,
        )

    def middle(rounds: list[Round], name: str) -> float:
        return statistics.median(getattr(each, name) for each in rounds)

    worst = f"worst {middle(ours, 'worst_first_ms'):.0f} ms, against {middle(rival, 'worst_first_ms'):.0f} ms"
    yield compared("first token", "ms", middle(ours, "first_ms"), middle(rival, "first_ms"), first, worst, 0)
    yield compared("total", "s", middle(ours, "total_s"), middle(rival, "total_s"), total, note, 2)
    tokens = sum(each.words for each in ours)
    mine, theirs = (sum(each.cpu_s for each in side) / tokens * 1e6 for side in (ours, rival))
    yield compared("CPU per token", "us", mine, theirs, cpu, "all processes of ours together", 0)
    lag = middle(ours, "lag_p99_ms")
    yield Result(
        name=f"loop lag p99 in the asking process, {of}, against litellm in-process",
        ours=round(lag, 1),
        against=round(middle(rival, "lag_p99_ms"), 1),
        ratio=None,
        unit="ms",
        target=f"<= {LAG_MS} ms",
        met=lag <= LAG_MS,
        note=f"worst {middle(ours, 'lag_max_ms'):.0f} ms, against {middle(rival, 'lag_max_ms'):.0f} ms",
    )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


@contextmanager
def _process(module: str, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    child = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        child.terminate()
        child.wait(END_S)


if __name__ == "__main__":
    main()
