"""The OpenAPI document says what the gateway does, all of it, and a fuzzer finds nothing else."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tornado.web import RequestHandler

from ozzie_server_ext.gateway.mcp import McpHandler
from ozzie_server_ext.gateway.openapi import document
from ozzie_server_ext.gateway.operation import pattern
from ozzie_server_ext.gateway.rest.handler import NothingHandler, RestHandler
from ozzie_server_ext.gateway.routes import PREFIX, REST, WS_PATH, handlers
from ozzie_server_ext.gateway.ws import WsHandler
from tests.integration.gateway.asked import DEPLOY, asked, asked_with_a_secret, ended, write
from tests.integration.gateway.test_rest import get, post
from tests.integration.gateway.walk import ask
from tests.integration.made_artifacts import make_artifacts, make_incidents
from tests.rig import Gateway, GatewayHome, start_gateway
from tests.tiers import SOAK

DOCUMENT: dict[str, Any] = document(REST, PREFIX)
EACH, AT_LEAST = (80, 2000) if SOAK else (2, 100)
"""Cases of the fuzzer for each operation, and all together with those that it takes from the document itself and from
chains of calls. With the variable OZZIE_SOAK, as `make soak` sets it, there are many."""
PHASES = "examples,coverage,fuzzing,stateful" if SOAK else "fuzzing,stateful"
"""What the fuzzer does. `coverage`, each bound and type of each field, is over two thousand cases by itself."""

FUZZER = """\
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, "5xx"]
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 403, 404, 409, 410, "5xx"]
"""
"""Its own lists, and in the first 413: what is too long to be read is refused before it is known to be wrong; in the
second 410, for what was erased. A status that its operation does not document is a finding by itself."""
REACHES = 0.8
"""In how many of the cases a name in a path, a query or a body is that of an object that is there."""


def fuzzer_settings(objects: Mapping[str, Sequence[str]]) -> str:
    """With the ids of objects that are there, by the name of the parameter that takes them."""
    lines = [FUZZER]
    for name, ids in objects.items():
        lines += [f"[dictionaries.{name}]", f"values = {json.dumps([*ids])}"]
    lines.append("[parameters]")
    for name in objects:
        bound = f'{{ dictionary = "{name}", probability = {REACHES} }}'
        lines += [f'"{place}.{name}" = {bound}' for place in ("path", "query", "body")]
    bound = f'{{ dictionary = "run_id", probability = {REACHES} }}'
    for path in ("graph", "steps/{step_id}"):  # other tasks have none
        lines += ["[[operations]]", f'include-name = "GET /tasks/{{task_id}}/{path}"']
        lines.append(f'parameters = {{ "path.task_id" = {bound} }}')
    return "\n".join(lines)


def objects_in(gateway: Gateway, artifacts: Sequence[str]) -> dict[str, list[str]]:
    """Ids of sessions, tasks, a run, approvals that wait and that were answered, and artifacts, all of them there."""
    for number in range(3):
        ended(gateway, post(gateway, "message", content="Hello.", session_name=f"s{number}", wait=True)["task_id"])
    waiting = [asked(gateway, write(f"{number}.md"), session=f"w{number}") for number in range(6)]
    secretive = asked_with_a_secret(gateway)
    for approval, verb in zip(waiting, ("approve", "reject"), strict=False):
        post(gateway, f"approvals/{approval['approval_id']}/{verb}")
        ended(gateway, approval["task_id"])
    rows = get(gateway, "tasks?all=true&limit=500")["items"]
    return {
        "session_id": [row["id"] for row in get(gateway, "sessions?limit=100")["items"]],
        "task_id": [row["task_id"] for row in rows],
        "run_id": [secretive["run_id"]],
        "step_id": [str(step["id"]) for step in DEPLOY["steps"]],
        "approval_id": [*(each["approval_id"] for each in waiting), secretive["approval_id"]],
        "artifact_id": [*artifacts],
        "incident_id": [each["id"] for each in get(gateway, "incidents?state=all")["items"]],
    }


def test_the_document_holds_every_handler_and_nothing_else() -> None:
    documented = {
        (method.upper(), re.escape(PREFIX) + pattern(path))
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    }
    served: set[tuple[str, str]] = set()
    others: list[type[RequestHandler]] = []
    for route, handler, *given in handlers():
        if handler is RestHandler:
            served |= {(method, route) for method in given[0]["operations"]}
        else:
            others.append(handler)

    assert served == documented
    assert others == [WsHandler, NothingHandler, McpHandler]
    assert WS_PATH not in DOCUMENT["paths"], "it is described in SPEC.md"


def test_every_operation_is_described_and_has_a_name_of_its_own() -> None:
    described = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]

    assert len({operation["operationId"] for operation in described}) == len(REST)
    assert all(operation["summary"].endswith(".") for operation in described)
    assert not [text for operation in described if (text := operation.get("description", "")) and "(*" in text]


def test_every_reference_in_the_document_leads_somewhere_and_every_shape_is_used() -> None:
    text = json.dumps(DOCUMENT)
    references = set(re.findall(r'"\$ref": "#/components/(\w+)/(\w+)"', text))
    there = {(kind, name) for kind in ("schemas", "responses") for name in DOCUMENT["components"][kind]}

    assert references == there


def test_the_gateway_serves_the_document(shared_gateway: Gateway) -> None:
    status, served = ask(shared_gateway, "GET", f"{PREFIX}/openapi.json", token=shared_gateway.token)

    assert status == 200
    assert served == json.loads(json.dumps(DOCUMENT))


@pytest.mark.sampled
@pytest.mark.timeout(600)
async def test_a_fuzzer_finds_no_mistake_and_no_answer_that_is_not_documented(
    home: GatewayHome, tmp_path: Path
) -> None:
    artifacts = await make_artifacts(home)
    await make_incidents(home)
    report, reached = await asyncio.to_thread(_fuzzed, home, artifacts, tmp_path)

    assert report["operations"]["tested"] == len(REST)
    assert report["test_cases"]["generated"] >= AT_LEAST
    assert report["errors"] == []
    # The fuzzer wants 401 there, which makes browsers ask for a password; `test_access` walks all routes without one.
    assert [each for each in report["failures"] if each["type"] != "MissingHeaderNotRejected"] == []
    unreached = {operation.name for operation in REST if operation.in_path} - reached
    assert unreached == set()


def _fuzzed(home: GatewayHome, artifacts: Sequence[str], folder: Path) -> tuple[dict[str, Any], set[str]]:
    """The report, and the names of the operations that found the object that their path named."""
    (folder / "openapi.json").write_text(json.dumps(DOCUMENT))
    with start_gateway(home) as gateway:
        objects = objects_in(gateway, artifacts)
        (folder / "schemathesis.toml").write_text(fuzzer_settings(objects))
        command = [
            *(str(Path(sys.executable).with_name("schemathesis")), "run", "openapi.json"),
            *("--url", f"{gateway.url.rstrip('/')}{PREFIX}", "--header", f"Authorization: token {gateway.token}"),
            *("--phases", PHASES, "--seed", "1", "--max-examples", str(EACH), "--continue-on-failure", "--no-shrink"),
            *("--report", "json,har", "--report-json-path", "report.json", "--report-har-path", "traffic.har"),
        ]
        subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=580)
        assert ask(gateway, "GET", f"{PREFIX}/health", token=gateway.token)[0] == 200
    return json.loads((folder / "report.json").read_text()), _reached(json.loads((folder / "traffic.har").read_text()))


def _reached(traffic: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for entry in traffic["log"]["entries"]:
        request, status = entry["request"], entry["response"]["status"]
        path = urlsplit(request["url"]).path.removeprefix(PREFIX)
        for operation in REST:
            is_it = operation.method == request["method"] and re.fullmatch(pattern(operation.path), path)
            if is_it and (status < 400 or status in (409, 410)):
                found.add(operation.name)
    return found
