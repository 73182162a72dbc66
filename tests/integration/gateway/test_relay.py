"""Handing on, where the owner or the client behaves badly: each has its sentence, and nothing piles up (ADR 11)."""

import asyncio
import contextlib
import http.client
import json
import os
from urllib.parse import urlsplit

import pytest
from tornado.web import RequestHandler

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.gateway import relay as relaying
from ozzie_server_ext.gateway.relay import Forwarded, Relay
from ozzie_server_ext.gateway.rest.handler import Collected
from ozzie_server_ext.gateway.routes import PREFIX
from ozzie_server_ext.protocol.handshake import VERSION, handshake_path
from tests.fakes.owner import STUCK_S, TOKEN, FakeOwner, fake_owner
from tests.integration.gateway.walk import ask
from tests.rig import GatewayHome, start_attached
from tests.ws_client import connected

pytestmark = pytest.mark.timeout(120)

GET = Forwarded(method="GET", path="ozzie/api/tasks", user="Ana")
POST = Forwarded(method="POST", path="ozzie/api/message", user="Ana", body=b"{}")


async def answers(handler: RequestHandler) -> None:
    """An empty object."""
    handler.finish({})


async def is_silent(handler: RequestHandler) -> None:
    """Nothing, as long as anybody waits."""
    await asyncio.Event().wait()


async def hangs_up(handler: RequestHandler) -> None:
    handler.detach().close()


async def breaks_off(handler: RequestHandler) -> None:
    """Half of what was promised."""
    handler.set_header("Content-Length", "1000")
    handler.write("x" * 500)
    await handler.flush()
    handler.detach().close()


@pytest.fixture
def relay(home: GatewayHome, monkeypatch: pytest.MonkeyPatch) -> Relay:
    """One that is patient for a moment only."""
    monkeypatch.setattr(relaying, "REACH_S", 0.5)
    monkeypatch.setattr(relaying, "ANSWER_S", 0.5)
    return Relay(home.home, home.runtime, home.project)


async def exchange(relay: Relay, forwarded: Forwarded) -> Collected | None:
    """The answer; None where this server is attached no more."""
    collected = Collected()
    return collected if await relay.exchange(forwarded, collected, asyncio.Event()) else None


async def test_the_owner_is_told_who_asks_and_let_in_by_its_own_token(home: GatewayHome, relay: Relay) -> None:
    async with fake_owner(home, FakeOwner(answers)) as owner:
        answer = await exchange(relay, Forwarded(method="POST", path="ozzie/api/x?a=%20b", user="Ü ✓", body=b"{}"))

    (asked,) = [handler.request for handler in owner.asked]
    assert answer is not None
    assert (answer.status, answer.object()) == (200, {})
    assert (asked.method, asked.uri, asked.body) == ("POST", "/ozzie/api/x?a=%20b", b"{}")
    assert asked.headers["Authorization"] == f"token {TOKEN}"
    assert asked.headers["Ozzie-User"] == "%C3%9C%20%E2%9C%93"
    assert asked.headers["Ozzie-Root"] == str(home.project)
    assert asked.headers["Content-Type"] == "application/json"
    assert {"Cookie", "Origin", "X-Xsrftoken"} & set(asked.headers) == set()


async def test_an_owner_that_does_not_answer_is_named_with_what_to_do(home: GatewayHome, relay: Relay) -> None:
    async with fake_owner(home, FakeOwner(is_silent)):
        with pytest.raises(Unavailable, match=rf"\(process {os.getpid()}\), which does not answer") as caught:
            await exchange(relay, GET)

    assert caught.value.code == "gateway.silent"
    assert "end that process: this server takes over then" in caught.value.hint


async def test_an_owner_without_a_handshake_is_waited_for_and_then_named(home: GatewayHome, relay: Relay) -> None:
    async with fake_owner(home, FakeOwner(answers)):
        (home.runtime / f"ozzie-{os.getpid()}.json").rename(home.runtime / "kept")
        with pytest.raises(Unavailable, match=rf"\(process {os.getpid()}\), whose address is not known") as caught:
            await exchange(relay, GET)
        assert f"the same JUPYTER_RUNTIME_DIR; here it is {home.runtime}" in caught.value.hint
        asking = asyncio.ensure_future(exchange(relay, GET))
        (home.runtime / "kept").rename(home.runtime / f"ozzie-{os.getpid()}.json")
        assert await asking is not None


async def test_an_owner_of_another_version_is_told_apart(home: GatewayHome, relay: Relay) -> None:
    async with fake_owner(home, FakeOwner(answers), version=VERSION + 1) as owner:
        with pytest.raises(Unavailable, match="another version of Ozzie") as caught:
            await exchange(relay, GET)

    assert (caught.value.code, owner.asked) == ("gateway.version", [])


async def test_what_another_process_left_in_a_handshake_is_not_asked(home: GatewayHome, relay: Relay) -> None:
    async with fake_owner(home, FakeOwner(answers)) as owner:
        (home.home / "run" / "owner.lock").write_text(str(os.getppid()))  # the owner is another living process
        with pytest.raises(Unavailable):
            await exchange(relay, GET)
        assert owner.asked == []


@pytest.mark.parametrize("does", [hangs_up, breaks_off])
async def test_a_change_that_was_not_answered_is_not_sent_again(home: GatewayHome, relay: Relay, does: object) -> None:
    async with fake_owner(home, FakeOwner(does)) as owner:  # pyright: ignore[reportArgumentType]
        with pytest.raises(Unavailable, match="went away before it had answered") as caught:
            await exchange(relay, POST)

    assert len(owner.asked) == 1
    assert "look before you ask for it again" in caught.value.hint


async def test_a_question_that_was_not_answered_is_asked_again(home: GatewayHome, relay: Relay) -> None:
    async def hangs_up_once(handler: RequestHandler) -> None:
        await (hangs_up if len(owner.asked) == 1 else answers)(handler)

    async with fake_owner(home, FakeOwner(hangs_up_once)) as owner:
        assert await exchange(relay, GET) is not None

    assert len(owner.asked) == 2


async def test_an_owner_that_hangs_up_on_every_question_is_not_asked_for_ever(home: GatewayHome, relay: Relay) -> None:
    async with fake_owner(home, FakeOwner(hangs_up)) as owner:
        async with asyncio.timeout(20):
            with pytest.raises(Unavailable, match="does not answer"):
                await exchange(relay, GET)

    assert 1 < len(owner.asked) <= relaying.REACH_S / relaying.POLL_S


async def test_a_change_that_a_silent_owner_may_have_made_is_not_to_be_tried_again_blindly(
    home: GatewayHome, relay: Relay
) -> None:
    async with fake_owner(home, FakeOwner(is_silent)) as owner:
        with pytest.raises(Unavailable, match="does not answer") as caught:
            await exchange(relay, POST)

    assert len(owner.asked) == 1
    assert "Whether this was done is not known" in caught.value.hint
    assert "Try again" not in caught.value.hint


async def test_what_comes_with_a_question_is_not_sent_as_another_request(home: GatewayHome, relay: Relay) -> None:
    came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        came.set_result(head + await reader.read())
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async with fake_owner(home, FakeOwner(answers)):
        server = await asyncio.start_server(read, "127.0.0.1")
        path = handshake_path(home.runtime, os.getpid())
        told = json.loads(path.read_text())
        path.write_text(json.dumps(told | {"url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"}))
        inside = b"POST /ozzie/api/sessions HTTP/1.1\r\n\r\n"
        answer = await exchange(relay, Forwarded(method="GET", path="ozzie/api/tasks", user="Ana", body=inside))
        async with asyncio.timeout(20):
            sent = await came
        server.close()
        await server.wait_closed()

    assert answer is not None
    assert answer.object() == {}
    assert sent.startswith(b"GET /ozzie/api/tasks")
    assert sent.endswith(b"\r\n\r\n")
    assert b"POST" not in sent


async def test_a_relay_that_is_closed_sends_nothing(home: GatewayHome, relay: Relay) -> None:
    relay.close()
    async with fake_owner(home, FakeOwner(answers)) as owner:
        assert await exchange(relay, GET) is None
        assert await relay.open_socket("Ana") is None

    assert owner.asked == []


async def test_what_waits_for_an_owner_ends_when_this_server_takes_over(home: GatewayHome, relay: Relay) -> None:
    asking = asyncio.ensure_future(exchange(relay, POST))
    await asyncio.sleep(0)
    relay.close()

    assert await asking is None


async def test_a_client_that_leaves_takes_its_request_along(home: GatewayHome, relay: Relay) -> None:
    async with fake_owner(home, FakeOwner(is_silent)) as owner:
        gone = asyncio.Event()
        asking = asyncio.ensure_future(relay.exchange(POST, Collected(), gone))
        async with asyncio.timeout(20):
            await owner.came.wait()
            gone.set()
            assert await asking is True
            await owner.left.wait()


async def test_a_part_of_an_answer_does_not_look_like_the_whole(home: GatewayHome) -> None:
    async def many(handler: RequestHandler) -> None:
        handler.write('{"items": [')  # without a length: only the end says that it is whole
        await handler.flush()
        handler.detach().close()

    async with fake_owner(home, FakeOwner(many)):
        with start_attached(home) as attached:
            for path in (f"{PREFIX}/tasks", f"{PREFIX}/sessions"):
                with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
                    await asyncio.to_thread(ask, attached, "GET", path, token=attached.token)
        log = (home.home.parent / "attached-1.log").read_text()

    assert "Traceback" not in log


async def test_an_answer_that_a_page_does_not_read_stays_with_the_owner(home: GatewayHome) -> None:
    pieces, written, stuck = 200, 0, asyncio.Event()

    async def much(handler: RequestHandler) -> None:
        nonlocal written
        for _ in range(pieces):
            handler.write(b"x" * 500_000)
            flushing = asyncio.ensure_future(handler.flush())
            done, _ = await asyncio.wait({flushing}, timeout=STUCK_S)
            if not done:
                stuck.set()
            await flushing
            written += 1

    async with fake_owner(home, FakeOwner(much)):
        with start_attached(home) as attached:
            address = urlsplit(attached.url)
            reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1000)
            writer.write(
                f"GET {PREFIX}/tasks HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n"
                f"Authorization: token {attached.token}\r\n\r\n".encode()
            )
            await asyncio.wait_for(stuck.wait(), 60)
            taken = written
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()

    assert taken < 40, "100 MB were on their way, of which sockets hold some"
    assert answer.split(b"\r\n\r\n", 1)[1].count(b"x") == pieces * 500_000


async def test_what_a_page_does_not_read_stays_with_the_owner(home: GatewayHome) -> None:
    sends = [json.dumps({"number": number, "content": "x" * 500_000}) for number in range(200)]
    async with fake_owner(home, FakeOwner(answers, sends=sends)) as owner:
        with start_attached(home) as attached:
            async with connected(attached) as page:
                await asyncio.wait_for(owner.stuck.wait(), 60)
                taken = owner.sent
                read = [json.loads(await page.receive() or "")["number"] for _ in sends]

    assert taken < 40, "100 MB were on their way, of which sockets hold some"
    assert read == list(range(200))
