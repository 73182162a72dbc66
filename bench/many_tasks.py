"""A thousand small tasks at once: turns of as many sessions, answered by the offline script."""

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path

from bench.probe import Lag
from bench.result import Result, emit
from bench.steps import ENDS, rss_mb
from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import Origin
from ozzie_server_ext.observability.heap import settle_heap
from ozzie_server_ext.tasks.service import NewTurn

TASKS = 1000
TARGET_MS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=TASKS)
    tasks = parser.parse_args().tasks
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = f"{folder}/config"
        emit([asyncio.run(_measured(Path(folder), tasks))])


async def _measured(folder: Path, tasks: int) -> Result:
    home, project = Home(folder / "home"), folder / "project"
    home.create()
    project.mkdir()
    ozzie = await Ozzie.start(home, project)
    settle_heap()
    sessions = [
        (await ozzie.sessions.open(f"s{number}", title="bench", channel="notebook")).session_id
        for number in range(tasks)
    ]
    origin = Origin(channel="notebook", sender_id="bench")
    lag, before = Lag(), rss_mb()
    watching = asyncio.create_task(lag.watch())
    began = time.perf_counter()
    async with ozzie.feed.subscribe((await ozzie.log.head()).position, types=ENDS) as events:
        await asyncio.gather(*(ozzie.submit(NewTurn(session, "What is 6 * 7?", origin)) for session in sessions))
        submitted = time.perf_counter() - began
        for _ in range(tasks):
            end = await anext(events)
            if end.type != "task.succeeded":
                raise ValueError(f"a turn did not come to its end: {end}")
    took = time.perf_counter() - began
    watching.cancel()
    late = lag.take()
    await ozzie.stop()
    return Result(
        name=f"loop lag p99 under {tasks:,} small tasks at once",
        ours=round(late["p99_ms"], 1),
        against=None,
        ratio=None,
        unit="ms",
        target=f"<= {TARGET_MS} ms",
        met=late["p99_ms"] <= TARGET_MS,
        note=f"median {late['p50_ms']:.1f} ms, worst {late['max_ms']:.0f} ms; all were taken after {submitted:.2f} s "
        f"and done after {took:.2f} s, {tasks / took:,.0f} tasks a second; {rss_mb() - before:.0f} MB more",
    )


if __name__ == "__main__":
    main()
