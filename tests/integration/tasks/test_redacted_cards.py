"""What looks like a secret is taken out of a stored question, so it is answered only where all of it can be read."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.errors import Conflict, PolicyError
from ozzie_server_ext.domain.events import ApprovalRefused, ToolCallFailed
from ozzie_server_ext.domain.ids import APPROVALS_STREAM
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step, Use
from ozzie_server_ext.tasks.approvals import Answerer
from tests.integration.tasks.runs_rig import ANA, Answer, Runs, asked, runs_in

KERNEL = Answerer(name="Ana", way=AuthStrength.RELAY)
COMMAND = "true https://user:Zx9kQ2aaB1`./x.sh`@github.com/a/b"
HIDDEN = "true https://user:[redacted: password]@github.com/a/b"
CHECK = """{"rules": [{"id": "files", "decision": "check", "reason": "A second model looks.",
"when": {"tools": ["write_file"]}, "examples": {"match": [{"tool": "write_file", "args": {"path": "a"}}]}}]}"""


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runs]:
    async with runs_in(tmp_path, monkeypatch, Runs) as runs:
        yield runs


def once(call: Use) -> Answer:
    def answer(request: ModelRequest) -> Sequence[Step]:
        return [call] if request.messages[-1].role == "user" else [Say(asked(request))]

    return answer


RUN = Use("host_command", json.dumps({"argv": ["sh", "-c", COMMAND]}))
WRITE = Use("write_file", json.dumps({"path": "run.sh", "text": f"{COMMAND}\n"}))


@pytest.mark.parametrize("call", [RUN, WRITE], ids=["a command", "a file"])
async def test_the_question_is_stored_without_it_and_only_the_real_card_has_it(runs: Runs, call: Use) -> None:
    runs.answers(once(call))
    task_id = await runs.say("Do it.")
    pending = await runs.pending()
    stored = pending.asked
    assert HIDDEN in stored.proof
    assert "Zx9kQ2aaB1" not in stored.proof + stored.arguments + stored.sentence
    card = await runs.ozzie.projects.own.cards.of(pending.approval_id)
    assert COMMAND in card.proof
    assert COMMAND in json.dumps(json.loads(card.arguments), ensure_ascii=False)
    assert card.digest == stored.card
    await runs.ozzie.approvals.reject(pending.approval_id, ANA, comment="No.")
    await runs.rests(task_id)


async def test_who_read_it_may_say_yes_and_then_exactly_that_runs(runs: Runs) -> None:
    script = runs.ozzie.project / "x.sh"
    script.write_text("#!/bin/sh\ntouch ran\n")
    script.chmod(0o755)
    runs.answers(once(RUN))
    task_id = await runs.say("Do it.")
    pending = await runs.pending()
    assert "`./x.sh`" in (await runs.ozzie.projects.own.cards.of(pending.approval_id)).proof
    await runs.ozzie.approvals.approve(pending.approval_id, ANA, binds=pending.asked.binds)
    assert await runs.rests(task_id) == "task.succeeded"
    assert (runs.ozzie.project / "ran").exists()


async def test_a_kernel_can_not_say_yes_to_it_and_is_told_where_that_can_be_done(runs: Runs) -> None:
    runs.answers(once(WRITE))
    task_id = await runs.say("Do it.")
    pending = await runs.pending()
    assert pending.asked.needs is AuthStrength.CLI, "without it, a kernel may pass a yes to this on"
    with pytest.raises(PolicyError, match="Open it in the page: it contains something that looks like a secret"):
        await runs.ozzie.approvals.approve(pending.approval_id, KERNEL, binds=pending.asked.binds)
    (refused,) = [event.body for event in await runs.ozzie.log.read_stream(APPROVALS_STREAM)]
    assert isinstance(refused, ApprovalRefused)
    assert (refused.why, refused.way) == ("way", AuthStrength.RELAY)
    assert not (runs.ozzie.project / "run.sh").exists()
    await runs.ozzie.approvals.approve(pending.approval_id, ANA, binds=pending.asked.binds)
    assert await runs.rests(task_id) == "task.succeeded"
    assert (runs.ozzie.project / "run.sh").read_text() == f"{COMMAND}\n"


async def test_a_yes_for_the_session_that_a_kernel_passed_on_does_not_cover_it(runs: Runs) -> None:
    runs.answers(once(Use("write_file", json.dumps({"path": "a/one.sh", "text": "echo hi\n"}))))
    first = await runs.say("Do it.")
    pending = await runs.pending()
    await runs.ozzie.approvals.approve(pending.approval_id, KERNEL, extent="session", binds=pending.asked.binds)
    assert await runs.rests(first) == "task.succeeded"
    runs.answers(once(Use("write_file", json.dumps({"path": "a/two.sh", "text": "echo hi\n"}))))
    assert await runs.rests(await runs.say("Another one.")) == "task.succeeded"
    runs.answers(once(Use("write_file", json.dumps({"path": "a/three.sh", "text": COMMAND}))))
    third = await runs.say("Another one.")
    assert (await runs.pending()).task_id == third


async def test_no_second_model_is_asked_about_it(runs: Runs) -> None:
    (runs.ozzie.home.root / "policy.jsonc").write_text(CHECK)
    runs.answers(once(WRITE))
    await runs.say("Do it.")
    pending = await runs.pending()
    assert pending.asked.needs is AuthStrength.CLI
    assert pending.asked.checked == "No second model was asked: the call contains something that looks like a secret."


async def test_where_nobody_is_there_it_is_not_done(runs: Runs) -> None:
    (runs.ozzie.home.root / "policy.jsonc").write_text(CHECK)
    runs.answers(once(WRITE))
    task_id = await runs.say("Do it.", attended=False)
    assert await runs.rests(task_id) == "task.succeeded"
    (failed,) = await runs.facts(task_id, ToolCallFailed)
    assert failed.code == "policy.unattended"
    assert not (runs.ozzie.project / "run.sh").exists()


async def test_what_would_be_something_else_by_now_can_not_be_read_and_is_asked_anew(runs: Runs) -> None:
    path = runs.ozzie.project / "run.sh"
    runs.answers(once(WRITE))
    task_id = await runs.say("Do it.")
    pending = await runs.pending()
    path.write_text("somebody else's\n")
    with pytest.raises(Conflict, match="would do something else by now") as raised:
        await runs.ozzie.projects.own.cards.of(pending.approval_id)
    assert raised.value.code == "approval.changed"
    await runs.ozzie.approvals.renew(pending.approval_id, ANA)
    async with asyncio.timeout(20):
        assert await runs.rests(task_id) == "task.succeeded"
    (failed,) = await runs.facts(task_id, ToolCallFailed)
    assert failed.code == "tool.failed"
    assert path.read_text() == "somebody else's\n"


async def test_what_waits_for_no_answer_has_no_card(runs: Runs) -> None:
    runs.answers(once(WRITE))
    task_id = await runs.say("Do it.")
    pending = await runs.pending()
    await runs.ozzie.approvals.reject(pending.approval_id, ANA, comment="No.")
    await runs.rests(task_id)
    with pytest.raises(Conflict, match="It waits for no answer"):
        await runs.ozzie.projects.own.cards.of(pending.approval_id)
