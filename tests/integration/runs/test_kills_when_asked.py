"""kill -9 directly before and behind what a person asks of a run: to be held and let go on, tried again, told of an event,
told more. Each is done once or not at all, and the run ends as an undisturbed one (TK-1, TK-2, TK-4; ADR 41)."""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.events import (
    SkillCompleted,
    StepCompleted,
    StepStarted,
    TaskResumed,
    TaskRetried,
    TaskTold,
    TaskUpdated,
)
from tests.integration.crashes.counter import Client, counting
from tests.integration.runs.people import (
    Answer,
    Left,
    Moment,
    RunsHome,
    runs_home,
    some_moment,
)

SEED = int(os.environ.get("OZZIE_SOAK_SEED", "8"))
ROUNDS = 6
"""Of the soak, over all scenes."""
Scene = Callable[[RunsHome, random.Random], str]


def counts(name: str, *needs: str) -> dict[str, Any]:
    return {"id": name, "call": {"tool": "count_it", "args": {"what": name}}, "needs": list(needs)}


def agent(step_id: str, text: str, *needs: str) -> dict[str, Any]:
    once = {"max_attempts": 1}
    return {"id": step_id, "instruction": text, "needs": list(needs), "retry_policy": once, "tools": []}


def within(name: str, *needs: str, skill: str = "within") -> dict[str, Any]:
    once = {"max_attempts": 1}
    return {"id": name, "skill": skill, "with": {}, "needs": list(needs), "retry_policy": once}


def workflow(name: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "workflow", "vars": {}, "steps": list(steps), **more}


FACTS = {
    "pause": "task.pausing",
    "resume": "task.resumed",
    "retry": "task.retried",
    "update": "task.updated",
    "tell": "task.told",
}
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


class Story:
    """One run whose gateways die when it is asked for something. Whoever asked looks afterwards whether that was taken
    in, and asks once more where it was not."""

    def __init__(self, home: RunsHome, chance: random.Random) -> None:
        self.home = home
        self.gateway = home.start()
        self.run = ""
        self.was_taken_in = False
        self.died_at = 0
        """Whether the last request was durable when its gateway died, and the position of the last event then."""
        self._chance = chance
        self._met: list[str] = []

    def begin(self, skill: str) -> str:
        self.run = self.gateway.answer("begin", skill=skill)["task"]
        return self.run

    def asks(self, what: str, moment: Moment | None = None, do: str = "ask_for", **more: Any) -> None:
        """A request that its gateway dies around, or a while after it."""
        moment = moment or some_moment(self._chance)
        request = {"what": what, "task": self.run, **more}
        self.was_taken_in = False
        answer = self.gateway.ask(do, **request, moment=moment.name, nth=moment.nth)
        self._met.append(f"{what} ({moment})")
        if answer is not None:
            return
        self._next()
        self.was_taken_in = self.gateway.answer("was_asked", task=self.run, fact=FACTS[what])["times"] > 0
        if not self.was_taken_in:
            self.gateway.answer("ask_for", **request | {"at": 0}, moment="never", nth=1)

    def answer(self, do: str, **request: Any) -> Answer:
        """What a gateway answers that need not live any more, or the next one."""
        answer = self.gateway.ask(do, **request)
        if answer is None:
            self._next()
            self.was_taken_in = True
        return answer if answer is not None else self.gateway.answer(do, **request)

    def _next(self) -> None:
        self._met[-1] += f": {self.gateway.died}"
        self.died_at = self.home.head()
        self.gateway = self.home.start()

    def told(self) -> str:
        return ", ".join(self._met)


def assert_ended(left: Left, result: Any) -> None:
    """As an undisturbed run ends: each step of each run once, and nothing goes on."""
    assert left.rows[left.run]["status"] == "SUCCEEDED", left.rows[left.run]["error_message"]
    (end,) = left.facts(SkillCompleted)
    assert end.output == result
    for run in left.runs:
        ends = Counter(fact.step_id for fact in left.facts(StepCompleted, run))
        assert set(ends.values()) == {1}, "a step ended twice"
    assert {row["status"] for row in left.rows.values()} <= {"SUCCEEDED", "FAILED", "CANCELLED"}


# --- held, and let go on -------------------------------------------------------------------------------------

HELD = tuple(f"count-{number}" for number in range(4)) + tuple(f"in-{number}" for number in range(4))


def holds_and_goes_on(home: RunsHome, chance: random.Random) -> str:
    """A run with one within it is held in the middle, dies around that, stays held, is let go on, and dies around
    that."""
    home.write(
        **workflow(
            "within",
            counts("in-0"),
            agent("in-a", "inner", "in-0"),
            counts("in-1", "in-a"),
            counts("in-2", "in-1"),
            counts("in-3", "in-2"),
        )
    )
    home.write(
        **workflow(
            "held",
            agent("plan", "plan"),
            counts("count-0", "plan"),
            within("x", "plan"),
            counts("count-1", "count-0"),
            counts("count-2", "count-1"),
            counts("count-3", "count-2", "x"),
            agent("end", "end {{steps.plan.output}}", "count-3"),
        )
    )
    story = Story(home, chance)
    run = story.begin("held")
    story.asks("pause", at=chance.randint(1, 40))
    states = story.answer("quiet")
    held_from = story.died_at if story.was_taken_in else home.head()
    if states[run] == "PAUSED":
        is_open = {state for state in states.values() if state not in ENDED}
        assert is_open == {"PAUSED"}, "something goes on, or waits for who is held"
        story.asks("resume")
    assert story.answer("ended", task=run)[run] == "SUCCEEDED"
    story.gateway.stop()
    assert home.effects(*HELD) == dict.fromkeys(HELD, 1), "an effect was had twice, or never"
    left = home.left(run)
    assert_ended(left, "<end <plan>>")
    for resumed in left.at(TaskResumed)[:1]:
        began = [position for each in left.runs for position in left.at(StepStarted, each)]
        assert not [position for position in began if held_from < position < resumed], "a step began meanwhile"
    return story.told()


SCENES: dict[str, Scene] = {"held": holds_and_goes_on}


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("scene", SCENES)
def test_what_a_run_is_asked_for_survives_the_death_of_its_gateway(
    scene: str, tmp_path: Path, say: Callable[[str], None]
) -> None:
    chance = random.Random(f"{SEED} {scene}")
    with counting() as counter, runs_home(tmp_path / "home", counter) as home:
        say(f"{scene}, seed {SEED}: {SCENES[scene](home, chance)}")


@pytest.mark.skipif(not os.environ.get("OZZIE_SOAK"), reason="make soak kills so many")
@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_many_deaths_around_what_runs_are_asked_for(tmp_path: Path, say: Callable[[str], None]) -> None:
    for number in range(ROUNDS):
        for name, scene in SCENES.items():
            chance = random.Random(f"{SEED} {name} {number}")
            with counting() as counter, runs_home(tmp_path / f"{name}-{number}", counter) as home:
                say(f"{name} {number}, seed {SEED}: {scene(home, chance)}")
