"""kill -9 at random moments of a graph of thirty steps: each run ends as an undisturbed one, nothing is done twice."""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import SkillCompleted, StepCompleted, StepStarted
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.integration.crashes.counter import Client, counting
from tests.integration.runs.dying_gateway import COUNTED, skill
from tests.warm import WarmPopen

ROOT = Path(__file__).parents[3]
SEED = int(os.environ.get("OZZIE_SOAK_SEED", "8"))
DEATHS_A_RUN = 10
MOMENTS = {"event": 40, "before": 4, "after": 4, "held": 40}
"""Where a gateway may die, and how often it comes by there at the most before it does: a run has some 350 events."""
WAIT_S = 60.0


class Gateway:
    """One gateway's process."""

    def __init__(self, folder: Path, counter: Client, moment: str, nth: int) -> None:
        self.moment = moment
        command = [sys.executable, "-m", "tests.integration.runs.dying_gateway", str(folder), str(counter.port)]
        env = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config")}
        self._process = WarmPopen(
            [*command, moment, str(nth)], cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def says(self) -> str:
        """The next line: where it died or is held, or how it ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def ended(self) -> int:
        """Its exit status."""
        self._process.communicate(timeout=WAIT_S)
        return self._process.returncode

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=WAIT_S)


@contextmanager
def gateways(folder: Path, counter: Client) -> Iterator[Callable[[str, int], Gateway]]:
    """Starts one after the other; none outlives the test."""
    started: list[Gateway] = []

    def start(moment: str, nth: int) -> Gateway:
        started.append(Gateway(folder, counter, moment, nth))
        return started[-1]

    yield start
    for gateway in started:
        gateway.kill()


def disturbed(folder: Path, deaths: int, chance: random.Random, say: Callable[[str], None]) -> int:
    """One run to its end, through so many deaths; how many there were before it had ended. It asserts what has to be
    so then: each effect was had once, and the log is that of an undisturbed run."""
    met: list[str] = []
    with counting() as counter, gateways(folder, counter) as start:
        while len(met) < deaths:
            moment = chance.choice(list(MOMENTS))
            gateway = start(moment, chance.randint(1, MOMENTS[moment]))
            said = gateway.says()
            if said == "over":  # it had ended before that moment came
                break
            met.append(said)
            if moment == "held":
                heir = start("never", 1)
                assert heir.says() == "over"
                gateway.go_on()
                assert gateway.says() in ("replaced", "over")
                assert gateway.ended() == 0
                break
            assert gateway.ended() == -9
        else:
            last = start("never", 1)
            assert last.says() == "over"
            assert last.ended() == 0
        say(f"  died: {', '.join(met)}")
        counted = {name: counter.counted(name) for name in COUNTED}
    assert {name: len(each.effects) for name, each in counted.items()} == dict.fromkeys(COUNTED, 1), (
        "an effect was had twice, or never"
    )
    say(f"  {sum(len(each.attempts) for each in counted.values())} attempts at {len(COUNTED)} effects")
    asyncio.run(_assert_all_is_well(folder))
    return len(met)


async def _assert_all_is_well(folder: Path) -> None:
    clock = SystemClock()
    log = await SqliteEventLog.open(Home(folder / "home").database, clock=clock, ids=UlidSource(clock))
    try:
        assert (await log.verify()).ok
        assert await log.dump() == await log.rebuild()
        (run,) = await log.rows("tasks", where={"mode": "GRAPH"})
        assert run["status"] == "SUCCEEDED", run["error_message"]
        bodies = [event.body for event in await log.read_stream(task_stream(TaskId(str(run["task_id"]))))]
        ends = Counter(body.step_id for body in bodies if isinstance(body, StepCompleted))
        assert ends == Counter(step["id"] for step in skill()["steps"]), "a step ended twice, or never"
        starts = {body.step_id for body in bodies if isinstance(body, StepStarted)}
        at_once = {body.step_id for body in bodies if isinstance(body, StepCompleted) and body.call is not None}
        assert starts | at_once == set(ends)
        (result,) = [body.output for body in bodies if isinstance(body, SkillCompleted)]
        assert result == f"<end {OUTPUT_OF_JOIN}>"
        left = await log.rows("tasks", where={"status": ["CREATED", "QUEUED", "RUNNING", "WAITING_APPROVAL"]})
        assert left == []
    finally:
        await log.close()


OUTPUT_OF_JOIN = "<join-0 <agent-0>>"
"""What the last step was told, in an undisturbed run."""


@pytest.mark.timeout(120)
def test_an_undisturbed_run_ends_so(tmp_path: Path, say: Callable[[str], None]) -> None:
    assert disturbed(tmp_path, 0, random.Random(SEED), say) == 0


@pytest.mark.timeout(240)
def test_runs_survive_deaths_of_their_gateway(tmp_path: Path, say: Callable[[str], None]) -> None:
    say(f"\na sample of the deaths, seed {SEED}")
    chance = random.Random(SEED)
    assert disturbed(tmp_path, 4, chance, say) > 1


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_a_hundred_deaths(tmp_path: Path, say: Callable[[str], None]) -> None:
    chance, met, number = random.Random(SEED), 0, 0
    while met < 100:
        say(f"\nrun {number}, seed {SEED}")
        met += disturbed(tmp_path / str(number), DEATHS_A_RUN, chance, say)
        number += 1
        assert number < 200, "the moments never come"
