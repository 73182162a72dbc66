"""Skills that run: steps side by side, conditions, approvals, retries, nested runs, stops; the model is a script."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.domain.events import (
    BudgetExceeded,
    CheckpointSaved,
    Draft,
    Event,
    MessageCompleted,
    Origin,
    SkillCompleted,
    SkillFailed,
    StepCompleted,
    StepFailed,
    StepSkipped,
    StepStarted,
    TaskCancelled,
    TaskFailed,
    TaskSucceeded,
    ToolCallRequested,
    Transient,
    UsedModel,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Fail, Say, Step, Use, Wait
from ozzie_server_ext.skills.library import SkillError
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.budgets import costs_of
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.tasks.workflows.skill_log import load_run
from ozzie_server_ext.tools.base import FunctionTool, ToolContext
from tests.integration.tasks.runs_rig import WAIT_S, Runs, asked, echo

LETTER: list[dict[str, Any]] = [
    {"id": "draft", "instruction": "Write: {{input}}", "moves": [{"to": "review"}]},
    {
        "id": "review",
        "approve": {"question": "Send it?"},
        "moves": [{"on": "approved", "to": "sent"}, {"on": "rejected", "to": "rework"}],
    },
    {"id": "rework", "instruction": "Again: {{steps.review.output.comment}}", "moves": [{"to": "review"}]},
    {"id": "sent", "final": True},
]
MOVES = [
    ("draft", 1, "done", "review"),
    ("review", 1, "rejected", "rework"),
    ("rework", 1, "done", "review"),
    ("review", 2, "approved", "sent"),
]


async def test_a_workflow_gives_what_its_last_step_gave_and_hands_on_what_each_gave(runs: Runs) -> None:
    runs.workflow(
        {"id": "a", "instruction": "First {{topic}}"},
        {"id": "b", "instruction": "Then {{steps.a.output}}", "needs": ["a"]},
        {"id": "c", "instruction": "Last", "needs": ["b"]},
        vars={"topic": {"required": True}},
    )
    task_id = await runs.run(topic="tea")
    assert await runs.outputs(task_id) == {"a": "<First tea>", "b": "<Then <First tea>>", "c": "<Last>"}
    assert await runs.result(task_id) == "<Last>"
    (said,) = await runs.facts(task_id, MessageCompleted)
    assert said.text == "<Last>"
    assert len(await runs.facts(task_id, CheckpointSaved)) == 3
    children = [fact.task for fact in await runs.facts(task_id, StepStarted)]
    assert all(children)
    assert len(set(children)) == 3


async def test_what_a_step_needs_is_told_to_it_where_it_does_not_name_it(runs: Runs) -> None:
    seen: list[str] = []

    def answer(request: ModelRequest) -> Sequence[Step]:
        seen.append(asked(request))
        return [Say("found")]

    runs.answers(answer)
    runs.workflow({"id": "a", "instruction": "Look."}, {"id": "b", "instruction": "Sum up.", "needs": ["a"]})
    await runs.run()
    assert seen[1] == 'Sum up.\n\nWhat the step "a" gave:\n\nfound'


async def test_steps_run_side_by_side_each_with_a_conversation_of_its_own(runs: Runs) -> None:
    requests: list[ModelRequest] = []
    go, here = asyncio.Event(), [asyncio.Event(), asyncio.Event()]

    def answer(request: ModelRequest) -> Sequence[Step]:
        requests.append(request)
        return [Wait(go, here[len(requests) - 1]), Say("ok")]

    runs.answers(answer)
    runs.workflow({"id": "a", "instruction": "One"}, {"id": "b", "instruction": "Two"})
    task_id = await runs.begin()
    async with asyncio.timeout(WAIT_S):
        for each in here:
            await each.wait()
    go.set()
    assert await runs.rests(task_id) == "task.succeeded"
    said = sorted(message.content for request in requests for message in request.messages if message.role == "user")
    assert said == ["One", "Two"]


async def test_a_step_calls_a_tool_without_asking_a_model(runs: Runs) -> None:
    runs.answers(echo, most=0)
    runs.workflow(
        {"id": "sum", "call": {"tool": "calculator", "args": {"expr": "{{n}} * 2"}}}, vars={"n": {"type": "integer"}}
    )
    task_id = await runs.run(n=21)
    assert await runs.result(task_id) == {"value": "42"}
    (called,) = await runs.facts(task_id, ToolCallRequested)
    assert (called.tool_id, called.args, called.step_id) == ("calc.eval", {"expr": "21 * 2"}, "sum")


async def test_a_condition_chooses_the_way_and_what_is_not_on_it_is_skipped(runs: Runs) -> None:
    runs.workflow(
        {"id": "n", "call": {"tool": "calculator", "args": {"expr": "5"}}},
        {"id": "large", "instruction": "large", "needs": ["n"], "when": "{{steps.n.output.value}} > 9"},
        {"id": "small", "instruction": "small", "needs": ["n"], "when": "{{steps.n.output.value}} <= 9"},
        {"id": "end", "instruction": "end", "needs": ["large", "small"]},
    )
    task_id = await runs.run()
    assert set(await runs.outputs(task_id)) == {"n", "small", "end"}
    (skipped,) = await runs.facts(task_id, StepSkipped)
    assert skipped.step_id == "large"


async def test_a_change_in_a_step_asks_a_person_and_the_other_steps_go_on(runs: Runs) -> None:
    runs.workflow(
        {"id": "write", "call": {"tool": "write_file", "args": {"path": "a.md", "text": "hi"}}},
        {"id": "other", "instruction": "Other"},
    )
    task_id = await runs.begin()
    asked_for = await runs.pending()
    assert asked_for.asked.name == "write_file"
    assert (await runs.step(StepCompleted)).step_id == "other"
    assert not (runs.ozzie.project / "a.md").exists()
    await runs.approve()
    assert await runs.rests(task_id) == "task.succeeded"
    assert (runs.ozzie.project / "a.md").read_text() == "hi"


async def test_whoever_watches_is_told_how_far_it_is_and_which_step_waits_for_them(runs: Runs) -> None:
    runs.workflow({"id": "one", "instruction": "One"}, {"id": "gate", "approve": {"question": "?"}, "needs": ["one"]})
    told: list[str] = []
    position = (await runs.ozzie.log.head()).position
    task_id = await runs.begin()
    async with asyncio.timeout(WAIT_S), runs.ozzie.feed.subscribe(position, task_id=task_id) as events:
        async for event in events:
            if isinstance(event, Transient) and event.type == "task.progress":
                told.append(str(event.payload["step"]))
                if "waits for your yes" in told[-1]:
                    break
    assert told[-2] == "1 of 2 steps, 1 running"
    assert told[-1] == 'the step "gate" waits for your yes: Ozzie\'s sidebar, or ozzie approvals list'
    await runs.approve()
    assert await runs.rests(task_id) == "task.succeeded"


async def test_a_rejected_gate_ends_a_workflow_with_the_comment(runs: Runs) -> None:
    runs.workflow(
        {"id": "draft", "instruction": "Draft"},
        {"id": "gate", "approve": {"question": "Send it?", "show": "{{steps.draft.output}}"}, "needs": ["draft"]},
        {"id": "send", "instruction": "Send", "needs": ["gate"]},
    )
    task_id = await runs.begin()
    asked_for = await runs.pending()
    assert (asked_for.asked.sentence, asked_for.asked.proof) == ("Send it?", "<Draft>")
    await runs.reject("Too short.")
    assert await runs.rests(task_id) == "task.failed"
    (failed,) = await runs.facts(task_id, StepFailed)
    assert (failed.step_id, failed.code, failed.message) == (
        "gate",
        "approval.rejected",
        "It was rejected. Too short.",
    )
    assert "send" not in await runs.outputs(task_id)
    (end,) = await runs.facts(task_id, TaskFailed)
    assert (end.kind, end.code) == ("business", "skill.failed")


async def moves_of(runs: Runs, task_id: TaskId) -> list[tuple[str, int, str, str]]:
    return [(fact.step_id, fact.visit, fact.event, fact.to) for fact in await runs.facts(task_id, StepCompleted)]


async def test_a_letter_is_rejected_reworked_and_approved(runs: Runs) -> None:
    runs.write(name="letter", type="fsm", states=LETTER)
    task_id = await runs.begin("letter", input="to Bo")
    await runs.reject("Shorter.")
    await runs.step(StepStarted, lambda fact: (fact.step_id, fact.visit) == ("review", 2))
    await runs.approve()
    assert await runs.rests(task_id) == "task.succeeded"
    assert await moves_of(runs, task_id) == MOVES
    assert (await runs.outputs(task_id))["rework"] == "<Again: Shorter.>"


async def test_what_has_to_hold_is_checked_recorded_and_tried_again_with_the_reason(runs: Runs) -> None:
    asked_twice: list[str] = []

    def answer(request: ModelRequest) -> Sequence[Step]:
        text = asked(request)
        if text.startswith("The criterion"):
            holds = "long enough" in text.split("The result:")[1]
            return [Say(json.dumps({"holds": holds, "why": "It is long." if holds else "It is too short."}))]
        asked_twice.append(text)
        return [Say("short" if len(asked_twice) == 1 else "long enough")]

    runs.answers(answer)
    runs.workflow({"id": "a", "instruction": "Write.", "acceptance": "It is long", "retry_policy": {"backoff_ms": 0}})
    task_id = await runs.run()
    (failed,) = await runs.facts(task_id, StepFailed)
    assert (failed.code, failed.message) == ("step.not_accepted", "This does not hold: It is long It is too short.")
    (done,) = await runs.facts(task_id, StepCompleted)
    assert (done.output, done.accepted, done.attempt) == ("long enough", "It is long.", 2)
    assert asked_twice[1].endswith("was not taken. This does not hold: It is long It is too short.")


async def test_an_attempt_that_the_model_failed_is_made_again_as_often_as_the_skill_says(runs: Runs) -> None:
    runs.answers(lambda request: [Fail("provider.bad_request")])
    runs.workflow({"id": "a", "instruction": "x", "retry_policy": {"max_attempts": 2, "backoff_ms": 0}})
    task_id = await runs.run()
    failures = await runs.facts(task_id, StepFailed)
    assert [(fact.attempt, fact.kind, fact.again_in_s) for fact in failures] == [(1, "model", 0.0), (2, "model", None)]
    (failed,) = await runs.facts(task_id, SkillFailed)
    assert failed.step_id == "a"


async def test_a_typed_answer_is_the_output_itself(runs: Runs) -> None:
    runs.answers(lambda request: [Say('{"score": 7}')])
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
    runs.workflow({"id": "a", "instruction": "Score it.", "output_model": schema})
    assert await runs.result(await runs.run()) == {"score": 7}


async def test_a_skill_runs_another_one_as_a_step(runs: Runs) -> None:
    runs.write(name="inner", instruction="You are inner.", vars={"what": {"required": True}}, description="d")
    runs.workflow({"id": "a", "skill": "inner", "with": {"what": "{{topic}}"}}, vars={"topic": {}})
    task_id = await runs.run(topic="tea")
    assert await runs.result(task_id) == "<what: tea>"
    (child,) = [fact.task for fact in await runs.facts(task_id, StepStarted)]
    assert child is not None
    assert len(await runs.facts(child, StepCompleted)) == 1


async def test_only_the_tools_that_a_skill_names_are_offered_and_may_be_called(runs: Runs) -> None:
    offered: list[list[str]] = []

    def answer(request: ModelRequest) -> Sequence[Step]:
        offered.append([tool.name for tool in request.tools])
        return [Use("list_files", {})] if len(offered) == 1 else [Say(asked(request))]

    runs.answers(answer)
    runs.workflow({"id": "a", "instruction": "x", "tools": ["calculator"]})
    task_id = await runs.run()
    assert offered == [["calculator"], ["calculator"]]
    assert "does not have the tool list_files" in await runs.result(task_id)


@pytest.mark.parametrize(("policy", "most"), [("sequential", 1), ("mixed", 2)])
async def test_calls_of_a_round_are_made_one_after_the_other_where_a_skill_wants_that(
    runs: Runs, policy: str, most: int
) -> None:
    now, seen, both = 0, list[int](), asyncio.Barrier(most)

    async def look(context: ToolContext) -> ToolResult:
        """Look."""
        nonlocal now
        now += 1
        seen.append(now)
        await both.wait()  # as many as may be made at once are there
        for _ in range(50):  # time enough for one more, were it let
            await asyncio.sleep(0)
        now -= 1
        return ToolResult(ok=True, data="seen")

    meta = ToolMeta(
        tool_id="test.look",
        name="look",
        side_effect=SideEffect.NONE,
        risk_level=RiskLevel.LOW,
        timeout_s=WAIT_S,
        idempotency=Idempotency.SUPPORTED,
    )
    runs.ozzie.projects.own.tools.register(FunctionTool(look, meta))
    two = [Use("look", "{}", call_id="1"), Use("look", "{}", call_id="2")]
    runs.answers(lambda request: two if request.messages[-1].role == "user" else [Say("done")])
    runs.workflow({"id": "a", "instruction": "Look twice."}, tool_policy=policy)
    assert await runs.rests(await runs.begin()) == "task.succeeded"
    assert max(seen) == most
    assert len(seen) == 2


async def test_a_dangerous_tool_asks_although_the_rules_allow_it(runs: Runs) -> None:
    runs.answers(lambda request: [Use("calculator", {"expr": "1"})] if len(request.messages) < 3 else [Say("done")])
    runs.workflow({"id": "a", "instruction": "x", "tools": ["calculator"], "dangerous_tools": ["calculator"]})
    task_id = await runs.begin()
    assert (await runs.approve()).asked.rule == "skill.asks_first"
    assert await runs.rests(task_id) == "task.succeeded"


async def test_a_run_that_is_stopped_stops_what_it_had_begun(runs: Runs) -> None:
    reached = asyncio.Event()
    runs.answers(lambda request: [Wait(asyncio.Event(), reached)])
    runs.workflow({"id": "a", "instruction": "x"})
    task_id = await runs.begin()
    await asyncio.wait_for(reached.wait(), WAIT_S)
    await runs.ozzie.tasks.cancel(task_id, by="ana")
    assert await runs.rests(task_id) == "task.cancelled"
    (child,) = [fact.task for fact in await runs.facts(task_id, StepStarted)]
    assert child is not None
    assert await runs.rests(child) == "task.cancelled"


async def test_what_a_run_used_counts_for_it(runs: Runs) -> None:
    runs.workflow({"id": "a", "instruction": "x"}, {"id": "b", "instruction": "y", "needs": ["a"]})
    task_id = await runs.run()
    row = await runs.ozzie.tasks.get(task_id)
    assert (row["input_tokens"], row["output_tokens"]) == (2, 2)
    session = await runs.ozzie.sessions.row(SessionId(str(row["session_id"])))
    budgets = runs.ozzie.projects.own.config.settings.budgets
    costs = await costs_of(runs.ozzie.log, runs.ozzie.today, session, budgets=budgets, project=runs.ozzie.project)
    assert [(turn.task_id, turn.spent.input_tokens) for turn in costs.turns] == [(task_id, 2)]
    assert costs.session.input_tokens == 2


async def test_a_run_has_the_budget_of_its_skill_and_its_steps_have_no_more_than_that(runs: Runs) -> None:
    steps = ({"id": "a", "instruction": "x"}, {"id": "b", "instruction": "y", "needs": ["a"]})
    runs.workflow(*steps, budget={"max_tokens": 1})
    task_id = await runs.begin()
    async with asyncio.timeout(WAIT_S), runs.ozzie.feed.subscribe(0, types=frozenset({"budget.exceeded"})) as events:
        exceeded = await anext(events)
    assert isinstance(exceeded, Event)
    assert isinstance(exceeded.body, BudgetExceeded)
    assert (exceeded.body.scope, exceeded.body.key) == ("task", task_id)
    await runs.ozzie.tasks.cancel(task_id, by="ana")
    assert await runs.rests(task_id) == "task.cancelled"


async def test_the_session_remembers_the_result_and_not_how_it_came_about(runs: Runs) -> None:
    runs.workflow({"id": "a", "instruction": "Secret step"}, {"id": "b", "instruction": "End", "needs": ["a"]})
    await runs.run()
    seen: list[ModelRequest] = []
    runs.answers(lambda request: (seen.append(request), [Say("ok")])[1])
    session = await runs.ozzie.sessions.open("n", title="n", channel="notebook")
    sent = await runs.ozzie.submit(NewTurn(session.session_id, "And now?", Origin(channel="notebook")))
    await runs.rests(sent.task_id)
    assert [message.content for message in seen[0].messages[1:]] == ["%run w", "<End>", "And now?"]


async def test_a_letter_is_rejected_reworked_and_approved_across_a_restart(runs: Runs) -> None:
    runs.write(name="letter", type="fsm", states=LETTER)
    task_id = await runs.begin("letter", input="to Bo")
    await runs.pending()
    await runs.restart()
    await runs.reject("Shorter.")
    await runs.step(StepStarted, lambda fact: (fact.step_id, fact.visit) == ("review", 2))
    await runs.pending()
    await runs.restart()
    await runs.approve()
    assert await runs.rests(task_id) == "task.succeeded"
    assert await moves_of(runs, task_id) == MOVES


async def test_a_run_that_was_cut_off_goes_on_with_what_it_had_begun_and_does_nothing_twice(runs: Runs) -> None:
    gates = {name: asyncio.Event() for name in ("One", "Two")}
    reached = {name: asyncio.Event() for name in gates}
    asked_for: list[str] = []

    def answer(request: ModelRequest) -> Sequence[Step]:
        name = asked(request).splitlines()[0]
        asked_for.append(name)
        wait = [Wait(gates[name], reached[name])] if name in gates and asked_for.count(name) == 1 else []
        return [*wait, Say(f"<{name}>")]

    runs.answers(answer)
    runs.workflow(
        {"id": "note", "call": {"tool": "write_note", "args": {"name": "n", "text": "once"}}},
        {"id": "a", "instruction": "One", "needs": ["note"]},
        {"id": "b", "instruction": "Two", "needs": ["note"]},
        {"id": "c", "instruction": "End", "needs": ["a", "b"]},
    )
    task_id = await runs.begin()
    async with asyncio.timeout(WAIT_S):
        for each in reached.values():
            await each.wait()
    await runs.restart()
    assert await runs.rests(task_id) == "task.succeeded"
    assert await runs.outputs(task_id) == {
        "note": (await runs.outputs(task_id))["note"],
        "a": "<One>",
        "b": "<Two>",
        "c": "<End>",
    }
    starts = [fact.step_id for fact in await runs.facts(task_id, StepStarted)]
    assert sorted(starts) == ["a", "b", "c", "note"]
    assert sorted(asked_for) == ["End", "One", "One", "Two", "Two"]


async def test_a_skill_that_changes_while_it_runs_runs_as_it_began(runs: Runs) -> None:
    reached, go = asyncio.Event(), asyncio.Event()
    runs.answers(lambda request: [Wait(go, reached), Say(asked(request).splitlines()[0])])
    runs.workflow({"id": "a", "instruction": "a"}, {"id": "b", "instruction": "as it was", "needs": ["a"]})
    task_id = await runs.begin()
    await asyncio.wait_for(reached.wait(), WAIT_S)
    runs.workflow({"id": "a", "instruction": "another"})
    await runs.restart()
    go.set()
    assert await runs.rests(task_id) == "task.succeeded"
    assert await runs.result(task_id) == "as it was"


@pytest.mark.parametrize(
    ("name", "given", "error", "says"),
    [
        ("nope", {}, NotFound, 'There is no skill "nope".'),
        ("w", {}, InputError, 'w needs "topic".'),
        ("w", {"topic": "t", "x": 1}, InputError, 'w takes no "x".'),
        ("bad", {}, SkillError, 'there is no tool "serch"; did you mean "search"?'),
        ("round", {}, InputError, "These skills run each other without end: round → other → round."),
    ],
)
async def test_what_can_not_begin_is_refused_before_anything_is_recorded(
    runs: Runs, name: str, given: dict[str, Any], error: type[Exception], says: str
) -> None:
    runs.workflow({"id": "a", "instruction": "{{topic}}"}, vars={"topic": {"required": True}})
    runs.write(name="bad", tools=["serch"])
    runs.write(name="round", type="workflow", steps=[{"id": "a", "skill": "other"}])
    runs.write(name="other", type="workflow", steps=[{"id": "a", "skill": "round"}])
    with pytest.raises(error) as caught:
        await runs.begin(name, **given)
    assert says in str(caught.value)
    assert await runs.ozzie.log.rows("tasks") == []


async def test_steps_that_their_run_left_behind_in_a_crash_are_ended_at_the_next_start(runs: Runs) -> None:
    reached = asyncio.Event()
    runs.answers(lambda request: [Wait(asyncio.Event(), reached)])
    runs.workflow({"id": "a", "instruction": "x"})
    task_id = await runs.begin()
    await asyncio.wait_for(reached.wait(), WAIT_S)
    # As a gateway leaves it that dies between the two ends: only the run's stands in the log.
    end = TaskCancelled(by="ana", reason="")
    session = await runs.ozzie.sessions.open("n", title="n", channel="notebook")
    await runs.ozzie.driver.stop()
    draft = Draft(body=end, actor="user", source="hub", session_id=session.session_id, task_id=task_id)
    await runs.ozzie.log.append(task_stream(task_id), [draft])
    await runs.restart()
    (child,) = [fact.task for fact in await runs.facts(task_id, StepStarted)]
    assert child is not None
    assert (await runs.ozzie.tasks.get(child))["status"] == "CANCELLED"


async def test_a_step_that_takes_too_long_is_stopped_and_fails(runs: Runs) -> None:
    runs.answers(lambda request: [Wait(asyncio.Event())])
    runs.workflow({"id": "a", "instruction": "x", "timeout_s": 0.05})
    task_id = await runs.run()
    (failed,) = await runs.facts(task_id, StepFailed)
    assert (failed.code, failed.message, failed.again_in_s) == ("step.timeout", "It did not end within 0.05 s.", None)
    (child,) = [fact.task for fact in await runs.facts(task_id, StepStarted)]
    assert child is not None
    assert await runs.rests(child) == "task.cancelled"


async def test_an_end_that_stood_in_the_log_before_a_crash_is_not_told_twice(runs: Runs) -> None:
    """As a gateway leaves it that dies between the end of the run and that of its task."""
    runs.workflow({"id": "a", "instruction": "x"})
    task_id = await runs.run()
    ends = await runs.facts(task_id, SkillCompleted)
    row = await runs.ozzie.tasks.get(task_id)
    recorder = Recorder(log=runs.ozzie.log, session_id=SessionId(str(row["session_id"])), task_id=task_id)
    loaded = await load_run(runs.ozzie.log, runs.ozzie.blobs, task_id)
    assert loaded.end == ends[0]
    graphs = runs.ozzie.projects.own.runs.graphs
    assert graphs is not None
    assert await graphs.run(row, recorder) == 1
    assert await runs.facts(task_id, SkillCompleted) == ends


async def test_the_end_of_a_run_says_what_its_steps_and_those_of_runs_below_it_have_used(runs: Runs) -> None:
    runs.write(name="inner", type="workflow", steps=[{"id": "deep", "instruction": "Deep."}])
    runs.workflow({"id": "a", "instruction": "One."}, {"id": "b", "skill": "inner", "needs": ["a"]})
    task_id = await runs.run()
    (done,) = await runs.facts(task_id, TaskSucceeded)
    row = await runs.ozzie.tasks.get(task_id)

    assert done.delegated is not None
    assert done.delegated.models == (UsedModel(alias="offline", provider="offline", model="script"),)
    assert (done.delegated.usage.input_tokens, done.delegated.usage.output_tokens) == (
        row["input_tokens"],
        row["output_tokens"],
    )
    assert done.delegated.usage.total_tokens > 0


async def test_a_run_that_is_stopped_says_what_its_steps_have_used(runs: Runs) -> None:
    runs.workflow({"id": "a", "instruction": "One."}, {"id": "b", "ask": {"question": "Go?"}, "needs": ["a"]})
    task_id = await runs.begin()
    await runs.step(StepStarted, lambda fact: fact.step_id == "b")
    await runs.ozzie.tasks.cancel(task_id, by="ana", reason="enough")
    await runs.rests(task_id)
    (stopped,) = await runs.facts(task_id, TaskCancelled)
    assert stopped.delegated is not None
    assert stopped.delegated.usage.total_tokens > 0


async def test_a_run_whose_steps_call_no_model_says_nothing_of_any(runs: Runs) -> None:
    runs.workflow({"id": "a", "call": {"tool": "calculator", "args": {"expr": "1 + 1"}}})
    (done,) = await runs.facts(await runs.run(), TaskSucceeded)
    assert done.delegated is None


async def test_a_skill_whose_selector_nothing_meets_is_neither_run_nor_a_tool_until_something_does(runs: Runs) -> None:
    selector = {"required": [{"key": "security", "op": "Gte", "value": 4}]}
    runs.write(name="guarded", instruction="Look.", model_selector=selector)
    ozzie = runs.ozzie

    async def configure(security: int) -> None:
        strict = {"driver": "openai", "model": "m", "tags": {"security": security}}
        models = {"default": "offline", "providers": {"strict": strict}}
        ozzie.home.config_file.write_text(json.dumps({"models": models}))
        await ozzie.projects.own.configuration.refresh()

    async def is_a_tool() -> bool:
        await runs.rests(await runs.say("hello"))
        return ozzie.projects.own.tools.find("skill_guarded") is not None

    await configure(security=3)
    assert not await is_a_tool()
    with pytest.raises(SkillError, match="no configured model meets security >= 4"):
        await runs.begin("guarded")
    found = {each.name: each for each in (await ozzie.projects.own.skills.look()).found}["guarded"]
    assert (found.file, "security >= 4" in found.problem) == (None, True)

    await configure(security=4)
    assert await is_a_tool()
