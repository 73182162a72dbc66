"""A second model that looks at calls first, in real turns: real litellm in the worker, a provider on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import ModelCallStarted, Origin, ToolCallFailed
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.tasks.approvals import Answerer, Approval
from ozzie_server_ext.tasks.service import NewTurn
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall

# One loop for the module, because the worker takes seconds to start and serves all of it.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

WAIT_S = 60
RESTS = frozenset({"task.succeeded", "task.failed", "task.cancelled", "task.waiting_input", "task.waiting_approval"})
YES = '{"verdict": "yes", "reason": "It was asked for."}'
NO = '{"verdict": "no", "reason": "Nobody asked for that."}'
RULE = {
    "id": "looked-at",
    "decision": "check",
    "reason": "Notes are checked.",
    "when": {"tools": ["fs.write"], "paths": ["notes/**"]},
    "examples": {"match": [{"tool": "fs.write", "args": {"path": "notes/a.md"}}]},
}
ANA = Answerer(name="Ana", way=AuthStrength.BROWSER)


@dataclass
class Bench:
    """One Ozzie with a rule, its project, and its provider, whose model `second` is the alias `cheap`."""

    ozzie: Ozzie
    project: Path
    fake: FakeOpenAI

    async def turn(self, note: str, verdict: str, *, attended: bool = True) -> TaskId:
        """A turn that wants to write that note, once it rests."""
        self.fake.forget()
        use = ToolCall("write_file", {"path": f"notes/{note}", "text": "hi\n"})
        self.fake.queue(Answer(tool_calls=[use]), Answer(pieces=[verdict], usage=(50, 9)), Answer(pieces=["Done."]))
        session = await self.ozzie.sessions.open(note, title="test", channel="test")
        origin = Origin(channel="test")
        task = await self.ozzie.submit(NewTurn(session.session_id, f"Write {note}.", origin, attended=attended))
        await self.rests(task.task_id)
        return task.task_id

    async def rests(self, task_id: TaskId, after: int = 0) -> None:
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(after, types=RESTS, task_id=task_id) as rests:
            await anext(rests)

    async def approval(self, task_id: TaskId) -> Approval:
        (found,) = await self.ozzie.approvals.list(task_id=task_id)
        return found

    async def of(self, task_id: TaskId, kind: type[Any]) -> list[Any]:
        events = await self.ozzie.log.read_stream(task_stream(task_id))
        return [event.body for event in events if isinstance(event.body, kind)]

    def is_there(self, note: str) -> bool:
        return (self.project / "notes" / note).exists()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    folder = tmp_path_factory.mktemp("checked")
    (folder / "project" / "notes").mkdir(parents=True)
    home = Home(folder / "home")
    home.create()
    home.policy_file.write_text(json.dumps({"rules": [RULE]}))
    with pytest.MonkeyPatch.context() as patch, FakeOpenAI() as fake:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "user-config"))
        provider = {"driver": "openai", "base_url": fake.base_url, "max_tokens": 3000}
        providers = {"first": {**provider, "model": "first"}, "second": {**provider, "model": "second"}}
        models = {"default": "first", "providers": providers, "aliases": {"cheap": "second"}}
        budgets = {"day": {"max_tokens": 1_000_000}}
        (home.root / "config.jsonc").write_text(json.dumps({"models": models, "budgets": budgets}))
        ozzie = await Ozzie.start(home, folder / "project")
        try:
            yield Bench(ozzie, folder / "project", fake)
        finally:
            await ozzie.stop()


async def test_a_yes_of_the_second_model_lets_the_call_run_and_counts(bench: Bench) -> None:
    task_id = await bench.turn("yes.md", YES)

    assert bench.is_there("yes.md")
    found = await bench.approval(task_id)
    assert (found.status, found.way, found.by, found.asked.needs) == (
        "granted",
        "model",
        "cheap (model)",
        AuthStrength.MODEL,
    )
    _, check, _ = bench.fake.requests
    assert check.body["model"] == "second"
    assert "tools" not in check.body
    told = json.loads(check.body["messages"][1]["content"])
    assert (told["message"], told["tool"]) == ("Write yes.md.", "write_file")
    calls = await bench.of(task_id, ModelCallStarted)
    assert [(call.purpose, call.alias, call.round) for call in calls] == [
        ("answer", "first", 1),
        ("check", "cheap", 1),
        ("answer", "first", 2),
    ]
    assert calls[1].reserved_tokens > 2000
    (row,) = await bench.ozzie.log.rows("usage", where={"model": "second"})
    assert (row["calls"], row["input_tokens"], row["output_tokens"]) == (1, 50, 9)


async def test_a_no_of_the_second_model_is_for_a_person_to_overrule(bench: Bench) -> None:
    task_id = await bench.turn("no.md", NO)

    assert not bench.is_there("no.md")
    found = await bench.approval(task_id)
    assert (found.status, found.asked.needs) == ("pending", AuthStrength.RELAY)
    assert found.asked.checked == 'A second model advises against it: "Nobody asked for that."'
    (session,) = await bench.ozzie.log.rows("sessions", where={"session_id": found.session_id})
    assert session["model"] == "first/first", "the one that answers, whoever was asked last"

    after = (await bench.ozzie.log.head()).position
    await bench.ozzie.approvals.approve(found.approval_id, ANA)
    await bench.rests(task_id, after)

    assert bench.is_there("no.md")
    assert len(bench.fake.requests) == 3, "what a person allowed is not checked again"


async def test_where_nobody_is_there_a_no_of_the_second_model_is_the_end_of_it(bench: Bench) -> None:
    task_id = await bench.turn("alone.md", NO, attended=False)

    assert not bench.is_there("alone.md")
    assert (await bench.ozzie.tasks.get(task_id))["status"] == "SUCCEEDED"
    (failed,) = await bench.of(task_id, ToolCallFailed)
    assert failed.message.startswith("Not done: nobody was there to ask (write_file). A second model advises against")
    assert (await bench.approval(task_id)).status == "rejected"
