"""The loop: ask the model, carry out what it asks for, until it answers."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from ozzie_server_ext.agent.model_call import IncompleteAnswer
from ozzie_server_ext.agent.plan import Deadline
from ozzie_server_ext.agent.rounds import LimitExceeded
from ozzie_server_ext.domain.budget import Account, Budget, Usage
from ozzie_server_ext.domain.errors import Bug
from ozzie_server_ext.domain.events import (
    EventBody,
    Limits,
    MessageCompleted,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    TaskCreated,
    TaskQueued,
    TaskStarted,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolsetInjected,
    ToolUse,
    Transient,
)
from ozzie_server_ext.domain.ids import BlobRef, CallId, MessageId, ReplyId, TaskId
from ozzie_server_ext.domain.toolmeta import SideEffect, ToolResult
from ozzie_server_ext.models.driver import ModelError
from ozzie_server_ext.models.scripted import End, Fail, Say, ScriptedDriver, Use, Wait
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.tasks.times import TaskTimes
from ozzie_server_ext.tools.base import Tool, ToolContext, ToolUncertain
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.offering import FIND_ID
from tests.results import result_of, short
from tests.unit.agent.rig import PLAN, TurnRig
from tests.unit.tools.test_base import tool

T = TypeVar("T", bound=EventBody)


def only(kind: type[T], bodies: list[EventBody]) -> T:
    (found,) = [body for body in bodies if isinstance(body, kind)]
    return found


async def deadline(rig: TurnRig, limit_s: float, budget: Budget) -> Deadline:
    """That of a task which has begun now."""
    created = TaskCreated(title="t", mode="FREE", message_id=MessageId("m"), limits=Limits())
    await rig.record(created, TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"))
    within = partial(TaskTimes(rig.log, rig.clock).bounded, TaskId("t1"), limit_s)
    return Deadline(limit_s=limit_s, budget=budget, within=within)


# --- answers ------------------------------------------------------------------------------------------


async def test_an_answer_is_streamed_and_recorded_whole(project: Path) -> None:
    rig = TurnRig(project, [[Say("Hel"), Say("lo."), End(usage=Usage(input_tokens=9, output_tokens=2), cost=70)]])
    await rig.ask("hi")

    assert await rig.run() == 1

    assert await rig.types() == [
        "message.received",
        "toolset.injected",
        "model.call.started",
        "model.call.completed",
        "message.completed",
    ]
    bodies = await rig.bodies()
    completed = only(ModelCallCompleted, bodies)
    assert (completed.finish, completed.cost, completed.usage.input_tokens) == ("stop", 70, 9)
    assert (completed.alias, completed.provider, completed.model) == ("main", "scripted", "m-1")
    said = only(MessageCompleted, bodies)
    assert (said.text, said.finish) == ("Hello.", "stop")
    assert said.reply_id == only(ModelCallStarted, bodies).reply_id


async def test_each_piece_reaches_those_who_watch_as_it_comes_with_its_offset(project: Path) -> None:
    gate, reached = asyncio.Event(), asyncio.Event()
    rig = TurnRig(project, [[Say("Hel"), Say("lo"), Wait(gate, reached), Say(".")]])
    await rig.ask("hi")
    subscription = rig.feed.subscribe(0, types=frozenset({"message.received", "reply.delta"}))
    await asyncio.wait_for(anext(subscription), 10)

    turn = asyncio.ensure_future(rig.run())
    await asyncio.wait_for(reached.wait(), 10)
    seen = [await asyncio.wait_for(anext(subscription), 10) for _ in range(2)]
    gate.set()
    await turn

    payloads = [item.payload for item in seen if isinstance(item, Transient)]
    assert [(payload["offset"], payload["content"]) for payload in payloads] == [(0, "Hel"), (3, "lo")]
    assert [payload["phase"] for payload in payloads] == ["delta", "delta"]


async def test_what_a_tool_prints_reaches_those_who_watch_and_not_the_model(project: Path) -> None:
    async def build(context: ToolContext) -> ToolResult:
        """Build it."""
        context.live.output("compiling\n")
        return ToolResult(ok=True, data="built")

    builder = tool(build, tool_id="test.build", name="build")
    rig = TurnRig(project, [[Use("build", {}, "c1")], [Say("Done.")]], tools=[builder])
    await rig.ask("Build it.")
    subscription = rig.feed.subscribe(0, types=frozenset({"message.received", "tool.output"}))
    await asyncio.wait_for(anext(subscription), 10)

    await rig.run()

    printed = await asyncio.wait_for(anext(subscription), 10)
    assert isinstance(printed, Transient)
    call_id = only(ToolCallStarted, await rig.bodies()).call_id
    assert printed.payload == {"call_id": call_id, "lines": ["compiling"], "count": 1}
    assert "compiling" not in repr(rig.model.requests[-1].messages)


async def test_a_tool_is_carried_out_and_its_result_is_read_by_the_next_round(project: Path) -> None:
    rig = TurnRig(project, [[Say("Let me see."), Use("calculator", {"expr": "6*7"}, "c1")], [Say("42")]])
    await rig.ask("What is 6 * 7?")

    assert await rig.run() == 2

    assert [message.to_json() for message in rig.model.requests[1].messages[1:]] == [
        {"role": "user", "content": "What is 6 * 7?"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_uses": [{"call_id": "c1", "name": "calculator", "arguments": '{"expr":"6*7"}'}],
        },
        {
            "role": "tool",
            "content": '{"ok":true,"data":{"value":"42"},"error":null,"artifact_refs":[]}',
            "tool_call_id": "c1",
            "name": "calculator",
        },
    ]
    rounds = [body.round for body in await rig.bodies(ModelCallStarted) if isinstance(body, ModelCallStarted)]
    assert rounds == [1, 2]
    assert (await rig.types()).count("toolset.injected") == 1
    requested = only(ToolCallRequested, await rig.bodies())
    assert (requested.round, requested.index, requested.use_id) == (1, 0, "c1")


async def test_calls_of_one_round_run_side_by_side_and_come_back_in_their_order(project: Path) -> None:
    second_began = asyncio.Event()

    async def first(context: ToolContext) -> ToolResult:
        """Waits until the other one has begun."""
        await asyncio.wait_for(second_began.wait(), 10)
        return ToolResult(ok=True, data="first")

    async def second(context: ToolContext) -> ToolResult:
        """Lets the other one go on."""
        second_began.set()
        return ToolResult(ok=True, data="second")

    tools = [
        tool(first, tool_id="test.first", name="first", timeout_s=20),
        tool(second, tool_id="test.second", name="second"),
    ]
    rig = TurnRig(project, [[Use("first", {}, "1"), Use("second", {}, "2")], [Say("done")]], tools=tools)
    await rig.ask("both")

    await rig.run()

    results = [(m.tool_call_id, short(m.content)) for m in rig.model.requests[1].messages if m.role == "tool"]
    assert results == [("1", '"first"'), ("2", '"second"')]


async def test_one_change_a_round_is_made_and_what_stands_behind_it_waits_for_the_model_to_look(project: Path) -> None:
    """What reads before it is done before it; a reading behind it would read what was there before."""
    done: list[str] = []

    async def read(context: ToolContext, *, what: str) -> ToolResult:
        """Read something."""
        done.append(f"read {what}")
        return ToolResult(ok=True, data=what)

    async def change(context: ToolContext, *, what: str) -> ToolResult:
        """Change something."""
        done.append(f"change {what}")
        return ToolResult(ok=True, data=what)

    tools = [
        tool(read, tool_id="test.read", name="read"),
        tool(change, tool_id="test.change", name="change", side_effect=SideEffect.REVERSIBLE),
    ]
    asked = [("read", "a"), ("change", "b"), ("read", "c"), ("change", "d")]
    uses = [Use(name, {"what": what}, what) for name, what in asked]
    rig = TurnRig(project, [uses, [Say("done")]], tools=tools)
    await rig.ask("all of it")

    await rig.run()

    assert done == ["read a", "change b"]
    results = {m.tool_call_id: m.content for m in rig.model.requests[1].messages if m.role == "tool"}
    put_off = '{"error":"Not done: one change at a time. Look at what came of it, then ask again."}'
    assert {call: short(result) for call, result in results.items()} == {
        "a": '"a"',
        "b": '"b"',
        "c": put_off,
        "d": put_off,
    }
    assert [result_of(results[call]).code for call in "abcd"] == ["", "", "tool.put_off", "tool.put_off"]


async def test_a_change_of_which_nobody_knows_ends_the_turn_though_its_time_is_up_as_well(project: Path) -> None:
    """More time would be granted by a person who does not know, and the model would make the change again."""
    begun = asyncio.Event()

    async def change(context: ToolContext) -> ToolResult:
        """Never comes to its end."""
        begun.set()
        await asyncio.Event().wait()
        return ToolResult(ok=True)

    tools = [tool(change, tool_id="test.change", name="change", side_effect=SideEffect.REVERSIBLE, timeout_s=60)]
    rig = TurnRig(project, [[Use("change", {}, "1")], [Say("done")]], tools=tools)
    await rig.ask("change it")
    budget = Budget(account=Account("task", "t1"), on_breach="ask")

    with pytest.raises(ToolUncertain, match="change may or may not have happened"):
        await rig.run(deadline=await deadline(rig, 0.05, budget), attended=False)

    assert begun.is_set()
    assert "prompt.requested" not in await rig.types()


async def test_the_model_reads_on_in_a_result_that_was_cut(project: Path) -> None:
    lines = [f"line {number}" for number in range(1, 3001)]

    async def probe(context: ToolContext) -> ToolResult:
        """Tell three thousand lines."""
        return ToolResult(ok=True, data="\n".join(lines))

    tools = [tool(probe, tool_id="test.probe", name="probe"), *builtin_tools()]
    rig = TurnRig(project, [[Use("probe", {}, "1")], [Say("I see.")]], tools=tools)
    await rig.ask("tell me")
    await rig.run()
    cut = result_of(rig.model.requests[1].messages[-1].content).data
    asked = {"artifact_id": cut["artifact"], "first_line": cut["head"].count("\n") + 1, "max_lines": 2}

    model = ScriptedDriver([[Use("read_artifact", asked, "1")], [Say("I see.")]], clock=rig.clock)
    rig.parts = replace(rig.parts, models=model)
    await rig.ask("read on", task="t2")
    await rig.run(task="t2")

    page = result_of(model.requests[1].messages[-1].content).data
    head = cut["head"].splitlines()
    assert (head, cut["tail"].splitlines()[-1], cut["lines"]) == (lines[: len(head)], "line 3000", 3000)
    assert page["text"].splitlines() == lines[len(head) : len(head) + 2]


async def test_a_secret_in_a_file_does_not_reach_the_model(project: Path) -> None:
    key = "ghp_" + "aB3dE6gH9" * 4
    (project / "notes.md").write_text(f"The key is {key}.\n")
    rig = TurnRig(project, [[Use("read_file", {"path": "notes.md"}, "1")], [Say("I see.")]])
    await rig.ask("read it")

    await rig.run()

    result = result_of(rig.model.requests[1].messages[-1].content)
    assert result.data["text"] == "The key is [redacted: GitHub token].\n"
    assert key not in str(rig.model.requests)
    assert key not in str(await rig.events())


async def test_a_tool_that_fails_is_told_to_the_model_which_goes_on(project: Path) -> None:
    rig = TurnRig(project, [[Use("read_file", {"path": "../secret"}, "1"), Use("nope", {}, "2")], [Say("I see.")]])
    await rig.ask("read it")

    assert await rig.run() == 2

    told = {
        m.tool_call_id: result_of(m.content).error["message"]
        for m in rig.model.requests[1].messages
        if m.role == "tool"
    }
    assert told["1"] == "../secret leads out of the project folder."
    assert told["2"].startswith("There is no tool nope; there are: read_artifact, calculator")
    assert len(await rig.bodies(ToolCallFailed)) == 2


async def test_the_same_id_in_two_rounds_is_two_calls(project: Path) -> None:
    rig = TurnRig(
        project, [[Use("calculator", {"expr": "1"}, "c")], [Use("calculator", {"expr": "2"}, "c")], [Say("done")]]
    )
    await rig.ask("twice")

    assert await rig.run() == 3

    results = [short(m.content) for m in rig.model.requests[2].messages if m.role == "tool"]
    assert results == ['{"value":"1"}', '{"value":"2"}']
    calls = {body.call_id for body in await rig.bodies(ToolCallRequested) if isinstance(body, ToolCallRequested)}
    assert len(calls) == 2


async def test_a_session_remembers_its_earlier_turns(project: Path) -> None:
    rig = TurnRig(project, [[Say("Hello Ann.")], [Say("Ann.")]])
    await rig.ask("I am Ann.")
    await rig.run()
    await rig.ask("Who am I?", task="t2")

    await rig.run(task="t2")

    said = [(m.role, m.content) for m in rig.model.requests[1].messages[1:]]
    assert said == [("user", "I am Ann."), ("assistant", "Hello Ann."), ("user", "Who am I?")]
    assert "which goes on" in rig.model.requests[1].messages[0].content


# --- what ends a turn without an answer -----------------------------------------------------------------


@pytest.mark.parametrize("streamed", [True, False])
async def test_when_the_model_fails_what_had_come_is_kept(project: Path, streamed: bool) -> None:
    rig = TurnRig(project, [[*([Say("Half an ans")] if streamed else []), Fail("provider.server")]])
    await rig.ask("hi")

    with pytest.raises(ModelError) as failure:
        await rig.run()

    bodies = await rig.bodies()
    failed = only(ModelCallFailed, bodies)
    assert (failed.code, failed.message) == ("provider.server", str(failure.value))
    said = [(b.text, b.finish) for b in bodies if isinstance(b, MessageCompleted)]
    assert said == ([("Half an ans", "failed")] if streamed else [])
    assert (failed.partial_blob is not None) is streamed


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([Say("The first half"), End(finish="length")], "provider.length"),
        ([End(finish="content_filter")], "provider.content_filter"),
        ([], "provider.empty"),
        ([End(finish="length"), Use("calculator", '{"expr": "1')], "provider.length"),
    ],
)
async def test_an_answer_that_is_no_whole_one_is_recorded_and_fails_in_words(
    project: Path, steps: list[Any], code: str
) -> None:
    rig = TurnRig(project, [steps])
    await rig.ask("hi")

    with pytest.raises(IncompleteAnswer) as failure:
        await rig.run()

    assert (failure.value.code, bool(failure.value.hint)) == (code, True)
    bodies = await rig.bodies()
    assert only(ModelCallCompleted, bodies)
    assert not [body for body in bodies if isinstance(body, ToolCallRequested)], "a cut call must not be carried out"


async def test_a_driver_that_ends_without_saying_so_is_found_out(project: Path) -> None:
    class Silent:
        async def generate(self, request: object) -> Any:
            for nothing in ():
                yield nothing

    rig = TurnRig(project, [])
    rig.parts = replace(rig.parts, models=Silent())
    await rig.ask("hi")

    with pytest.raises(IncompleteAnswer, match="without finishing"):
        await rig.run()
    assert only(ModelCallFailed, await rig.bodies()).code == "provider.incomplete"


async def test_an_endless_answer_is_ended_and_what_came_is_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ozzie_server_ext.agent.model_call.MAX_ANSWER_CHARS", 1000)
    rig = TurnRig(project, [[Say("x" * 100)] * 50])
    await rig.ask("hi")

    with pytest.raises(IncompleteAnswer, match="more than 1,000 characters"):
        await rig.run()

    assert only(MessageCompleted, await rig.bodies()).text == "x" * 1100
    assert rig.model.aborted, "the model was not told to stop"


async def test_going_in_circles_ends_the_turn_before_the_third_same_call(project: Path) -> None:
    rig = TurnRig(project, [[Use("calculator", {"expr": "1"})]] * 5)
    await rig.ask("loop")

    with pytest.raises(LimitExceeded, match="the same call of calculator 3 times in a row"):
        await rig.run()

    assert len(rig.model.requests) == 3
    assert len(await rig.bodies(ToolCallRequested)) == 2


async def test_other_arguments_are_no_circle(project: Path) -> None:
    script = [[Use("calculator", {"expr": str(number % 2)})] for number in range(6)]
    rig = TurnRig(project, [*script, [Say("done")]])
    await rig.ask("work")

    assert await rig.run() == 7


async def test_a_turn_may_ask_the_model_so_often_and_not_more(project: Path) -> None:
    script = [[Use("calculator", {"expr": str(number)})] for number in range(9)]
    rig = TurnRig(project, script, plan=replace(PLAN, limits=Limits(max_rounds=4)))
    await rig.ask("work")

    with pytest.raises(LimitExceeded) as failure:
        await rig.run()

    assert failure.value.code == "limit.rounds"
    assert len(rig.model.requests) == 4


async def test_a_turn_that_takes_too_long_ends_in_the_middle_of_what_it_does(project: Path) -> None:
    gate, reached = asyncio.Event(), asyncio.Event()
    rig = TurnRig(project, [[Say("Once upon"), Wait(gate, reached), Say(" a time")]])
    await rig.ask("a story")
    limit = await deadline(rig, 30, Budget(account=Account("task", "t1"), on_breach="stop"))
    rig.clock.advance(29.95)

    with pytest.raises(LimitExceeded) as failure:
        await rig.run(deadline=limit)

    assert failure.value.code == "limit.deadline"
    assert str(failure.value) == "This task has worked for its 30 s."
    (said,) = await rig.bodies(MessageCompleted)
    assert isinstance(said, MessageCompleted)
    assert said.text == "Once upon"


# --- stopping -------------------------------------------------------------------------------------------


async def test_stopping_while_the_model_writes_keeps_what_came_and_stops_the_model(project: Path) -> None:
    gate, reached = asyncio.Event(), asyncio.Event()
    rig = TurnRig(project, [[Say("Once upon"), Wait(gate, reached), Say(" a time")]])
    await rig.ask("a story")
    turn = asyncio.ensure_future(rig.run())
    await asyncio.wait_for(reached.wait(), 10)

    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn

    bodies = await rig.bodies()
    assert only(ModelCallFailed, bodies).code == "cancelled"
    said = only(MessageCompleted, bodies)
    assert (said.text, said.finish) == ("Once upon", "cancelled")
    assert rig.model.aborted == [only(ModelCallStarted, bodies).call_id]


async def test_stopping_before_anything_was_said_leaves_no_empty_message(project: Path) -> None:
    gate, reached = asyncio.Event(), asyncio.Event()
    rig = TurnRig(project, [[Wait(gate, reached)]])
    await rig.ask("a story")
    turn = asyncio.ensure_future(rig.run())
    await asyncio.wait_for(reached.wait(), 10)

    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn

    assert await rig.bodies(MessageCompleted) == []


async def test_stopping_while_tools_run_records_each_of_them(project: Path) -> None:
    both = asyncio.Barrier(3)

    async def wait(context: ToolContext, *, number: int) -> ToolResult:
        """Waits for ever."""
        await both.wait()
        await asyncio.Event().wait()
        return ToolResult(ok=True)

    waiting: Tool = tool(wait, name="wait", timeout_s=60)
    rig = TurnRig(project, [[Use("wait", {"number": 1}), Use("wait", {"number": 2})]], tools=[waiting])
    await rig.ask("wait")
    turn = asyncio.ensure_future(rig.run())
    await asyncio.wait_for(both.wait(), 10)

    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn

    assert len(await rig.bodies(ToolCallCancelled)) == 2


async def test_after_a_stop_the_next_turn_reads_a_conversation_that_a_provider_takes(project: Path) -> None:
    both = asyncio.Barrier(2)

    async def wait(context: ToolContext) -> ToolResult:
        """Waits for ever."""
        await both.wait()
        await asyncio.Event().wait()
        return ToolResult(ok=True)

    script = [[Use("wait", {}, "w1")], [Say("What else?")]]
    rig = TurnRig(project, script, tools=[tool(wait, name="wait", timeout_s=60)])
    await rig.ask("wait")
    turn = asyncio.ensure_future(rig.run())
    await asyncio.wait_for(both.wait(), 10)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await rig.ask("never mind", task="t2")

    await rig.run(task="t2")

    said = [(m.role, m.tool_call_id) for m in rig.model.requests[1].messages[1:]]
    assert said == [("user", ""), ("assistant", ""), ("tool", "w1"), ("user", "")]


# --- going on after a crash -----------------------------------------------------------------------------


def whole_round(*uses: ToolUse, number: int = 1) -> tuple[EventBody, ...]:
    """What the log holds of a round that the model had finished."""
    call_id, reply_id = CallId(f"call-{number}"), ReplyId(f"reply-{number}")
    return (
        ModelCallStarted(
            call_id=call_id,
            reply_id=reply_id,
            round=number,
            alias="main",
            provider="scripted",
            model="m-1",
            request_blob=BlobRef("sha256:" + "0" * 64),
            config="",
            prompt="",
            tools="",
        ),
        ModelCallCompleted(
            call_id=call_id,
            response_blob=BlobRef("sha256:" + "0" * 64),
            finish="tool_calls" if uses else "stop",
            tool_uses=uses,
            usage=Usage(),
            cost=0,
            latency_ms=1,
            ttft_ms=None,
        ),
    )


def use(call_id: str, expr: str) -> ToolUse:
    return ToolUse(call_id=CallId(call_id), name="calculator", arguments=json.dumps({"expr": expr}))


async def test_an_open_call_is_carried_out_without_asking_the_model_again(project: Path) -> None:
    rig = TurnRig(project, [[Say("3 and 7")]])
    await rig.ask("both")
    done = CallId("done")
    await rig.record(
        *whole_round(use("a", "1+2"), use("b", "3+4")),
        ToolCallRequested(
            call_id=done, use_id="a", tool_id="calc.eval", name="calculator", version="", args={}, round=1, index=0
        ),
        ToolCallCompleted(call_id=done, ok=True, data={"value": "3"}, summary="3", duration_ms=1),
    )

    assert await rig.run(recovered=True) == 2

    assert len(rig.model.requests) == 1
    results = [(m.tool_call_id, short(m.content)) for m in rig.model.requests[0].messages if m.role == "tool"]
    assert results == [("a", '{"value":"3"}'), ("b", '{"value":"7"}')]
    fresh = [b for b in await rig.bodies(ToolCallRequested) if isinstance(b, ToolCallRequested) and b.call_id != done]
    assert [(b.use_id, b.index) for b in fresh] == [("b", 1)], "what had an outcome must not run again"
    assert "interrupted by a restart" in rig.model.requests[0].messages[0].content


async def test_an_answer_that_had_come_whole_is_not_asked_for_again(project: Path) -> None:
    rig = TurnRig(project, [])
    await rig.ask("hi")
    await rig.record(*whole_round(), MessageCompleted(reply_id=ReplyId("reply-1"), text="Hello.", finish="stop"))

    assert await rig.run(recovered=True) == 1
    assert rig.model.requests == []


async def test_a_call_that_was_cut_off_while_the_model_wrote_is_sent_again(project: Path) -> None:
    rig = TurnRig(project, [[Say("Hello.")]])
    await rig.ask("hi")
    await rig.record(whole_round()[0])

    assert await rig.run(recovered=True) == 1
    assert [m.role for m in rig.model.requests[0].messages] == ["system", "user"]


async def test_another_tasks_round_is_not_taken_for_ones_own(project: Path) -> None:
    rig = TurnRig(project, [[Say("Hello.")]])
    await rig.ask("first", task="t0")
    await rig.record(*whole_round(), task="t0")
    await rig.ask("hi")

    assert await rig.run() == 1
    assert len(rig.model.requests) == 1


# --- what replay will need ------------------------------------------------------------------------------


async def test_the_exact_request_and_response_are_recorded_by_their_content(project: Path) -> None:
    rig = TurnRig(project, [[Use("calculator", {"expr": "6*7"}, "c1")], [Say("42"), End(cost=5)]])
    await rig.ask("What is 6 * 7?")

    await rig.run()

    started = [body for body in await rig.bodies() if isinstance(body, ModelCallStarted)]
    assert len(started) == len(rig.model.requests) == 2
    for body, request in zip(started, rig.model.requests, strict=True):
        assert await rig.blobs.get(body.request_blob) == canonical_bytes(request.to_json())
        assert (body.alias, body.provider, body.model, body.config) == ("main", "scripted", "m-1", "cfg")
    completed = [body for body in await rig.bodies() if isinstance(body, ModelCallCompleted)]
    response = json.loads(await rig.blobs.get(completed[1].response_blob))
    assert (response["text"], response["finish"], response["cost"]) == ("42", "stop", 5)


async def test_the_versions_of_what_shaped_a_call_change_when_that_does_and_only_then(project: Path) -> None:
    async def shaped(**changed: Any) -> tuple[str, str, str]:
        tools = changed.pop("tools", None)
        rig = TurnRig(project, [[Say("ok")]], tools=tools, plan=replace(PLAN, **changed))
        await rig.ask("hi")
        await rig.run()
        body = only(ModelCallStarted, await rig.bodies())
        return body.config, body.prompt, body.tools

    config, prompt, tools = await shaped()

    assert await shaped() == (config, prompt, tools)
    assert await shaped(config_version="other") == ("other", prompt, tools)
    other_prompt = await shaped(custom_prompt="Be brief.")
    assert (other_prompt[0], other_prompt[2]) == (config, tools)
    assert other_prompt[1] != prompt
    assert (await shaped(tools=builtin_tools()[:2]))[2] != tools


async def test_the_tools_on_offer_are_recorded_with_their_versions(project: Path) -> None:
    rig = TurnRig(project, [[Say("ok")]])
    await rig.ask("hi")

    await rig.run()

    injected = only(ToolsetInjected, await rig.bodies())
    assert {(item.tool_id, item.version) for item in injected.tools} == {
        (item.meta.tool_id, item.meta.version)
        for item in builtin_tools()
        if item.meta.tool_id != FIND_ID and item.meta.is_for_models
    }


async def test_a_mistake_of_ozzies_own_is_recorded_at_the_call_and_raised(project: Path) -> None:
    rig = TurnRig(project, [])
    await rig.ask("hi")

    with pytest.raises(Bug):
        await rig.run()
    assert only(ModelCallFailed, await rig.bodies()).code == "bug"


async def test_every_fact_of_a_turn_belongs_to_its_task_and_session(project: Path) -> None:
    rig = TurnRig(project, [[Use("calculator", {"expr": "1"})], [Say("1")]])
    await rig.ask("hi")

    await rig.run()

    assert {(event.session_id, event.task_id) for event in await rig.events()} == {("sess_1", TaskId("t1"))}
