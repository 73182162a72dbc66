"""What a provider is reached with is known as secret, and nothing else is."""

import pytest

from ozzie_server_ext.models.credentials import KnownSecrets
from ozzie_server_ext.models.driver import ProviderAccess
from ozzie_server_ext.protocol.worker import ClientCredentials

CLIENT = ClientCredentials(token_url="https://example.org/token", client_id="ann", client_secret="of-the-client")


def test_key_headers_password_and_client_are_known_and_nothing_else() -> None:
    known = KnownSecrets()

    known.note(
        ProviderAccess(
            driver="openai",
            base_url="https://ann:of%20the%20url@example.org/v1",
            api_key="the-key-1",
            key_name="OPENAI_API_KEY",
            headers=(("X-Key", "of-the-header-1"), ("Authorization", "Bearer of-a-scheme-1")),
            oauth2=CLIENT,
        )
    )

    assert set(known.values()) == {
        "the-key-1",
        "of-the-header-1",
        "Bearer of-a-scheme-1",
        "of-a-scheme-1",
        "of the url",
        "of-the-client",
    }


@pytest.mark.parametrize("word", ["lm-studio", "ollama", "EMPTY", "no-key-required", "Not needed"])
def test_a_word_that_a_local_server_takes_for_a_key_is_no_secret(word: str) -> None:
    known = KnownSecrets()
    known.note(ProviderAccess(driver="openai", api_key=word, headers=(("X-Title", word),)))

    assert known.values() == ()


@pytest.mark.parametrize("key", ["qwertyuiopasdfghjklzxcvbnm", "aBcDeFgHiJkL", "lm-studio-2"])
def test_a_key_that_is_no_word_is_a_secret(key: str) -> None:
    known = KnownSecrets()
    known.note(ProviderAccess(driver="openai", api_key=key))

    assert known.values() == (key,)


def test_a_provider_without_a_key_has_nothing_to_know() -> None:
    known = KnownSecrets()
    known.note(ProviderAccess(driver="ollama", base_url="http://localhost:11434"))

    assert known.values() == ()


def test_the_latest_are_known_and_none_once_they_are_forgotten() -> None:
    known = KnownSecrets()
    for number in range(100):
        known.note(ProviderAccess(driver="openai", api_key=f"key-{number}"))
    assert known.values() == tuple(f"key-{number}" for number in range(36, 100))

    known.forget()
    assert known.values() == ()
