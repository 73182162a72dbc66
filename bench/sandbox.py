"""What the sandbox costs: a command's start in it beside bare bubblewrap, and the loop's lag beside bad jobs.

Bare bubblewrap is one call with the namespaces and mounts that any sandbox of a shell needs, and no limits, filter or
user of its own; both are measured to the first thing that the command prints, and take turns in one run.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.result import Result, emit
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.execution.runner import MIB, JobLimits, JobSpec, JobState
from ozzie_server_ext.observability.clock import SystemClock, UlidSource

STARTS = 60
WARM = 5
TIMES = 2.0
LAG_MS = 20.0
_TICK_S = 0.002

BARE = (
    "bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session",
    "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
    "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
)  # fmt: skip

FLOOD = "head -c 1G /dev/zero | tr '\\0' 'x'"
FORKS = "bomb() { bomb | bomb & }; bomb; sleep 60"
DEAF = "trap '' TERM INT HUP; (trap '' TERM; while :; do :; done) & while :; do :; done"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=STARTS)
    starts = parser.parse_args().starts
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        emit(asyncio.run(_measured(Path(folder), starts)))


async def _measured(project: Path, starts: int) -> list[Result]:
    runner = BubblewrapRunner(UlidSource(SystemClock()))
    await runner.ready()

    async def bare() -> None:
        process = subprocess.Popen(  # noqa: ASYNC220 - as the runner does
            [*BARE, "--ro-bind", str(project), "/project", "echo", "x"], stdout=subprocess.PIPE, cwd="/"
        )
        assert process.stdout is not None
        await asyncio.to_thread(process.stdout.read, 1)
        told.append(time.perf_counter())
        process.communicate()

    async def ours() -> None:
        job_id = await runner.start(JobSpec(argv=["echo", "x"], project=project))
        async for _ in runner.stream_logs(job_id):
            told.append(time.perf_counter())

    told: list[float] = []
    times: list[list[float]] = [[], []]
    for number in range(WARM + starts):
        for call, found in zip((bare, ours), times, strict=True):
            told.clear()
            began = time.perf_counter()
            await call()
            if number >= WARM:
                found.append((told[0] - began) * 1e3)
    there, here = map(statistics.median, times)
    rows = [
        Result(
            name="a command in the sandbox, to its first output, p50, against bare bubblewrap",
            ours=round(here, 1),
            against=round(there, 1),
            ratio=round(here / there, 2),
            unit="ms",
            target=f"<= {TIMES:g}x",
            met=here / there <= TIMES,
        )
    ]
    for name, argv, limits, ends in (
        ("prints 1 GB", ["sh", "-c", FLOOD], JobLimits(output=256 * MIB), JobState.CUT),
        ("forks without end", ["bash", "-c", FORKS], JobLimits(wall_s=2), JobState.TIMED_OUT),
        ("ignores SIGTERM", ["sh", "-c", DEAF], JobLimits(wall_s=2), JobState.TIMED_OUT),
    ):
        rows.append(await _lag(runner, name, JobSpec(argv=argv, project=project, limits=limits), ends))
    await runner.close()
    return rows


async def _lag(runner: BubblewrapRunner, name: str, spec: JobSpec, ends: JobState) -> Result:
    async def run() -> None:
        for _ in range(3):
            job_id = await runner.start(spec)
            async for _piece in runner.stream_logs(job_id):
                pass
            found = await runner.status(job_id)
            assert found.state is ends, found

    lags = await _beside(run)
    p99 = statistics.quantiles(lags, n=100)[98]
    return Result(
        name=f"loop lag p99 beside a job that {name}",
        ours=round(p99, 1),
        against=None,
        ratio=None,
        unit="ms",
        target=f"<= {LAG_MS:g} ms",
        met=p99 <= LAG_MS,
        note=f"the most {max(lags):.1f} ms of {len(lags)} looks; each of three jobs was ended and told",
    )


async def _beside(work: Callable[[], Awaitable[None]]) -> list[float]:
    """Milliseconds by which the loop was late, while that work ran."""
    lags: list[float] = []
    running = asyncio.ensure_future(work())
    while not running.done():
        began = time.perf_counter()
        await asyncio.sleep(_TICK_S)
        lags.append((time.perf_counter() - began - _TICK_S) * 1e3)
    running.result()
    return lags


if __name__ == "__main__":
    main()
