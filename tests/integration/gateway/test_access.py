"""Every route of the gateway, walked by those who may not (THREATS 6, 11)."""

import asyncio
import http.client
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from ozzie_server_ext.gateway.routes import PREFIX, ROUTES
from tests.rig import JUPYTER_TOKEN, Gateway
from tests.ws_client import connected

KERNEL_ID = "11111111-2222-3333-4444-555555555555"


def _example(pattern: str) -> str:
    """A path that the pattern matches."""
    path = re.sub(r"\(\?P<kernel_id>[^)]*\)", KERNEL_ID, pattern)
    return PREFIX + re.sub(r"\(\?P<task_id>[^)]*\)", "01M800000000000000000000ZZ", path)


WALK = [
    (method, _example(pattern))
    for pattern, handler in ROUTES
    for method in ("GET", "POST")
    if method.lower() in vars(handler)
]
POSTS = [path for method, path in WALK if method == "POST"]
WS_UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def ask(
    gateway: Gateway,
    method: str,
    path: str,
    *,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    body: str | None = None,
) -> tuple[int, dict[str, Any]]:
    """Status and JSON body of one request."""
    address = urlsplit(gateway.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
    sent = {"Content-Type": "application/json"} if method == "POST" else {}
    if path.endswith("/ws"):
        sent |= WS_UPGRADE
    if token:
        sent["Authorization"] = f"token {token}"
    connection.request(
        method, path, body="{}" if method == "POST" and body is None else body, headers={**sent, **(headers or {})}
    )
    socket = connection.sock
    response = connection.getresponse()
    if response.status == 101:
        response.close()
        socket.close()
        return 101, {}
    text = response.read()
    connection.close()
    try:
        return response.status, json.loads(text)
    except ValueError:
        return response.status, {}


@pytest.fixture
def kernel_token(shared_gateway: Gateway) -> str:
    path = f"{PREFIX}/kernels/{KERNEL_ID}/token"
    status, body = ask(shared_gateway, "POST", path, token=shared_gateway.token)
    assert status == 200
    return str(body["token"])


@pytest.mark.parametrize(("method", "path"), WALK)
def test_nobody_gets_in_without_credentials(shared_gateway: Gateway, method: str, path: str) -> None:
    assert ask(shared_gateway, method, path)[0] == 403


@pytest.mark.parametrize(("method", "path"), WALK)
def test_a_wrong_token_is_refused(shared_gateway: Gateway, method: str, path: str) -> None:
    assert ask(shared_gateway, method, path, token="x" * 43)[0] == 403


@pytest.mark.parametrize(("method", "path"), WALK)
def test_a_token_in_the_url_is_never_accepted(shared_gateway: Gateway, method: str, path: str) -> None:
    assert ask(shared_gateway, method, f"{path}?token={shared_gateway.token}")[0] == 403
    both = ask(shared_gateway, method, f"{path}?token={shared_gateway.token}", token=shared_gateway.token)
    assert both[0] == 403


@pytest.mark.parametrize(("method", "path"), WALK)
def test_a_foreign_host_is_refused_whatever_it_carries(shared_gateway: Gateway, method: str, path: str) -> None:
    headers = {"Host": "evil.example:80"}

    assert ask(shared_gateway, method, path, token=shared_gateway.token, headers=headers)[0] == 403


@pytest.mark.parametrize("path", POSTS)
def test_a_post_that_is_no_json_is_refused(shared_gateway: Gateway, path: str) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}

    assert ask(shared_gateway, "POST", path, token=shared_gateway.token, headers=headers, body="a=b")[0] == 415


@pytest.mark.parametrize(("method", "path"), [entry for entry in WALK if not entry[1].endswith("/ws")])
def test_a_kernels_token_is_not_enough_for_what_is_the_users(
    shared_gateway: Gateway, kernel_token: str, method: str, path: str
) -> None:
    assert ask(shared_gateway, method, path, token=kernel_token)[0] == 403


def test_the_websocket_opens_for_a_kernel_but_not_for_a_foreign_page(
    shared_gateway: Gateway, kernel_token: str
) -> None:
    foreign = {"Origin": "http://evil.example"}

    assert ask(shared_gateway, "GET", f"{PREFIX}/ws", token=kernel_token)[0] == 101
    assert ask(shared_gateway, "GET", f"{PREFIX}/ws", token=kernel_token, headers=foreign)[0] == 403


@pytest.fixture
def cookie(shared_gateway: Gateway) -> str:
    """The login cookie of a browser, as Jupyter hands it out for its own token."""
    address = urlsplit(shared_gateway.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
    connection.request("GET", f"{PREFIX}/health", headers={"Authorization": f"token {JUPYTER_TOKEN}"})
    response = connection.getresponse()
    found = str(response.getheader("Set-Cookie"))
    response.read()
    connection.close()
    return found.split(";")[0]


@pytest.mark.parametrize(("method", "path"), WALK)
def test_a_foreign_page_can_do_nothing_with_the_users_cookie(
    shared_gateway: Gateway, cookie: str, method: str, path: str
) -> None:
    own = {"Cookie": cookie, "Origin": shared_gateway.url.rstrip("/")}
    foreign = {"Cookie": cookie, "Origin": "http://evil.example"}

    assert ask(shared_gateway, method, path, headers=foreign)[0] in (403, 404)
    if method == "GET" and "/tasks/" not in path:
        assert ask(shared_gateway, method, path, headers=own)[0] in (101, 200)
    if method == "POST":  # without the XSRF token that a page of our own would send along
        assert ask(shared_gateway, method, path, headers=own)[0] == 403


async def test_a_kernels_token_dies_with_its_connection(shared_gateway: Gateway, kernel_token: str) -> None:
    async with connected(shared_gateway, kernel_token) as kernel:
        await kernel.request("models.list")
    async with connected(shared_gateway) as user:  # a connection that is closed later than the kernel's was
        await user.request("models.list")

    assert (await asyncio.to_thread(ask, shared_gateway, "GET", f"{PREFIX}/ws", token=kernel_token))[0] == 403


def test_a_new_token_of_a_kernel_ends_the_old_one(shared_gateway: Gateway, kernel_token: str) -> None:
    again = ask(shared_gateway, "POST", f"{PREFIX}/kernels/{KERNEL_ID}/token", token=shared_gateway.token)[1]

    assert again["token"] != kernel_token
    assert ask(shared_gateway, "GET", f"{PREFIX}/ws", token=kernel_token)[0] == 403
    assert ask(shared_gateway, "GET", f"{PREFIX}/ws", token=str(again["token"]))[0] == 101


def test_health_tells_how_the_gateway_is(shared_gateway: Gateway) -> None:
    status, health = ask(shared_gateway, "GET", f"{PREFIX}/health", token=shared_gateway.token)

    assert status == 200
    assert health["status"] == "ok"
    assert health["pid"] == shared_gateway.process.pid
    assert health["home"] == str(shared_gateway.home.home)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('{"session_name": 1}', "session_name"),
        ("[]", "object"),
        ("{", "Not JSON"),
        ('{"a":1,"a":2}', "twice"),
        ("NaN", "NaN"),
    ],
)
def test_a_bad_body_is_refused_in_one_shape(shared_gateway: Gateway, body: str, says: str) -> None:
    path = f"{PREFIX}/kernels/{KERNEL_ID}/token"

    status, error = ask(shared_gateway, "POST", path, token=shared_gateway.token, body=body)

    assert status == 400
    assert set(error) == {"code", "message", "hint"}
    assert says in error["message"]


def test_an_unknown_task_is_named_as_such(shared_gateway: Gateway) -> None:
    status, error = ask(shared_gateway, "GET", f"{PREFIX}/tasks/nonesuch", token=shared_gateway.token)

    assert (status, error["code"]) == (404, "input.not_found")


def test_the_handshake_file_is_the_users_alone(shared_gateway: Gateway) -> None:
    (path,) = shared_gateway.home.runtime.glob("ozzie-*.json")

    assert path.stat().st_mode & 0o777 == 0o600
    assert shared_gateway.token not in repr(shared_gateway.home.handshake())
