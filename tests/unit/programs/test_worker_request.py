"""A recorded request in litellm's words."""

import re
from typing import Any

import pytest

from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolSpec
from ozzie_server_ext.models.driver import ChatMessage, ModelChoice, ModelRequest
from ozzie_server_ext.programs.worker_litellm import completion_arguments, litellm_model
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
        ("openai-compatible", "openai/m"),
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
        (Provider(driver="openai-compatible", base_url="http://x"), "none"),
        (Provider(driver="litellm", base_url="http://x"), "none"),
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


# --- what a model made up -----------------------------------------------------------------------------


def wire_of(use: ToolUse) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tool call as the provider gets it back, and the message with its result."""
    found = arguments(
        Provider(driver="openai"),
        ChatMessage(role="assistant", content="", tool_uses=(use,)),
        ChatMessage(role="tool", content="{}", tool_call_id=use.call_id, name=use.name),
    )
    assistant, tool = found["messages"]
    return assistant["tool_calls"][0], tool


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("read_file-2", "read_file-2"),
        ("read\x00file\n", "read_file_"),
        ("functions.read file", "functions_read_file"),
        ("lösche", "l_sche"),
        ("", "unnamed"),
        ("x" * 65, "x" * 64),
    ],
)
def test_a_tools_name_goes_back_as_providers_take_it(name: str, sent: str) -> None:
    call, tool = wire_of(ToolUse(call_id=CallId("t1"), name=name, arguments="{}"))
    assert call["function"]["name"] == sent
    assert tool["name"] == sent


@pytest.mark.parametrize("text", ["", "{", "[1]", '"x"', "null", '{"a": NaN}', '{"a": "\\ud800"}', "[" * 100_000])
def test_arguments_that_are_no_object_go_back_as_an_empty_one(text: str) -> None:
    call, _ = wire_of(ToolUse(call_id=CallId("t1"), name="x", arguments=text))
    assert call["function"]["arguments"] == "{}"


def test_arguments_that_are_an_object_go_back_letter_by_letter() -> None:
    text = ' {"b": 1.0,  "a": "ü"}'
    call, _ = wire_of(ToolUse(call_id=CallId("t1"), name="x", arguments=text))
    assert call["function"]["arguments"] == text


@pytest.mark.parametrize("call_id", ["call_7", "functions.read:0", "toolu-" + "x" * 58])
def test_an_id_that_providers_take_goes_back_as_it_came(call_id: str) -> None:
    call, tool = wire_of(ToolUse(call_id=CallId(call_id), name="x", arguments="{}"))
    assert call["id"] == tool["tool_call_id"] == call_id


@pytest.mark.parametrize("call_id", ["x" * 65, "x" * 200_000, "a b", "a\x00", "a\n", "ü"])
def test_any_other_id_has_the_same_short_substitute_in_call_and_result(call_id: str) -> None:
    call, tool = wire_of(ToolUse(call_id=CallId(call_id), name="x", arguments="{}"))
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call["id"])
    assert tool["tool_call_id"] == call["id"]
    again, _ = wire_of(ToolUse(call_id=CallId(call_id), name="x", arguments="{}"))
    assert again["id"] == call["id"], "What a provider has cached must stay the same."


def test_different_ids_have_different_substitutes() -> None:
    ids = [wire_of(ToolUse(call_id=CallId("x" * n), name="x", arguments="{}"))[0]["id"] for n in range(60, 80)]
    assert len(set(ids)) == len(ids)


_CLOSED: JsonObject = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


@pytest.mark.parametrize(
    ("driver", "schema", "strict"),
    [
        ("openai", _CLOSED, {"strict": True}),
        ("openai", {"type": "object"}, {"strict": False}),
        ("gemini", _CLOSED, {}),
        ("ollama", _CLOSED, {}),
    ],
)
def test_a_provider_is_given_the_schema_and_openai_is_asked_to_be_strict_where_it_can_be(
    driver: str, schema: JsonObject, strict: JsonObject
) -> None:
    choice = ModelChoice(alias="main", provider="p", driver=driver, model="m")
    request = ModelRequest(call_id=CallId("c"), choice=choice, messages=(), schema=schema)

    found = completion_arguments(request.to_json(), Provider(driver=driver), timeout_s=9.0)

    named = {"name": "answer", "schema": schema, **strict}
    assert found["response_format"] == {"type": "json_schema", "json_schema": named}
    assert "response_format" not in arguments(Provider(driver=driver))
