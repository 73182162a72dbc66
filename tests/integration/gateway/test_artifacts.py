"""Artifacts over REST: listed, looked at, and saved; nothing of them runs in a browser (TK-6, THREATS 1)."""

import contextlib
import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.test_rest import get, pages
from tests.integration.gateway.walk import ask
from tests.integration.made_artifacts import MADE, SESSION, TASK, make_artifacts
from tests.rig import Gateway, GatewayHome, start_attached, start_gateway


@pytest_asyncio.fixture
async def artifact_ids(home: GatewayHome) -> list[str]:
    return await make_artifacts(home)


@pytest.fixture
def gateway(home: GatewayHome, artifact_ids: list[str]) -> Iterator[Gateway]:
    with start_gateway(home) as started:
        yield started


def content(gateway: Gateway, artifact_id: str, method: str = "GET") -> tuple[int, http.client.HTTPMessage, bytes]:
    address = urlsplit(gateway.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
    with contextlib.closing(connection):
        headers = {"Authorization": f"token {gateway.token}"}
        connection.request(method, f"{PREFIX}/artifacts/{artifact_id}/content", headers=headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()


def test_they_are_listed_newest_first_in_pages_by_session_task_and_kind(
    gateway: Gateway, artifact_ids: list[str]
) -> None:
    def listed(query: str) -> list[str]:
        return [item["artifact_id"] for page in pages(gateway, f"artifacts?{query}") for item in page]

    assert listed("limit=4") == artifact_ids[::-1]
    assert listed(f"session_id={SESSION}&task_id={TASK}&kind=image") == [artifact_ids[4], artifact_ids[3]]
    assert listed("kind=json&kind=file") == [artifact_ids[2], artifact_ids[1]]
    assert listed("task_id=01M800000000000000000000ZY") == []


def test_one_is_shown_with_its_version_and_what_replaced_it(gateway: Gateway, artifact_ids: list[str]) -> None:
    first = get(gateway, f"artifacts/{artifact_ids[0]}")

    assert (first["kind"], first["name"], first["version"], first["size"]) == ("log", "out.txt", 1, 8)
    assert (first["session_id"], first["task_id"], first["call_id"]) == (SESSION, TASK, None)
    assert first["storage_ref"] == f"artifact://{first['hash']}"
    assert first["superseded_by"] == artifact_ids[-1]


@pytest.mark.parametrize("server", ["owner", "attached"])
def test_the_content_comes_as_it_is_and_can_not_run(
    home: GatewayHome, gateway: Gateway, artifact_ids: list[str], server: str
) -> None:
    sent_as = [
        "text/plain; charset=utf-8",
        "application/json",
        "text/plain; charset=utf-8",
        "application/octet-stream",
        "image/png",
    ]
    with start_attached(home) if server == "attached" else contextlib.nullcontext(gateway) as asked:
        answers = [content(asked, artifact_id) for artifact_id in artifact_ids[:5]]
        head = content(asked, artifact_ids[0], "HEAD")

    for (status, headers, body), (expected, *_), media_type in zip(answers, MADE, sent_as, strict=False):
        assert (status, body, headers["Content-Type"]) == (200, expected, media_type)
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
        assert headers["Content-Disposition"].startswith("attachment; ")
    assert answers[4][1]["Content-Disposition"] == "attachment; filename*=UTF-8''a%22b%20%C3%B6.png"
    assert (head[0], head[1]["Content-Length"], head[2]) == (200, "8", b"")


def test_what_is_not_there_is_not_found(gateway: Gateway) -> None:
    for path in (f"artifacts/{TASK}", f"artifacts/{TASK}/content"):
        status, answer = ask(gateway, "GET", f"{PREFIX}/{path}", token=gateway.token)
        assert (status, answer["code"]) == (404, "input.not_found")
