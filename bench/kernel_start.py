"""From the start of a kernel's process to its answer that it is ready, beside ipykernel's."""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from bench.kernels import kernel
from bench.result import Result, emit
from tests.rig import new_home

RUNS = 16
TARGET = 1.15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder))
        env = dict(home.env)
        try:
            times = [_pair(number, env) for number in range(options.runs)]
        finally:
            home.stop_gateways()
    # The first pairs also read everything from the disk, and run beside the start of the gateway.
    ours, plain = (statistics.median(pair[name] for pair in times[2:]) for name in ("ozzie", "python3"))
    emit(
        [
            Result(
                name="kernel start, against ipykernel",
                ours=round(ours * 1000),
                against=round(plain * 1000),
                ratio=round(ours / plain, 3),
                unit="ms",
                target=f"<= {TARGET}x",
                met=ours / plain <= TARGET,
            )
        ]
    )


def _pair(number: int, env: dict[str, str]) -> dict[str, float]:
    """One start of each. Whose is first changes, because what ends after the one still runs beside the other."""
    names = ("ozzie", "python3") if number % 2 == 0 else ("python3", "ozzie")
    return {name: _start(name, env) for name in names}


def _start(name: str, env: dict[str, str]) -> float:
    began = time.perf_counter()
    with kernel(name, env):
        return time.perf_counter() - began


if __name__ == "__main__":
    main()
