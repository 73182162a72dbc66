"""kill -9 directly before and behind what a person asks of a run: to be held and let go on, tried again, told of an
event, told more. Each is done once or not at all, and the run ends as an undisturbed one (ADR 41)."""

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.events import (
    BudgetExceeded,
    SkillCompleted,
    StepCompleted,
    StepStarted,
    TaskFailed,
    TaskResumed,
    TaskRetried,
    TaskSignalled,
    TaskUpdated,
    ToolCallStarted,
)
from tests.integration.crashes.counter import counting
from tests.integration.runs.asked_gateway import LINGERS_S
from tests.integration.runs.people import (
    Answer,
    Left,
    Moment,
    RunsHome,
    runs_home,
    some_moment,
)
from tests.tiers import rows

SEED = int(os.environ.get("OZZIE_SOAK_SEED", "8"))
ROUNDS = 7
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
    "nothing": "",
}
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


class Story:
    """One run whose gateways die when it is asked for something. Whoever asked looks afterwards whether that was taken
    in, and asks once more where it was not."""

    def __init__(self, home: RunsHome, chance: random.Random, holds: bool = False) -> None:
        self.home = home
        self.gateway = home.start(holds)
        self.run = ""
        self.was_taken_in = False
        self.died_at = 0
        """Whether the last request was durable when its gateway died, and the position of the last event then."""
        self._chance = chance
        self._met: list[str] = []

    def begin(self, skill: str) -> str:
        self.run = self.gateway.answer("begin", skill=skill)["task"]
        return self.run

    def asks(self, what: str, moment: Moment | None = None, *, do: str = "ask_for", **more: Any) -> None:
        """A request that its gateway dies around, or a while after it."""
        moment = moment or some_moment(self._chance)
        request = {"what": what, "task": self.run, **more}
        self.was_taken_in = False
        self._met.append(f"{what} ({moment})")
        answer = self.gateway.ask(do, **request, moment=moment.name, nth=moment.nth)
        if answer is None:
            self.was_taken_in = self.home.count(self.run, FACTS[what]) > 0
            self._next(holds=not self.was_taken_in)
            if not self.was_taken_in:
                again = {key: value for key, value in request.items() if key != "at"}
                self.gateway.answer(do, **again)

    def tells(self, event: str, data: Any, key: str, at: int = 0) -> None:
        """Tell the run of an event, once more where the gateway died over that, and once more in any case."""
        moment = some_moment(self._chance)
        request = {"what": "tell", "task": self.run, "event": event, "data": data, "key": key}
        self._met.append(f"tell {key} ({moment})")
        if self.gateway.ask("ask_for", **request, at=at, moment=moment.name, nth=moment.nth) is None:
            self._next()
        told = self.answer("ask_for", **request)
        assert "refused" not in told

    def answer(self, do: str, **request: Any) -> Answer:
        """What a gateway answers that need not live any more, or the next one."""
        answer = self.gateway.ask(do, **request)
        if answer is None:
            self.was_taken_in = True
            self._next()
        return answer if answer is not None else self.gateway.answer(do, **request)

    def ends(self) -> str:
        """How the run ends."""
        return self.answer("ended", task=self.run)[self.run]

    def _next(self, holds: bool = False) -> None:
        self._met[-1] += f": {self.gateway.died}"
        self.died_at = self.home.head()
        self.gateway = self.home.start(holds)

    def told(self) -> str:
        return ", ".join(self._met)


def assert_ended(left: Left, result: Any) -> None:
    """As an undisturbed run ends: each step of each run once."""
    assert left.rows[left.run]["status"] == "SUCCEEDED", left.rows[left.run]["error_message"]
    (end,) = left.facts(SkillCompleted)
    assert end.output == result
    for run in left.runs:
        ends = Counter(fact.step_id for fact in left.facts(StepCompleted, run))
        assert set(ends.values()) == {1}, "a step ended twice"


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


# --- told of events, and told more -----------------------------------------------------------------------------


def is_told(home: RunsHome, chance: random.Random) -> str:
    """A run hears twice of an event, the first time perhaps before it waits for it."""
    home.write(
        **workflow(
            "told",
            agent("plan", "plan"),
            {"id": "go", "wait": {"event": "go"}, "needs": ["plan"]},
            counts("count-0", "go"),
            {"id": "again", "wait": {"event": "go"}, "needs": ["count-0"]},
            counts("count-1", "again"),
            agent("end", "end {{steps.go.output.n}} {{steps.again.output.n}}", "count-1"),
        )
    )
    story = Story(home, chance)
    story.begin("told")
    story.tells("go", {"n": 1}, "first", at=chance.randint(1, 6))
    if chance.random() < 0.7:  # else it may come before the first one was heard
        story.answer("waits", step="again", times=1)
    story.tells("go", {"n": 2}, "second")
    assert story.ends() == "SUCCEEDED"
    story.gateway.stop()
    assert home.effects("count-0", "count-1") == {"count-0": 1, "count-1": 1}
    left = home.left(story.run)
    assert_ended(left, "<end 1 2>")
    assert len(left.facts(TaskSignalled)) == 2
    return story.told()


def is_told_for_what_is_within(home: RunsHome, chance: random.Random) -> str:
    """Runs within a run, one behind the other, hear of the same event: each of what was told while it waited."""
    pay = {"id": "pay", "wait": {"event": "paid"}, "needs": ["in-0"]}
    home.write(**workflow("within", counts("in-0"), pay, agent("in-a", "got {{steps.pay.output.n}}", "pay")))
    end = agent("end", "end {{steps.x.output}} {{steps.y.output}}", "y")
    home.write(**workflow("told", within("x"), within("y", "x"), end))
    story = Story(home, chance)
    story.begin("told")
    story.answer("waits", step="pay", times=1)
    story.tells("paid", {"n": 1}, "first")
    story.answer("waits", step="pay", times=2)
    again = {"what": "tell", "task": story.run, "event": "paid", "data": {"n": 1}, "key": "first"}
    assert story.answer("ask_for", **again) == {"told": True}
    story.tells("paid", {"n": 2}, "second")
    assert story.ends() == "SUCCEEDED"
    story.gateway.stop()
    assert home.effects("in-0") == {"in-0": 2}
    left = home.left(story.run)
    assert_ended(left, "<end <got 1> <got 2>>")
    assert len(left.below(TaskSignalled)) == 2
    return story.told()


def is_updated(home: RunsHome, chance: random.Random) -> str:
    """Agents that are in the middle of their answers, those that begin afterwards, and those of a run within the run
    read what was said to the run."""
    home.write(
        **workflow(
            "within",
            agent("in-a", "holds inner"),
            counts("in-0", "in-a"),
            agent("in-b", "inner {{steps.in-a.output}}", "in-0"),
        )
    )
    home.write(
        **workflow(
            "updated",
            agent("a", "holds one"),
            within("x"),
            counts("count-0", "a"),
            agent("b", "two {{steps.a.output}}", "count-0"),
            agent("end", "end {{steps.b.output}} {{steps.x.output}}", "b", "x"),
        )
    )
    story = Story(home, chance, holds=True)
    story.begin("updated")
    story.asks("update", do="ask_held", held=2)
    assert story.ends() == "SUCCEEDED"
    story.gateway.stop()
    assert home.effects("count-0", "in-0") == {"count-0": 1, "in-0": 1}
    left = home.left(story.run)
    one, inner = "<two <holds one, heard>, heard>", "<inner <holds inner, heard>, heard>"
    assert_ended(left, f"<end {one} {inner}, heard>")
    assert {len(left.facts(TaskUpdated, task)) for task in left.rows} <= {0, 1}, "it was said twice to somebody"
    return story.told()


# --- tried again ---------------------------------------------------------------------------------------------


def is_tried_again(home: RunsHome, chance: random.Random) -> str:
    """A run that failed in a step of its own and in one of a run within it."""
    inner = [counts("in-0"), agent("in-a", "fails within", "in-0"), counts("in-1", "in-a")]
    home.write(**workflow("within", *inner, agent("in-b", "inner {{steps.in-a.output}}", "in-1")))
    home.write(
        **workflow(
            "retried",
            agent("plan", "plan"),
            counts("count-0", "plan"),
            agent("bad", "fails here", "count-0"),
            within("x", "plan"),
            counts("count-1", "bad", "x"),
            agent("end", "end {{steps.bad.output}} {{steps.x.output}}", "count-1"),
        )
    )
    story = Story(home, chance)
    run = story.begin("retried")
    assert story.ends() == "FAILED"
    (home.folder / "mended").touch()
    story.asks("retry")
    assert story.ends() == "SUCCEEDED"
    story.gateway.stop()
    counted = ("count-0", "count-1", "in-0", "in-1")
    assert home.effects(*counted) == dict.fromkeys(counted, 1), "an effect was had twice, or never"
    left = home.left(run)
    assert_ended(left, "<end <fails here> <inner <fails within>>>")
    assert len(left.facts(TaskRetried)) == 1
    starts = Counter(fact.step_id for each in left.runs for fact in left.facts(StepStarted, each))
    assert {step: starts[step] for step in ("plan", "count-0", "bad", "x")} == {
        "plan": 1, "count-0": 1, "bad": 2, "x": 2
    }  # fmt: skip
    return story.told()


# --- the end of its time ---------------------------------------------------------------------------------------

TIME_S = 2.5


def comes_to_the_end_of_its_time(home: RunsHome, chance: random.Random) -> str:
    """What was worked before a death counts, and the time without a gateway does not; the end is told in the words of
    the budget, also where the gateway dies over it."""
    work = {"id": "work", "instruction": "lingers", "tools": ["linger"], "max_iterations": 100}
    home.write(**workflow("slow", work, counts("count-0"), budget={"deadline_s": TIME_S}))
    story = Story(home, chance)
    run = story.begin("slow")
    for _ in range(2):
        story.asks("nothing", Moment("before"), at=chance.randint(15, 50))
    story.asks("nothing", Moment("over"))
    assert story.ends() == "FAILED"
    assert story.gateway.answer("retry_refused", task=run) == {"refused": "limit.deadline"}
    story.gateway.stop()
    left = home.left(run)
    (end,) = left.facts(TaskFailed)
    assert (end.code, end.message) == ("limit.deadline", f'The skill "slow" has worked for its {TIME_S:g} s.')
    lingered = len(home.counter.counted("linger").attempts)
    assert lingered <= TIME_S / LINGERS_S + len(home.started), "the time before a death does not count"
    over = left.at(BudgetExceeded)[0]
    late = [at for task in left.rows for at in left.at(ToolCallStarted, task) if at > over]
    assert not late, "something is done when its time is over"
    assert home.effects("count-0") == {"count-0": 1}
    return f"{story.told()}; lingered {lingered} times"


SCENES: dict[str, Scene] = {
    "held": holds_and_goes_on,
    "told": is_told,
    "told within": is_told_for_what_is_within,
    "updated": is_updated,
    "tried again": is_tried_again,
    "out of time": comes_to_the_end_of_its_time,
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("scene", rows(SCENES, "held", "told within", "tried again"))
def test_what_a_run_is_asked_for_survives_the_death_of_its_gateway(
    scene: str, tmp_path: Path, say: Callable[[str], None]
) -> None:
    chance = random.Random(f"{SEED} {scene}")
    with counting() as counter, runs_home(tmp_path / "home", counter) as home:
        say(f"{scene}, seed {SEED}: {SCENES[scene](home, chance)}")
        assert home.going_on() == 0


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_many_deaths_around_what_runs_are_asked_for(tmp_path: Path, say: Callable[[str], None]) -> None:
    deaths = 0
    for number in range(ROUNDS):
        for name, scene in SCENES.items():
            chance = random.Random(f"{SEED} {name} {number}")
            with counting() as counter, runs_home(tmp_path / f"{name}-{number}", counter) as home:
                say(f"{name} {number}, seed {SEED}: {scene(home, chance)}")
                assert home.going_on() == 0
                deaths += home.deaths
    assert deaths > ROUNDS * len(SCENES), "too few gateways died to show anything"
