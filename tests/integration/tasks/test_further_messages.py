"""What a message to a session becomes: a task, the answer to a question, or an update of a task (ADR 54)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import Conflict, InputError
from ozzie_server_ext.domain.events import (
    MessageReceived,
    Origin,
    PromptAnswered,
    SkillStarted,
    StepStarted,
    TaskCancelRequested,
    TaskCreated,
    TaskUpdated,
)
from ozzie_server_ext.domain.ids import MessageId, TaskId
from ozzie_server_ext.models.scripted import Say, Use, Wait
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.rows import session_of
from ozzie_server_ext.tasks.service import NOT_PLAIN, NewTurn, Submitted
from ozzie_server_ext.tasks.workflows.skill_starts import NO_KEYWORD
from tests.integration.tasks.runs_rig import echo, runs_in
from tests.integration.tasks.test_pauses import SUM
from tests.integration.tasks.test_updates import Updating

WHICH = Use("ask_user", {"question": "Tea or coffee?", "options": [{"label": "Tea"}, {"label": "Coffee"}]})
MESSAGE = MessageId("01DDDDDDDDDDDDDDDDDDDDDDDD")
ANA = Origin(channel="page", sender_id="ana")


class Talking(Updating):
    async def send(self, text: str, **changed: Any) -> Submitted:
        session = await self.ozzie.sessions.open(self.notebook, title="n", channel="notebook")
        turn = NewTurn(session.session_id, text, ANA, may_update=True)
        return await self.ozzie.submit(replace(turn, **changed))

    async def asks(self) -> TaskId:
        """A turn that waits with a question."""
        self.ozzie.plays(self.said(WHICH), *([self.said(Say("Thank you."))] * 4))
        task_id = await self.turn("Ask me.")
        assert await self.ends(task_id) == "task.waiting_input"
        return task_id

    async def works(self) -> TaskId:
        """A turn in the middle of its first call, which has a tool to call then."""
        self.ozzie.plays(self.said(Wait(self.go, self.here), SUM), *([self.said(Say("Done."))] * 4))
        task_id = await self.turn("Go.")
        await self.reached()
        return task_id

    async def messages(self) -> list[tuple[str, str]]:
        rows = await self.ozzie.log.rows("messages", order_by="position")
        return [(str(row["role"]), str(row["text"])) for row in rows]


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Talking]:
    async with runs_in(tmp_path, monkeypatch, Talking) as runs:
        yield runs


@pytest.mark.parametrize(
    ("text", "option", "read"),
    [("Coffee", "2", '"Coffee"'), (" tea\n", "1", '"Tea"'), ("Mate, please.", "text", '"Mate, please."')],
)
async def test_it_answers_the_question_that_the_session_waits_with(
    runs: Talking, text: str, option: str, read: str
) -> None:
    task_id = await runs.asks()

    sent = await runs.send(text)

    assert (sent.became, sent.task_id) == ("answer", task_id)
    assert await runs.ends(task_id, 2) == "task.succeeded"
    (answered,) = await runs.facts(task_id, PromptAnswered)
    assert (answered.option, answered.text, answered.by) == (option, text.strip(), "ana")
    assert f'"answer":{read}' in runs.conversation(1)[-1][1]
    assert ("user", text.strip()) in await runs.messages()


@pytest.mark.parametrize("waits", [True, False], ids=["while it asks", "while it runs"])
async def test_a_message_that_is_sent_again_is_nothing_for_its_own_turn(runs: Talking, waits: bool) -> None:
    """A client that lost its connection sends it again, and does not know what became of it."""
    first = [WHICH] if waits else [Wait(runs.go, runs.here), SUM]
    runs.ozzie.plays(runs.said(*first), *([runs.said(Say("Thank you."))] * 4))
    sent = await runs.send("Tea", message_id=MESSAGE)
    if waits:
        assert await runs.ends(sent.task_id) == "task.waiting_input"
    else:
        await runs.reached()

    again = await runs.send("Tea", message_id=MESSAGE)

    assert (again.became, again.task_id) == ("task", sent.task_id)
    assert await runs.facts(sent.task_id, PromptAnswered) == []
    assert await runs.facts(sent.task_id, TaskUpdated) == []
    if not waits:
        runs.go.set()
        assert await runs.ends(sent.task_id) == "task.succeeded"


async def test_an_answer_that_is_sent_twice_counts_once(runs: Talking) -> None:
    task_id = await runs.asks()
    first = await runs.send("Tea", message_id=MESSAGE)
    assert await runs.ends(task_id, 2) == "task.succeeded"

    again = await runs.send("Tea", message_id=MESSAGE)

    assert again == first
    assert [row for row in await runs.messages() if row[0] == "user"] == [("user", "Ask me."), ("user", "Tea")]


@pytest.mark.parametrize(
    "changed",
    [
        {"attended": False},
        {"answer_schema": {"type": "object"}},
        {"model": "scripted"},
        {"content": Content.from_sources(("web:evil.example",))},
    ],
    ids=["nobody is there", "a schema", "a model", "made from a page"],
)
async def test_only_a_persons_plain_words_answer(runs: Talking, changed: dict[str, Any]) -> None:
    task_id = await runs.asks()

    sent = await runs.send("Tea", **changed)

    assert (sent.became, sent.ahead) == ("task", 1)
    assert await runs.facts(task_id, PromptAnswered) == []


async def test_an_approval_is_not_answered(runs: Talking) -> None:
    runs.ozzie.plays([Use("write_file", {"path": "notes/a.md", "text": "a"})], *([echo] * 4))
    task_id = await runs.turn("Write it.")
    await runs.pending()

    sent = await runs.send("yes")

    assert (sent.became, sent.ahead) == ("task", 1)
    assert await runs.status(task_id) == "WAITING_APPROVAL"


async def test_with_two_questions_it_answers_neither(runs: Talking) -> None:
    runs.workflow({"id": "a", "ask": {"question": "Tea?"}}, {"id": "b", "ask": {"question": "Sugar?"}})
    task_id = await runs.begin()
    for step in ("a", "b"):
        child = (await runs.step(StepStarted, lambda fact, step=step: fact.step_id == step)).task
        assert child is not None
        assert await runs.ends(child) == "task.waiting_input"
    assert await runs.ends(task_id) == "task.waiting_input"

    sent = await runs.send("yes")

    assert (sent.became, sent.ahead) == ("task", 1)
    assert await runs.status(task_id) == "WAITING_INPUT"


async def test_it_answers_what_a_step_asks_and_the_run_is_what_to_follow(runs: Talking) -> None:
    runs.workflow({"id": "which", "ask": {"question": "Which year?"}})
    task_id = await runs.begin()
    child = (await runs.step(StepStarted)).task
    assert child is not None
    assert await runs.ends(child) == "task.waiting_input"

    sent = await runs.send("2026", message_id=MESSAGE)

    assert (sent.became, sent.task_id) == ("answer", task_id)
    assert await runs.rests(task_id) == "task.succeeded"
    assert await runs.send("2026", message_id=MESSAGE) == sent


async def test_it_is_an_update_of_the_senders_running_task(runs: Talking) -> None:
    task_id = await runs.works()

    sent = await runs.send("And be short.", message_id=MESSAGE)
    runs.go.set()

    assert (sent.became, sent.task_id) == ("update", task_id)
    assert await runs.ends(task_id) == "task.succeeded"
    assert [role for role, text in runs.conversation(1) if text.endswith("And be short.")] == ["user"]
    assert [fact.text for fact in await runs.facts(task_id, TaskUpdated)] == ["And be short."]
    assert ("user", "And be short.") in await runs.messages()
    assert await runs.send("And be short.", message_id=MESSAGE) == sent


@pytest.mark.parametrize(
    "changed",
    [{"may_update": False}, {"origin": Origin(channel="page", sender_id="bob")}],
    ids=["it shows its own answer", "somebody else's"],
)
async def test_otherwise_it_becomes_a_queued_turn(runs: Talking, changed: dict[str, Any]) -> None:
    task_id = await runs.works()

    sent = await runs.send("And another.", **changed)
    runs.go.set()

    assert (sent.became, sent.ahead) == ("task", 1)
    assert await runs.ends(task_id) == "task.succeeded"
    assert await runs.ends(sent.task_id) == "task.succeeded"
    assert await runs.facts(task_id, TaskUpdated) == []


async def test_it_overtakes_nothing_that_is_queued(runs: Talking) -> None:
    await runs.works()
    behind = await runs.send("Second.", may_update=False)

    third = await runs.send("Third.")
    runs.go.set()

    assert (third.became, third.ahead) == ("task", 2)
    assert await runs.ends(behind.task_id) == "task.succeeded"
    assert await runs.ends(third.task_id) == "task.succeeded"


async def test_an_id_of_another_sessions_message_changes_nothing_there(runs: Talking) -> None:
    task_id = await runs.asks()
    await runs.send("Tea", message_id=MESSAGE)
    assert await runs.ends(task_id, 2) == "task.succeeded"
    before = await runs.messages()
    runs.notebook = "another"
    await runs.asks()

    with pytest.raises(Conflict, match="stands for something else"):
        await runs.send("Coffee", message_id=MESSAGE)
    assert set(before) <= set(await runs.messages())


@pytest.mark.parametrize("whose", ["a message without one", "a reply"])
async def test_an_id_that_the_gateway_gave_is_no_message_of_its_own(runs: Talking, whose: str) -> None:
    task_id = await runs.turn("Hello.")
    assert await runs.ends(task_id) == "task.succeeded"
    role = "user" if whose == "a message without one" else "assistant"
    (row,) = (row for row in await runs.ozzie.log.rows("messages") if row["role"] == role)

    with pytest.raises(Conflict, match="stands for something else"):
        await runs.send("Again.", message_id=MessageId(str(row["message_id"])))


async def test_a_malformed_message_id_is_refused_even_for_an_answer(runs: Talking) -> None:
    task_id = await runs.asks()

    with pytest.raises(InputError, match="not a ULID"):
        await runs.send("Tea", message_id=MessageId("tea"))
    assert await runs.facts(task_id, PromptAnswered) == []


async def test_a_message_behind_a_stop_is_a_task_of_its_own(runs: Talking) -> None:
    task_id = await runs.works()
    row = await runs.ozzie.tasks.get(task_id)
    recorder = Recorder(log=runs.ozzie.log, session_id=session_of(row), task_id=task_id)
    await recorder.append(TaskCancelRequested(by="ana", reason="no more"))

    sent = await runs.send("Tell me a joke instead.")
    runs.go.set()

    assert sent.became == "task"
    assert await runs.ends(sent.task_id) == "task.succeeded"
    assert await runs.facts(task_id, TaskUpdated) == []


async def test_a_run_of_a_skill_takes_no_message_that_no_step_may_read(runs: Talking) -> None:
    runs.ozzie.plays(runs.said(Wait(runs.go, runs.here), Say("One.")), *([echo] * 4))
    runs.workflow({"id": "last", "instruction": "Say one."})
    run = await runs.begin()
    await runs.reached()

    sent = await runs.send("And be short.")
    runs.go.set()

    assert (sent.became, sent.ahead) == ("task", 1)
    assert await runs.ends(sent.task_id) == "task.succeeded"
    assert await runs.facts(run, TaskUpdated) == []


def report(runs: Talking, **more: Any) -> None:
    runs.write(
        name="report",
        type="workflow",
        triggers={"keywords": ["weekly report"]},
        vars={"file": {"required": True}},
        steps=[{"id": "a", "instruction": "Sum up {{file}}"}],
        **more,
    )


async def test_a_message_that_is_a_skills_keyword_runs_it_and_the_log_says_why(runs: Talking) -> None:
    report(runs)
    sent = await runs.send("Weekly  report: sales.csv")

    assert await runs.rests(sent.task_id) == "task.succeeded"
    (created,) = await runs.facts(sent.task_id, TaskCreated)
    assert created.mode == "GRAPH"
    assert created.mode_reason == 'The message is a keyword of the skill "report". It has steps of its own.'
    (started,) = await runs.facts(sent.task_id, SkillStarted)
    assert (started.skill, started.input) == ("report", {"file": "sales.csv"})
    (received,) = await runs.facts(sent.task_id, MessageReceived)
    assert received.text == "Weekly  report: sales.csv"


@pytest.mark.parametrize(
    ("text", "model", "why"),
    [
        ("Make the weekly report: sales.csv", "", NO_KEYWORD),
        ("weekly reports: sales.csv", "", NO_KEYWORD),
        ("weekly report", "", 'It is a keyword of the skill "report", which can\'t start, so an agent answers it: '),
        ("weekly report: sales.csv", "offline", NOT_PLAIN),
    ],
)
async def test_otherwise_an_agent_answers_and_the_log_says_why(runs: Talking, text: str, model: str, why: str) -> None:
    report(runs)
    sent = await runs.send(text, model=model)

    assert await runs.rests(sent.task_id) == "task.succeeded"
    (created,) = await runs.facts(sent.task_id, TaskCreated)
    assert created.mode == "FREE"
    assert created.mode_reason.startswith(why)


async def test_a_keyword_of_two_skills_runs_neither(runs: Talking) -> None:
    report(runs)
    runs.write(
        name="other",
        type="workflow",
        triggers={"keywords": ["Weekly Report"]},
        steps=[{"id": "a", "instruction": "Sum up"}],
    )
    sent = await runs.send("weekly report: sales.csv")

    (created,) = await runs.facts(sent.task_id, TaskCreated)
    assert (created.mode, created.mode_reason[:31]) == ("FREE", "It is a keyword of several skil")
    assert await runs.rests(sent.task_id) == "task.succeeded"
