"""Errors of model calls: the words, and what they say to do."""

from typing import get_args

import pytest

from ozzie_server_ext.models.driver import ModelChoice, ModelErrorCode
from ozzie_server_ext.models.failures import RETRYABLE, model_error

CHOICE = ModelChoice(alias="main", provider="gpt4", driver="openai", model="gpt-4o", max_tokens=None)


@pytest.mark.parametrize("code", get_args(ModelErrorCode))
def test_every_error_says_what_happened_and_what_to_do(code: ModelErrorCode) -> None:
    error = model_error(code, CHOICE)
    assert str(error).endswith(".")
    assert error.hint.endswith((".", "%model."))
    assert "{" not in str(error) + error.hint
    assert error.code == code
    assert error.retryable is (code in RETRYABLE)


def test_a_refused_key_names_the_variable_to_check() -> None:
    error = model_error("provider.auth", CHOICE, key_name="OPENAI_API_KEY")
    assert str(error) == 'The model provider refused the key for "main".'
    assert "the environment variable OPENAI_API_KEY, or choose another model with %model." in error.hint
    assert "Your message is kept." in error.hint


@pytest.mark.parametrize("code", ["worker.lost", "provider.broken_stream", "provider.timeout"])
def test_an_answer_that_broke_off_is_told_as_such(code: ModelErrorCode) -> None:
    error = model_error(code, CHOICE, streamed=True)
    assert str(error) == '"main" stopped in the middle of its answer. What came is kept.'
    assert error.hint == "Run the cell again to continue."
    assert error.streamed


def test_the_wait_that_the_provider_asks_for_is_told() -> None:
    assert "in 7 s" in model_error("provider.rate_limited", CHOICE, after_s=6.8).hint
