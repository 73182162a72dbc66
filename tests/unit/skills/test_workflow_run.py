"""A workflow's steps come in the order of their needs, and every run ends."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import MadeCall, StepCompleted, StepFact, StepFailed, StepSkipped, StepStarted
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.steps import SETTLED, IllegalStep, StepStatus
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.skills.library import read
from ozzie_server_ext.skills.run import Begin, Broken, Done, Failed, Next, Skip, WorkflowRun
from ozzie_server_ext.skills.spec import WorkflowSkill
from ozzie_server_ext.skills.templates import Output, Values


def workflow(*steps: dict[str, Any], **more: Json) -> WorkflowSkill:
    each = [{"instruction": "x", **step} for step in steps]
    skill = read(Path("FILE"), dumps({"name": "w", "type": "workflow", "steps": each, **more}).encode()).skill
    assert isinstance(skill, WorkflowSkill)
    return skill


class Story:
    """A run whose facts are kept, so that it can be folded anew."""

    def __init__(self, skill: WorkflowSkill, given: dict[str, Json] | None = None) -> None:
        self.skill, self.given = skill, given or {}
        self.run = WorkflowRun(skill, Values(self.given))
        self.facts: list[tuple[StepFact, Output | None]] = []

    def add(self, fact: StepFact, output: Output | None = None) -> None:
        self.run.apply(fact, output)
        self.facts.append((fact, output))

    def begin(self) -> list[str]:
        """Do all that comes next; the steps that began."""
        began: list[str] = []
        for each in self.run.next():
            for fact in facts_of(each):
                self.add(fact)
            if isinstance(each, Begin):
                began.append(each.work.id)
        return began

    def complete(self, step_id: str, value: Json = "ok", content: Content | None = None) -> None:
        record = self.run.records[step_id]
        done = StepCompleted(step_id=step_id, output=value, visit=record.visit, attempt=record.attempt)
        self.add(done, Output(value, content) if content else None)

    def fail(self, step_id: str, again_in_s: float | None = None) -> None:
        record = self.run.records[step_id]
        failed = StepFailed(
            step_id=step_id,
            kind="model",
            code="c",
            message="It broke.",
            visit=record.visit,
            attempt=record.attempt,
            again_in_s=again_in_s,
        )
        self.add(failed)

    def folded_anew(self) -> WorkflowRun:
        run = WorkflowRun(self.skill, Values(self.given))
        for fact, output in self.facts:
            run.apply(fact, output)
        return run


def facts_of(each: Next) -> list[StepFact]:
    match each:
        case Begin(work=work, visit=visit, attempt=attempt):
            return [StepStarted(step_id=work.id, visit=visit, attempt=attempt)]
        case Skip(step_id=step_id, visit=visit, reason=reason):
            return [StepSkipped(step_id=step_id, visit=visit, reason=reason)]
        case Broken(work=work, visit=visit, message=message):
            failed = StepFailed(step_id=work.id, visit=visit, kind="business", code="c", message=message)
            return [StepStarted(step_id=work.id, visit=visit), failed]


DIAMOND = workflow(
    {"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["a"]}, {"id": "d", "needs": ["b", "c"]}
)


def test_steps_run_side_by_side_once_what_they_need_has_ended() -> None:
    story = Story(DIAMOND)
    assert story.begin() == ["a"]
    story.complete("a")
    assert story.begin() == ["b", "c"]
    story.complete("c")
    assert story.begin() == []
    story.complete("b")
    assert story.begin() == ["d"]
    assert story.run.ended is None
    story.complete("d", {"score": 7})
    assert story.run.ended == Done(Output({"score": 7}))


def test_no_more_run_at_once_than_the_skill_says() -> None:
    story = Story(workflow(*({"id": f"s{number}"} for number in range(5)), max_parallel=2))
    assert story.begin() == ["s0", "s1"]
    story.complete("s1")
    assert story.begin() == ["s2"]


def test_several_last_steps_give_the_result_together() -> None:
    story = Story(workflow({"id": "a"}, {"id": "b"}))
    story.begin()
    story.complete("a", 1)
    story.complete("b", 2)
    assert story.run.ended == Done(Output({"a": 1, "b": 2}))


def test_the_step_that_the_skill_names_gives_the_result() -> None:
    story = Story(workflow({"id": "a"}, {"id": "b", "needs": ["a"]}, output="a"))
    story.begin()
    story.complete("a", "report")
    story.begin()
    story.complete("b", "kept")
    assert story.run.ended == Done(Output("report"))


def test_what_came_from_outside_comes_with_the_result() -> None:
    web = Content(labels=("web",), sources=("web:x.org",))
    story = Story(workflow({"id": "a"}, {"id": "b", "needs": ["a"], "instruction": "{{steps.a.output}}"}))
    story.begin()
    story.complete("a", "page", web)
    assert story.run.values.content_of("See {{steps.a.output}}") == web
    assert not story.run.values.content_of("See nothing")


def test_a_step_whose_condition_does_not_hold_is_skipped_and_a_join_goes_on() -> None:
    skill = workflow(
        {"id": "a"},
        {"id": "b", "needs": ["a"], "when": "{{steps.a.output.risky}} == true"},
        {"id": "only-b", "needs": ["b"]},
        {"id": "join", "needs": ["a", "b"]},
    )
    story = Story(skill)
    story.begin()
    story.complete("a", {"risky": False})
    assert story.begin() == ["join"]
    assert story.run.records["b"].message == "Its condition does not hold: {{steps.a.output.risky}} == true"
    assert story.run.records["only-b"].message == "All that it needs was skipped."
    story.complete("join")
    assert isinstance(story.run.ended, Done)


def test_a_condition_that_can_not_be_told_fails_its_step_and_not_the_gateway() -> None:
    story = Story(workflow({"id": "a"}, {"id": "b", "needs": ["a"], "when": "{{steps.a.output.score}} > 3"}))
    story.begin()
    story.complete("a", "a text")
    assert story.begin() == []
    assert story.run.ended == Failed(
        'b: Its condition can\'t be evaluated: {{steps.a.output.score}}: there is no "score" in steps.a.output', "b"
    )


def test_after_a_failure_what_does_not_need_it_goes_on_and_then_the_run_fails() -> None:
    story = Story(
        workflow({"id": "a"}, {"id": "b"}, {"id": "after-a", "needs": ["a"]}, {"id": "after-b", "needs": ["b"]})
    )
    story.begin()
    story.fail("a")
    story.complete("b")
    assert story.begin() == ["after-b"]
    assert story.run.ended is None
    story.complete("after-b")
    assert story.run.ended == Failed("a: It broke.", "a")


def test_the_failure_of_an_optional_step_ends_nothing() -> None:
    story = Story(
        workflow({"id": "a", "optional": True}, {"id": "b", "needs": ["a"], "instruction": "{{steps.a.output}}"})
    )
    story.begin()
    story.fail("a")
    assert story.begin() == ["b"]
    story.complete("b", 1)
    assert story.run.ended == Done(Output(1))


def test_an_attempt_that_failed_is_followed_by_the_next_one() -> None:
    story = Story(workflow({"id": "a"}))
    story.begin()
    story.fail("a", again_in_s=0.5)
    assert story.run.ended is None
    assert story.begin() == ["a"]
    assert story.run.records["a"].attempt == 2
    story.complete("a", "at last")
    assert story.run.ended == Done(Output("at last"))


def test_a_retry_of_the_whole_does_again_what_failed_and_nothing_else() -> None:
    story = Story(workflow({"id": "a"}, {"id": "b"}, {"id": "c", "needs": ["a", "b"]}))
    story.begin()
    story.fail("a")
    story.complete("b")
    assert isinstance(story.run.ended, Failed)
    story.run.retried()
    assert story.begin() == ["a"]
    assert (story.run.records["a"].visit, story.run.records["a"].attempt) == (2, 1)
    story.complete("a")
    assert story.begin() == ["c"]


@st.composite
def graphs(draw: st.DrawFn) -> WorkflowSkill:
    count = draw(st.integers(1, 14))
    steps: list[dict[str, Any]] = []
    for number in range(count):
        before = [f"s{other}" for other in range(number)]
        needs = draw(st.lists(st.sampled_from(before), unique=True, max_size=4)) if before else []
        step: dict[str, Any] = {"id": f"s{number}", "needs": needs, "optional": draw(st.booleans())}
        if needs and draw(st.booleans()):
            step["when"] = f"{{{{steps.{needs[0]}.output}}}} != 'no'"
        steps.append(step)
    order = draw(st.permutations(steps))
    return workflow(*order, max_parallel=draw(st.integers(1, 4)))


@given(graphs(), st.integers(0, 1 << 30))
def test_any_graph_respects_its_needs_and_comes_to_an_end_under_failures_and_restarts(
    skill: WorkflowSkill, seed: int
) -> None:
    chance = random.Random(seed)
    story = Story(skill)
    for _ in range(400):
        for step_id in story.begin():
            needs = next(step.needs for step in skill.steps if step.id == step_id)
            assert all(story.run.records[need].is_settled for need in needs)
        assert len(story.run.running) <= skill.max_parallel
        if chance.random() < 0.2:  # the gateway dies: what ran goes on from the facts alone
            again = story.folded_anew()
            assert (again.records, again.running, again.settled) == (
                story.run.records,
                story.run.running,
                story.run.settled,
            )
            assert again.ended == story.run.ended
            story.run = again
        if story.run.ended is not None:
            break
        assert story.run.running, "nothing runs, nothing can begin, and it has not ended"
        step_id = chance.choice(sorted(story.run.running))
        match chance.randrange(5):
            case 0:
                story.fail(step_id)
            case 1 if story.run.records[step_id].attempt < 3:
                story.fail(step_id, again_in_s=0.0)
            case _:
                story.complete(step_id, chance.choice(["ok", "no"]))
    ended = story.run.ended
    assert ended is not None
    statuses = {step.id: story.run.records[step.id].status for step in skill.steps}
    if isinstance(ended, Done):
        assert set(statuses.values()) <= SETTLED
    else:
        assert statuses[ended.step_id] is StepStatus.FAILED
        blocked = {step_id for step_id, status in statuses.items() if status not in SETTLED}
        by_id = {step.id: step for step in skill.steps}
        for step_id in blocked:  # only what waits for something that failed, or that waits itself
            assert any(
                statuses[need] not in (StepStatus.COMPLETED, StepStatus.SKIPPED) for need in by_id[step_id].needs
            )


MADE = MadeCall(tool_id="t", name="t", version="1", args={}, rule="r", policy="", duration_ms=1.0)


@given(graphs(), st.integers(0, 1 << 30))
def test_what_is_recorded_with_its_end_alone_is_made_again_after_a_death_and_never_stands_before_its_needs(
    skill: WorkflowSkill, seed: int
) -> None:
    chance = random.Random(seed)
    story = Story(skill)
    unrecorded: set[str] = set()
    for _ in range(400):
        for each in story.run.next():
            at_once = isinstance(each, Begin) and each.attempt == 1 and chance.random() < 0.5
            for fact in facts_of(each):
                if at_once:
                    story.run.apply(fact)
                    unrecorded.add(fact.step_id)
                else:
                    story.add(fact)
        if chance.random() < 0.2:  # what was not recorded yet never was
            again = story.folded_anew()
            assert all(again.records[step_id].status is StepStatus.WAITING for step_id in unrecorded)
            assert again.running == story.run.running - unrecorded
            assert again.settled == story.run.settled
            story.run, unrecorded = again, set()
            continue
        if story.run.ended is not None:
            break
        step_id = chance.choice(sorted(story.run.running))
        record = story.run.records[step_id]
        at: dict[str, Any] = {"visit": record.visit, "attempt": record.attempt}
        call = MADE if step_id in unrecorded else None
        unrecorded.discard(step_id)
        if chance.random() < 0.2:
            failed = StepFailed(step_id=step_id, kind="tool", code="c", message="It broke.", call=call, **at)
            story.add(failed)
        else:
            story.add(StepCompleted(step_id=step_id, output="ok", call=call, **at))
    assert story.run.ended is not None
    needs = {step.id: step.needs for step in skill.steps}
    ended: list[str] = []
    for fact, _ in story.facts:
        assert set(needs[fact.step_id]) <= set(ended), "it stands in the log before what it needs"
        if not isinstance(fact, StepStarted):
            ended.append(fact.step_id)
    assert len(ended) == len(set(ended)), "a step ended twice"


def test_an_end_without_a_beginning_is_refused_where_it_has_no_call() -> None:
    story = Story(DIAMOND)
    with pytest.raises(IllegalStep):
        story.add(StepCompleted(step_id="a", output="ok"))
    story.add(StepCompleted(step_id="a", output="ok", call=MADE))
    with pytest.raises(IllegalStep):
        story.add(StepCompleted(step_id="a", output="ok", call=MADE, attempt=2))


@pytest.mark.parametrize("count", [1000])
def test_a_thousand_steps_are_looked_at_once_each(count: int) -> None:
    """A chain and a fan, in which a step that looked at all others would be noticed."""
    steps: list[dict[str, Any]] = [
        {"id": f"s{n}", "needs": [f"s{n - 1}"] if 0 < n < count // 2 else []} for n in range(count)
    ]
    story = Story(workflow(*steps, max_parallel=64))
    began = 0
    while story.run.ended is None:
        began += len(story.begin())
        for step_id in list(story.run.running):
            story.complete(step_id)
    assert began == count
