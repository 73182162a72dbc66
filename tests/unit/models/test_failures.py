"""Errors of model calls: the words, and what they say to do."""

from typing import get_args

import pytest

from ozzie_server_ext.models.driver import ModelChoice, ModelErrorCode
from ozzie_server_ext.models.failures import ErrorContext, model_error

CHOICE = ModelChoice(alias="main", provider="gpt4", driver="openai", model="gpt-4o", max_tokens=None)


@pytest.mark.parametrize("code", get_args(ModelErrorCode))
def test_every_error_says_what_happened_and_what_to_do(code: ModelErrorCode) -> None:
    error = model_error(code, CHOICE)
    assert str(error).endswith(".")
    assert error.hint.endswith(".")
    assert "kept" in error.hint
    assert "{" not in str(error) + error.hint
    assert error.code == code


def test_a_refused_key_names_the_variable_to_check() -> None:
    error = model_error("provider.auth", CHOICE, place=ErrorContext(key_name="OPENAI_API_KEY"))
    assert str(error) == 'The model provider refused the key for "main".'
    assert "the environment variable OPENAI_API_KEY, or choose another model with %model." in error.hint
    assert "Your message is kept." in error.hint


def test_an_address_that_was_typed_and_wants_a_key_is_told_apart_from_a_key_that_is_refused() -> None:
    typed = ModelChoice(alias="openai/x", provider="openai@http://localhost:1/v1", driver="openai", model="x")
    error = model_error("provider.auth", typed)
    assert str(error) == 'The address of "openai/x" wants a key, and one that was typed in gets none.'
    assert error.hint.startswith("Put it into the configuration as a provider with its key, or choose another")


@pytest.mark.parametrize("code", ["worker.lost", "provider.broken_stream", "provider.timeout"])
def test_an_answer_that_broke_off_is_told_as_such(code: ModelErrorCode) -> None:
    error = model_error(code, CHOICE, streamed=True)
    assert str(error) == '"main" stopped in the middle of its answer. What came is kept.'
    assert error.hint == "Run the cell again to continue."
    assert error.streamed


def test_the_wait_that_the_provider_asks_for_is_told() -> None:
    assert "in 7 s" in model_error("provider.rate_limited", CHOICE, after_s=6.8).hint


def test_what_the_provider_says_against_a_request_is_quoted_on_one_line_and_cut() -> None:
    error = model_error("provider.bad_request", CHOICE, detail="tools:\n\u202e are " + "x" * 1000)

    assert str(error).startswith('The model provider of "main" did not take the request: "tools: \\u202e are xxx')
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    ("driver", "address", "code", "told"),
    [
        ("openai", "http://localhost:8000", "provider.not_found", "mostly ends in /v1"),
        ("vllm", "http://localhost:8000/", "provider.garbage", "mostly ends in /v1"),
        ("openai", "http://localhost:8000/v1", "provider.not_found", "Check the model's name and base_url"),
        ("gemini", "http://localhost:8000", "provider.not_found", "mostly ends in /v1beta"),
        ("ollama", "http://localhost:11434", "provider.not_found", "`ollama pull gpt-4o`"),
        ("ollama", "http://localhost:11434", "provider.unreachable", "ollama serve"),
        ("gemini", "", "provider.unreachable", "Check that it runs, the network"),
    ],
)
def test_what_to_do_depends_on_whom_is_asked(driver: str, address: str, code: ModelErrorCode, told: str) -> None:
    choice = ModelChoice(alias="main", provider="p", driver=driver, model="gpt-4o")

    assert told in model_error(code, choice, place=ErrorContext(address=address)).hint


def test_an_address_is_named_without_a_password_in_it() -> None:
    place = ErrorContext(address="https://me:secret@models.example.org:8443/v1?x=1")

    assert str(model_error("provider.no_tls", CHOICE, place=place)).endswith("at https://models.example.org:8443.")
