"""What a provider says reaches nobody with a key in it, however it is spelled there."""

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.programs.worker_failures import MAX_DETAIL_CHARS, PIECE, redacted
from ozzie_server_ext.protocol.worker import ClientCredentials, Provider
from tests.traces import Search

KEY = 'Vq7Zt3"nB9/cXw+5Lm&K2=rG:8é<Js'
PROVIDER = Provider(driver="openai", api_key=KEY)


def test_every_secret_of_a_provider_is_masked_and_what_looks_like_a_key() -> None:
    client = ClientCredentials(token_url="http://127.0.0.1/", client_id="the-client", client_secret="the-password")
    provider = Provider(driver="openai", api_key="sk-mine-123456", headers={"x": "header-secret"}, oauth2=client)

    said = redacted("key sk-mine-123456, header-secret, the-client:the-password, Bearer abcdef, sk-other-999", provider)

    assert said == "key [key], [key], [key]:[key], Bearer [key], [key]"


@pytest.mark.parametrize(
    "spelled",
    [
        str,
        quote,
        lambda key: quote(key, safe=""),
        quote_plus,
        html.escape,
        lambda key: json.dumps(key)[1:-1],
        lambda key: key.encode().hex(),
        lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
        lambda key: base64.b64encode(f"u:{key}".encode()).decode(),
        lambda key: base64.urlsafe_b64encode(f"us:{key}".encode()).decode(),
        lambda key: f"{key[: PIECE + 1]}...",
        lambda key: f"...{key[5 : 5 + PIECE]}...",
    ],
)
def test_a_key_is_masked_in_every_spelling_and_in_part(spelled: Callable[[str], str]) -> None:
    said = redacted(f"Wrong key ({spelled(KEY)}), see the manual.", PROVIDER)

    assert said.startswith("Wrong key (")
    assert said.endswith("), see the manual.")
    assert "[key]" in said
    assert Search({"the key": KEY}).texts([said], "it") == []


def test_a_password_in_an_address_is_masked() -> None:
    provider = Provider(driver="openai", base_url="https://me:p%40ssword-4711@models.example.org/v1")

    said = redacted("no answer from https://me:p%40ssword-4711@models.example.org/v1 (p@ssword-4711)", provider)

    assert said == "no answer from https://me:[key]@models.example.org/v1 ([key])"


def test_the_end_by_which_a_provider_names_a_key_stays() -> None:
    assert redacted("Wrong key: sk-*****8é<Js.", PROVIDER) == "Wrong key: sk-*****8é<Js."


@pytest.mark.parametrize("key", ["", "a", "the"])
def test_what_is_too_short_to_be_a_key_hides_no_words(key: str) -> None:
    assert redacted("the words", Provider(driver="openai", api_key=key)) == "the words"


def test_a_short_password_is_masked_too() -> None:
    said = redacted("with s3cret: no", Provider(driver="openai", headers={"x": "s3cret"}))

    assert said == "with [key]: no"


def test_it_is_bounded() -> None:
    assert len(redacted("x" * 1_000_000, PROVIDER)) == MAX_DETAIL_CHARS


@given(st.text(max_size=200), st.integers(0, 200))
def test_what_stands_around_a_key_does_not_matter(around: str, at: int) -> None:
    said = redacted(f"{around[:at]}{KEY}{around[at:]}", PROVIDER)

    assert Search({"the key": KEY}).texts([said], "it") == []
