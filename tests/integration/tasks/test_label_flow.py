"""Nothing that was read from outside gets into an event without its label, whichever way a call or a step ends.

One word stands in what a tool reads from the web, and in nothing else. The model repeats whatever it is shown, and
asks for tools with it; the tool quotes it in whatever it comes to. Then each event of the log that holds the word has
to bear the label of the web.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.events import Event, PromptRequested, ToolCallCancelled, ToolCallUncertain
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolError, ToolMeta, ToolResult
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step, Use
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.tools.base import FunctionTool, ToolContext, ToolFailed, Unsettled
from tests.integration.tasks.runs_rig import WAIT_S, Runs, asked, runs_in
from tests.tiers import SOAK

CANARY = "kanarienvogel"
WEB = Content.of(Label.WEB, ["birds.example"])
ALLOW = """{"rules": [{"id": "page", "decision": "allow", "reason": "It is a test.", "when": {"tools": ["peck"]},
"examples": {"match": [{"tool": "peck", "args": {}}]}}]}"""


async def _completes(context: ToolContext) -> ToolResult:
    return ToolResult(ok=True, data=CANARY)


async def _reports_failure(context: ToolContext) -> ToolResult:
    return ToolResult(ok=False, error=ToolError(code="x", message=CANARY))


async def _fails(context: ToolContext) -> ToolResult:
    raise ToolFailed(f"It says {CANARY}.", hint=f"Or {CANARY}.")


async def _does_not_know(context: ToolContext) -> ToolResult:
    raise Unsettled(f"It says {CANARY}.")


async def _breaks(context: ToolContext) -> ToolResult:
    raise ValueError(CANARY)


async def _takes_too_long(context: ToolContext) -> ToolResult:
    context.live.progress(CANARY)
    context.live.output(f"{CANARY}\n")
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


WAYS: dict[str, Callable[[ToolContext], Awaitable[ToolResult]]] = {
    "completes": _completes,
    "reports a failure": _reports_failure,
    "fails": _fails,
    "does not know": _does_not_know,
    "breaks": _breaks,
    "takes too long": _takes_too_long,
}


TOOLS = (
    ("peck", SideEffect.NONE, 0.1),
    ("peck_hard", SideEffect.REVERSIBLE, 0.1),
    ("sit", SideEffect.NONE, WAIT_S),
    ("sit_hard", SideEffect.REVERSIBLE, WAIT_S),
)
"""Each with the seconds that it may take."""


class Flow(Runs):
    """A gateway with tools that read the word from the web and end as `way` says; `reached` is set when one has read
    it."""

    way = "completes"
    reached: asyncio.Event

    def begin_to_watch(self) -> None:
        async def peck(context: ToolContext, *, text: str = "") -> ToolResult:
            """Read a page about birds."""
            context.provenance.add(WEB)
            self.reached.set()
            return await WAYS[self.way](context)

        self.reached = asyncio.Event()
        for name, effect, timeout_s in TOOLS:
            meta = ToolMeta(
                tool_id=f"test.{name}",
                name=name,
                side_effect=effect,
                risk_level=RiskLevel.LOW,
                timeout_s=timeout_s,
                idempotency=Idempotency.NOT_SUPPORTED,
            )
            self.ozzie.projects.own.tools.register(FunctionTool(peck, meta))
        self.answers(self._parrot, most=400)

    def _parrot(self, request: ModelRequest) -> Sequence[Step]:
        """Use the tool once, with what it was told; then repeat what came of that, and use it as an answer."""
        said = asked(request)
        if "criterion" in said:
            return [Say(json.dumps({"holds": "fine" in said, "why": f"I read {said}"}))]
        if request.messages[-1].role == "user" and any(tool.name == "peck" for tool in request.tools):
            is_of_skill = "Look it up." in request.messages[0].content
            name = "skill_inner" if "hand over" in said and not is_of_skill else "peck"
            return [Use(name, {"input": said} if name == "skill_inner" else {"text": said})]
        return [Say(f"I read: {said}")]

    async def asking(self) -> TaskId:
        """The task that asks a person something, once one does."""
        asks = frozenset({PromptRequested.type})
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=asks) as events:
            event = await anext(events)
        assert isinstance(event, Event)
        assert event.task_id is not None
        return event.task_id

    async def all_events(self) -> list[Event]:
        found: list[Event] = []
        while page := await self.ozzie.log.read(after=found[-1].position if found else 0):
            found += page
        return found

    async def expect_labelled(self, where: str) -> int:
        """Returns how many events hold the word."""
        holding = [event for event in await self.all_events() if CANARY in json.dumps(encode(event.body))]
        bare = [f"{event.type}: {encode(event.body)}" for event in holding if Label.WEB not in event.labels]
        assert bare == [], where
        return len(holding)


@pytest.fixture
async def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Flow]:
    async with runs_in(tmp_path, monkeypatch, Flow) as flow:
        flow.begin_to_watch()
        yield flow


CUT_OFF = (ToolCallCancelled, ToolCallUncertain)
PECK = {"tool": "peck", "args": {}}
HARD = {"tool": "peck_hard", "args": {}}
QUICK = {"backoff_ms": 0, "max_attempts": 2}
SCORE = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


async def a_turn(flow: Flow) -> TaskId:
    return await flow.say("Look.", attended=False)


async def a_turn_that_has_an_effect(flow: Flow) -> TaskId:
    """Nobody is there to be asked, so it is refused."""
    return await flow.say("Look hard.", attended=False)


async def handed_over(flow: Flow) -> TaskId:
    flow.write(name="inner", description="Looks.", instruction="Look it up.", triggers={"keywords": ["look"]})
    return await flow.say("hand over: look", attended=False)


async def handed_over_and_judged(flow: Flow) -> TaskId:
    flow.write(
        name="inner",
        description="Looks.",
        instruction="Look it up.",
        acceptance="It is good",
        retry_policy=QUICK,
        triggers={"keywords": ["look"]},
    )
    return await flow.say("hand over: look", attended=False)


async def handed_over_to_a_workflow(flow: Flow) -> TaskId:
    flow.write(
        name="inner",
        description="Looks.",
        type="workflow",
        steps=[{"id": "a", "call": PECK}, {"id": "b", "instruction": "Go on.", "needs": ["a"]}],
        triggers={"keywords": ["look"]},
    )
    return await flow.say("hand over: look", attended=False)


async def a_workflow(flow: Flow) -> TaskId:
    flow.workflow(
        {"id": "a", "call": PECK},
        {"id": "b", "instruction": "Say more of {{steps.a.output}}", "needs": ["a"]},
        {"id": "c", "instruction": "Say less.", "acceptance": "{{steps.b.output}} is good", "needs": ["b"]},
        retry_policy=QUICK,
    )
    return await flow.begin(attended=False)


async def a_judged_agent(flow: Flow) -> TaskId:
    flow.workflow({"id": "a", "instruction": "Look.", "acceptance": "It is good", "retry_policy": QUICK})
    return await flow.begin(attended=False)


async def an_answer_that_does_not_fit(flow: Flow) -> TaskId:
    flow.workflow({"id": "a", "instruction": "Look.", "output_model": SCORE, "retry_policy": QUICK})
    return await flow.begin(attended=False)


async def a_condition_on_it(flow: Flow) -> TaskId:
    flow.workflow(
        {"id": "a", "call": PECK},
        {"id": "b", "instruction": "b", "needs": ["a"], "when": "{{steps.a.output}} > 3"},
        {"id": "c", "instruction": "c", "needs": ["a"], "when": "{{steps.a.output.count}} == 3"},
    )
    return await flow.begin(attended=False)


async def a_run_within_a_run(flow: Flow) -> TaskId:
    flow.write(name="inner", type="workflow", steps=[{"id": "a", "call": PECK}, {"id": "b", "call": HARD}])
    flow.workflow({"id": "x", "skill": "inner", "with": {"input": "tea"}})
    return await flow.begin(attended=False)


async def a_state_machine(flow: Flow) -> TaskId:
    flow.write(
        name="m",
        type="fsm",
        states=[
            {"id": "look", "call": PECK, "moves": [{"to": "say"}, {"on": "failed", "to": "mourn"}]},
            {"id": "say", "instruction": "Say {{steps.look.output}}", "moves": [{"to": "end"}]},
            {"id": "mourn", "instruction": "Say what failed.", "moves": [{"to": "end"}]},
            {"id": "end", "final": True},
        ],
    )
    return await flow.begin("m", attended=False)


ROUTES = (
    a_turn,
    a_turn_that_has_an_effect,
    handed_over,
    handed_over_and_judged,
    handed_over_to_a_workflow,
    a_workflow,
    a_judged_agent,
    an_answer_that_does_not_fit,
    a_condition_on_it,
    a_run_within_a_run,
    a_state_machine,
)


@pytest.mark.sampled
@pytest.mark.parametrize("route", ROUTES)
async def test_whatever_it_comes_to_bears_the_label(flow: Flow, route: Callable[[Flow], Awaitable[TaskId]]) -> None:
    for way in WAYS if SOAK else ("completes", "breaks"):
        flow.way = flow.notebook = way  # a session of its own
        before = await flow.expect_labelled("before")
        task_id = await route(flow)
        await flow.rests(task_id)
        quotes = way not in ("breaks", "takes too long")
        assert await flow.expect_labelled(f"it {way}") - before >= quotes, "the word went nowhere"


SHOWN: list[dict[str, Any]] = [
    {"id": "a", "call": PECK},
    {
        "id": "b",
        "approve": {"question": "Go on with {{steps.a.output}}?", "show": "{{steps.a.output}}"},
        "needs": ["a"],
    },
    {"id": "c", "ask": {"question": "{{steps.a.output}}?", "options": ["{{steps.a.output}}", "No"]}, "needs": ["b"]},
    {"id": "d", "instruction": "Say it: {{steps.c.output}}", "needs": ["c"]},
]


@pytest.mark.parametrize("says", ["yes", "no"])
async def test_what_a_person_is_asked_about_it_bears_the_label(flow: Flow, says: str) -> None:
    flow.workflow(*SHOWN)
    task_id = await flow.begin()
    if says == "no":
        await flow.reject("Leave it.")
    else:
        await flow.approve()
        asking = await flow.asking()
        await flow.ozzie.answers.answer(asking, "1", by="Ana")
    await flow.rests(task_id)
    assert await flow.expect_labelled(says) >= 4


@pytest.mark.parametrize("tool", ["sit", "sit_hard"])
async def test_what_is_stopped_in_the_middle_bears_the_label(flow: Flow, tool: str) -> None:
    flow.way = "takes too long"
    flow.workflow({"id": "a", "call": {"tool": tool, "args": {}}})
    task_id = await flow.begin()
    async with asyncio.timeout(WAIT_S):
        await flow.reached.wait()
    await flow.ozzie.tasks.cancel(task_id, by="Ana")
    assert await flow.rests(task_id) == "task.cancelled"
    ends = [event for event in await flow.all_events() if isinstance(event.body, CUT_OFF)]
    assert [Label.WEB in event.labels for event in ends] == [True] * (tool == "sit_hard")


async def test_what_a_restart_cut_off_bears_the_label_of_what_it_had_read(flow: Flow) -> None:
    """The first call is told of; the second, which has an effect, is cut off with the word among its arguments."""
    flow.workflow(
        {"id": "a", "call": PECK},
        {"id": "b", "call": {"tool": "sit_hard", "args": {"text": "{{steps.a.output}}"}}, "needs": ["a"]},
    )
    task_id = await flow.begin()
    await flow.pending()
    flow.reached.clear()
    flow.way = "takes too long"
    await flow.approve()
    async with asyncio.timeout(WAIT_S):
        await flow.reached.wait()
    await flow.restart()
    asking = await flow.asking()
    await flow.ozzie.answers.answer(asking, "leave", by="Ana")
    assert await flow.rests(task_id) == "task.failed"
    assert await flow.expect_labelled("after a restart") >= 4


FREE_NOTES = """{"rules": [{"id": "notes", "decision": "allow", "reason": "Notes are Ozzie's.",
"when": {"tools": ["write_file"], "paths": ["notes/**"], "sources": ["*"]},
"examples": {"match": [{"tool": "write_file", "args": {"path": "notes/a.md"}, "sources": ["web:a.example"]}]}}]}"""


async def test_what_is_asked_about_a_file_that_was_made_from_it_bears_the_label(flow: Flow) -> None:
    """Another session, which has read nothing, is to change it: the question quotes what is replaced."""
    (flow.ozzie.home.root / "policy.jsonc").write_text(FREE_NOTES)
    (flow.ozzie.project / "notes").mkdir()
    flow.workflow(
        {"id": "a", "call": PECK},
        {
            "id": "b",
            "call": {"tool": "write_file", "args": {"path": "notes/a.md", "text": "{{steps.a.output}}\n"}},
            "needs": ["a"],
        },
    )
    assert await flow.rests(await flow.begin()) == "task.succeeded"
    (flow.ozzie.home.root / "policy.jsonc").unlink()
    flow.notebook = "another"
    flow.workflow(
        {"id": "a", "call": {"tool": "read_file", "args": {"path": "notes/a.md"}}},
        {
            "id": "b",
            "call": {
                "tool": "write_file",
                "args": {"path": "notes/a.md", "text": "mine\n", "version": "{{steps.a.output.version}}"},
            },
            "needs": ["a"],
        },
    )
    task_id = await flow.begin()
    pending = await flow.pending()
    assert CANARY in pending.asked.proof
    assert pending.asked.brought == WEB.sources
    await flow.reject("No.")
    await flow.rests(task_id)
    assert await flow.expect_labelled("asked about a marked file") >= 4
