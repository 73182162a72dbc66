"""Bodies of requests: nobody fills a server's memory with them (RSS of a real process, before and after)."""

import asyncio
import contextlib
import gzip
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from ozzie_server_ext.gateway.base import MAX_BODY_BYTES, MAX_S
from ozzie_server_ext.programs.gateway_server import HEADER_S, MAX_CONNECTIONS
from tests.integration.gateway.walk import PREFIX, ask
from tests.rig import JUPYTER_TOKEN, Gateway, new_home, start_attached, start_gateway, start_jupyter
from tests.ws_client import connected

MIB = 1 << 20
HUGE = 100 * MIB
AT_ONCE = 4
ALLOWED = 24 * MIB
"""How much the process may grow meanwhile."""
PIECE = b"x" * MIB
MESSAGE = f"{PREFIX}/message"


@dataclass(frozen=True)
class Served:
    """A server, the token that opens it, and the process whose memory counts."""

    gateway: Gateway
    token: str

    def peak(self) -> int:
        """The most memory that the process ever had, in bytes."""
        status = Path(f"/proc/{self.gateway.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


@pytest.fixture(scope="module", params=["headless", "jupyter", "attached"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = new_home(tmp_path_factory.mktemp(request.param))
    if request.param == "attached":
        with start_gateway(home), start_attached(home) as attached:
            yield Served(attached, JUPYTER_TOKEN)
    else:
        with (start_gateway if request.param == "headless" else start_jupyter)(home) as gateway:
            yield Served(gateway, gateway.token)


def sent_length(stream: socket.socket) -> None:
    for _ in range(HUGE // MIB):
        stream.sendall(PIECE)


def sent_in_chunks(stream: socket.socket) -> None:
    for _ in range(HUGE // MIB):
        stream.sendall(b"%x\r\n%s\r\n" % (MIB, PIECE))
    stream.sendall(b"0\r\n\r\n")


def connection_to(gateway: Gateway) -> socket.socket:
    address = urlsplit(gateway.url)
    return socket.create_connection((str(address.hostname), address.port or 0), timeout=30)


def answer(stream: socket.socket, within_s: float = MAX_S / 2) -> int:
    """The status of the answer, once the server has closed its side, which it does at once; 0 without an answer."""
    stream.settimeout(within_s)
    found = b""
    with contextlib.suppress(ConnectionError):
        while chunk := stream.recv(65536):
            found += chunk
    return int(found.split()[1]) if found else 0


def post(
    gateway: Gateway,
    path: str,
    *headers: str,
    body: Callable[[socket.socket], None] | None = None,
    method: str = "POST",
) -> int:
    """The status that such a request is answered with; 0 where the connection ended without one."""
    host = urlsplit(gateway.url).netloc
    with connection_to(gateway) as stream:
        lines = (f"{method} {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", *headers, "", "")
        stream.sendall("\r\n".join(lines).encode())
        if body is not None:
            with contextlib.suppress(ConnectionError):
                body(stream)
        return answer(stream)


def together(request: Callable[[], int]) -> list[int]:
    """The statuses of several such requests at once."""
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(request())) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


LENGTH = (f"Content-Length: {HUGE}",)
CHUNKED = ("Transfer-Encoding: chunked",)
WRONG = "Authorization: token " + "x" * 43


@pytest.mark.parametrize("path", [MESSAGE, f"{PREFIX}/ws", f"{PREFIX}/nonesuch"])
@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("credentials", [(), (WRONG,)], ids=["none", "wrong"])
@pytest.mark.parametrize(
    ("headers", "body"), [(LENGTH, sent_length), (CHUNKED, sent_in_chunks)], ids=["length", "chunks"]
)
def test_the_body_of_a_stranger_is_not_kept(
    served: Served,
    path: str,
    method: str,
    credentials: tuple[str, ...],
    headers: tuple[str, ...],
    body: Callable[[socket.socket], None],
) -> None:
    before = served.peak()

    statuses = together(lambda: post(served.gateway, path, *headers, *credentials, body=body, method=method))

    refused = {403, 405} if (path, method) == (f"{PREFIX}/ws", "POST") else {403}
    assert set(statuses) <= refused
    assert len(statuses) == AT_ONCE
    assert served.peak() - before < ALLOWED


@pytest.mark.parametrize("headers", [LENGTH, CHUNKED, ("Content-Length: 7",)], ids=["length", "chunks", "small"])
def test_a_stranger_is_answered_before_a_byte_of_the_body_was_sent(served: Served, headers: tuple[str, ...]) -> None:
    assert post(served.gateway, MESSAGE, *headers) == 403
    assert post(served.gateway, MESSAGE, *headers, method="PROPFIND") == 405


@pytest.mark.parametrize(
    ("headers", "body"), [(LENGTH, sent_length), (CHUNKED, sent_in_chunks)], ids=["length", "chunks"]
)
def test_a_body_that_is_too_large_is_refused_and_not_kept(
    served: Served, headers: tuple[str, ...], body: Callable[[socket.socket], None]
) -> None:
    before = served.peak()
    token = f"Authorization: token {served.token}"

    statuses = together(lambda: post(served.gateway, MESSAGE, *headers, token, body=body))

    assert statuses == [413] * AT_ONCE
    assert served.peak() - before < ALLOWED


def test_a_length_that_is_too_large_is_refused_before_a_byte_was_sent(served: Served) -> None:
    assert post(served.gateway, MESSAGE, *LENGTH, f"Authorization: token {served.token}") == 413
    assert post(served.gateway, MESSAGE, "Content-Length: " + "9" * 60, f"Authorization: token {served.token}") == 413


@pytest.mark.parametrize("length", [MAX_BODY_BYTES + 1, 4 * MIB])
def test_who_sends_a_little_too_much_reads_why(served: Served, length: int) -> None:
    status, error = ask(served.gateway, "POST", MESSAGE, token=served.token, body=b"x" * length)

    assert status == 413
    assert error["message"] == f"The body has {length:,} bytes; at most {MAX_BODY_BYTES:,} are taken."


def test_a_body_in_chunks_is_read_as_any_other(served: Served) -> None:
    address = urlsplit(served.gateway.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
    words = json.dumps({"title": "told in chunks", "name": "chunks"}).encode()
    with contextlib.closing(connection):
        connection.request(
            "POST",
            f"{PREFIX}/sessions",
            body=iter([words[:9], words[9:]]),
            headers={"Content-Type": "application/json", "Authorization": f"token {served.token}"},
            encode_chunked=True,
        )
        response = connection.getresponse()
        found = json.loads(response.read())

    assert (response.status, found["title"]) == (200, "told in chunks"), found


def test_what_is_packed_is_not_unpacked(served: Served) -> None:
    before = served.peak()
    bomb = gzip.compress(b" " * HUGE)

    status, error = ask(
        served.gateway, "POST", MESSAGE, token=served.token, body=bomb, headers={"Content-Encoding": "gzip"}
    )

    assert (status, error["code"]) == (400, "input.json")
    assert served.peak() - before < ALLOWED


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded"])
def test_a_form_is_not_taken_apart(served: Served, kind: str) -> None:
    before = served.peak()
    form = (b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\nb\r\n" if "x" in kind[:3] else b"a=b&") * 9000

    status, error = ask(served.gateway, "POST", MESSAGE, token=served.token, body=form, headers={"Content-Type": kind})

    assert (status, error["code"]) == (415, "http.415")
    assert served.peak() - before < ALLOWED


@pytest.mark.parametrize("path", ["/login", "/api", "/nonesuch"])
@pytest.mark.parametrize(
    ("headers", "body"), [(LENGTH, sent_length), (CHUNKED, sent_in_chunks)], ids=["length", "chunks"]
)
def test_beside_ozzies_own_routes_a_gateway_keeps_no_body_either(
    tmp_path: Path, path: str, headers: tuple[str, ...], body: Callable[[socket.socket], None]
) -> None:
    with start_gateway(new_home(tmp_path)) as gateway:
        served = Served(gateway, gateway.token)
        before = served.peak()

        statuses = together(lambda: post(gateway, path, *headers, body=body))

        assert set(statuses) <= {0, 400}  # tornado refuses without lingering
        assert served.peak() - before < ALLOWED


def test_a_header_without_an_end_is_cut_off(served: Served) -> None:
    before = served.peak()

    def flood(stream: socket.socket) -> None:
        for _ in range(HUGE // MIB):
            stream.sendall(PIECE)

    with connection_to(served.gateway) as stream:
        stream.sendall(b"GET / HTTP/1.1\r\nX: ")
        with pytest.raises(ConnectionError):
            flood(stream)

    assert served.peak() - before < ALLOWED


@pytest.mark.soak
async def test_idle_connections_of_strangers_are_bounded_and_ended(tmp_path: Path) -> None:
    with start_gateway(new_home(tmp_path)) as gateway:
        served = Served(gateway, gateway.token)
        before = served.peak()
        async with connected(gateway) as client:
            with contextlib.ExitStack() as held:
                idle = [held.enter_context(connection_to(gateway)) for _ in range(MAX_CONNECTIONS + 50)]
                for stream in idle:
                    with contextlib.suppress(ConnectionError):
                        stream.sendall(b"GET / HTTP/1.1\r\nX-")
                opened = await client.request("session.open", session_name="meanwhile")
                descriptors = psutil.Process(gateway.process.pid).num_fds()
                left = [stream for stream in idle if await asyncio.to_thread(answer, stream, HEADER_S * 3)]
        grown = served.peak() - before
        health = await asyncio.to_thread(ask, gateway, "GET", f"{PREFIX}/health", token=gateway.token)

    assert opened["ok"]
    assert descriptors < MAX_CONNECTIONS + 100
    assert left == []
    assert health[0] == 200
    assert grown < ALLOWED
