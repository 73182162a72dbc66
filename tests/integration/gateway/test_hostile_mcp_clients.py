"""What no honest MCP client sends: each is refused in words, hurts nobody else, and holds up nothing."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.integration.gateway.test_mcp_clients import plane_of
from tests.integration.gateway.test_rest import get, post
from tests.integration.gateway.walk import KERNEL_ID
from tests.mcp_clients import NEWER, OLDER, Raw, events_in, in_background, newer
from tests.rig import JUPYTER_TOKEN, Gateway, GatewayHome, new_home, start_gateway

pytestmark = pytest.mark.timeout(120)

MOST_LAG_S = 1.0
"""For an answer of health while clients flood. Other tests run beside this one."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = new_home(tmp_path_factory.mktemp("hostile-mcp"))
    with start_gateway(home) as running:
        assert Raw(running).send("POST", newer("tools/list")[1], **newer("tools/list")[0])[0] == 200
        yield running


@dataclass
class Case:
    """A request, and what its refusal has: one of these states, and these words."""

    status: tuple[int, ...]
    words: str
    body: Any = None
    headers: dict[str, Any] = field(default_factory=dict[str, Any])
    method: str = "POST"
    path: str = "ozzie/mcp"


def _newer(method: str, status: tuple[int, ...], words: str, *, headers: Any = None, **params: Any) -> Case:
    sent, body = newer(method, **params)
    return Case(status, words, body, {**{n.replace("-", "_"): v for n, v in sent.items()}, **(headers or {})})


def _call(name: str, arguments: Any, words: str, *, status: tuple[int, ...] = (200,), **more: Any) -> Case:
    return _newer("tools/call", status, words, name=name, arguments=arguments, **more)


LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
DEEP = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":' + b'{"a":' * 9000 + b"1" + b"}" * 9001
GROWING_HEADERS = {name.replace("-", "_"): value for name, value in newer("tools/call", name="calculator")[0].items()}


def _growing() -> bytes:
    """A call that fits, but not once each of its numbers is written as Python writes it."""
    arguments = {"text": "x" * (780 << 10), "numbers": [1e15] * 15_000}
    _, body = newer("tools/call", name="calculator", arguments=arguments)
    return json.dumps(body, separators=(",", ":")).replace("1000000000000000.0", "1e15").encode()


PASSWD = "file:///etc/passwd"
CASES = {
    "no token": Case((403,), "token", LIST, {"Authorization": None}),
    "a wrong token": Case((403,), "token", LIST, {"Authorization": "token " + "x" * 43}),
    "a token in the URL": Case(
        (403,), "never accepted", LIST, {"Authorization": None}, path=f"ozzie/mcp?token={JUPYTER_TOKEN}"
    ),
    "a token in the URL beside a right one": Case((403,), "never accepted", LIST, path="ozzie/mcp?token=abc"),
    "another host": Case((403,), "", LIST, {"Host": "evil.example"}),
    "a page of another place": Case((403,), "Pages of other places", LIST, {"Origin": "http://evil.example"}),
    "a page of no place": Case((403,), "Pages of other places", LIST, {"Origin": "null"}),
    "a page of a place that is none": Case((403,), "Pages of other places", LIST, {"Origin": "http://["}),
    "a page of another port": Case((403,), "Pages of other places", LIST, {"Origin": "http://127.0.0.1:1"}),
    "no JSON": Case((400,), "Parse error", b'{"jsonrpc": "2.0", '),
    "no JSON at all": Case((400,), "Parse error", b""),
    "deep JSON": Case((400,), "deeper", DEEP),
    "a key twice": Case((400,), "Parse error", b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}'),
    "no number": Case((400,), "Parse error", b'{"jsonrpc":"2.0","id":NaN,"method":"tools/list"}'),
    "no UTF-8": Case((400,), "UTF-8", b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}'),
    "a batch": Case((400,), "one message at a time", [LIST, LIST]),
    "a number": Case((400,), "JSON object", 7),
    "too many values": Case((400,), "20,000 values", b'{"a":[' + b"1," * 20_000 + b"1]}"),
    "a call that grows as it is written anew": Case((200, 400, 500), "too long", _growing(), GROWING_HEADERS),
    "a huge body": Case((413,), "at most", b'{"a":"' + b"x" * (2 << 20) + b'"}'),
    "another media type": Case((400, 415), "", LIST, {"Content_Type": "text/plain", "Mcp_Session_Id": None}),
    "an answer that it can't read": Case((400, 406), "", LIST, {"Accept": "image/png"}),
    "an unknown session": Case((404,), "Session not found", LIST, {"Mcp_Session_Id": "0" * 32}),
    "a session of strange letters": Case((400, 404), "", LIST, {"Mcp_Session_Id": "../../etc/passwd"}),
    "no session": Case((400,), "", LIST),
    "an unknown version": Case((400,), "version", newer("tools/list")[1], {"MCP_Protocol_Version": "2099-01-01"}),
    "another method in the header": _newer("tools/list", (400,), "", headers={"Mcp_Method": "tools/call"}),
    "another name in the header": _call(
        "calculator", {"expr": "1"}, "", status=(400,), headers={"Mcp_Name": "write_file"}
    ),
    "a long header": _newer("tools/list", (400,), "too long", headers={"Mcp_Name": "x" * 5000}),
    "an unknown method": _newer("ozzie/approve", (404,), "not found"),
    "an older method": _newer("initialize", (404,), "not found"),
    "a forged version in _meta": _newer(
        "tools/list", (400,), "", meta={"io.modelcontextprotocol/protocolVersion": "2024-11-05"}
    ),
    "a client that is no object": _newer("tools/list", (400,), "", meta={"io.modelcontextprotocol/clientInfo": "me"}),
    "a progress token that is an object": _call(
        "calculator", {"expr": "1"}, "", status=(200, 400), meta={"progressToken": {"a": 1}}
    ),
    "an id that is an object": Case((400,), "", newer("tools/list", {"a": 1})[1], {"MCP_Protocol_Version": NEWER}),
    "an unknown tool": _call("rm_rf", {}, "There is no tool rm_rf", status=(200, 400)),
    "a tool of skills alone": _call("gate", {"question": "?"}, "There is no tool gate", status=(200, 400)),
    "arguments that are a list": _call("calculator", ["1"], "", status=(200, 400)),
    "arguments that don't fit": _call("calculator", {"expr": 7}, "do not fit"),
    "arguments of a session that don't fit": _call("ozzie_ask", {"message": 7}, "message is a text"),
    "an empty message": _call("ozzie_ask", {"message": " "}, "empty"),
    "a session that is a path": _call("ozzie_session_read", {"session": "../x"}, "There is no session"),
    "a very long message": _call("ozzie_ask", {"message": "x" * 600_000}, "characters"),
    "a path out of the project": _call("read_file", {"path": "../../etc/passwd"}, ""),
    "a file as a resource": _newer(
        "resources/read", (200, 400), "no resource", headers={"Mcp_Name": PASSWD}, uri=PASSWD
    ),
    "a folder that is not there": _newer(
        "tools/list", (200, 400, 500), "project", headers={"Ozzie_Project": "/nowhere/at/all"}
    ),
    "a folder that is no path": _newer("tools/list", (200, 400, 500), "path", headers={"Ozzie_Project": "a/b"}),
    "PUT": Case((405,), "not possible", LIST, method="PUT"),
    "a GET with a body": Case((400,), "Only a POST", LIST, method="GET"),
    "a GET without a session": Case((400,), "", method="GET"),
    "a DELETE without a session": Case((400, 404), "", method="DELETE"),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_in_words(server: Gateway, name: str) -> None:
    case = CASES[name]
    began = time.monotonic()
    status, text = Raw(server).send(case.method, case.body, path=case.path, **case.headers)

    assert status in case.status, (status, text)
    assert case.words in text, text
    assert "Traceback" not in text
    assert status != 200 or '"error"' in text or '"isError":true' in text or not case.words, text
    assert get(server, "health")["status"] == "ok"
    assert time.monotonic() - began < 20


def test_a_kernels_token_opens_nothing(server: Gateway) -> None:
    token = post(server, f"kernels/{KERNEL_ID}/token", session_name="k")["token"]
    status, text = Raw(server, Authorization=f"token {token}").send("POST", LIST)

    assert (status, "A kernel's token" in text) == (403, True)


def test_a_browsers_cookie_opens_nothing(server: Gateway) -> None:
    raw = Raw(server, Authorization=f"token {JUPYTER_TOKEN}")
    with raw.open("GET", path=f"login?token={JUPYTER_TOKEN}") as answer:
        answer.read()
        cookies = [value.partition(";")[0] for name, value in answer.getheaders() if name.lower() == "set-cookie"]
    xsrf = next((each.partition("=")[2] for each in cookies if each.startswith("_xsrf=")), "")
    headers = {"Cookie": "; ".join(cookies), "X_XSRFToken": xsrf, "Authorization": None}
    with raw.open("GET", path="api/contents", **headers) as answer:
        lets_in = answer.status
    status, text = raw.send("POST", LIST, **headers)

    assert cookies
    assert status == 403, (lets_in, text)


def test_a_forged_name_makes_nobody_else_of_who_has_jupyters_token(server: Gateway) -> None:
    headers, body = newer("tools/call", name="ozzie_ask", arguments={"message": "hello"})
    forged = Raw(server, Authorization=f"token {JUPYTER_TOKEN}", **{"Ozzie-User": "root-of-all"})
    status, text = forged.send("POST", body, **{name.replace("-", "_"): value for name, value in headers.items()})
    tasks = get(server, "tasks?limit=5")["items"]

    assert status == 200, text
    assert all(task["sender_id"] != "root-of-all" for task in tasks)


def test_a_name_with_tricks_is_shown_inert(server: Gateway) -> None:
    evil = "\u202eevil\x1b[31m\n<script>" + "x" * 10_000
    info = {"io.modelcontextprotocol/clientInfo": {"name": evil, "version": "1"}}
    headers, body = newer("tools/call", name="ozzie_ask", arguments={"message": "hello"}, meta=info)
    status, text = Raw(server).send("POST", body, **{n.replace("-", "_"): v for n, v in headers.items()})
    session = json.loads(text[text.index("{") :].split("\r\n")[0])["result"]["structuredContent"]["session"]
    title = get(server, f"sessions/{session}")["title"]

    assert status == 200
    assert len(title) <= 60
    assert not set(title) & set("\u202e\x1b\n"), title


def test_a_body_without_a_length_is_cut_off(server: Gateway) -> None:
    address = urlsplit(server.url)
    head = (
        f"POST {address.path}ozzie/mcp HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: token {server.token}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection((str(address.hostname), address.port or 80), timeout=20) as connection:
        connection.sendall(head.encode())
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        said = b""
        try:
            for _ in range(64):
                connection.sendall(chunk)
        except OSError:
            pass
        while piece := connection.recv(1 << 16):
            said += piece
            if b"\r\n\r\n" in said and b"}" in said:
                break

    assert b" 413 " in said.split(b"\r\n")[0], said


@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Mcp-Method: tools/list\r\nMcp-Method: tools/call\r\nContent-Length: 0\r\n",
        "Mcp-Session-Id: a\r\nmcp-session-id: b\r\nContent-Length: 0\r\n",
    ],
)
def test_headers_that_two_programs_read_in_two_ways_are_refused(server: Gateway, lines: str) -> None:
    address = urlsplit(server.url)
    head = (
        f"POST {address.path}ozzie/mcp HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: token {server.token}\r\n"
        f"Content-Type: application/json\r\n{lines}\r\n"
    )
    with socket.create_connection((str(address.hostname), address.port or 80), timeout=20) as connection:
        connection.sendall(head.encode())
        connection.shutdown(socket.SHUT_WR)
        said = b""
        while piece := connection.recv(1 << 16):
            said += piece

    assert said == b"" or b" 400 " in said.split(b"\r\n")[0], said
    assert get(server, "health")["status"] == "ok"


class Watch:
    """Asks for health all the while."""

    def __init__(self, server: Gateway) -> None:
        self.longest_s = 0.0
        self.answers = 0
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            began = time.monotonic()
            assert get(self._server, "health")["status"] == "ok"
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            self.answers += 1


def test_a_flood_of_sessions_ends_and_leaves_others_theirs(server: Gateway) -> None:
    flooding, other = Raw(server, **{"Ozzie-User": "flood"}), Raw(server, **{"Ozzie-User": "quiet"})
    hello = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
    }
    with Watch(server) as watch:
        found = [flooding.send("POST", hello)[0] for _ in range(40)]
        session = other.begin()

    assert (found.count(200), found.count(503)) == (32, 8)
    assert session
    assert watch.longest_s < MOST_LAG_S


def test_a_flood_of_streams_ends_and_leaves_others_theirs(server: Gateway) -> None:
    raw = Raw(server, **{"Ozzie-User": "streams"})
    session = raw.begin()
    headers = {"Mcp_Session_Id": session, "MCP_Protocol_Version": OLDER, "Accept": "text/event-stream"}
    listen_headers, listen = newer("subscriptions/listen", notifications={"toolsListChanged": True})
    sent = {name.replace("-", "_"): value for name, value in listen_headers.items()}
    with Watch(server) as watch, ExitStack() as open_:
        first = open_.enter_context(raw.open("GET", **headers)).status
        second = raw.send("GET", **headers)[0]
        states: list[str] = []
        for number in range(40):
            answer = open_.enter_context(raw.open("POST", {**listen, "id": number}, **sent))
            kind = answer.getheader("Content-Type") or ""
            states.append("stream" if "event-stream" in kind else answer.read().decode())
        quiet_headers, quiet = newer("tools/list")
        beside = Raw(server, **{"Ozzie-User": "quiet"}).send(
            "POST", quiet, **{name.replace("-", "_"): value for name, value in quiet_headers.items()}
        )

    assert (first, second) == (200, 409)
    assert states.count("stream") == 32
    assert all("limit" in each for each in states if each != "stream")
    assert beside[0] == 200
    assert watch.longest_s < MOST_LAG_S


def test_a_flood_of_requests_is_told_to_wait(server: Gateway) -> None:
    """Each waits for a person, so that it stays open; the streams above are bounded before."""
    raw = Raw(server, **{"Ozzie-User": "many"})
    sessions = [raw.begin() for _ in range(32)]
    with Watch(server) as watch, ExitStack() as open_:
        for session in sessions:
            assert open_.enter_context(raw.open("GET", Mcp_Session_Id=session)).status == 200
        listen_headers, listen = newer("subscriptions/listen", notifications={"toolsListChanged": True})
        sent = {name.replace("-", "_"): value for name, value in listen_headers.items()}
        for number in range(32):
            assert open_.enter_context(raw.open("POST", {**listen, "id": number}, **sent)).status == 200
        status, text = raw.send("POST", listen, **sent)

    assert (status, "open already" in text) == (429, True)
    assert watch.longest_s < MOST_LAG_S


def test_a_client_that_reads_nothing_holds_up_nobody(server: Gateway) -> None:
    (server.home.project / "large.txt").write_text("y" * 200_000)
    slow_headers, slow = newer("resources/list")
    sent = {name.replace("-", "_"): value for name, value in slow_headers.items()}
    with Watch(server) as watch, ExitStack() as open_:
        for _ in range(20):
            open_.enter_context(Raw(server, **{"Ozzie-User": "slow"}).open("POST", slow, **sent))
        raw = Raw(server)
        session = raw.begin()
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "calculator", "arguments": {"expr": "2*3"}},
        }
        with raw.open("POST", call, Mcp_Session_Id=session) as stream:
            result = next(message for _, message in events_in(stream) if message and message.get("id") == 1)

    assert result["result"]["structuredContent"] == {"value": "6"}
    assert watch.longest_s < MOST_LAG_S


@pytest.mark.cold
def test_a_flood_of_large_bodies_ends_no_call_of_others(home: GatewayHome) -> None:
    """To read each of them would take most of a second, in which the process hears of no client that leaves; it would
    be taken for dead."""
    headers, body = newer("tools/call", name="calculator", arguments={"expr": "1", "more": [{}] * 260_000})
    data = json.dumps(body, separators=(",", ":")).encode()
    sent = {name.replace("-", "_"): value for name, value in headers.items()}
    listen_headers, listen = newer("subscriptions/listen", notifications={"toolsListChanged": True})
    listening = {name.replace("-", "_"): value for name, value in listen_headers.items()}
    found: list[int] = []
    with start_gateway(home) as server:
        heavy = Raw(server, **{"Ozzie-User": "heavy"})
        with Raw(server, **{"Ozzie-User": "victim"}).open("POST", listen, **listening) as stream:
            before = plane_of(server).pid
            threads = [in_background(lambda: found.append(heavy.send("POST", data, **sent)[0])) for _ in range(30)]
            leaving = Raw(server, **{"Ozzie-User": "heavy"})
            leaving.within_s = 0.5
            with suppress(OSError):
                leaving.send("POST", data, **sent)
            for thread in threads:
                thread.join(60)

            assert stream.status == 200
            assert found == [400] * 30
            assert plane_of(server).pid == before
