"""From the start of a kernel's process to its answer that it is ready, beside ipykernel's."""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from bench.kernels import kernel
from bench.result import Result, emit
from tests.rig import new_home

RUNS = 7
TARGET = 1.15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder))
        env = dict(home.env)
        try:
            pairs = [(_start("ozzie", env), _start("python3", env)) for _ in range(options.runs)]
        finally:
            home.stop_gateways()
    # The first pair also reads everything from the disk.
    ours, plain = (statistics.median(times) for times in zip(*pairs[1:], strict=True))
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


def _start(name: str, env: dict[str, str]) -> float:
    began = time.perf_counter()
    with kernel(name, env):
        return time.perf_counter() - began


if __name__ == "__main__":
    main()
