"""Turns that ask a person before a call: they are let go of, and go on from what was answered."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.agent.questions import GO_ON
from ozzie_server_ext.domain.approvals import MOST_ASKS, AuthStrength
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    EventBody,
    Limits,
    MessageReceived,
    Origin,
    PromptAnswered,
    PromptRequested,
    TaskCancelled,
    TaskCreated,
    TaskQueued,
    TaskResumed,
    TaskRetried,
    TaskStarted,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallResolved,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import ApprovalId, MessageId, PromptId
from ozzie_server_ext.domain.tasks import TaskHeld
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect, Target, TargetKind, ToolResult
from ozzie_server_ext.models.scripted import Round, Say, Use
from ozzie_server_ext.tools.base import Tool, ToolContext, ToolFailed, Unsettled
from ozzie_server_ext.tools.builtin import builtin_tools, user
from ozzie_server_ext.tools.builtin.files import version_of
from tests.results import result_of, short
from tests.unit.agent.rig import TurnRig
from tests.unit.tools.test_base import tool


class Asking(TurnRig):
    """A task whose calls ask; `answer` answers as `tasks.approvals` records it, without a check."""

    def __init__(
        self,
        project: Path,
        script: Sequence[Round],
        *,
        side_effect: SideEffect = SideEffect.NONE,
        tools: Sequence[Tool] = (),
    ) -> None:
        self.ran: list[str] = []
        super().__init__(project, [*script, [Say("Done.")]], tools=tools or [self._tool(side_effect)])

    def _tool(self, side_effect: SideEffect) -> Tool:
        async def look(context: ToolContext, *, at: str) -> ToolResult:
            """Look at something that is not for everybody."""
            self.ran.append(at)
            return ToolResult(ok=True, data=at)

        return tool(look, tool_id="test.look", name="look", risk_level=RiskLevel.HIGH, side_effect=side_effect)

    async def begin(self) -> None:
        await self.ask("Look at all of it.")
        created = TaskCreated(title="t", mode="FREE", message_id=MessageId("m"), limits=Limits())
        await self.record(created, TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"))
        await self.held()

    async def held(self) -> None:
        with pytest.raises(TaskHeld):
            await self.run()

    async def pending(self) -> list[ApprovalRequested]:
        rows = await self.log.rows("approvals", where={"status": "pending"})
        ids = [row["approval_id"] for row in rows]
        asked = [body for body in await self.bodies() if isinstance(body, ApprovalRequested)]
        return [body for body in asked if body.approval_id in ids]

    async def answer(self, *facts: EventBody) -> None:
        """The last answer of a task sets it going."""
        started = TaskStarted(attempt=2, epoch="e")
        await self.record(*facts, TaskResumed(by="ann"), TaskQueued(reason="answered"), started)

    async def prompts(self) -> list[PromptRequested]:
        return [body for body in await self.bodies() if isinstance(body, PromptRequested)]

    async def approve_all(self) -> None:
        await self.answer(*[granted(asked.approval_id) for asked in await self.pending()])

    async def outcomes(self) -> list[str]:
        """What the model read of its calls, in the last request."""
        return [short(result) for result in self.results()]

    def results(self) -> list[str]:
        return [message.content for message in self.model.requests[-1].messages if message.role == "tool"]


def granted(approval_id: ApprovalId) -> ApprovalGranted:
    return ApprovalGranted(approval_id=approval_id, extent="once", by="ann", way=AuthStrength.BROWSER)


def uses(*at: str) -> list[Any]:
    return [Use("look", {"at": each}, f"c{number}") for number, each in enumerate(at)]


async def test_calls_side_by_side_are_asked_for_together_and_made_together(project: Path) -> None:
    rig = Asking(project, [uses("a", "b")])
    await rig.begin()

    assert rig.ran == []
    *facts, waiting = (await rig.bodies())[-7:]
    first, second = await rig.pending()
    assert waiting == TaskWaitingApproval(approval_id=first.approval_id)
    assert [body.type for body in facts] == 2 * ["tool.call.requested", "tool.call.decided", "approval.requested"]
    assert first.call_id != second.call_id
    (row,) = await rig.log.rows("tasks")
    assert row["status"] == "WAITING_APPROVAL"

    await rig.approve_all()
    assert await rig.run() == 2

    assert sorted(rig.ran) == ["a", "b"]
    assert await rig.outcomes() == ['"a"', '"b"']
    requested = await rig.bodies(ToolCallRequested)
    assert len(requested) == 2, "a call that was asked for is the same call once it may be made"


async def test_what_needs_no_yes_is_done_at_once_and_not_again(project: Path) -> None:
    rig = Asking(project, [[Use("look", {"at": "a"}, "c0"), Use("look", {"colour": "red"}, "c1")]])
    await rig.begin()

    assert len(await rig.bodies(ToolCallFailed)) == 1, "arguments that do not fit are told without a question"

    await rig.approve_all()
    await rig.run()

    assert len(await rig.bodies(ToolCallFailed)) == 1
    assert rig.ran == ["a"]


async def test_of_those_asked_together_each_has_its_own_answer_and_the_model_reads_both(project: Path) -> None:
    rig = Asking(project, [uses("a", "b")])
    await rig.begin()
    first, second = await rig.pending()
    rejected = ApprovalRejected(approval_id=first.approval_id, comment="not that", by="ann", way=AuthStrength.RELAY)
    failed = ToolCallFailed(
        call_id=first.call_id, code="approval.rejected", message='Rejected by ann: "not that"', duration_ms=0.0
    )

    await rig.answer(rejected, failed, granted(second.approval_id))
    await rig.run()

    assert rig.ran == ["b"]
    assert await rig.outcomes() == ['{"error":"Rejected by ann: \\"not that\\""}', '"b"']
    assert [result_of(result).code for result in rig.results()] == ["approval.rejected", ""]


async def test_a_turn_asks_so_often_and_then_a_person_is_told_that_it_does(project: Path) -> None:
    rig = Asking(project, [uses("a", "b", "c"), uses("d", "e", "f", "g")])
    await rig.begin()
    assert len(await rig.pending()) == 3
    await rig.approve_all()

    await rig.held()
    assert len(await rig.pending()) == MOST_ASKS - 3, "of what there is no room for, nothing is asked yet"
    assert len(await rig.bodies(ToolCallRequested)) == MOST_ASKS
    await rig.approve_all()

    await rig.held()
    assert sorted(rig.ran) == ["a", "b", "c", "d", "e"]
    (prompt,) = await rig.bodies(PromptRequested)
    assert isinstance(prompt, PromptRequested)
    assert (prompt.kind, [option.name for option in prompt.options]) == ("asks", ["go_on", "stop"])
    assert (await rig.bodies())[-1] == TaskWaitingInput(question=prompt.question)
    assert await rig.pending() == []

    await rig.answer(PromptAnswered(prompt_id=prompt.prompt_id, option=GO_ON, by="ann", amount=0))
    await rig.held()
    assert len(await rig.pending()) == 2
    await rig.approve_all()
    await rig.run()
    assert sorted(rig.ran) == ["a", "b", "c", "d", "e", "f", "g"]


async def test_the_answer_to_another_question_makes_no_room_for_more(project: Path) -> None:
    rig = Asking(project, [uses("a", "b", "c", "d", "e"), uses("f")])
    await rig.begin()
    prompt = PromptRequested(prompt_id=PromptId("p"), kind="budget", question="?", notes=(), options=())
    answered = PromptAnswered(prompt_id=prompt.prompt_id, option="allow", by="ann", amount=1)
    await rig.answer(prompt, answered, *[granted(asked.approval_id) for asked in await rig.pending()])

    await rig.held()

    assert (await rig.bodies())[-1].type == "task.waiting_input", "more money is no leave to ask more often"
    assert "f" not in rig.ran


async def test_a_yes_that_came_before_a_restart_counts_for_the_call_that_was_not_begun(project: Path) -> None:
    rig = Asking(project, [uses("a")])
    await rig.begin()
    (asked,) = await rig.pending()
    not_begun = ToolCallCancelled(call_id=asked.call_id, reason="Ozzie's gateway ended in the middle of it.")
    recovered = (not_begun, TaskQueued(reason="recovered"), TaskStarted(attempt=3, epoch="f"))
    await rig.answer(granted(asked.approval_id))
    await rig.record(*recovered)

    await rig.run()

    started = await rig.bodies(ToolCallStarted)
    assert [body.approval_id for body in started if isinstance(body, ToolCallStarted)] == [asked.approval_id]
    assert rig.ran == ["a"]


async def test_an_answer_that_is_taken_back_before_the_call_has_begun_is_none(project: Path) -> None:
    rig = Asking(project, [uses("a")])
    await rig.begin()
    (asked,) = await rig.pending()
    await rig.answer(granted(asked.approval_id), ApprovalExpired(approval_id=asked.approval_id, why="revoked"))

    await rig.held()

    assert rig.ran == []
    assert len(await rig.pending()) == 1


@pytest.mark.parametrize("answered", [False, True])
async def test_after_a_stop_a_retry_asks_again_whatever_was_answered_before(project: Path, answered: bool) -> None:
    rig = Asking(project, [uses("a", "b")])
    await rig.begin()
    first, _ = await rig.pending()
    await rig.record(
        *([granted(first.approval_id)] if answered else []),
        TaskCancelled(by="ann", reason="the button"),
        TaskRetried(by="ann", attempt=2),
        TaskStarted(attempt=2, epoch="e"),
    )

    await rig.held()

    assert rig.ran == []
    assert len(await rig.pending()) == 2
    (old, *_) = await rig.log.rows("approvals", where={"approval_id": first.approval_id})
    expected = ("granted", "") if answered else ("expired", "task")
    assert (old["status"], old["why"]) == expected, "how it ended stays as it was"
    await rig.approve_all()
    await rig.run()
    assert sorted(rig.ran) == ["a", "b"]


@pytest.mark.parametrize("answered", [False, True])
async def test_after_a_stop_that_ended_the_calls_a_retry_asks_for_others_in_their_place(
    project: Path, answered: bool
) -> None:
    rig = Asking(project, [uses("a", "b")])
    await rig.begin()
    first, second = await rig.pending()
    await rig.record(
        *([granted(first.approval_id)] if answered else []),
        *(ToolCallCancelled(call_id=asked.call_id, reason="The turn was stopped.") for asked in (first, second)),
        TaskCancelled(by="ann", reason="the button"),
        TaskRetried(by="ann", attempt=2),
        TaskStarted(attempt=2, epoch="e"),
    )

    await rig.held()

    assert rig.ran == []
    anew = await rig.pending()
    assert len(anew) == 2
    assert not {asked.call_id for asked in anew} & {first.call_id, second.call_id}, "those have ended"
    (old, *_) = await rig.log.rows("approvals", where={"approval_id": first.approval_id})
    expected = ("granted", "") if answered else ("expired", "task")
    assert (old["status"], old["why"]) == expected, "how it ended stays as it was"
    await rig.approve_all()
    await rig.run()
    assert sorted(rig.ran) == ["a", "b"]


class Changing(Asking):
    """A task with two tools that can't be undone, so that each call asks."""

    def __init__(self, project: Path, script: Sequence[Round]) -> None:
        self.ran = []

        async def send(context: ToolContext, *, to: str) -> ToolResult:
            """Send something."""
            if to == "nobody":
                raise ToolFailed("There is nobody of that name.")
            self.ran.append(to)
            if to == "unsure":
                raise Unsettled("The connection was lost.")
            return ToolResult(ok=True, data=to)

        async def throw(context: ToolContext, *, what: str) -> ToolResult:
            """Throw something away."""
            self.ran.append(what)
            return ToolResult(ok=True, data=what)

        tools = [
            tool(send, tool_id="test.send", name="send", side_effect=SideEffect.IRREVERSIBLE),
            tool(throw, tool_id="test.throw", name="throw", side_effect=SideEffect.IRREVERSIBLE),
        ]
        super().__init__(project, script, tools=tools)


def sends(*to: str) -> list[Any]:
    return [Use("send", {"to": each}, each) for each in to]


PUT_OFF = '{"error":"Not done: one change at a time. Look at what came of it, then ask again."}'


async def test_changes_by_the_same_tool_are_asked_for_together_and_made_in_their_order(project: Path) -> None:
    rig = Changing(project, [sends("a", "b", "c")])
    await rig.begin()

    asked = await rig.pending()
    assert [each.name for each in asked] == ["send", "send", "send"]
    assert len({each.binds for each in asked}) == 3, "a yes to one is none to another"
    assert rig.ran == []

    await rig.answer(*[granted(each.approval_id) for each in reversed(asked)])
    await rig.run()

    assert rig.ran == ["a", "b", "c"]
    assert await rig.outcomes() == ['"a"', '"b"', '"c"']
    assert len(rig.model.requests) == 2, "the model did not have to ask again"


async def test_a_change_by_another_tool_is_put_off_and_so_is_what_only_reads(project: Path) -> None:
    rig = Changing(project, [[*sends("a"), Use("throw", {"what": "x"}, "x"), *sends("b")]])
    await rig.begin()
    assert [each.name for each in await rig.pending()] == ["send", "send"]

    await rig.approve_all()
    await rig.run()

    assert rig.ran == ["a", "b"]
    assert await rig.outcomes() == ['"a"', PUT_OFF, '"b"']


async def test_a_no_to_one_of_them_and_a_failure_of_another_are_about_these_alone(project: Path) -> None:
    rig = Changing(project, [sends("a", "nobody", "c")])
    await rig.begin()
    first, *others = await rig.pending()
    no = ApprovalRejected(approval_id=first.approval_id, comment="", by="ann", way=AuthStrength.BROWSER)
    failed = ToolCallFailed(call_id=first.call_id, code="approval.rejected", message="Rejected.", duration_ms=0.0)

    await rig.answer(no, failed, *[granted(each.approval_id) for each in others])
    await rig.run()

    assert rig.ran == ["c"]
    assert await rig.outcomes() == [
        '{"error":"Rejected."}', '{"error":"There is nobody of that name."}', '"c"',
    ]  # fmt: skip


async def test_one_that_is_another_by_the_time_it_comes_is_asked_for_again(project: Path) -> None:
    file = project / "notes.txt"
    file.write_text("one\ntwo\n")
    both = [edit("one\ntwo\n", "one", "1", "c1"), edit("one\ntwo\n", "two", "2", "c2")]
    rig = Asking(project, [both], tools=builtin_tools())
    await rig.begin()
    assert len(await rig.pending()) == 2

    await rig.approve_all()
    await rig.run()

    assert file.read_text() == "1\ntwo\n"
    done, failed = await rig.outcomes()
    assert "has changed since it was read" in failed, done


async def test_what_does_not_ask_behind_one_that_does_is_found_out_after_it(project: Path) -> None:
    """What has nothing to change, or can't be, may be another once the first is made."""
    file = project / "notes.txt"
    file.write_text("one\ntwo\n")
    seen = "one\ntwo\n"
    same, missing = edit(seen, "two", "two", "c2"), edit(seen, "1\n", "9\n", "c3")
    rig = Asking(project, [[edit(seen, "one", "1", "c1"), same, missing]], tools=builtin_tools())
    await rig.begin()
    assert [each.name for each in await rig.pending()] == ["edit_file"]
    assert not await rig.bodies(ToolCallCompleted)
    assert not await rig.bodies(ToolCallFailed)

    await rig.approve_all()
    await rig.run()

    assert (await rig.outcomes())[1:] == [PUT_OFF, PUT_OFF]


async def test_one_that_is_to_be_tried_again_is_asked_for_before_those_behind_it_are_made(project: Path) -> None:
    rig = Changing(project, [sends("a", "unsure", "c")])
    await rig.begin()
    await rig.approve_all()
    await rig.held()
    assert rig.ran == ["a", "unsure"]
    (unknown,) = await rig.bodies(ToolCallUncertain)
    assert isinstance(unknown, ToolCallUncertain)

    await rig.answer(ToolCallResolved(call_id=unknown.call_id, outcome="again", by="ann"))
    await rig.held()

    assert rig.ran == ["a", "unsure"]
    (again,) = await rig.pending()
    await rig.answer(granted(again.approval_id))
    await rig.held()
    assert rig.ran == ["a", "unsure", "unsure"]


async def test_where_a_name_stands_is_looked_for_while_other_calls_end(project: Path) -> None:
    async def look(context: ToolContext, *, number: int) -> ToolResult:
        """Look at something."""
        await asyncio.sleep(0)  # let go of the loop, as what really looks does
        return ToolResult(ok=True, data=[f"{number} {each}" for each in range(500)])

    async def ask(context: ToolContext, *, to: str) -> ToolResult:
        """Ask somebody."""
        return ToolResult(ok=True, data=to)

    asks = tool(
        ask, tool_id="test.ask", name="ask", risk_level=RiskLevel.HIGH, targets=(Target("to", TargetKind.RECIPIENT),)
    )
    calls = [Use("look", {"number": number}, f"l{number}") for number in range(40)]
    calls[10:10] = [Use("ask", {"to": "ana@firm.example"}, f"a{number}") for number in range(4)]
    rig = Asking(project, [calls], tools=[tool(look, tool_id="test.look", name="look"), asks])

    await rig.begin()

    assert {each.known_from for each in await rig.pending()} == {
        "ana@firm.example is in no message or result of this session."
    }
    assert len(await rig.bodies(ToolCallCompleted)) == 40


async def test_a_name_in_a_message_from_outside_is_from_outside(project: Path) -> None:
    async def send(context: ToolContext, *, to: str) -> ToolResult:
        """Send something."""
        return ToolResult(ok=True, data=to)

    targets = (Target("to", TargetKind.RECIPIENT),)
    sending = tool(send, tool_id="test.send", name="send", side_effect=SideEffect.IRREVERSIBLE, targets=targets)
    rig = Asking(project, [sends("ana@firm.example")], tools=[sending])
    message = MessageReceived(
        message_id=MessageId("m"), text="Write to ana@firm.example", origin=Origin(channel="rest")
    )
    await rig.recorder().made_from(Content.of(Label.WEB, ["evil.example"])).append(message)
    created = TaskCreated(title="t", mode="FREE", message_id=MessageId("m"), limits=Limits())
    await rig.record(created, TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"))
    await rig.held()

    (asked,) = await rig.pending()
    assert asked.known_from == "ana@firm.example comes from web content (evil.example)."


async def test_no_more_are_asked_for_than_a_turn_may_ask(project: Path) -> None:
    rig = Changing(project, [sends(*[f"p{number}" for number in range(MOST_ASKS + 2)])])
    await rig.begin()
    assert len(await rig.pending()) == MOST_ASKS

    await rig.approve_all()
    await rig.run()

    assert len(rig.ran) == MOST_ASKS
    assert (await rig.outcomes())[-2:] == [PUT_OFF, PUT_OFF]


# --- files that change between the question and the yes ------------------------------------------------------


def edit(of: str, old: str, new: str, call_id: str, path: str = "notes.txt") -> Use:
    version = version_of(of.encode())
    return Use("edit_file", {"path": path, "old": old, "new": new, "version": version}, call_id)


async def test_a_file_that_somebody_edits_before_the_yes_is_left_alone_and_the_model_asks_anew(project: Path) -> None:
    file = project / "notes.txt"
    by_hand = "one\ntwo\nthree\n"
    script = [[edit("one\ntwo\n", "two", "2", "c1")], [Use("read_file", {"path": "notes.txt"}, "c2")]]
    rig = Asking(project, [*script, [edit(by_hand, "two", "2", "c3")]], tools=builtin_tools())
    await rig.begin()
    (first,) = await rig.pending()
    assert first.proof == "@@ -1,2 +1,2 @@\n one\n-two\n+2"
    file.write_text(by_hand)

    await rig.approve_all()
    await rig.held()

    assert file.read_text() == by_hand
    (failed,) = await rig.bodies(ToolCallFailed)
    assert isinstance(failed, ToolCallFailed)
    assert failed.message == "notes.txt has changed since it was read; read it again."
    (second,) = await rig.pending()
    assert second.proof == "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three", "what is asked shows what is there now"

    await rig.approve_all()
    await rig.run()
    assert file.read_text() == "one\n2\nthree\n"


@pytest.mark.parametrize("change", ["written again", "another file", "made a program", "its folder"])
async def test_a_file_that_is_another_one_with_the_same_content_is_asked_for_anew(project: Path, change: str) -> None:
    (project / "sub").mkdir()
    file = project / "sub" / "notes.txt"
    file.write_text("one\ntwo\n")
    script = [[edit("one\ntwo\n", "two", "2", "c1", path="sub/notes.txt")]]
    rig = Asking(project, script, tools=builtin_tools())
    await rig.begin()
    (first,) = await rig.pending()
    match change:
        case "written again":
            os.utime(file, ns=(1, 1))
        case "another file":
            (project / "new.txt").write_text("one\ntwo\n")
            os.replace(project / "new.txt", file)
        case "made a program":
            file.chmod(0o755)
        case _:
            os.rename(project / "sub", project / "old")
            (project / "sub").mkdir()
            os.link(project / "old" / "notes.txt", file)
            (project / "old" / "notes.txt").unlink()

    await rig.approve_all()
    await rig.held()

    (second,) = await rig.pending()
    assert (second.proof, second.binds == first.binds, second.call_id) == (first.proof, False, first.call_id)
    (void,) = await rig.bodies(ApprovalExpired)
    assert void == ApprovalExpired(approval_id=first.approval_id, why="changed")
    assert file.read_text() == "one\ntwo\n"

    await rig.approve_all()
    await rig.run()
    assert file.read_text() == "one\n2\n"


def ask(question: str, use_id: str) -> Use:
    return Use("ask_user", {"question": question}, use_id)


async def answer_question(rig: Asking, text: str) -> None:
    """As `tasks.answers` records it, without a check."""
    prompt = (await rig.prompts())[-1]
    assert prompt.call_id is not None
    await rig.answer(
        PromptAnswered(prompt_id=prompt.prompt_id, option="text", by="ann", text=text),
        ToolCallCompleted(call_id=prompt.call_id, ok=True, data={"answer": text}, summary=text, duration_ms=1.0),
    )


async def test_the_models_questions_are_put_one_after_the_other_and_after_what_wants_a_yes(project: Path) -> None:
    """Whoever answers a question should know what else was allowed; and a card with two questions is none."""
    script = [[ask("First?", "q1"), *uses("a"), ask("Second?", "q2")]]
    rig = Asking(project, script)
    rig.parts.registry.register(user.TOOLS[0])
    await rig.begin()

    assert await rig.prompts() == []
    assert len(await rig.pending()) == 1
    await rig.approve_all()
    await rig.held()

    assert rig.ran == ["a"]
    assert [prompt.question for prompt in await rig.prompts()] == ["First?"]
    assert (await rig.bodies())[-1] == TaskWaitingInput(question="First?")
    await answer_question(rig, "one")
    await rig.held()
    assert [prompt.question for prompt in await rig.prompts()] == ["First?", "Second?"]
    await answer_question(rig, "two")

    assert await rig.run() == 2
    assert await rig.outcomes() == ['{"answer":"one"}', '"a"', '{"answer":"two"}']


async def test_the_models_own_questions_count_among_those_that_a_turn_may_ask(project: Path) -> None:
    rig = Asking(project, [[*uses("a", "b", "c"), *(ask(f"{n}?", f"q{n}") for n in range(3))]])
    rig.parts.registry.register(user.TOOLS[0])
    await rig.begin()
    await rig.approve_all()
    for number in range(MOST_ASKS - 3):
        await rig.held()
        assert (await rig.prompts())[-1].question == f"{number}?"
        await answer_question(rig, "well")

    await rig.held()
    prompt = (await rig.prompts())[-1]
    assert (prompt.kind, (await rig.bodies())[-1]) == ("asks", TaskWaitingInput(question=prompt.question))

    await rig.answer(PromptAnswered(prompt_id=prompt.prompt_id, option=GO_ON, by="ann", amount=0))
    await rig.held()
    assert (await rig.prompts())[-1].question == "2?"
