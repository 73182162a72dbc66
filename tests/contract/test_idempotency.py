"""What declares that it may be made twice, is made twice: same result, same world."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.events import ArtifactCreated, ToolCallCompleted, ToolUse
from ozzie_server_ext.domain.ids import ArtifactId, CallId, SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.policy.decision import Caller
from ozzie_server_ext.policy.engine import FixedRulings
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import Tool, ToolContext
from ozzie_server_ext.tools.broker import CallPosition
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.brokers import broker_of
from tests.unit.tools.notebook.test_text import cell, file

SESSION, TASK = SessionId("sess_1"), TaskId("t1")
REPEATABLE = [item for item in builtin_tools() if item.meta.takes_key]
CALLS: dict[str, Callable[[ArtifactId], JsonObject]] = {
    "calc.eval": lambda kept: {"expr": "6*7"},
    "time.now": lambda kept: {"timezone": "Europe/Zurich"},
    "fs.list": lambda kept: {"path": "."},
    "fs.read": lambda kept: {"path": "a.csv"},
    "fs.search": lambda kept: {"query": "x"},
    "fs.find": lambda kept: {"pattern": "*.csv"},
    "artifact.read": lambda kept: {"artifact_id": kept},
    "notebook.read": lambda kept: {"path": "a.ipynb"},
    "note.write": lambda kept: {"name": "plan", "text": "first this\n"},
    "note.read": lambda kept: {},
    "session.list": lambda kept: {},
    "session.read": lambda kept: {"session": SESSION},
    "session.artifact": lambda kept: {"artifact": kept},
    "task.list": lambda kept: {},
    "tool.find": lambda kept: {"query": "x"},
}
"""A call of each; `kept` is an artifact of the session."""


def files_of(project: Path) -> list[str]:
    return sorted(f"{path.name} {path.read_text()}" for path in project.rglob("*") if path.is_file())


def test_every_tool_that_declares_it_is_tried() -> None:
    assert {item.meta.tool_id for item in REPEATABLE} == set(CALLS)


@pytest.mark.parametrize("item", REPEATABLE, ids=lambda item: item.meta.tool_id)
async def test_twice_is_once(item: Tool, log: EventLog, blobs: BlobStore, tmp_path: Path) -> None:
    project = tmp_path / "project"  # the log may lie beside it
    project.mkdir()
    (project / "a.csv").write_text("x\n1\n")
    (project / "a.ipynb").write_bytes(file(cell("a", "1")))
    ids, clock = CountingIds(), FakeClock()
    artifacts = ArtifactStore(log, blobs, ids)
    recorder = Recorder(log=log, session_id=SESSION, task_id=TASK)
    kept = await artifacts.keep(b"kept\n", kind="log", name="out.txt", mime="text/plain")
    await artifacts.record(recorder, kept)
    broker = broker_of(ToolRegistry(builtin_tools()), FixedRulings(), artifacts, clock, ids)
    context = ToolContext(project, clock, Caller(channel="mcp"), artifacts=artifacts.of(SESSION))
    use = ToolUse(
        call_id=CallId("u"), name=item.meta.name, arguments=json.dumps(CALLS[item.meta.tool_id](kept.artifact_id))
    )

    async def call() -> tuple[Any, list[str], list[Any]]:
        """The result, and the world: the files of the project and the artifacts of the session."""
        assert await broker.call(use, CallPosition(1, 0), context, recorder) is None
        bodies = [event.body for event in await log.read(session_id=SESSION)]
        results = [body for body in bodies if isinstance(body, ToolCallCompleted)]
        files = files_of(project)
        return results[-1], files, [body.hash for body in bodies if isinstance(body, ArtifactCreated)]

    first, second = await call(), await call()

    assert second[1:] == first[1:], "the world is the same"
    assert first[0].ok
    if item.meta.tool_id == "note.write":
        assert (first[0].data["changed"], second[0].data["changed"]) == (True, False)
    else:
        assert second[0].data == first[0].data
