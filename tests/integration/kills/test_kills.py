"""kill -9 of gateway, model worker and kernel in mid-turn: nothing is lost, nothing comes twice."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.recovery import MAX_DEATHS
from tests.integration.kills import story
from tests.integration.kills.stage import MOMENTS, Death, Stage, is_alive, seeded_moments, staged, until

KILLS = 50
SEED = int(os.environ.get("OZZIE_SOAK_SEED", "4"))
DEATHS_A_GATEWAY = 4
"""Of its worker: at the fifth in two minutes it would rightly start no other."""
ANSWERING = tuple(moment for moment in MOMENTS if moment.name != "task.queued")


@pytest.mark.timeout(180)
def test_a_turn_survives_the_death_of_each_process(tmp_path: Path, say: Callable[[str], None]) -> None:
    say(f"\na sample of the kills, seed {SEED}")
    gateway, again, worker, kernel = seeded_moments(SEED, 4, ANSWERING)
    with staged(tmp_path, say) as stage:
        stage.kill("kernel", kernel)
        stage.kill("worker", worker)
        stage.kill("gateway", gateway)
        stage.kill("gateway", again)
    assert_all_is_well(stage)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", ["gateway", "worker", "kernel"])
def test_fifty_deaths_of_each_process(victim: str, tmp_path: Path, say: Callable[[str], None]) -> None:
    moments = seeded_moments(SEED, KILLS, MOMENTS if victim == "gateway" else ANSWERING)
    say(f"\n{KILLS} kills of the {victim}, seed {SEED}")
    with staged(tmp_path, say) as stage:
        for number, moment in enumerate(moments):
            if victim == "worker" and number and number % DEATHS_A_GATEWAY == 0:
                stage.restart_gateway()
            stage.kill(victim, moment)
    assert_all_is_well(stage)
    hit = {death.moment for death in stage.deaths}
    assert hit == set(moments) == set(MOMENTS if victim == "gateway" else ANSWERING), "a phase of a turn was not hit"
    if victim == "gateway":
        logged = {death.last for death in stage.deaths}
        say(f"the log ended at: {', '.join(sorted(logged))}")
        assert logged >= {"task.queued", "model.call.started", "tool.call.started", "tool.call.completed"}


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_turn_that_is_running_at_three_deaths_is_given_up_and_its_cell_can_be_run_again(
    tmp_path: Path, say: Callable[[str], None]
) -> None:
    with staged(tmp_path, say) as stage:
        output = stage.kill_each_attempt(MAX_DEATHS)
        assert output.status == "error"
        assert "interrupted by a restart 3 times and was not resumed." in output.markdown
        assert "Run the cell again. Your message is kept." in output.markdown
        again = stage.kernel.run(story.prompt("again"))
        assert (again.status, again.markdown.count(story.ending("again"))) == ("ok", 1)


def assert_all_is_well(stage: Stage) -> None:
    """After everything has stopped: every turn has an honest end, and each reply is there once, as it was sent."""
    until(lambda: not [pid for pid in stage.spawned if is_alive(pid)] or None, 10, "the end of every process")
    verified = subprocess.run(
        [sys.executable, "-m", "ozzie_server_ext.cli.main", "events", "verify", "--json"],
        env=dict(stage.home.env),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert json.loads(verified.stdout)["ok"], verified.stdout + verified.stderr
    tasks, messages = asyncio.run(_recorded(stage.home.home / "data" / "ozzie.db"))
    markers = [marker for death in stage.deaths for marker in (death.before, death.marker) if marker]
    assert sorted(str(task["title"]) for task in tasks) == sorted(map(story.prompt, markers))
    ends = {str(task["title"]): task for task in tasks}
    for death in stage.deaths:
        for marker in filter(None, (death.before, death.marker)):
            task = ends[story.prompt(marker)]
            said = [str(row["text"]) for row in messages if row["task_id"] == task["task_id"]]
            assert (task["status"], said) == ("SUCCEEDED", [story.INTRO, story.ending(marker)]), death
        if death.output is not None:
            _assert_shown_once(death)


async def _recorded(path: Path) -> tuple[list[Row], list[Row]]:
    """The tasks and the replies, once it is sure that they are what the log makes of them."""
    clock = SystemClock()
    log = await SqliteEventLog.open(path, clock=clock, ids=UlidSource(clock))
    try:
        live = await log.dump()
        assert live == await log.rebuild(), "the tables are not what the log makes of them"
        return await log.rows("tasks"), await log.rows("messages", where={"role": "assistant"}, order_by="position")
    finally:
        await log.close()


def _assert_shown_once(death: Death) -> None:
    assert death.output is not None
    shown = death.output.markdown
    marker = death.before or death.marker
    assert shown.count(story.ending(marker)) == 1, shown
    assert shown.count("Ozzie: Done") == 1, shown
    assert shown.count(story.INTRO) <= 1, shown
    assert "still running" not in shown, shown
