"""Whose models answer at an address."""

import pytest

from ozzie_server_ext.models.facts import is_own_address


@pytest.mark.parametrize(
    ("driver", "base_url"),
    [
        ("openai", ""),
        ("openai", "https://api.openai.com/v1"),
        ("openai", "HTTPS://API.OpenAI.com:443/v1"),
        ("anthropic", "https://api.anthropic.com"),
        ("gemini", "https://generativelanguage.googleapis.com/v1beta"),
        ("deepseek", ""),
        ("ollama", "http://127.0.0.1:11434"),
        ("ollama", "https://gpu.example:8443"),
    ],
)
def test_a_providers_own_address_is_known_however_it_is_written(driver: str, base_url: str) -> None:
    assert is_own_address(driver, base_url)


@pytest.mark.parametrize(
    ("driver", "base_url"),
    [
        ("openai", "http://localhost:8000/v1"),
        ("openai", "https://api.openai.com.example/v1"),
        ("openai", "https://example.com/api.openai.com/v1"),
        ("openai", "https://api.openai.com@example.com/v1"),
        ("anthropic", "https://api.openai.com/v1"),
        ("openai-compatible", "https://api.openai.com/v1"),
        ("vllm", "http://gpu:8000/v1"),
        ("litellm", "http://proxy:4000"),
        ("worker", "/run/fazai/gemma.sock"),
        ("offline", ""),
    ],
)
def test_anywhere_else_a_name_says_nothing(driver: str, base_url: str) -> None:
    assert not is_own_address(driver, base_url)
