"""The documents' files of sessions and events, and the layers of a prompt."""

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ozzie_server_ext.agent.requests import PERSONA, SessionContext, compose
from ozzie_server_ext.config.settings import ModelsSettings
from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import (
    Draft,
    EventBody,
    MessageCompleted,
    SessionCreated,
    ToolCallCompleted,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import CallId, ReplyId, TaskId, session_stream, task_stream
from ozzie_server_ext.domain.toolmeta import (
    ToolSpec,
)
from ozzie_server_ext.models.registry import ModelRegistry
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.readable import ReadableFiles, event_line
from ozzie_server_ext.tools.base import Plan, ToolContext
from tests.documents.examples_read import TOOLS, jsonc, quoted, text
from tests.integration.tasks.runs_rig import Runs
from tests.replay.histories import (
    SESSION,
    call_completed,
    call_started,
    completed,
    draft,
    received,
    task_created,
    task_draft,
)


async def conversation(log: InMemoryEventLog, clock: FakeClock) -> None:
    """Record the conversation of the example: its messages, tokens, call and times."""
    await log.append(session_stream(SESSION), [draft(SessionCreated(key="n", title="n", channel="jupyter"))])
    lines = [json.loads(line) for line in text("messages.jsonl").splitlines()]
    for number, (asked, answered) in enumerate(zip(lines[::2], lines[1::2], strict=True)):
        task_id, call_id, reply_id = (f"01{letter}{number:024}" for letter in "BDF")
        facts: list[EventBody] = [received(asked["content"], message_id=task_id), task_created()]
        for each in answered.get("tool_calls", []):
            tool = TOOLS.find(each["name"])
            assert tool is not None
            result = await tool.run(Plan(args=tool.check(each["args"])), ToolContext(Path("/"), clock))
            names: dict[str, Any] = {"tool_id": tool.meta.tool_id, "name": each["name"], "version": tool.meta.version}
            use = ToolCallRequested(call_id=CallId(call_id), use_id="u", args=each["args"], round=1, index=0, **names)
            done = ToolCallCompleted(call_id=use.call_id, ok=True, data=result.data, summary="", duration_ms=1)
            facts += [use, done]
        await _append(log, task_id, clock, asked["ts"], facts)
        usage = Usage(input_tokens=answered["tokens_in"], output_tokens=answered["tokens_out"])
        choice = ModelRegistry(ModelsSettings(), {}).resolve(jsonc("session_meta.json")["model"])
        facts = [
            replace(call_started(call_id), provider=choice.provider, model=choice.model),
            replace(call_completed(call_id), usage=usage),
            completed(reply_id, answered["content"]),
        ]
        await _append(log, task_id, clock, answered["ts"], facts)


async def _append(log: InMemoryEventLog, task_id: str, clock: FakeClock, at: str, facts: list[EventBody]) -> None:
    clock.advance((datetime.fromisoformat(at) - clock.now()) / timedelta(seconds=1))
    await log.append(task_stream(TaskId(task_id)), [task_draft(fact, task_id=TaskId(task_id)) for fact in facts])


async def test_a_session_is_written_with_the_fields_of_the_documents(tmp_path: Path) -> None:
    example = jsonc("session_meta.json")
    clock = FakeClock(datetime.fromisoformat(example["created_at"]))
    log = InMemoryEventLog(clock, CountingIds())
    await conversation(log, clock)
    (tmp_path / "data").mkdir()
    await ReadableFiles(log, tmp_path).catch_up()

    found = json.loads((tmp_path / "sessions" / SESSION / "meta.json").read_text())
    same = ("status", "model")
    assert list(found) == [*example, "cost"]
    assert {key: type(found[key]) for key in example} == {key: type(value) for key, value in example.items()}
    assert {key: found[key] for key in same} == {key: example[key] for key in same}
    assert list(found["token_usage"]) == list(example["token_usage"])
    assert (found["id"].startswith("sess_"), found["message_count"], found["cost"]) == (True, 4, 2e-6)
    assert datetime.fromisoformat(found["created_at"]) == datetime.fromisoformat(example["created_at"])

    written = (tmp_path / "sessions" / SESSION / "messages.jsonl").read_text().splitlines()
    expected = [json.loads(line) for line in text("messages.jsonl").splitlines()]
    expected[-1]["tool_calls"][0]["result"] = {"value": "4"}
    assert [list(json.loads(line)) for line in written] == [list(line) for line in expected]
    assert [with_moment(json.loads(line)) for line in written] == [with_moment(line) for line in expected]


def with_moment(line: dict[str, Any]) -> dict[str, Any]:
    """A line whose time is a moment, however it is written."""
    return line | {"ts": datetime.fromisoformat(line["ts"])}


async def test_a_line_of_the_events_has_the_fields_of_the_document() -> None:
    example = json.loads(text("event_line.jsonl"))
    log = InMemoryEventLog(FakeClock(datetime.fromisoformat(example["ts"])), CountingIds())
    body = MessageCompleted(reply_id=ReplyId("r"), text=example["payload"]["content"], finish="stop")
    (event,) = await log.append(session_stream(SESSION), [Draft(body, "worker", example["source"], SESSION)])
    line = json.loads(event_line(event))

    assert list(line) == list(example)
    assert with_moment(line) == with_moment(example) | {
        "id": event.event_id,
        "session_id": SESSION,
        "payload": {"reply_id": "r", "text": "Hello!", "finish": "stop"},
    }


async def test_the_sources_of_a_runs_events_are_the_documents(runs: Runs) -> None:
    runs.write(name="w", type="workflow", steps=[{"id": "a", "instruction": "x"}])
    await runs.run("w")
    found = {event.source for event in await runs.ozzie.log.read()}

    assert found & set(quoted("event_sources.md")[1:]) == {"agent", "hub", "skill"}
    # `policy`: the rules that come with Ozzie are recorded as they are read first.
    assert found - set(quoted("event_sources.md")[1:]) == {"config", "delegation", "policy"}


LAYERS = {
    "Base Persona": "persona",
    "PERSONA (immutable)": "persona",
    "Core persona (Ozzie character)": "persona",
    "Custom user instructions": "custom",
    "Active Plugins Manifest": "tools",
    "Active Tools Manifest": "tools",
    "Active tools and skills manifest": "tools skills",
    "Delegation Table": "skills",
    "Active Skills Manifest": "skills",
    "Memory Context": "",
    "Conversation Context": "session",
    "Session Context": "session",
    "Session context (title, message count)": "session",
    "Task-Specific Instructions": "instruction",
    "Per-turn task context (future)": "instruction",
}


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("prompt_layers_s0.txt", r"^│  (\S.*?) +│"),
        ("prompt_layers_s1.md", r"^\| \d \|.*\| (.*) \|$"),
        ("prompt_layers_s3.txt", r"^│  \d\. (.*?) +│"),
    ],
)
def test_the_layers_of_the_prompt_stand_in_the_documents_order(name: str, pattern: str) -> None:
    wanted = [layer for title in re.findall(pattern, text(name), re.MULTILINE) for layer in LAYERS[title].split()]
    tools = [ToolSpec(name=each, description="x", parameters={}) for each in ("calculator", "web_search")]
    skills = [ToolSpec(name=f"skill_{each}", description="x", parameters={}) for each in ("researcher", "code-review")]
    session = SessionContext(title="tea", goes_on=True)
    found = compose(soul="", custom="Brief.", tools=tools, skills=skills, session=session, instruction="Build.").layers

    assert len(wanted) >= 4
    assert [layer.name for layer in found if layer.name in wanted] == wanted
    said = {layer.name: layer.text for layer in found}
    assert said["persona"] == PERSONA
    assert said["tools"] == "Your tools:\n- calculator: x\n- web_search: x"
    assert said["skills"].splitlines()[-2:] == ["- skill_researcher: x", "- skill_code-review: x"]
    assert (said["session"], said["instruction"]) == ('Session "tea", which goes on.', "Your task:\nBuild.")
