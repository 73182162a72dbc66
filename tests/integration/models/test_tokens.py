"""OAuth 2.0 client credentials, through the real worker: tokens fetched, kept, refreshed, and what goes wrong."""

import asyncio
import base64
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ozzie_server_ext.models.driver import ModelRequest, ProviderAccess
from ozzie_server_ext.programs.worker_tokens import MAX_ANSWER_BYTES, NoToken, Tokens
from ozzie_server_ext.protocol.worker import ClientCredentials, Provider
from tests.fakes.provider_server import FakeProvider
from tests.fakes.providers import WIRES
from tests.fakes.token_server import CLIENT_ID, CLIENT_SECRET, FakeTokenServer, TokenAnswer
from tests.integration.models.rig import Rig, failure, read, request, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAME = "behind-tokens"


@contextmanager
def provider(*keys: str) -> Iterator[FakeProvider]:
    """One that lets in whoever has one of these tokens."""
    with FakeProvider(WIRES["openai"](), keys=frozenset(keys) or None) as fake:
        yield fake


def client_of(server: FakeTokenServer, secret: str = CLIENT_SECRET) -> ClientCredentials:
    return ClientCredentials(
        token_url=server.url, client_id=CLIENT_ID, client_secret=secret, scopes=("llm:invoke", "llm:list")
    )


def asked(rig: Rig, fake: FakeProvider, client: ClientCredentials, *, driver: str = "openai") -> ModelRequest:
    """A call of the provider by that client."""
    rig.providers[NAME] = ProviderAccess(
        driver=driver, base_url=fake.base_url, key_name="CLIENT_SECRET", oauth2=client, first_s=20.0, next_s=20.0
    )
    return request("echo", provider=NAME, driver=driver)


def sent(fake: FakeProvider) -> list[str]:
    return [request.headers.get("authorization", "") for request in fake.requests]


# --- fetched, kept, fetched again ---------------------------------------------------------------------


async def test_a_token_is_fetched_once_and_used_for_all_calls(rig: Rig) -> None:
    with FakeTokenServer() as server, provider("token-1") as fake:
        call = asked(rig, fake, client_of(server))
        server.hold.clear()
        together = [asyncio.create_task(read(rig, call)) for _ in range(8)]
        await asyncio.to_thread(server.wait_for_requests, 1)
        server.hold.set()
        answers = [text_of(events) for events in await asyncio.gather(*together)]
        later = text_of(await read(rig, call))

    assert {*answers, later} == {"hello big wide world"}
    assert sent(fake) == ["Bearer token-1"] * 9
    assert len(server.requests) == 1


async def test_the_client_says_who_it_is_by_http_basic_and_names_its_scopes(rig: Rig) -> None:
    with FakeTokenServer() as server, provider() as fake:
        await read(rig, asked(rig, fake, client_of(server)))

    (asking,) = server.requests
    assert asking.form == {"grant_type": "client_credentials", "scope": "llm:invoke llm:list"}
    scheme, _, coded = asking.headers["authorization"].partition(" ")
    # RFC 6749 §2.3.1 and Appendix B: each part encoded as in a form first, so that a colon can stand in it.
    assert (scheme, base64.b64decode(coded)) == ("Basic", b"ozzie%3A+test:s3cret%2F%2B%26%3D%25%3A%C3%A9")


async def test_a_server_that_wants_the_secret_in_the_body_gets_it_there(rig: Rig) -> None:
    with FakeTokenServer(takes="body", lasts=0) as server, provider() as fake:
        call = asked(rig, fake, client_of(server))
        await read(rig, call)
        await read(rig, call)

    in_body = ["client_secret" in asking.form for asking in server.requests]
    assert in_body == [False, True, True], "once it is known where, it is not tried elsewhere again"
    assert sent(fake) == ["Bearer token-1", "Bearer token-2"]


@pytest.mark.parametrize("lasts", [0, "0", -5])
async def test_a_token_that_has_ended_is_replaced(rig: Rig, lasts: object) -> None:
    with FakeTokenServer(lasts=lasts) as server, provider() as fake:
        call = asked(rig, fake, client_of(server))
        await read(rig, call)
        await read(rig, call)

    assert sent(fake) == ["Bearer token-1", "Bearer token-2"]


async def test_a_token_that_the_provider_refuses_is_replaced_once(rig: Rig) -> None:
    with FakeTokenServer() as server, provider("token-2") as fake:
        events = await read(rig, asked(rig, fake, client_of(server)))

    assert text_of(events) == "hello big wide world"
    assert sent(fake) == ["Bearer token-1", "Bearer token-2"]


async def test_a_provider_that_refuses_a_fresh_token_too_is_not_asked_again(rig: Rig) -> None:
    with FakeTokenServer() as server, provider("none of ours") as fake:
        error, _ = await failure(rig, asked(rig, fake, client_of(server)))

    assert error.code == "provider.auth"
    assert sent(fake) == ["Bearer token-1", "Bearer token-2"]
    assert "token-2" not in f"{error}{error.hint}{error.detail}"


async def test_a_call_that_is_given_up_leaves_the_token_to_the_others(rig: Rig) -> None:
    with FakeTokenServer() as server, provider() as fake:
        call = asked(rig, fake, client_of(server))
        server.hold.clear()
        given_up, waiting = asyncio.create_task(read(rig, call)), asyncio.create_task(read(rig, call))
        await asyncio.to_thread(server.wait_for_requests, 1)
        given_up.cancel()
        await asyncio.wait({given_up})
        server.hold.set()
        events = await waiting

    assert text_of(events) == "hello big wide world"
    assert (len(server.requests), len(fake.requests)) == (1, 1)


@pytest.mark.parametrize("driver", ["anthropic", "vllm"])
async def test_the_token_goes_to_every_kind_of_provider_as_a_bearer_token(rig: Rig, driver: str) -> None:
    wire = WIRES.get(driver, WIRES["openai"])
    with FakeTokenServer() as server, FakeProvider(wire()) as fake:
        events = await read(rig, asked(rig, fake, client_of(server), driver=driver))

    assert text_of(events)
    assert sent(fake) == ["Bearer token-1"]


# --- how long a token is kept -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lasts", "kept_s"), [(3600, 3540), (100, 90), ("600", 540), (None, 270), ("soon", 270), (10**9, 86340)]
)
async def test_a_token_is_kept_until_shortly_before_its_end(lasts: object, kept_s: int) -> None:
    now = 1000.0
    tokens = Tokens(now=lambda: now)
    with FakeTokenServer(lasts=lasts) as server:
        behind = Provider(driver="openai", oauth2=client_of(server))
        first = await tokens.authorized(behind)
        now += kept_s - 0.001
        still = await tokens.authorized(behind)
        now += 0.002
        after = await tokens.authorized(behind)

    assert (first.api_key, still.api_key, after.api_key) == ("token-1", "token-1", "token-2")


async def test_the_time_that_the_answer_took_is_not_counted_as_its_life() -> None:
    times = iter([0.0, 5000.0, 5000.0])
    tokens = Tokens(now=lambda: next(times))
    with FakeTokenServer(lasts=3600) as server:
        behind = Provider(driver="openai", oauth2=client_of(server))
        await tokens.authorized(behind)
        assert (await tokens.authorized(behind)).api_key == "token-2"


# --- no token -----------------------------------------------------------------------------------------


async def test_a_wrong_secret_is_said_with_what_to_check_and_without_the_secret(rig: Rig) -> None:
    with FakeTokenServer() as server, provider() as fake:
        error, _ = await failure(rig, asked(rig, fake, client_of(server, "wrong-secret-4711")))

    assert error.code == "provider.token_refused"
    assert str(error) == (
        'The token server of "main" gives no token: "invalid_client: No client has the secret [key].".'
    )
    assert error.hint.startswith("Check the environment variable CLIENT_SECRET and the auth entry in the configuration")
    assert "4711" not in f"{error}{error.hint}{error.detail}"
    assert fake.requests == []


MANY = b'{"access_token": "' + b"x" * MAX_ANSWER_BYTES + b'"}'


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (TokenAnswer(500, b"oops"), "it answered with status 500"),
        (TokenAnswer(429, b"{}"), "it answered with status 429"),
        (TokenAnswer(404, b"<html>"), "it answered with status 404"),
        (TokenAnswer(302, b"", (("Location", "http://127.0.0.1:9/elsewhere"),)), "it answered with status 302"),
        (TokenAnswer(200, b"<html>"), "there is no token in its answer"),
        (TokenAnswer(200, b"[]"), "there is no token in its answer"),
        (TokenAnswer(200, b"[" * 5000), "there is no token in its answer"),
        (TokenAnswer(200, MANY), "there is no token in its answer"),
        (TokenAnswer(200, b'{"access_token": ""}'), "there is no token in its answer"),
        (TokenAnswer(200, b'{"access_token": "a b"}'), "there is no token in its answer"),
        (TokenAnswer(200, b'{"access_token": "a\\r\\nx: y"}'), "there is no token in its answer"),
        (TokenAnswer(200, b'{"access_token": 7}'), "there is no token in its answer"),
        (TokenAnswer(200, b'{"access_token": "x", "token_type": "mac"}'), "its token is not of the type Bearer"),
    ],
)
async def test_what_is_no_token_is_said(rig: Rig, answer: TokenAnswer, said: str) -> None:
    with FakeTokenServer() as server, provider() as fake:
        server.answers.append(answer)
        call = asked(rig, fake, client_of(server))
        error, _ = await failure(rig, call)
        again = text_of(await read(rig, call))

    assert error.code == "provider.token_unavailable"
    assert str(error) == f'No token came from the token server of "main": "{said}".'
    assert again == "hello big wide world", "the next call asks anew"
    assert len(server.requests) == 2


async def test_a_token_server_that_is_not_there_is_said(rig: Rig) -> None:
    with provider() as fake:
        client = ClientCredentials(token_url="http://127.0.0.1:9/token", client_id="a", client_secret="b")
        error, _ = await failure(rig, asked(rig, fake, client))

    assert error.code == "provider.token_unavailable"
    assert "it can't be reached" in str(error)
    assert "Check token_url in the configuration" in error.hint


async def test_a_failed_request_for_a_token_fails_all_that_wait_for_it() -> None:
    tokens = Tokens()
    with FakeTokenServer() as server:
        server.answers.append(TokenAnswer(500, b""))
        server.hold.clear()
        behind = Provider(driver="openai", oauth2=client_of(server))
        both = [asyncio.create_task(tokens.authorized(behind)) for _ in range(2)]
        await asyncio.to_thread(server.wait_for_requests, 1)
        server.hold.set()
        found = await asyncio.gather(*both, return_exceptions=True)

    assert [type(each) for each in found] == [NoToken, NoToken]
    assert len(server.requests) == 1
