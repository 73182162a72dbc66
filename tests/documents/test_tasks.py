"""The documents' tasks, events, artifacts and tools."""

import ast
import inspect
import json
import re
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

from ozzie_server_ext.domain.artifacts import ArtifactKind
from ozzie_server_ext.domain.events import (
    Actor,
    TaskCancelled,
    TaskFact,
    TaskFailed,
    TaskPaused,
    TaskQueued,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
)
from ozzie_server_ext.domain.ids import task_stream
from ozzie_server_ext.domain.tasks import TaskStatus, may_become
from ozzie_server_ext.domain.toolmeta import (
    Idempotency,
    RiskLevel,
    SideEffect,
    ToolResult,
)
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.execution.runner import JobRunner
from ozzie_server_ext.gateway.rest.shapes import Artifact
from ozzie_server_ext.models.scripted import Say, Step, Use
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.protocol.frames import (
    NAMES,
)
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.tools.base import FunctionTool, ToolContext, read_only
from ozzie_server_ext.tools.builtin import builtin_tools
from tests.documents.examples_read import TOOLS, jsonc, one_of, rest, template, text
from tests.integration.tasks.runs_rig import Runs
from tests.unit.agent.rig import TurnRig


def missing_fields(wanted: dict[str, Any], found: dict[str, Any], path: str = "") -> list[str]:
    """The fields of a template that an object lacks."""
    lacking: list[str] = []
    for key, value in wanted.items():
        if key not in found:
            lacking.append(path + key)
        elif isinstance(value, dict) and "..." not in value:
            lacking += missing_fields(value, found[key], f"{path}{key}.")
    return lacking


async def test_a_task_and_an_event_have_the_documents_fields(runs: Runs) -> None:
    runs.answers(lambda request: [Say("Bonjour")])
    task_id = await runs.say("hello")
    await runs.rests(task_id)
    task = await rest(runs, "/tasks/{task_id}", task_id=task_id)
    (*_, event) = (await rest(runs, "/events"))["items"]

    assert missing_fields(template("task.yaml"), task) == ["budget.deadline_at"]
    assert task["budget"]["deadline_s"] is None
    assert task["scope_id"] == f"chat:{task['requester']['channel']}:{task['thread_id']}"
    for field in ("status", "mode", "risk_level"):
        assert task[field] in one_of(template("task.yaml")[field])
    assert missing_fields(template("event.yaml"), event) == ["causality"]
    assert template("event.yaml")["causality"].keys() == {"parent_event_id", "idempotency_key"}
    assert event.keys() >= {"causation_id", "idempotency_key"}
    assert one_of(template("event.yaml")["actor"]) == list(get_args(Actor))


def test_a_task_moves_through_the_documents_states_but_never_from_waiting_to_success() -> None:
    (chain,) = re.findall(r"`(.*)`", text("task_states.md"))
    stages = [re.findall(r"[A-Z_]+", stage) for stage in chain.split("→")]
    assert {state for stage in stages for state in stage} == set(TaskStatus)
    assert one_of(template("task.yaml")["status"]) == list(TaskStatus)

    facts: dict[str, type[TaskFact]] = {
        "QUEUED": TaskQueued,
        "RUNNING": TaskStarted,
        "WAITING_INPUT": TaskWaitingInput,
        "WAITING_APPROVAL": TaskWaitingApproval,
        "PAUSED": TaskPaused,
        "SUCCEEDED": TaskSucceeded,
        "FAILED": TaskFailed,
        "CANCELLED": TaskCancelled,
    }
    moves = [(a, b) for before, after in pairwise(stages) for a in before for b in after]
    refused = [(a, b) for a, b in moves if not may_become(TaskStatus(a), facts[b])]
    assert refused == [(state, "SUCCEEDED") for state in stages[3]]
    assert may_become(TaskStatus.RUNNING, TaskSucceeded)


async def test_an_approval_shows_what_the_document_lists_and_the_task_goes_on(runs: Runs) -> None:
    runs.ozzie.plays(Use("write_file", {"path": "a.md", "text": "x\n"}), [Say("Done.")])
    task_id = await runs.say("Write it.")
    asked = (await runs.pending()).asked
    shown = (asked.sentence, f"{asked.risk_level}: {asked.reason}", asked.key, asked.proof, asked.undo)
    listed = text("approval_payload.md").splitlines()
    assert dict(zip(listed, shown, strict=True)) == {
        "- action summary": "Write a new file, `a.md`, of 1 line?",
        "- risk explanation": "medium: It changes something of yours.",
        "- idempotency_key": f"{task_id}-1-0",
        "- dry_run 结果（若有）": "@@ -0,0 +1,1 @@\n+x",
        "- rollback/compensation 提示": "This is a new file; you can simply delete it.",
    }
    await runs.approve()
    await runs.rests(task_id)

    types = [event.type for event in await runs.ozzie.log.read_stream(task_stream(task_id))]
    names = [NAMES[type_].s4 for type_ in types if type_ in NAMES]
    at = names.index("APPROVAL_REQUESTED")
    assert names[at : at + 4] == ["APPROVAL_REQUESTED", "STATE_TRANSITION", "APPROVED", "STATE_TRANSITION"]
    assert (await rest(runs, "/tasks/{task_id}", task_id=task_id))["status"] == "SUCCEEDED"
    assert (runs.ozzie.project / "a.md").read_text() == "x\n"


def test_an_artifact_has_the_documents_fields_and_kinds() -> None:
    wanted = template("artifact.yaml")

    assert wanted.keys() <= {*Artifact.__struct_fields__}
    assert one_of(wanted["kind"]) == list(get_args(ArtifactKind))


async def test_a_tools_contract_has_the_documents_fields(runs: Runs) -> None:
    wanted = template("tool_meta.yaml")
    requires = wanted.pop("requires")
    shown = {name: await rest(runs, "/tools/{name}", name=name) for name in ("calculator", "write_file", "shell")}

    for contract in shown.values():
        assert missing_fields(wanted, contract) == []
        assert contract["outputs"]["store_full_as_artifact"] is wanted["outputs"]["store_full_as_artifact"]
        assert re.fullmatch(r"[a-z]+\.[a-z]+", contract["tool_id"])
    assert shown["calculator"]["outputs"] == wanted["outputs"]
    assert [list(each) for each in requires] == [["capability"], ["permission"]]
    assert shown["write_file"]["requires"] == [{"capability": "", "permission": "project.write", "problem": ""}]
    assert shown["shell"]["requires"][0]["capability"] == "sandbox.run"
    for field, kind in (("side_effect", SideEffect), ("risk_level", RiskLevel), ("idempotency", Idempotency)):
        assert one_of(wanted[field]) == list(kind)


def test_the_search_tool_takes_the_arguments_of_its_spec() -> None:
    spec = jsonc("tool_spec_web_search.jsonc")
    tool = TOOLS.find(spec["name"])
    assert tool is not None
    parameters: Any = tool.spec.parameters

    assert {name: each["type"] for name, each in parameters["properties"].items()} == {
        name: each["type"] for name, each in spec["parameters"].items()
    }
    assert parameters["required"] == [name for name, each in spec["parameters"].items() if each.get("required")]
    assert tool.check({"query": "tea"}) == {"query": "tea", "max_results": spec["parameters"]["max_results"]["default"]}


async def test_a_call_is_made_by_id_and_its_result_has_the_documents_fields(tmp_path: Path) -> None:
    call, result = (re.findall(r"\w+", each) for each in re.findall(r"\{(.*?)\}", text("tool_call.md")))
    assert call == ["tool_id", "args_json", "idempotency_key"]
    keys: list[str] = []

    def long(context: ToolContext) -> ToolResult:
        """Return a long text."""
        keys.append(context.key)
        return ToolResult(ok=True, data="x" * 5000)

    probe = FunctionTool(long, read_only(tool_id="probe.long", name="long_text", timeout_s=1))
    calls: list[Step] = [Use("calc.eval", '{"expr":"2+2"}'), Use("calc.eval", "2+2"), Use("probe.long", "{}")]
    rig = TurnRig(tmp_path, [calls, [Say("4")]], tools=[*builtin_tools(), probe])
    await rig.ask("what is 2+2?")
    await rig.run()
    good, bad, whole = (json.loads(each.content) for each in rig.model.requests[1].messages[-3:])

    assert list(good) == list(bad) == list(whole) == result
    assert good == {"ok": True, "data": {"value": "4"}, "error": None, "artifact_refs": []}
    assert (bad["ok"], bad["data"], bad["error"]["code"]) == (False, None, "tool.arguments")
    assert len(whole["artifact_refs"]) == 1
    assert keys == ["t1-1-2"], "task, round, index"


def test_a_runner_of_jobs_has_the_documents_methods() -> None:
    (drawn,) = ast.parse(text("job_runner.txt")).body
    assert isinstance(drawn, ast.ClassDef)
    methods = {
        each.name: [argument.arg for argument in each.args.args]
        for each in drawn.body
        if isinstance(each, ast.AsyncFunctionDef)
    }
    methods["start"] = ["self", "spec"]

    for kind in (JobRunner, BubblewrapRunner):
        assert {name: list(inspect.signature(getattr(kind, name)).parameters) for name in methods} == methods


async def test_the_store_has_the_documents_tables(tmp_path: Path) -> None:
    names = [line.split("`")[1] for line in text("store_tables.md").splitlines()]
    await (await SqliteEventLog.open(tmp_path / "ozzie.db", clock=FakeClock(), ids=CountingIds())).close()

    with closing(sqlite3.connect(tmp_path / "ozzie.db")) as database:
        found = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert set(names) <= set(found)
