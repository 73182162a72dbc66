"""Every route of the gateway, walked by those who may not."""

import asyncio
import http.client
import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from ozzie_server_ext.gateway.base import MAX_BODY_BYTES
from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.walk import KERNEL_ID, NOWHERE, REST, WS, ask, ask_whole
from tests.rig import JUPYTER_TOKEN, Gateway, GatewayHome, start_attached, start_gateway, start_jupyter
from tests.ws_client import connected

HEADS = [("HEAD", path) for method, path in REST if method == "GET"]
WALK = [*REST, *HEADS, *NOWHERE, WS]
LACKING = [
    (method, path)
    for path in sorted({path for _, path in REST})
    for method in ("PUT", "PATCH", "DELETE", "TRACE", "PROPFIND")
    if (method, path) not in REST
]
POSTS = [path for method, path in REST if method == "POST"]


@pytest.fixture(scope="module")
def shared_attached(shared_gateway: Gateway) -> Iterator[Gateway]:
    """A server that is attached to the shared gateway; its token is Jupyter's."""
    with start_attached(shared_gateway.home) as running:
        yield running


@pytest.fixture(params=["shared_gateway", "shared_attached"])
def server(request: pytest.FixtureRequest) -> Gateway:
    """The owner of a home, and one that is attached to it: the same rules hold at both."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def kernel_token(shared_gateway: Gateway) -> str:
    path = f"{PREFIX}/kernels/{KERNEL_ID}/token"
    status, body = ask(shared_gateway, "POST", path, token=shared_gateway.token)
    assert status == 200
    return str(body["token"])


def test_nobody_gets_in_without_credentials(server: Gateway) -> None:
    for method, path in WALK:
        status, headers, error = ask_whole(server, method, path)

        assert status == 403, (method, path)
        assert "WWW-Authenticate" not in headers, f"{method} {path}: a browser would ask for a password"
        if (method, path) != WS and method != "HEAD":
            assert set(error) == {"code", "message", "hint"}, (method, path)


@pytest.mark.parametrize("path", ["/api/kernels", "/api/contents", "/api/me", "/files/x", "/metrics", "/ozzie", "/lab"])
def test_the_rest_of_a_headless_server_says_nothing_to_nobody(shared_gateway: Gateway, path: str) -> None:
    status, headers, _ = ask_whole(shared_gateway, "GET", path)

    assert status in (302, 403, 404)
    assert headers.get("Location", "/login").startswith("/login")


def test_the_root_of_a_headless_server_tells_nobody_more_than_that_a_server_is_there(shared_gateway: Gateway) -> None:
    status, _, version = ask_whole(shared_gateway, "GET", "/api")
    root = urllib.request.urlopen(shared_gateway.url, timeout=20).read().decode()

    assert (status, set(version)) == (200, {"version"})
    assert "Jupyter Server is running" in root
    folder = str(shared_gateway.home.home.parent)
    assert [secret for secret in (JUPYTER_TOKEN, shared_gateway.token, folder) if secret in root] == []


def test_a_wrong_token_is_refused(server: Gateway) -> None:
    for method, path in WALK:
        assert ask(server, method, path, token="x" * 43)[0] == 403, (method, path)


def test_a_token_in_the_url_is_never_accepted(server: Gateway) -> None:
    for method, path in WALK:
        with_it = f"{path}?token={server.token}"

        assert ask(server, method, with_it)[0] == 403, (method, path)
        assert ask(server, method, with_it, token=server.token)[0] == 403, (method, path)


def test_a_foreign_host_is_refused_whatever_it_carries(server: Gateway) -> None:
    headers = {"Host": "evil.example:80"}

    for method, path in WALK:
        assert ask(server, method, path, token=server.token, headers=headers)[0] == 403, (method, path)


def test_a_post_that_is_no_json_is_refused(server: Gateway) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}

    for path in POSTS:
        assert ask(server, "POST", path, token=server.token, headers=headers, body="a=b")[0] == 415, path


def test_a_kernels_token_is_not_enough_for_what_is_the_users(server: Gateway, kernel_token: str) -> None:
    for method, path in WALK:
        if (method, path) != WS:
            assert ask(server, method, path, token=kernel_token)[0] == 403, (method, path)


def test_the_websocket_opens_for_a_kernel_but_not_for_a_foreign_page(
    shared_gateway: Gateway, kernel_token: str
) -> None:
    foreign = {"Origin": "http://evil.example"}

    assert ask(shared_gateway, "GET", f"{PREFIX}/ws", token=kernel_token)[0] == 101
    assert ask(shared_gateway, "GET", f"{PREFIX}/ws", token=kernel_token, headers=foreign)[0] == 403


@pytest.fixture
def cookie(server: Gateway) -> str:
    """The login cookie of a browser, as Jupyter hands it out for its own token."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
    connection.request("GET", f"{PREFIX}/health", headers={"Authorization": f"token {JUPYTER_TOKEN}"})
    response = connection.getresponse()
    found = str(response.getheader("Set-Cookie"))
    response.read()
    connection.close()
    return found.split(";")[0]


def test_a_foreign_page_can_do_nothing_with_the_users_cookie(server: Gateway, cookie: str) -> None:
    own = {"Cookie": cookie, "Origin": server.url.rstrip("/")}
    foreign = {"Cookie": cookie, "Origin": "http://evil.example"}

    for method, path in WALK:
        assert ask(server, method, path, headers=foreign)[0] in (403, 404), (method, path)
        # What the examples name is not there, a search has no words, and all but reading wants the XSRF token that a
        # page of our own would send along.
        expected = (101, 200, 400, 404) if method in ("GET", "HEAD") else (403,)
        assert ask(server, method, path, headers=own)[0] in expected, (method, path)


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
        ("[]", "object"),
        ("{", "Not JSON"),
        ('{"a":1,"a":2}', "twice"),
        ("NaN", "NaN"),
        ('{"a":' + "[" * 100 + "]" * 100 + "}", "deeper"),
        ('{"a":"\\ud800"}', "surrogate"),
        (b'{"a":"\xff"}', "UTF-8"),
        ('{"nonesuch":1}', 'no field "nonesuch"'),
    ],
    ids=["list", "broken", "duplicate", "nan", "deep", "surrogate", "not utf-8", "unknown"],
)
def test_a_bad_body_is_refused_in_one_shape(server: Gateway, body: str | bytes, says: str) -> None:
    for path in POSTS:
        status, error = ask(server, "POST", path, token=server.token, body=body)

        assert status == 400, path
        assert set(error) == {"code", "message", "hint"}, path
        assert says in error["message"], path


def test_a_body_that_is_too_large_is_refused(server: Gateway) -> None:
    body = json.dumps({"a": "x" * MAX_BODY_BYTES})

    for path in POSTS:
        assert ask(server, "POST", path, token=server.token, body=body)[0] == 413, path


def test_a_parameter_that_there_is_not_is_refused(server: Gateway) -> None:
    for method, path in [*REST, *HEADS]:
        status, error = ask(server, method, f"{path}?nonesuch=1", token=server.token)

        assert status == 400, (method, path)
        if method != "HEAD":
            assert 'no parameter "nonesuch"' in error["message"], (method, path)


def test_a_method_that_a_path_has_not_is_refused_with_those_that_it_has(server: Gateway) -> None:
    for method, path in LACKING:
        status, headers, error = ask_whole(server, method, path, token=server.token)
        has = {method for method, other in [*REST, *HEADS] if other == path} | {"OPTIONS"}

        assert (status, error["code"]) == (405, "http.405"), (method, path)
        assert set(headers["Allow"].split(", ")) == has, (method, path)


def test_options_tell_the_methods_and_nothing_else(server: Gateway) -> None:
    status, headers, body = ask_whole(server, "OPTIONS", f"{PREFIX}/sessions")

    assert (status, body) == (204, {})
    assert headers["Allow"] == "GET, POST, HEAD, OPTIONS"
    assert "Access-Control-Allow-Origin" not in headers


def test_an_address_where_nothing_is_says_so_in_the_same_shape(server: Gateway) -> None:
    for method, path in NOWHERE:
        status, error = ask(server, method, path, token=server.token)

        assert (status, error["code"]) == (404, "http.404"), (method, path)
        assert "openapi.json" in error["hint"], (method, path)


DENYING = """
from jupyter_server.auth import Authorizer

class Denying(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return resource != "ozzie"

c.ServerApp.authorizer_class = Denying
"""


@pytest.mark.parametrize("attached", [False, True])
def test_whom_the_authorizer_denies_ozzie_gets_nowhere_in_it(home: GatewayHome, attached: bool) -> None:
    settings = home.home.parent / "jupyter-config"
    settings.mkdir()

    with ExitStack() as servers:
        if attached:  # to an owner that lets everybody do everything
            servers.enter_context(start_gateway(home))
        (settings / "jupyter_server_config.py").write_text(DENYING)
        server = servers.enter_context(start_attached(home) if attached else start_jupyter(home))
        theirs = ask(server, "GET", "/api/status", token=JUPYTER_TOKEN)[0]
        found = {
            (method, path, token): ask(server, method, path, token=token)[0]
            for method, path in WALK
            for token in (JUPYTER_TOKEN, server.token)
        }

    assert theirs == 200
    assert {entry: status for entry, status in found.items() if status != 403} == {}


def test_an_unknown_task_is_named_as_such(server: Gateway) -> None:
    for path in ("tasks/nonesuch", "tasks/01M800000000000000000000ZZ", "sessions/%E2%80%AE", "sessions/..%2Fhealth"):
        status, error = ask(server, "GET", f"{PREFIX}/{path}", token=server.token)

        assert (status, error["code"]) == (404, "input.not_found")


def test_the_handshake_file_is_the_users_alone(shared_gateway: Gateway) -> None:
    (path,) = shared_gateway.home.runtime.glob("ozzie-*.json")

    assert path.stat().st_mode & 0o777 == 0o600
    assert shared_gateway.token not in repr(shared_gateway.home.handshake())
