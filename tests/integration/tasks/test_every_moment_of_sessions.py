"""A turn that summarizes its session and a long result, and asks a question that a plain message answers, cut off
behind any of its appends: it ends as one that was not, with each of these once."""

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ozzie_server_ext.agent import compaction, result_summaries
from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import MessageCompleted, Origin, PromptAnswered
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.models.driver import ModelRequest, Models
from ozzie_server_ext.models.scripted import Say, ScriptedDriver, Step, Use
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.builtin import builtin_tools
from tests.integration.tasks.cut_logs import Append, cut_off, cuts_of, recorded_appends
from tests.tiers import SOAK
from tests.unit.tools.test_base import tool

WAIT_S = 30
CHAT = "I like tea. " + "And so on. " * 250
ASKED = "Look, and ask me."
ANSWER = MessageId("01FFFFFFFFFFFFFFFFFFFFFFF9")
ANN = Origin(channel="test", sender_id="ann")
LINES = "\n".join(f"line {number}" for number in range(1, 3001))
ENDS = frozenset({"task.succeeded", "task.failed", "task.cancelled", "task.waiting_input"})
ONCE = ("session.compacted", "tool.call.summarized", "prompt.requested", "prompt.answered")
KNOWN = {"tools": True, "images": False, "structured": False, "context": 100_000, "max_output": 4000}
PROVIDER = {
    "driver": "openai",
    "model": "m",
    "base_url": "http://127.0.0.1:9/v1",
    "capabilities": {**KNOWN, "price_in": 1, "price_out": 1},
}
MODELS = {"default": "main", "providers": {"main": PROVIDER, "small": PROVIDER}, "aliases": {"summarizer": "small"}}
CONFIG: dict[str, Any] = {"models": MODELS}


async def probe(context: ToolContext) -> ToolResult:
    """Return three thousand lines."""
    return ToolResult(ok=True, data=LINES)


def answer(request: ModelRequest) -> Sequence[Step]:
    """What the model and the summarizer say, by what they read."""
    system, *said = request.messages
    if system.content == compaction.INSTRUCTIONS:
        return [Say("Facts\nThe user likes tea.")]
    if system.content == result_summaries.INSTRUCTIONS:
        return [Say("Three thousand numbered lines.")]
    last = said[-1]
    if last.role == "user":
        return [Use("probe", {})] if last.content.endswith(ASKED) else [Say("I see.")]
    if last.name == "probe":
        return [Use("ask_user", {"question": "Tea or coffee?", "options": [{"label": "tea"}, {"label": "coffee"}]})]
    return [Say("It is tea.")]


class Answering(Ozzie):
    """A gateway whose configured models are a script."""

    async def _resume(self) -> None:
        models = Models(offline=self.offline, worker=ScriptedDriver([answer] * 100))
        for project in self.projects.opened:
            project.turn_runner.parts = replace(project.turn_runner.parts, models=models)
        await super()._resume()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    tools = [*builtin_tools(), tool(probe, tool_id="test.probe", name="probe")]
    monkeypatch.setattr("ozzie_server_ext.tasks.projects.builtin_tools", lambda: tools)
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def home_with_models(folder: Path, **sessions: Any) -> Home:
    home = Home(folder)
    home.create()
    home.config_file.write_text(json.dumps({**CONFIG, "sessions": sessions}))
    return home


async def seen_through(ozzie: Ozzie, task_id: TaskId, session_id: SessionId) -> str:
    """Answer the question by a plain message; return how the turn ended."""
    async with asyncio.timeout(WAIT_S), ozzie.feed.subscribe(0, types=ENDS, task_id=task_id) as events:
        async for event in events:
            if event.type != "task.waiting_input":
                return event.type
            if (await ozzie.tasks.get(task_id))["status"] == "WAITING_INPUT":
                sent = await ozzie.submit(NewTurn(session_id, "tea", ANN, message_id=ANSWER))
                assert (sent.became, sent.task_id) == ("answer", task_id)
    raise AssertionError("the feed ended")


async def whole(home: Home, project: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[TaskId, SessionId, list[Append]]:
    """Some turns, and one that nothing disturbs; return that one with all appends, in the order of the log."""
    with recorded_appends(monkeypatch) as appends:
        ozzie = await Answering.start(home, project)
        session_id = (await ozzie.sessions.open("test", title="test", channel="test")).session_id
        for _ in range(3):
            chat = (await ozzie.submit(NewTurn(session_id, CHAT, ANN))).task_id
            assert await seen_through(ozzie, chat, session_id) == "task.succeeded"
        home.config_file.write_text(json.dumps({**CONFIG, "sessions": {"compact_tokens": 1000}}))
        task_id = (await ozzie.submit(NewTurn(session_id, ASKED, ANN))).task_id
        assert await seen_through(ozzie, task_id, session_id) == "task.succeeded"
        await ozzie.stop()
    return task_id, session_id, appends


@pytest.mark.sampled
@pytest.mark.timeout(180)
async def test_a_turn_that_sums_up_cut_off_behind_any_append_ends_as_one_that_was_not(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = home_with_models(tmp_path / "whole")
    task_id, session_id, appends = await whole(first, project, monkeypatch)
    stream = task_stream(task_id)
    begins = next(index for index, (_, name, _) in enumerate(appends) if name == stream)
    cuts = cuts_of(stream, appends, begins)
    recorded = Counter(draft.body.type for _, _, drafts in appends for draft in drafts)
    assert {kind: recorded[kind] for kind in ONCE} == dict.fromkeys(ONCE, 1)
    assert len(cuts) >= (14 if SOAK else 9)

    for cut in cuts:
        home = home_with_models(tmp_path / f"cut-{cut}", compact_tokens=1000)
        shutil.copytree(first.blobs, home.blobs, dirs_exist_ok=True)
        await cut_off(home, appends[:cut])
        ozzie = await Answering.start(home, project)
        where = f"cut off behind {appends[cut - 1][2][-1].body.type}"
        assert await seen_through(ozzie, task_id, session_id) == "task.succeeded", where

        events = [event for event in await ozzie.log.read(session_id=session_id) if event.type in ONCE]
        assert Counter(event.type for event in events) == dict.fromkeys(ONCE, 1), where
        bodies = [event.body for event in await ozzie.log.read_stream(stream)]
        assert [body.text for body in bodies if isinstance(body, MessageCompleted)] == ["It is tea."], where
        assert [body.message_id for body in bodies if isinstance(body, PromptAnswered)] == [ANSWER], where
        assert await ozzie.log.rows("model_calls", where={"status": "started"}) == [], where
        assert (await ozzie.log.verify()).ok
        assert await ozzie.log.dump() == await ozzie.log.rebuild()
        await ozzie.stop()
