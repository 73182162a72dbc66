"""Durable steps a second, beside DBOS and LangGraph on SQLite; and a graph of a thousand steps.

Ours is a gateway as it runs: a workflow is read from its file, each step calls the calculator through the gate, and its
end stands in the log, chained and with its tables, before the run is done. Theirs are `bench.rivals`. All take turns,
each in a process of its own on a fresh folder, and call the same calculator.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.probe import Lag
from bench.result import Result, emit
from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import Origin
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.observability.heap import settle_heap
from ozzie_server_ext.tasks.service import NewTurn, SkillRequest

STEPS, ROUNDS, AT_ONCE, MANY = 480, 3, 16, 1000
LIMIT_S = 300
RIVALS = Path(sys.prefix) / "rivals"
ENDS = frozenset({"task.succeeded", "task.failed", "task.cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one run of ours took, and what its process had more afterwards."""

    seconds: float
    lag_p99_ms: float
    lag_max_ms: float
    more_mb: float


def workflow(steps: int, at_once: int) -> dict[str, Any]:
    """So many chains side by side as steps are to run at once."""
    chain: list[dict[str, Any]] = []
    for number in range(steps):
        needs = [f"s{number - at_once}"] if number >= at_once else []
        call = {"tool": "calculator", "args": {"expr": f"{number} + 1"}}
        chain.append({"id": f"s{number}", "call": call, "needs": needs})
    return {"name": "bench", "type": "workflow", "max_parallel": at_once, "steps": chain}


async def ours(folder: Path, steps: int, at_once: int) -> Ran:
    """The second run of a gateway: the first one warms it, as those of the rivals do."""
    home, project = Home(folder / "home"), folder / "project"
    home.create()
    project.mkdir()
    (home.root / "skills" / "bench.jsonc").write_text(json.dumps(workflow(steps, at_once)))
    ozzie = await Ozzie.start(home, project)
    settle_heap()
    session = (await ozzie.sessions.open("bench", title="bench", channel="notebook")).session_id
    await _run(ozzie, session)
    lag = Lag()
    watching = asyncio.create_task(lag.watch())
    before = rss_mb()
    began = time.perf_counter()
    await _run(ozzie, session)
    took = time.perf_counter() - began
    watching.cancel()
    late = lag.take()
    await ozzie.stop()
    return Ran(seconds=took, lag_p99_ms=late["p99_ms"], lag_max_ms=late["max_ms"], more_mb=rss_mb() - before)


async def _run(ozzie: Ozzie, session: SessionId) -> None:
    sent = await ozzie.submit(
        NewTurn(session, "", Origin(channel="notebook", sender_id="bench"), skill=SkillRequest(name="bench"))
    )
    async with ozzie.feed.subscribe(0, types=ENDS, task_id=sent.task_id) as events:
        end = await anext(events)
    if end.type != "task.succeeded":
        raise ValueError(f"the run did not come to its end: {end}")


def rss_mb() -> float:
    """The most that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--alone", type=int, nargs=2, metavar=("STEPS", "AT_ONCE"), help="one run of ours, in here")
    options = parser.parse_args()
    if options.alone:
        steps, at_once = options.alone
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_CONFIG_HOME"] = f"{folder}/config"
            print(json.dumps(asdict(asyncio.run(ours(Path(folder), steps, at_once)))))
        return
    one = [(_ours(options.steps, 1), _theirs("dbos", options.steps, 1)) for _ in range(options.rounds)]
    many = [(_ours(options.steps, AT_ONCE), _theirs("dbos", options.steps, AT_ONCE)) for _ in range(options.rounds)]
    nodes = [(_ours(options.steps, 1), _theirs("langgraph", options.steps, 1)) for _ in range(options.rounds)]
    emit(
        [
            _beside("durable steps, one after the other, against DBOS on SQLite", one, options.steps, 8),
            _beside(f"durable steps, {AT_ONCE} at once, against DBOS on SQLite", many, options.steps, 20),
            _beside("a checkpoint a node, against LangGraph with its SQLite saver", nodes, options.steps, 4),
            _thousand(_ours(MANY, AT_ONCE)),
        ]
    )


def _beside(name: str, rounds: Sequence[tuple[Ran, float]], steps: int, target: int) -> Result:
    ratio = statistics.median(theirs / run.seconds for run, theirs in rounds)
    return Result(
        name=name,
        ours=round(statistics.median(steps / run.seconds for run, _ in rounds)),
        against=round(statistics.median(steps / theirs for _, theirs in rounds)),
        ratio=round(ratio, 2),
        unit="/s",
        target=f">= {target}x",
        met=ratio >= target,
    )


def _thousand(run: Ran) -> Result:
    return Result(
        name=f"loop lag p99 under a graph of {MANY:,} steps, {AT_ONCE} at once",
        ours=round(run.lag_p99_ms, 1),
        against=None,
        ratio=None,
        unit="ms",
        target="<= 20 ms",
        met=run.lag_p99_ms <= 20,
        note=f"worst {run.lag_max_ms:.0f} ms; it took {run.seconds:.2f} s, {MANY / run.seconds:,.0f} steps a second, "
        f"and {run.more_mb:.0f} MB more",
    )


def _ours(steps: int, at_once: int) -> Ran:
    done = _process("bench.steps", "--alone", steps, at_once)
    return Ran(**json.loads(done))


def _theirs(rival: str, steps: int, at_once: int) -> float:
    """Raises FileNotFoundError where `make bench` has not set them up."""
    if not RIVALS.is_dir():
        raise FileNotFoundError(f"{RIVALS}: run make bench, which sets it up.")
    return float(_process("bench.rivals", rival, steps, at_once, path=str(RIVALS)))


def _process(module: str, *arguments: str | int, path: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, os.getcwd()]))}
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True)
    return done.stdout.splitlines()[-1]


if __name__ == "__main__":
    main()
