"""Signing in to servers at an address (OAuth): what is met, sent and kept, and what a hostile authorization server
can't do. The servers and the library are real, on loopback; a function stands for the person and their browser."""

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from ozzie_server_ext.programs.mcp_auth import Careful, SignInFailed, refreshed, signed_in
from ozzie_server_ext.protocol.tool_host import Client, Grant, HostEvent, Meet, Refresh, SignIn, Visit
from tests.fakes.oauth_server import OAuthServers
from tests.fakes.web_server import certificates

pytestmark = pytest.mark.timeout(60)

REDIRECT = "http://127.0.0.1:9/callback"
METADATA = "/.well-known/oauth-authorization-server"
CLOUD = "http://169.254.169.254/latest"


class Person:
    """Says yes to each host, unless `yes` says otherwise, and opens what there is to visit."""

    def __init__(self, yes: Callable[[str], bool] = lambda host: True) -> None:
        self.met: list[str] = []
        self.visited: list[str] = []
        self._yes = yes

    async def meets(self, host: str) -> bool:
        self.met.append(host)
        return self._yes(host)

    async def __call__(self, question: HostEvent) -> str:
        match question:
            case Meet(host=host):
                return "yes" if await self.meets(host) else ""
            case Visit(url=url):
                self.visited.append(url)
                return await asyncio.to_thread(led_to, url)
            case _:
                raise AssertionError(question)


def led_to(url: str) -> str:
    """Where an address leads a browser."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=10)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        return connection.getresponse().headers["Location"] or ""
    finally:
        connection.close()


@pytest.fixture
def servers() -> Iterator[OAuthServers]:
    with OAuthServers() as servers:
        yield servers


def wish(servers: OAuthServers, **more: Any) -> SignIn:
    return SignIn(id="s", url=servers.url, redirect=REDIRECT, within_s=20, **more)


async def grant_of(servers: OAuthServers, **more: Any) -> Grant:
    return await signed_in(wish(servers, **more), Person())


async def failure_of(servers: OAuthServers, person: Person | None = None, **more: Any) -> SignInFailed:
    with pytest.raises(SignInFailed) as caught:
        await signed_in(wish(servers, **more), person or Person())
    return caught.value


# --- what is sent and kept --------------------------------------------------------------------------------------------


async def test_a_sign_in_brings_tokens_and_all_that_renews_them(servers: OAuthServers) -> None:
    person = Person()

    grant = await signed_in(wish(servers), person)

    assert servers.tokens.keys() == {grant.access_token}
    assert servers.refreshing.keys() == {grant.refresh_token}
    assert (grant.url, grant.resource) == (servers.url, servers.url)
    assert (grant.issuer, grant.token_endpoint) == (servers.issuer, f"{servers.issuer}/token")
    assert (grant.client.id, grant.client.issuer, grant.client.redirect) == ("client-1", servers.issuer, REDIRECT)
    assert person.met == [servers.issuer]
    asked = parse_qs(urlsplit(person.visited[0]).query)
    assert (asked["code_challenge_method"], asked["resource"]) == (["S256"], [servers.url])
    assert servers.forms("/token")[0]["resource"] == servers.url


async def test_the_authorization_server_gets_nothing_before_a_person_has_seen_its_name(servers: OAuthServers) -> None:
    seen: list[list[str]] = []

    def looked(host: str) -> bool:
        seen.append(servers.paths("auth"))
        return False

    failure = await failure_of(servers, Person(looked))

    assert (failure.code, seen, servers.paths("auth")) == ("mcp.refused", [[]], [])


async def test_a_browser_goes_to_no_host_before_a_person_has_seen_its_name(servers: OAuthServers) -> None:
    elsewhere = servers.issuer.replace("127.0.0.1", "localhost")
    servers.behaviour.metadata["authorization_endpoint"] = f"{elsewhere}/authorize"
    person, agreeing = Person(lambda host: host != elsewhere), Person()

    failure = await failure_of(servers, person)
    await signed_in(wish(servers), agreeing)

    assert (failure.code, person.met, person.visited) == ("mcp.refused", [servers.issuer, elsewhere], [])
    assert agreeing.visited[0].startswith(f"{elsewhere}/authorize?")


async def test_ozzie_registers_once_and_not_again_with_the_client_that_it_is_known_as(servers: OAuthServers) -> None:
    first = await grant_of(servers)
    second = await grant_of(servers, client=first.client)

    assert servers.paths("auth").count("/register") == 1
    assert second.client.id == first.client.id
    assert second.access_token != first.access_token


async def test_a_client_of_another_authorization_server_is_not_named_to_this_one(servers: OAuthServers) -> None:
    elsewhere = Client(id="secret-name", secret="s3cret", issuer="https://elsewhere.example", redirect=REDIRECT)

    grant = await grant_of(servers, client=elsewhere)

    assert grant.client.id == "client-1"
    assert not any("secret-name" in str(each) or "s3cret" in str(each) for each in servers.seen)


async def test_a_given_client_is_used_with_its_secret(servers: OAuthServers) -> None:
    grant = await grant_of(servers, client=Client(id="mine", secret="s3cret"))

    assert (grant.client.secret, grant.client.issuer) == ("s3cret", servers.issuer)
    sent = next(each for each in servers.seen if each.path == "/token")
    assert sent.authorization.startswith("Basic ")
    assert "/register" not in servers.paths("auth")


async def test_rights_are_asked_for_as_a_person_says(servers: OAuthServers) -> None:
    grant = await grant_of(servers, scope="read write")

    assert servers.forms("/authorize")[0]["scope"] == "read write"
    assert grant.scope == "read write"


async def test_a_server_that_wants_nobody_to_sign_in_says_so(servers: OAuthServers) -> None:
    servers.behaviour.answers["/mcp"] = (200, {"Content-Type": "application/json"}, b"{}")

    failure = await failure_of(servers)

    assert str(failure) == "It does not ask anybody to sign in (HTTP 200)."
    assert servers.paths("auth") == []


# --- what a hostile one can't do --------------------------------------------------------------------------------------


def metadata(**parts: Any) -> Callable[[OAuthServers], None]:
    return lambda servers: servers.behaviour.metadata.update(parts)


def resource(**parts: Any) -> Callable[[OAuthServers], None]:
    return lambda servers: servers.behaviour.resource.update(parts)


def brings(**parts: str) -> Callable[[OAuthServers], None]:
    return lambda servers: servers.behaviour.redirect.update(parts)


def answers(path: str, body: Any, status: int = 200, **headers: str) -> Callable[[OAuthServers], None]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = {"Content-Type": "application/json", **headers}
    return lambda servers: servers.behaviour.answers.update({path: (status, told, content)})


def challenge(url: str) -> Callable[[OAuthServers], None]:
    def change(servers: OAuthServers) -> None:
        servers.behaviour.challenge = url

    return change


TOKEN = {"token_type": "Bearer", "expires_in": 60}
PRIVATE = "which is in a private network"

HOSTILE: dict[str, tuple[Callable[[OAuthServers], None], str]] = {
    "another issuer": (metadata(issuer="https://elsewhere.example"), "calls itself by another address"),
    "another server's resource": (resource(resource="https://elsewhere.example/mcp"), "it is another server"),
    "a resource beside it": (resource(resource="http://127.0.0.1:1/mcp"), "it is another server"),
    "an issuer in the cloud's network": (resource(authorization_servers=[CLOUD]), PRIVATE),
    "an issuer in a private network": (resource(authorization_servers=["http://10.0.0.1"]), "without https"),
    "what it says of itself is in the cloud's network": (challenge(CLOUD), PRIVATE),
    "what it says of itself is a file": (challenge("file:///etc/passwd"), "no address of the web"),
    "an address with a user": (challenge("http://a:b@127.0.0.1/x"), "no address of the web"),
    "an address without end": (challenge(f"http://127.0.0.1/{'x' * 9000}"), "more than 4,096 characters"),
    "registering in the cloud's network": (metadata(registration_endpoint=CLOUD), PRIVATE),
    "signing in at the cloud's network": (metadata(authorization_endpoint=CLOUD), PRIVATE),
    "signing in without https": (metadata(authorization_endpoint="http://8.8.8.8/authorize"), "without https"),
    "tokens from the cloud's network": (metadata(token_endpoint=CLOUD), PRIVATE),
    "tokens without https": (metadata(token_endpoint="http://8.8.8.8/token"), "without https"),
    "no PKCE": (metadata(code_challenge_methods_supported=None), "PKCE with S256"),
    "weak PKCE": (metadata(code_challenge_methods_supported=["plain"]), "PKCE with S256"),
    "a scheme that a browser runs": (metadata(authorization_endpoint="javascript:alert(1)"), "register by itself"),
    "a program's scheme": (metadata(authorization_endpoint="vscode://evil/run"), "register by itself"),
    "the answer of another issuer": (brings(iss="https://elsewhere.example"), "of another authorization server"),
    "an answer without issuer": (brings(iss=""), "of another authorization server"),
    "another sign-in's answer": (brings(state="other"), "the answer to another sign-in"),
    "no code": (brings(code=""), "brought no code"),
    "an error": (brings(error="access_denied"), "refuses: `access_denied`"),
    "another issuer's error": (brings(error="x", iss="https://elsewhere.example"), "of another authorization server"),
    "an error with hidden words": (brings(error="x", error_description="a\u202eb\x1b[2J"), r"`a\u202eb\u001b[2J`"),
    "metadata without end": (answers(METADATA, b" " * 300_000), "more than 256 KiB"),
    "metadata of another form": (answers(METADATA, b"[" * 100_000), "register by itself"),
    "a resource without end": (
        answers("/.well-known/oauth-protected-resource/mcp", b" " * 300_000),
        "more than 256 KiB",
    ),
    "a registration without end": (answers("/register", b" " * 300_000, 201), "more than 256 KiB"),
    "a registration in other words": (answers("/register", {"no": 1}, 201), "register by itself"),
    "a client's name without end": (answers("/register", {"client_id": "x" * 2000}, 201), "can't be used"),
    "a client's name that ends a line": (answers("/register", {"client_id": "a\r\nb"}, 201), "can't be used"),
    "a token without end": (answers("/token", {**TOKEN, "access_token": "x" * 20_000}), "can't be used"),
    "a token that ends a line": (answers("/token", {**TOKEN, "access_token": "a\r\nX-Evil: b"}), "can't be used"),
    "a token of another kind": (answers("/token", {"access_token": "x", "token_type": "mac"}), "gives no token"),
    "no token": (answers("/token", {"error_description": "\x1b[31mno"}, 400), r"It says `\u001b[31mno`."),
    "words in place of a token": (answers("/token", b"<html>"), "gives no token"),
    "a way elsewhere for the code": (answers("/token", b"", 307, Location="http://8.8.8.8/t"), "gives no token"),
    "a way elsewhere for its metadata": (answers(METADATA, b"", 302, Location=CLOUD), "register by itself"),
}


@pytest.mark.parametrize("case", HOSTILE)
async def test_a_hostile_sign_in_ends_in_words_and_brings_nothing(case: str, servers: OAuthServers) -> None:
    change, words = HOSTILE[case]
    change(servers)

    failure = await failure_of(servers)

    assert words in str(failure)
    assert str(failure).isprintable()
    assert len(str(failure)) < 600


@pytest.mark.parametrize(
    "case", ["the answer of another issuer", "an answer without issuer", "another sign-in's answer"]
)
async def test_a_code_of_another_server_is_given_to_nobody(case: str, servers: OAuthServers) -> None:
    HOSTILE[case][0](servers)

    await failure_of(servers)

    assert "/token" not in servers.paths("auth")


async def test_a_browser_gets_no_address_with_hidden_characters(servers: OAuthServers) -> None:
    servers.behaviour.metadata["authorization_endpoint"] = f"{servers.issuer}/authorize\u202e\x1b[2J"
    person = Person()

    with pytest.raises(SignInFailed):
        await signed_in(wish(servers), person)

    assert all(url.isascii() and url.isprintable() for url in person.visited)


FROM_THE_INTERNET = (
    *("https://10.1.2.3/", "https://127.0.0.1/", "https://[::1]/", "https://192.168.0.1/", "https://169.254.169.254/"),
    *("https://[::ffff:10.0.0.1]/", "https://[fe80::1]/", "https://0.0.0.0/", "https://localhost/", "http://8.8.8.8/"),
    *("https://2130706433/", "https://user@8.8.8.8/", "ftp://8.8.8.8/", "https://8.8.8.8:0/", "https://8.8.8.8\\@a/"),
)


@pytest.mark.parametrize("url", FROM_THE_INTERNET)
async def test_a_server_of_the_internet_leads_nowhere_else(url: str) -> None:
    careful = Careful("https://8.8.4.4/mcp", Person().meets)
    await careful.prepare()

    with pytest.raises(SignInFailed):
        await careful.check(url)

    assert await careful.check("https://8.8.8.8/")


@pytest.mark.parametrize(
    ("server", "leads_to", "may"),
    [
        ("https://10.0.0.1/mcp", "https://10.9.9.9/", True),
        ("https://10.0.0.1/mcp", "https://8.8.8.8/", True),
        ("https://10.0.0.1/mcp", "https://127.0.0.1/", False),
        ("https://10.0.0.1/mcp", "http://10.0.0.1/", False),
        ("https://10.0.0.1/mcp", "https://169.254.169.254/", False),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/", True),
        ("http://127.0.0.1:1/mcp", "http://10.0.0.1/", False),
        ("http://127.0.0.1:1/mcp", "https://10.0.0.1/", True),
        ("http://127.0.0.1:1/mcp", "https://169.254.169.254/", False),
    ],
)
async def test_a_server_leads_as_far_as_it_is_away(server: str, leads_to: str, may: bool) -> None:
    careful = Careful(server, Person().meets)
    await careful.prepare()
    try:
        led = bool(await careful.check(leads_to))
    except SignInFailed:
        led = False

    assert led is may


async def test_nobody_signs_in_over_a_network_without_https() -> None:
    with pytest.raises(SignInFailed, match="not https"):
        await Careful("http://8.8.8.8/mcp", Person().meets).prepare()


async def test_a_connection_to_one_host_serves_no_other_one_at_the_same_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, key, certificate = certificates(["localhost"], addresses=[])
    (tmp_path / "authority.pem").write_text(authority)
    (tmp_path / "server.pem").write_bytes(key + certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError), closing(writer):
            while head := await reader.readuntil(b"\r\n\r\n"):
                asked.append(head)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        careful = Careful(f"https://localhost:{port}/", Person().meets)
        await careful.prepare()
        async with httpx2.AsyncClient(transport=careful) as http:
            first = await http.get(f"https://localhost:{port}/")
            with pytest.raises(SignInFailed, match="CERTIFICATE_VERIFY_FAILED"):
                await http.post(f"https://127.0.0.1:{port}/token", data={"code": "x"})

    assert (first.status_code, len(asked)) == (200, 1)


# --- renewing ---------------------------------------------------------------------------------------------------------


async def test_a_refresh_token_goes_to_the_authorization_server_alone_and_is_replaced(servers: OAuthServers) -> None:
    grant = await grant_of(servers)
    before = len(servers.seen)

    fresh = await refreshed(Refresh(id="r", grant=grant, within_s=20))

    assert [(each.where, each.path) for each in servers.seen[before:]] == [("auth", "/token")]
    assert servers.forms("/token")[-1]["refresh_token"] == grant.refresh_token
    assert servers.refreshing.keys() == {fresh.refresh_token}
    assert fresh.access_token in servers.tokens
    assert (fresh.client, fresh.issuer, fresh.url) == (grant.client, grant.issuer, grant.url)


async def test_a_refresh_token_that_is_not_replaced_is_kept(servers: OAuthServers) -> None:
    servers.behaviour.rotates = False
    grant = await grant_of(servers)

    fresh = await refreshed(Refresh(id="r", grant=grant, within_s=20))

    assert fresh.refresh_token == grant.refresh_token
    assert fresh.access_token != grant.access_token


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (answers("/token", {"error": "invalid_grant"}, 400), "mcp.signed_out", "Your sign-in has ended."),
        (answers("/token", {"error": "invalid_client"}, 401), "mcp.signed_out", "Your sign-in has ended."),
        (answers("/token", {"error": "invalid_request"}, 400), "mcp.auth", "HTTP 400"),
        (answers("/token", b"<html>Too many requests", 403), "mcp.auth", "HTTP 403"),
        (answers("/token", b"", 503), "mcp.auth", "HTTP 503"),
        (answers("/token", b"", 307, Location="http://8.8.8.8/t"), "mcp.auth", "HTTP 307"),
        (answers("/token", b"nonsense"), "mcp.auth", "can't be read"),
        (answers("/token", b" " * 300_000), "mcp.auth", "more than 256 KiB"),
        (answers("/token", {**TOKEN, "access_token": "a\nb"}), "mcp.auth", "can't be used"),
    ],
)
async def test_a_renewal_that_fails_says_why(
    change: Callable[[OAuthServers], None], code: str, words: str, servers: OAuthServers
) -> None:
    grant = await grant_of(servers)
    change(servers)

    with pytest.raises(SignInFailed) as caught:
        await refreshed(Refresh(id="r", grant=grant, within_s=20))

    assert caught.value.code == code
    assert words in str(caught.value)
    assert grant.refresh_token not in str(caught.value)
