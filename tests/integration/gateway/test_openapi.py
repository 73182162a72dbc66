"""The OpenAPI document says what the gateway does, all of it, and a fuzzer finds nothing else (GW-3)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tornado.web import RequestHandler

from ozzie_server_ext.gateway.openapi import document
from ozzie_server_ext.gateway.rest.handler import NothingHandler, RestHandler
from ozzie_server_ext.gateway.rest.operation import pattern
from ozzie_server_ext.gateway.routes import OPERATIONS, PREFIX, WS_PATH, handlers
from ozzie_server_ext.gateway.ws import WsHandler
from tests.integration.gateway.walk import ask
from tests.rig import Gateway, GatewayHome, start_gateway

DOCUMENT: dict[str, Any] = document(OPERATIONS, PREFIX)
EACH, AT_LEAST = (80, 2000) if os.environ.get("OZZIE_SOAK") else (10, 500)
"""Cases of the fuzzer for each operation, and all together with those that it takes from the document itself and from
chains of calls. With the variable OZZIE_SOAK, as `make soak` sets it, there are many."""

FUZZER = """\
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, "5xx"]
"""
"""Its own list of how what is wrong may be refused, and 413: what is too long to be read is refused before it is known
to be wrong."""


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
    assert others == [WsHandler, NothingHandler]
    assert WS_PATH not in DOCUMENT["paths"], "it is described in SPEC.md"


def test_every_operation_is_described_and_has_a_name_of_its_own() -> None:
    described = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]

    assert len({operation["operationId"] for operation in described}) == len(OPERATIONS)
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


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_fuzzer_finds_no_mistake_and_no_answer_that_is_not_documented(home: GatewayHome, tmp_path: Path) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(DOCUMENT))
    (tmp_path / "schemathesis.toml").write_text(FUZZER)
    with start_gateway(home) as gateway:
        command = [
            *(str(Path(sys.executable).with_name("schemathesis")), "run", "openapi.json"),
            *("--url", f"{gateway.url.rstrip('/')}{PREFIX}", "--header", f"Authorization: token {gateway.token}"),
            *("--seed", "1", "--max-examples", str(EACH), "--continue-on-failure", "--no-shrink"),
            # It wants 401, which makes browsers ask for a password; `test_access` walks all routes without credentials.
            *("--exclude-checks", "missing_required_header"),
            *("--report", "json", "--report-json-path", "report.json"),
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=380)
        report = json.loads((tmp_path / "report.json").read_text())
        alive = ask(gateway, "GET", f"{PREFIX}/health", token=gateway.token)

    assert done.returncode == 0, done.stdout[-8000:]
    assert report["operations"]["tested"] == len(OPERATIONS)
    assert report["test_cases"]["generated"] >= AT_LEAST
    assert (report["failures"], report["errors"]) == ([], [])
    assert alive[0] == 200
