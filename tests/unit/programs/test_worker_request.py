"""A recorded request in litellm's words."""

from typing import Any

import pytest

from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.toolmeta import ToolSpec
from ozzie_server_ext.models.driver import ChatMessage, ModelChoice, ModelRequest
from ozzie_server_ext.programs.worker_request import completion_arguments, litellm_model
from ozzie_server_ext.protocol.worker import Provider


def arguments(provider: Provider, *messages: ChatMessage, tools: tuple[ToolSpec, ...] = ()) -> dict[str, Any]:
    choice = ModelChoice(alias="main", provider="p", driver=provider.driver, model="m")
    request = ModelRequest(call_id=CallId("c"), choice=choice, messages=messages, tools=tools)
    return completion_arguments(request.to_json(), provider, timeout_s=9.0)


@pytest.mark.parametrize(
    ("driver", "model"),
    [
        ("openai", "openai/m"),
        ("anthropic", "anthropic/m"),
        ("gemini", "gemini/m"),
        ("deepseek", "deepseek/m"),
        ("ollama", "ollama_chat/m"),
        ("vllm", "hosted_vllm/m"),
        ("litellm", "litellm_proxy/m"),
        ("mistral", "mistral/m"),
    ],
)
def test_every_driver_has_its_provider_in_litellm(driver: str, model: str) -> None:
    assert litellm_model(driver, "m") == model


def test_nothing_is_tried_again_behind_our_back() -> None:
    found = arguments(Provider(driver="openai"))
    assert (found["num_retries"], found["max_retries"], found["timeout"]) == (0, 0, 9.0)
    assert found["stream"] is True


@pytest.mark.parametrize(
    ("provider", "key"),
    [
        (Provider(driver="openai", api_key="k", base_url="http://x"), "k"),
        (Provider(driver="openai", base_url="http://x"), "none"),
        (Provider(driver="openai"), None),
        (Provider(driver="anthropic", base_url="http://x"), None),
    ],
)
def test_a_dummy_key_goes_to_compatible_servers_only(provider: Provider, key: str | None) -> None:
    assert arguments(provider).get("api_key") == key


def test_tool_uses_and_results_take_the_shape_of_openai() -> None:
    use = ToolUse(call_id=CallId("t1"), name="calculator", arguments="{}")
    found = arguments(
        Provider(driver="openai"),
        ChatMessage(role="assistant", content="", tool_uses=(use,)),
        ChatMessage(role="tool", content="2", tool_call_id="t1", name="calculator"),
        tools=(ToolSpec(name="calculator", description="d", parameters={"type": "object"}),),
    )
    assert found["messages"] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "calculator", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "2", "tool_call_id": "t1", "name": "calculator"},
    ]
    function = {"name": "calculator", "description": "d", "parameters": {"type": "object"}}
    assert found["tools"] == [{"type": "function", "function": function}]


def test_without_tools_the_provider_hears_of_none() -> None:
    assert "tools" not in arguments(Provider(driver="openai"))
