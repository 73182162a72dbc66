"""Sign-ins in the vault: a token is renewed once for all who need it, by a real tool host, and goes to its server
alone."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.plugins.sign_ins import SignIns, is_renewal, with_way
from ozzie_server_ext.plugins.tool_host import Connection, ServerFailed, ToolHost
from ozzie_server_ext.protocol.tool_host import Grant, Remote, SignIn
from ozzie_server_ext.vault.vault import Vault
from tests.fakes.oauth_server import OAuthServers
from tests.integration.plugins.test_sign_in import REDIRECT, led_to
from tests.mcp_rig import tool_host

pytestmark = pytest.mark.timeout(60)

WITHIN_S = 20


@pytest.fixture
def servers() -> Iterator[OAuthServers]:
    with OAuthServers() as servers:
        yield servers


class Rig:
    """A home with a sign-in to a server, and a tool host."""

    def __init__(self, folder: Path, servers: OAuthServers, host: ToolHost) -> None:
        self._home = Home(folder / "home")
        self._keys = folder / "keys"
        self.host = host
        self.servers = servers
        self.noted: list[str] = []
        self.sign_ins = self.another()
        self.remote = Remote(url=servers.url)

    def vault(self) -> Vault:
        return Vault(self._home.secrets, lambda: self._keys, SystemClock())

    def another(self) -> SignIns:
        """Those of another process: nothing is shared but files."""
        return SignIns(self._home, self.vault(), self.host, self.noted.append)

    async def sign_in(self) -> Grant:
        async def meet(host: str) -> bool:
            return True

        async def visit(url: str) -> str:
            return await asyncio.to_thread(led_to, url)

        wish = SignIn(id="s", url=self.servers.url, redirect=REDIRECT, within_s=WITHIN_S)
        grant = await self.host.sign_in(wish, meet=meet, visit=visit)
        await self.sign_ins.replace("signed", "signed", grant, by="ana")
        return grant

    def known(self) -> Grant:
        found = self.another().known("signed", "signed", self.servers.url)
        assert found is not None
        return found

    async def token(self, sign_ins: SignIns | None = None) -> str:
        remote, _ = await (sign_ins or self.sign_ins).signed("signed", "signed", self.remote)
        return remote.token

    async def connection(self) -> Connection:
        remote, renew = await self.sign_ins.signed("signed", "signed", self.remote)
        return await self.host.open(remote, within_s=WITHIN_S, renew=renew)

    @property
    def renewals(self) -> int:
        return sum(form["grant_type"] == "refresh_token" for form in self.servers.forms("/token"))


@pytest.fixture
async def rig(tmp_path: Path, servers: OAuthServers) -> AsyncIterator[Rig]:
    async with tool_host(tmp_path) as host:
        yield Rig(tmp_path, servers, host)


async def said(connection: Connection, text: str = "hello", tool: str = "echo") -> tuple[str, ...]:
    return (await connection.call(tool, {"text": text}, within_s=WITHIN_S)).texts


async def test_a_token_that_ends_soon_is_renewed_once_for_all_who_need_it_in_all_processes(rig: Rig) -> None:
    rig.servers.behaviour.lasts = 30
    first = await rig.sign_in()
    rig.servers.behaviour.lasts = 3600

    found = await asyncio.gather(
        *(rig.token(each) for each in (rig.sign_ins, rig.sign_ins, rig.another(), rig.another()))
    )

    assert rig.renewals == 1
    assert len(set(found)) == 1
    assert found[0] == rig.known().access_token != first.access_token
    assert found[0] in rig.noted


async def test_a_token_that_is_rejected_in_a_call_is_renewed_and_the_call_goes_on(rig: Rig) -> None:
    await rig.sign_in()
    connection = await rig.connection()
    rig.servers.end_tokens()

    found = await asyncio.gather(*(said(connection, f"{number}") for number in range(4)))

    assert found == [(f"{number}",) for number in range(4)]
    assert rig.renewals == 1
    assert rig.servers.tokens.keys() == {rig.known().access_token}


async def test_a_sign_in_that_has_ended_is_told_with_what_to_do_and_is_not_tried_again(rig: Rig) -> None:
    await rig.sign_in()
    connection = await rig.connection()
    rig.servers.end_tokens()
    rig.servers.refreshing.clear()

    with pytest.raises(ServerFailed) as caught:
        await said(connection)

    assert (caught.value.code, caught.value.was_sent) == ("mcp.signed_out", False)
    assert with_way(caught.value, "signed") == (
        "It does not accept your sign-in any more (HTTP 401). Sign in again: ozzie mcp login signed"
    )
    with pytest.raises(ServerFailed, match="has expired"):
        await rig.connection()
    assert rig.renewals == 1
    assert rig.known().client.id == "client-1"


async def test_a_renewal_that_only_failed_takes_nothing_away(rig: Rig) -> None:
    rig.servers.behaviour.lasts = 30
    first = await rig.sign_in()
    rig.servers.behaviour.answers["/token"] = (403, {}, b"<html>Too many requests")

    with pytest.raises(ServerFailed) as caught:
        await rig.token()

    assert with_way(caught.value, "signed") == (
        "Your sign-in could not be renewed (HTTP 403). If it stays like that, sign in again: ozzie mcp login signed"
    )
    assert rig.known() == first
    rig.servers.behaviour.answers.clear()
    assert await rig.token() in rig.servers.tokens


async def test_a_sign_in_without_a_refresh_token_ends(rig: Rig) -> None:
    rig.servers.behaviour.refreshes, rig.servers.behaviour.lasts = False, 30
    await rig.sign_in()

    with pytest.raises(ServerFailed) as caught:
        await rig.connection()

    assert (caught.value.code, rig.renewals) == ("mcp.signed_out", 0)


async def test_a_token_goes_to_the_address_that_it_was_given_for_and_to_the_server_of_that_key(rig: Rig) -> None:
    await rig.sign_in()

    for key, url in (("signed", f"{rig.servers.url}/other"), ("other", rig.servers.url)):
        remote, _ = await rig.sign_ins.signed(key, "signed", Remote(url=url))
        assert remote.token == ""


async def test_rights_that_a_sign_in_lacks_are_named(rig: Rig) -> None:
    await rig.sign_in()
    rig.servers.behaviour.rights = "write all"
    connection = await rig.connection()

    with pytest.raises(ServerFailed) as caught:
        await said(connection, tool="keep")

    assert (caught.value.scope, rig.servers.kept) == ("write all", [])
    assert with_way(caught.value, "my server", granted="read").endswith(
        "Sign in again: ozzie mcp login 'my server' --scope 'read write all'"
    )


async def test_a_key_that_is_rejected_is_told_as_one(rig: Rig) -> None:
    with pytest.raises(ServerFailed) as caught:
        await rig.host.open(Remote(url=rig.servers.url, headers={"x-key": "fern"}), within_s=WITHIN_S)

    assert with_way(caught.value, "signed", secrets=["SIGNED_KEY"]) == (
        "It does not accept the key that it was given (HTTP 401). Store another one: ozzie secrets set SIGNED_KEY"
    )


async def test_a_renewal_comes_to_its_end_though_the_call_is_stopped(rig: Rig) -> None:
    first = await rig.sign_in()
    connection = await rig.connection()
    rig.servers.end_tokens()
    rig.servers.hold.clear()
    rig.servers.asked_for_token.clear()
    call = asyncio.create_task(said(connection))
    await asyncio.to_thread(rig.servers.asked_for_token.wait, WITHIN_S)

    call.cancel()
    connection.close()
    rig.servers.hold.set()

    async with asyncio.timeout(WITHIN_S):
        while rig.known().access_token == first.access_token:  # noqa: ASYNC110 - a file says so
            await asyncio.sleep(0.01)
    assert await rig.token() in rig.servers.tokens


async def test_what_renews_itself_is_no_change_by_anybody_and_what_a_person_stores_is(rig: Rig) -> None:
    await rig.sign_in()
    rig.servers.end_tokens()
    await said(await rig.connection())

    _, changes = rig.vault().changes()

    assert [is_renewal(change) for change in changes] == [False, True]


async def test_two_do_not_sign_in_to_one_server_at_once(rig: Rig) -> None:
    with (
        rig.sign_ins.signing_in("signed"),
        rig.another().signing_in("other"),
        pytest.raises(Conflict, match="another terminal"),
        rig.another().signing_in("signed"),
    ):
        pass

    with rig.another().signing_in("signed"):
        pass


async def test_a_person_who_is_too_late_is_told(rig: Rig) -> None:
    async def meet(host: str) -> bool:
        return True

    async def visit(url: str) -> str:
        return await asyncio.Event().wait() and ""

    with pytest.raises(ServerFailed, match="Nobody signed in within"):
        await rig.host.sign_in(
            SignIn(id="late", url=rig.servers.url, redirect=REDIRECT, within_s=1), meet=meet, visit=visit
        )


# --- the older transport ----------------------------------------------------------------------------------------------


class _Older(BaseHTTPRequestHandler):
    """Speaks the older transport, and rejects each call of a tool."""

    streams: "list[_Older]"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /messages\n\n")
        self.wfile.flush()
        type(self).streams.append(self)
        self.server.ended.wait(WITHIN_S)  # pyright: ignore[reportAttributeAccessIssue]

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_call = message["method"] == "tools/call"
        self.send_response(401 if is_call else 202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        results = {
            "initialize": {
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "older", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
        }
        if "id" in message and not is_call:
            result = results.get(message["method"])
            body = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
            told = json.dumps({"jsonrpc": "2.0", "id": message["id"], **body})
            stream = type(self).streams[-1]
            stream.wfile.write(f"event: message\ndata: {told}\n\n".encode())
            stream.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def older() -> Iterator[str]:
    _Older.streams = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Older)
    server.daemon_threads = True
    server.ended = threading.Event()  # pyright: ignore[reportAttributeAccessIssue]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/sse"
    server.ended.set()  # pyright: ignore[reportAttributeAccessIssue]
    server.shutdown()
    server.server_close()


async def test_a_rejected_call_over_the_older_transport_ends_at_once(rig: Rig, older: str) -> None:
    connection = await rig.host.open(Remote(url=older, is_sse=True, headers={"x-key": "fern"}), within_s=WITHIN_S)

    with pytest.raises(ServerFailed) as caught:
        async with asyncio.timeout(5):
            await said(connection)

    assert caught.value.code == "mcp.key"
