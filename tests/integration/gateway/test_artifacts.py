"""Artifacts over REST: listed, looked at, and saved; nothing of them runs in a browser."""

import asyncio
import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.artifacts import blob_of
from ozzie_server_ext.domain.events import ArtifactErased
from ozzie_server_ext.domain.ids import ARTIFACTS_STREAM, ArtifactId
from ozzie_server_ext.gateway.routes import PREFIX
from ozzie_server_ext.observability.clock import FakeClock, SystemClock, UlidSource
from ozzie_server_ext.store.blobs import FileBlobs
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.integration.gateway.test_rest import get, pages
from tests.integration.gateway.walk import KERNEL_ID, ask
from tests.integration.made_artifacts import MADE, SCRIPT, SESSION, TASK, make_artifacts
from tests.replay.histories import draft
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


@pytest.mark.parametrize("server", ["owner", "attached"])
def test_a_person_erases_one_and_everything_else_of_it_stays(
    home: GatewayHome, gateway: Gateway, artifact_ids: list[str], server: str
) -> None:
    path = f"{PREFIX}/artifacts/{artifact_ids[0]}"
    before = get(gateway, f"artifacts/{artifact_ids[0]}")
    with start_attached(home) if server == "attached" else contextlib.nullcontext(gateway) as asked:
        status, done = ask(asked, "DELETE", path, token=asked.token)
        again, refused = ask(asked, "DELETE", path, token=asked.token)
        gone, _, body = content(asked, artifact_ids[0])

    after = get(gateway, f"artifacts/{artifact_ids[0]}")
    erased = after.pop("erased")
    assert (status, done) == (200, {"done": True})
    assert {**after, "erased": None} == before
    assert (erased["why"], erased["bound"]) == ("person", 0)
    assert erased["by"]
    assert erased["told"] == f"It was erased on {erased['at'][:10]} by {erased['by']}."
    assert (again, refused["code"], refused["message"]) == (
        410,
        "input.gone",
        f'"out.txt" has no content any more. {erased["told"]}',
    )
    assert gone == 410
    assert json.loads(body)["message"] == refused["message"]
    assert not [path for path in (home.home / "data" / "blobs").rglob("*") if before["hash"].endswith(path.name)]
    assert content(gateway, artifact_ids[1])[0] == 200


def test_only_a_person_erases(gateway: Gateway, artifact_ids: list[str]) -> None:
    path = f"{PREFIX}/artifacts/{artifact_ids[0]}"
    granted = ask(gateway, "POST", f"{PREFIX}/kernels/{KERNEL_ID}/token", token=gateway.token)[1]

    assert ask(gateway, "DELETE", path, token=granted["token"])[0] == 403
    assert ask(gateway, "DELETE", path)[0] == 403
    assert get(gateway, f"artifacts/{artifact_ids[0]}")["erased"] is None


async def test_what_a_gateway_left_when_it_died_goes_at_the_next_start_with_what_is_too_old(home: GatewayHome) -> None:
    """It died between the fact and the file of one artifact; another one has become too old since."""
    long_ago = datetime.now(UTC) - timedelta(days=100)
    old, left, *others = await make_artifacts(home, FakeClock(long_ago))
    place, clock = Home(home.home), SystemClock()
    log = await SqliteEventLog.open(place.database, clock=clock, ids=UlidSource(clock))
    await log.append(ARTIFACTS_STREAM, [draft(ArtifactErased(artifact_id=ArtifactId(left), why="person", by="Ana"))])
    refs = [blob_of(str(row["storage_ref"])) for row in await log.rows("artifacts")]
    await log.close()
    blobs = FileBlobs(place.blobs)
    assert await blobs.there(refs) == refs

    def sweep() -> list[dict[str, Any]]:
        with start_gateway(home) as gateway:
            for _ in range(800):  # it looks at the settings twice, ten seconds apart
                found = [item for item in get(gateway, "artifacts")["items"] if item["erased"]]
                if len(found) == 2:
                    return found
                time.sleep(0.05)
            raise AssertionError("it was not swept")

    erased = await asyncio.to_thread(sweep)

    assert [(item["artifact_id"], item["erased"]["why"]) for item in erased] == [(left, "person"), (old, "age")]
    assert "because it was older than 90 days." in erased[1]["erased"]["told"]
    assert await blobs.there(refs) == refs[2:]
    assert len(others) == len(refs[2:])


def test_a_text_is_found_by_its_words_until_it_is_erased(gateway: Gateway, artifact_ids: list[str]) -> None:
    (item,) = get(gateway, "search?text=fetch+script+message")["items"]
    assert (item["kind"], item["artifact_id"], item["session_id"]) == ("artifact", artifact_ids[2], SESSION)
    assert item["snippet"] == f"evil.html {SCRIPT.decode()}"
    assert {item["snippet"][start:end] for start, end in item["marks"]} == {"script", "fetch", "message"}

    status, _ = ask(gateway, "DELETE", f"{PREFIX}/artifacts/{artifact_ids[2]}", token=gateway.token)

    assert status == 200
    assert get(gateway, "search?text=fetch+script+message")["items"] == []
    (item,) = get(gateway, "search?text=evil.html")["items"]
    assert item["snippet"] == "evil.html"
