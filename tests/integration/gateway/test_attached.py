"""A second Jupyter Server on a home hands on to the owner what it is asked (ADR 11)."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tornado.httpclient import HTTPClientError

from ozzie_server_ext.gateway.base import MAX_BODY_BYTES
from ozzie_server_ext.gateway.routes import PREFIX
from ozzie_server_ext.policy.files import PROJECT_FILE as RULES_FILE
from tests.integration.gateway.walk import KERNEL_ID, REST, WS, ask, ask_whole
from tests.integration.tasks.test_projects import NO_NOTES
from tests.rig import Gateway, GatewayHome, new_home, ozzie, start_attached, start_gateway, start_jupyter
from tests.ws_client import WsClient, connected

pytestmark = pytest.mark.timeout(120)

UP = "/up/there"
IDENTITY = """
from jupyter_server.auth import IdentityProvider, User

class Named(IdentityProvider):
    def generate_anonymous_user(self, handler):
        return User("Ana Müller ✓")

c.ServerApp.identity_provider_class = Named
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Gateway]]:
    """An owner below a path of its own, and a server that is attached to it and knows its user's name."""
    home = new_home(tmp_path_factory.mktemp("pair"))
    with start_jupyter(home, f"--ServerApp.base_url={UP}/") as owner:
        settings = home.home.parent / "jupyter-config"
        settings.mkdir(exist_ok=True)
        (settings / "jupyter_server_config.py").write_text(IDENTITY)
        with start_attached(home) as attached:
            yield owner, attached


@pytest.fixture
def owner(pair: tuple[Gateway, Gateway]) -> Gateway:
    return pair[0]


@pytest.fixture
def attached(pair: tuple[Gateway, Gateway]) -> Gateway:
    return pair[1]


def test_health_says_who_owns_the_folder_and_who_was_asked(owner: Gateway, attached: Gateway) -> None:
    status, here = ask(attached, "GET", f"{PREFIX}/health", token=attached.token)
    _, there = ask(owner, "GET", f"{UP}{PREFIX}/health", token=owner.token)

    assert status == 200
    assert (here["pid"], here["server_pid"], here["role"]) == (owner.process.pid, attached.process.pid, "attached")
    assert (there["pid"], there["server_pid"], there["role"]) == (owner.process.pid, owner.process.pid, "owner")
    assert there["attached"] == [{"pid": attached.process.pid, "url": attached.url, "headless": False}]


def test_what_one_server_is_asked_the_other_knows(owner: Gateway, attached: Gateway) -> None:
    status, made = ask(
        attached, "POST", f"{PREFIX}/sessions", token=attached.token, body='{"title": "Zwei Größen"}'.encode()
    )
    _, found = ask(owner, "GET", f"{UP}{PREFIX}/sessions/{made['id']}", token=owner.token)

    assert (status, found["title"]) == (200, "Zwei Größen")


def test_a_session_that_an_attached_server_begins_works_in_its_folder(owner: Gateway, tmp_path: Path) -> None:
    (tmp_path / "where.txt").write_text("In the folder of the attached server.\n")
    (tmp_path / "a.ipynb").write_text("{}")
    (tmp_path / ".ozzie").mkdir()
    (tmp_path / RULES_FILE).write_text(json.dumps(NO_NOTES))
    trusted = ozzie(owner.home, "policy", "trust", str(tmp_path))
    assert trusted.returncode == 0, trusted.stderr
    with start_attached(owner.home, f"--ServerApp.root_dir={tmp_path}") as attached:
        body = json.dumps({"content": "Read where.txt", "session_name": "elsewhere", "wait": True})
        status, done = ask(attached, "POST", f"{PREFIX}/message", token=attached.token, body=body)
        # A kernel asks the owner itself, and says which server runs it.
        kernels = [
            ask(owner, "POST", f"{UP}{PREFIX}/kernels/{KERNEL_ID}/token", token=owner.token, body=json.dumps(each))[1]
            for each in (
                {"session_name": "/nowhere/a.ipynb", "server_pid": attached.process.pid},
                {"session_name": str(tmp_path / "a.ipynb"), "server_pid": 1},
                {"session_name": str(tmp_path / "b.ipynb"), "server_pid": owner.process.pid},
            )
        ]
        rulings = [
            ask(server, "GET", f"{up}{PREFIX}/tools/write_file", token=server.token)[1]["ruling"]
            for server, up in ((attached, ""), (owner, UP))
        ]

    assert (status, done["status"]) == (200, "SUCCEEDED")
    assert "In the folder of the attached server." in json.dumps(done)
    found = [
        ask(owner, "GET", f"{UP}{PREFIX}/sessions/{each['session_id']}", token=owner.token)[1]["project"]
        for each in (done, *kernels)
    ]
    assert found == [str(tmp_path), str(tmp_path), str(tmp_path), str(owner.home.project)]
    assert [(ruling["decision"], ruling["rule"]) for ruling in rulings] == [
        ("DENY", "no-notes"),
        ("ASK", "default.changes"),
    ]


def test_the_owner_records_who_asked_the_attached_server(owner: Gateway, attached: Gateway) -> None:
    body = '{"content": "hello", "wait": true}'
    _, done = ask(attached, "POST", f"{PREFIX}/message", token=attached.token, body=body)

    assert (done["status"], done["sender_id"]) == ("SUCCEEDED", "Ana Müller ✓")


def test_a_name_counts_with_the_owners_own_token_only(owner: Gateway) -> None:
    forged = {"Ozzie-User": "root"}
    body = '{"content": "hello"}'
    _, by_program = ask(owner, "POST", f"{UP}{PREFIX}/message", token=owner.token, headers=forged, body=body)
    _, by_user = ask(owner, "POST", f"{UP}{PREFIX}/message", token="a-token-of-jupyters-own", headers=forged, body=body)
    senders = [
        ask(owner, "GET", f"{UP}{PREFIX}/tasks/{sent['task_id']}", token=owner.token)[1]["sender_id"]
        for sent in (by_program, by_user)
    ]

    assert senders[0] == "root"
    assert senders[1] != "root"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/tasks?limit=0", None),
        ("GET", "/tasks?limit=1&nonesuch=1", None),
        ("GET", "/tasks/01M800000000000000000000ZZ", None),
        ("GET", "/sessions/%E2%80%AE", None),
        ("GET", "/openapi.json?1234", None),
        ("GET", "/nonesuch", None),
        ("POST", "/tasks/01M800000000000000000000ZZ/cancel", "{}"),
        ("POST", "/message", '{"content": ""}'),
        ("POST", "/message", '{"content": "x", "content": "y"}'),
        ("DELETE", "/sessions", None),
    ],
)
def test_an_answer_is_the_same_whichever_server_is_asked(
    owner: Gateway, attached: Gateway, method: str, path: str, body: str | None
) -> None:
    here = ask_whole(attached, method, PREFIX + path, token=attached.token, body=body)
    there = ask_whole(owner, method, UP + PREFIX + path, token=owner.token, body=body)

    assert here[0] == there[0]
    assert here[2] == there[2]
    for name in ("Content-Type", "Cache-Control", "Allow", "X-Content-Type-Options"):
        assert here[1].get(name) == there[1].get(name)


def test_nothing_new_is_said_without_a_body_whichever_server_is_asked(owner: Gateway, attached: Gateway) -> None:
    body = '{"content": "hello", "wait": true}'
    _, done = ask(attached, "POST", f"{PREFIX}/message", token=attached.token, body=body)
    path = f"{PREFIX}/tasks/{done['task_id']}/output"
    _, output = ask(attached, "GET", path, token=attached.token)
    known = f"{path}?known={output['version']}"

    for gateway, address in ((attached, known), (owner, UP + known)):
        status, headers, said = ask_whole(gateway, "GET", address, token=gateway.token)
        assert (status, said) == (204, {})
        assert "Content-Type" not in headers
    assert ask(attached, "GET", f"{path}?known={'0' * 24}", token=attached.token) == (200, output)


@pytest.mark.parametrize("path", [path for method, path in REST if method == "GET"])
def test_head_is_get_without_the_body(attached: Gateway, path: str) -> None:
    got = ask_whole(attached, "GET", path, token=attached.token)
    head = ask_whole(attached, "HEAD", path, token=attached.token)

    assert (head[0], head[2]) == (got[0], {})
    assert head[1]["Content-Type"] == got[1]["Content-Type"]


def test_the_largest_body_that_is_taken_arrives(owner: Gateway, attached: Gateway) -> None:
    content = "ä" * 400_000
    body = json.dumps({"content": content, "wait": True}, ensure_ascii=False).encode()
    assert MAX_BODY_BYTES > len(body) > 800_000

    status, done = ask(attached, "POST", f"{PREFIX}/message", token=attached.token, body=body)
    _, there = ask(owner, "GET", f"{UP}{PREFIX}/tasks/{done['task_id']}", token=owner.token)

    assert status == 200
    assert there["content"] == content


async def test_a_turn_is_followed_through_the_relay_without_gap_or_double(attached: Gateway) -> None:
    async with connected(attached) as client:
        session_id = await client.open_session("gapless")
        sent = (await client.request("message.send", session_id=session_id, content="Say hello."))["payload"]
        await client.request("feed.subscribe", from_position=sent["position"] - 1, task_id=sent["task_id"])
        await client.until("task.succeeded")
    durable = positions(client)
    middle = durable[len(durable) // 2]
    async with connected(attached) as again:
        await again.request("feed.subscribe", from_position=middle, task_id=sent["task_id"])
        await again.until("task.succeeded")

    assert durable == sorted(set(durable))
    assert durable[0] == sent["position"]
    text = ""
    for delta in (frame["payload"] for frame in client.events if frame["canonical"] == "reply.delta"):
        assert delta["offset"] <= len(text), "a gap in the text"
        text = text[: delta["offset"]] + delta["content"]
    (final,) = [frame["payload"]["text"] for frame in client.events if frame["canonical"] == "message.completed"]
    assert text == final
    assert positions(again) == [position for position in durable if position > middle]


async def test_a_bad_frame_is_answered_and_one_too_large_ends_the_connection(attached: Gateway) -> None:
    async with connected(attached) as client:
        await client.send("{")
        bad = await client.response()
        good = await client.request("models.list")
        await client.send(json.dumps({"type": "req", "id": "1", "method": "x" * MAX_BODY_BYTES}))
        ended = await client.receive()

    assert (bad["error"]["code"], good["ok"], ended) == ("input.json", True, None)


def positions(client: WsClient) -> list[int]:
    return [frame["position"] for frame in client.events if frame["position"] is not None]


async def test_a_client_that_leaves_leaves_nothing_open(owner: Gateway, attached: Gateway) -> None:
    async with connected(attached) as client:
        await client.request("models.list")
        _, within = await asyncio.to_thread(ask, attached, "GET", f"{PREFIX}/health", token=attached.token)
    assert within["clients"] == 1, "the owner counts who comes through another server"

    async with asyncio.timeout(20):
        while True:
            _, after = await asyncio.to_thread(ask, attached, "GET", f"{PREFIX}/health", token=attached.token)
            if after["clients"] == 0:
                break
            await asyncio.sleep(0.05)
    assert open_sockets(attached, owner) == 0


async def test_an_attached_server_passes_on_the_session_of_a_handshake(owner: Gateway, attached: Gateway) -> None:
    async with connected(attached) as client:
        session_id = await client.open_session("handshake through another server")
    async with connected(attached, query=f"?session_id={session_id}") as client:
        opened = await client.request("session.open")
    with pytest.raises(HTTPClientError) as refused:
        async with connected(attached, query="?session_id=sess_01ARZ3NDEKTSV4RRFFQ69G5FAV"):
            pass

    assert opened["payload"]["session_id"] == session_id
    assert refused.value.code == 404


def open_sockets(attached: Gateway, owner: Gateway) -> int:
    port = int(owner.url.split(":")[2].split("/")[0])
    connections = psutil.Process(attached.process.pid).net_connections("tcp")
    return len(
        [found for found in connections if found.raddr and found.raddr[1] == port and found.status != "TIME_WAIT"]
    )


def test_a_kernels_token_of_the_owner_means_nothing_at_the_attached_server(owner: Gateway, attached: Gateway) -> None:
    _, granted = ask(attached, "POST", f"{PREFIX}/kernels/{KERNEL_ID}/token", token=attached.token)

    assert ask(owner, "GET", f"{UP}{PREFIX}/health", token=granted["token"])[1]["code"] == "policy.kernel"
    for method, path in [*REST, WS]:
        for token in (granted["token"], owner.token):
            status, error = ask(attached, method, path, token=token)
            assert (status, error["code"]) == (403, "http.403")


def test_the_owners_token_stands_nowhere_but_in_its_file(owner: Gateway, attached: Gateway) -> None:
    found = [ask_whole(attached, method, path, token=attached.token) for method, path in REST]
    folder = owner.home.home.parent
    logs = [path.read_text() for path in [*folder.glob("*.log"), *folder.glob("home/logs/app/*")]]

    assert [answer for answer in found if owner.token in repr(answer)] == []
    assert [log for log in logs if owner.token in log] == []
    assert owner.token not in (folder / "home" / "run" / "attached" / f"{attached.process.pid}.json").read_text()


def test_to_stop_an_attached_server_leaves_the_owner_alone(home: GatewayHome) -> None:
    with start_gateway(home) as owner:
        with start_attached(home) as attached:
            pass
        status, health = ask(owner, "GET", f"{PREFIX}/health", token=owner.token)

    assert attached.process.returncode == 0
    assert (status, health["attached"]) == (200, [])
    assert list((home.home / "run" / "attached").iterdir()) == []


def test_an_owner_with_a_certificate_of_its_own_is_reached(home: GatewayHome, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True, timeout=60)

    with (
        start_jupyter(home, f"--ServerApp.certfile={certificate}", f"--ServerApp.keyfile={key}") as owner,
        start_attached(home, "--ServerApp.base_url=/second/") as attached,
    ):
        status, health = ask(attached, "GET", f"/second{PREFIX}/health", token=attached.token)

        async def through_the_relay() -> dict[str, object]:
            async with connected(attached) as client:
                return await client.request("models.list")

        answered = asyncio.run(through_the_relay())

    assert owner.url.startswith("https://")
    assert attached.url.endswith("/second/")
    assert (status, health["pid"], answered["ok"]) == (200, owner.process.pid, True)
