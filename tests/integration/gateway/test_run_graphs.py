"""Runs of skills over REST: the graph with its steps, one step in full, and lists that steps do not flood."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.asked import ended
from tests.integration.gateway.test_rest import get, until
from tests.integration.gateway.walk import ask
from tests.rig import Gateway, new_home, ozzie, start_gateway
from tests.ws_client import connected

SUMS: dict[str, Any] = {
    "name": "sums",
    "type": "workflow",
    "vars": {"n": {"type": "integer", "required": True}},
    "steps": [
        {"id": "double", "title": "Twice", "call": {"tool": "calculator", "args": {"expr": "{{n}} * 2"}}},
        {"id": "gate", "approve": {"question": "Is {{n}} right?", "show": "It is {{n}}."}},
        {
            "id": "late",
            "call": {"tool": "calculator", "args": {"expr": "{{steps.double.output.value}} + 1"}},
            "needs": ["double", "gate"],
        },
        {"id": "bad", "call": {"tool": "calculator", "args": {"expr": "1 / 0"}}, "optional": True},
    ],
}
OUTER = {"name": "outer", "type": "workflow", "steps": [{"id": "inner", "skill": "sums", "with": {"n": 3}}]}
STEP_ID = re.compile("[0-9A-Z]{26}")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = new_home(tmp_path_factory.mktemp("graphs"))
    (home.home / "skills").mkdir(exist_ok=True)
    for skill in (SUMS, OUTER):
        (home.home / "skills" / f"{skill['name']}.jsonc").write_text(json.dumps(skill))
    with start_gateway(home) as running:
        yield running


async def begin(gateway: Gateway, name: str, *words: str) -> str:
    """The id of the run's task, begun in a session of its own."""
    async with connected(gateway) as client:
        session_id = await client.open_session(f"{name} {words}")
        skill = {"name": name, "words": list(words)}
        sent = await client.request("message.send", session_id=session_id, content=f"%run {name}", skill=skill)
        assert sent["ok"], sent
        return str(sent["payload"]["task_id"])


def graph(gateway: Gateway, task_id: str, query: str = "") -> dict[str, Any]:
    return get(gateway, f"tasks/{task_id}/graph{query}")


def states(gateway: Gateway, task_id: str) -> dict[str, str]:
    return {step["step_id"]: step["state"] for step in graph(gateway, task_id)["steps"]}


def waits(gateway: Gateway, task_id: str) -> dict[str, Any]:
    """The run once its first step waits for a person."""
    until(lambda: get(gateway, f"tasks/{task_id}")["waiting"])
    return get(gateway, f"tasks/{task_id}")


def pending(gateway: Gateway, run_id: str) -> dict[str, Any]:
    found = get(gateway, "approvals?status=pending&limit=500")["items"]
    return next(approval for approval in found if approval["run_id"] == run_id)


async def test_a_graph_tells_each_steps_state_and_where_it_is_drawn(gateway: Gateway) -> None:
    task_id = await begin(gateway, "sums", "n=4")
    waits(gateway, task_id)
    until(lambda: states(gateway, task_id)["bad"] == "Failed" and states(gateway, task_id)["double"] == "Done")
    told = graph(gateway, task_id, "?width=846")

    assert states(gateway, task_id) == {"double": "Done", "gate": "Waiting for you", "late": "Waiting", "bad": "Failed"}
    assert (told["name"], told["kind"], told["state"]) == ("sums", "dag", "Waiting for you")
    assert (told["settled"], told["running"], told["failed"], told["asking"]) == (2, 0, 1, 1)
    layout = told["layout"]
    assert layout["form"] == "full"
    assert layout["width"] <= 846
    assert {node["node_id"] for node in layout["nodes"]} == {"double", "gate", "late", "bad"}
    late = next(node for node in layout["nodes"] if node["node_id"] == "late")
    assert late["after"] == "After gate"
    assert {(edge["source"], edge["to"]) for edge in layout["edges"]} == {("double", "late"), ("gate", "late")}
    narrow = graph(gateway, task_id, "?width=250")["layout"]
    assert narrow["width"] <= 320

    status, _ = ask(
        gateway, "GET", f"{PREFIX}/tasks/{task_id}/graph?width=846&known={told['version']}", token=gateway.token
    )
    assert status == 204
    approval = pending(gateway, task_id)
    assert (approval["step"], approval["task_id"] != task_id) == ("sums: gate", True)
    assert ozzie(gateway.home, "approvals", "approve", approval["approval_id"]).returncode == 0
    ended(gateway, task_id)
    after = graph(gateway, task_id, f"?width=846&known={told['version']}")
    assert (after["state"], after["settled"]) == ("Failed", 4)
    assert after["layout"]["edges"] == layout["edges"]
    assert get(gateway, f"tasks/{task_id}/output")["graph"]["image/svg+xml"].startswith("<svg")


async def test_a_step_is_told_in_full(gateway: Gateway) -> None:
    task_id = await begin(gateway, "sums", "n=5")
    waits(gateway, task_id)
    until(lambda: states(gateway, task_id)["bad"] == "Failed" and states(gateway, task_id)["double"] == "Done")
    double = get(gateway, f"tasks/{task_id}/steps/double")
    gate = get(gateway, f"tasks/{task_id}/steps/gate")
    late = get(gateway, f"tasks/{task_id}/steps/late")
    (drawn,) = [step for step in graph(gateway, task_id)["steps"] if step["step_id"] == "double"]
    bad = get(gateway, f"tasks/{task_id}/steps/bad")

    assert (double["title"], double["kind"], double["instruction"]) == ("Twice", "call", "calculator")
    assert double["input"] == {"expr": "5 * 2"}
    assert json.loads(double["result"]) == {"value": "10"}
    assert (drawn["state"], drawn["task_id"]) == ("Done", "")
    assert drawn["started_at"] < drawn["finished_at"]
    made = double["call"]
    assert (made["name"], made["args"], made["argument"]) == ("calculator", {"expr": "5 * 2"}, "5 * 2")
    assert (made["duration_ms"] > 0, bool(made["rule"]), double["calls"]) == (True, True, [])
    assert [(attempt["state"], attempt["attempt"]) for attempt in double["attempts"]] == [("Done", 1)]
    assert gate["instruction"] == "Is 5 right?"
    assert gate["attempts"][0]["state"] == "Working"
    assert (late["attempts"], late["calls"], late["call"], late["result"]) == ([], [], None, "")
    assert gate["call"] is None
    assert bad["attempts"][0]["state"] == "Failed"
    assert bad["attempts"][0]["message"]
    assert (bad["call"]["name"], bad["call"]["argument"]) == ("calculator", "1 / 0")
    for path in ("steps/none", "steps/double/x"):
        assert ask(gateway, "GET", f"{PREFIX}/tasks/{task_id}/{path}", token=gateway.token)[0] == 404
    ozzie(gateway.home, "tasks", "cancel", task_id)
    ended(gateway, task_id)


async def test_a_turn_has_no_graph(gateway: Gateway) -> None:
    async with connected(gateway) as client:
        session_id = await client.open_session("turn")
        end = await client.ask(session_id, "Say hello.")
    status, refused = ask(gateway, "GET", f"{PREFIX}/tasks/{end['task_id']}/graph", token=gateway.token)
    assert (status, refused["code"]) == (404, "task.no_graph")


async def test_lists_have_runs_and_not_their_steps_unless_these_are_asked_for(gateway: Gateway) -> None:
    task_id = await begin(gateway, "outer")
    run = waits(gateway, task_id)
    (below,) = run["waiting"]
    step = get(gateway, f"tasks/{below['task_id']}")
    listed = {task["task_id"] for task in get(gateway, "tasks?limit=500")["items"]}
    everything = {task["task_id"] for task in get(gateway, "tasks?limit=500&all=true")["items"]}
    inner = get(gateway, f"tasks?parent={task_id}")["items"]

    assert (below["title"], below["status"]) == ("sums: gate", "WAITING_APPROVAL")
    assert step["run_id"] == task_id
    assert [task["title"] for task in inner] == ["outer: inner"]
    assert inner[0]["run_id"] == inner[0]["parent_id"] == task_id
    assert step["parent_id"] == inner[0]["task_id"]
    assert task_id in listed
    assert not listed & {step["task_id"], inner[0]["task_id"]}
    assert {step["task_id"], inner[0]["task_id"]} <= everything
    assert states(gateway, task_id) == {"inner": "Waiting for you"}
    assert get(gateway, "health")["tasks_running"] == 0

    plain, whole = (ozzie(gateway.home, "tasks", "list", *flags).stdout for flags in ((), ("--all",)))
    at = plain.splitlines().index(next(line for line in plain.splitlines() if line.startswith(task_id)))
    assert plain.splitlines()[at].startswith(f"{task_id}  Waiting for you")
    assert plain.splitlines()[at + 1] == f"  {below['task_id']}  the step sums: gate"
    assert len(STEP_ID.findall(whole)) > len(STEP_ID.findall(plain))
    shown = ozzie(gateway.home, "tasks", "show", task_id).stdout
    assert f"The step sums: gate waits for you: ozzie tasks show {below['task_id']}" in shown
    assert "by the step sums: gate" in " ".join(ozzie(gateway.home, "approvals", "list").stdout.split())
    ozzie(gateway.home, "tasks", "cancel", task_id)
    ended(gateway, task_id)
