"""A result that is too long is summarized by the model that is configured for that, or cut as before."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.plan import Allowance
from ozzie_server_ext.agent.result_summaries import INSTRUCTIONS
from ozzie_server_ext.agent.turn import Turn
from ozzie_server_ext.domain.budget import Account, Budget
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.events import Event, ModelCallStarted, ToolCallSummarized
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Fail, Say, ScriptedDriver, Step, Use
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.builtin import builtin_tools
from tests.results import result_of
from tests.unit.agent.rig import PLAN, SMALL, TurnRig
from tests.unit.tools.test_base import tool

LINES = [f"line {number}" for number in range(1, 3001)]
SUMMED_UP = "Three thousand numbered lines; line 17 matters."


async def probe(context: ToolContext) -> ToolResult:
    """Return three thousand lines of a web page."""
    return ToolResult(ok=True, data="\n".join(LINES), content=Content.of(Label.WEB, ["example.org"]))


class Long:
    """A turn in which a tool returns too much, and a summarizer that does what `answer` says."""

    def __init__(self, project: Path, answer: Sequence[Step] = (Say(SUMMED_UP),), **plan: Any) -> None:
        tools = [tool(probe, tool_id="test.probe", name="probe"), *builtin_tools()]
        self.rig = TurnRig(project, [], tools=tools, plan=replace(PLAN, result_summarizer=self._summarizer, **plan))
        self.rig.model = ScriptedDriver([self._answer] * 20, clock=self.rig.clock)
        self.rig.parts = replace(self.rig.parts, models=self.rig.model)
        self.answer = answer
        self.summarizer: Chain | None = Chain((SMALL,))
        self.summaries: list[ModelRequest] = []
        self.requests: list[ModelRequest] = []

    async def _summarizer(self) -> Chain | None:
        return self.summarizer

    def _answer(self, request: ModelRequest) -> Sequence[Step]:
        if request.messages[0].content == INSTRUCTIONS:
            self.summaries.append(request)
            return self.answer
        self.requests.append(request)
        return [Say("I see.")] if len(self.requests) > 1 else [Use("probe", {}, "1"), Use("probe", {}, "2")]

    async def run(self) -> list[dict[str, Any]]:
        """Return what the model read of the two results."""
        await self.rig.ask("Which line matters?")
        await self.rig.run()
        return [result_of(message.content).data for message in self.requests[-1].messages if message.role == "tool"]


async def test_the_model_reads_the_summary_instead_of_beginning_and_end(project: Path) -> None:
    long = Long(project)
    read = await long.run()

    assert [result["summary"] for result in read] == [SUMMED_UP, SUMMED_UP]
    assert [set(result) for result in read] == [{"cut", "summary", "lines", "characters", "artifact", "note"}] * 2
    assert read[0]["lines"] == len(LINES)
    assert read[0]["artifact"] in read[0]["note"]


async def test_the_summarizer_reads_all_of_it_as_data_and_what_is_wanted(project: Path) -> None:
    long = Long(project)
    await long.run()

    told = json.loads(long.summaries[0].messages[-1].content)
    assert told == {"wanted": "Which line matters?", "tool": "probe", "arguments": "{}", "result": "\n".join(LINES)}
    assert long.summaries[0].tools == ()
    started = [body for body in await long.rig.bodies(ModelCallStarted) if isinstance(body, ModelCallStarted)]
    assert [body.purpose for body in started] == ["answer", "summary", "summary", "answer"]


async def test_a_summary_has_the_labels_of_the_result(project: Path) -> None:
    long = Long(project)
    await long.rig.ask("Which line matters?")
    conversation = Conversation(await long.rig.events())

    def follow(events: tuple[Event, ...]) -> None:
        for event in events:
            conversation.apply(event)

    long.rig.log.on_commit(follow)
    recorder = msgspec.structs.replace(long.rig.recorder(), content_now=lambda: conversation.content)
    await Turn(long.rig.parts, long.rig.plan, conversation, recorder, long.rig.context).run()

    summaries = [event for event in await long.rig.events() if isinstance(event.body, ToolCallSummarized)]
    assert [(event.labels, event.sources) for event in summaries] == [(("web",), ("web:example.org",))] * 2


async def test_a_conversation_from_the_log_has_the_summary_too(project: Path) -> None:
    long = Long(project)
    await long.run()
    again = Conversation(await long.rig.events())

    last = again.last_round(TaskId("t1"))
    assert last is not None
    assert again.messages(100, TaskId("t1"))[:-1] == long.requests[-1].messages[1:]


@pytest.mark.parametrize("how", ["fails", "says nothing", "is none", "has no budget"])
async def test_without_a_summary_the_model_reads_beginning_and_end(project: Path, how: str) -> None:
    answers = {"fails": [Fail("provider.server")], "says nothing": [Say("  ")]}
    long = Long(project, answers.get(how, [Say(SUMMED_UP)]))
    if how == "is none":
        long.summarizer = None
    if how == "has no budget":
        small = Budget(account=Account("task", TaskId("t1")), tokens=12_000, on_breach="stop")
        long.rig.plan = replace(long.rig.plan, allowance=lambda: Allowance(budgets=(small,)))
    read = await long.run()

    assert [result["head"].startswith("line 1\nline 2\n") for result in read] == [True, True]
    assert [result["tail"].endswith("line 3000") for result in read] == [True, True]
    assert len(long.summaries) <= 1, "after a failure it is not asked again"
    assert await long.rig.bodies(ToolCallSummarized) == []
