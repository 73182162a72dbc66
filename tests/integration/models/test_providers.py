"""Every wire format through the real worker and the real litellm: what the provider does, and what comes of it."""

import json

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolSpec
from ozzie_server_ext.models.driver import ChatMessage, Finished, ModelRequest, ProviderAccess, Reasoning, TextDelta
from tests.fakes.pictures import png
from tests.fakes.provider_server import FakeProvider
from tests.fakes.providers import WIRES
from tests.fakes.replies import Answer, Refusal, ToolCall
from tests.integration.models.rig import KEYS, Rig, failure, finished, read, request, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVERY = tuple(WIRES)
PATHS = {
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/echo:streamGenerateContent?alt=sse",
    "ollama": "/api/chat",
}


def schema(name: str) -> JsonObject:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


TOOLS = (
    ToolSpec(name="calculator", description="Works out a sum.", parameters=schema("expr")),
    ToolSpec(name="current_time", description="Tells the time.", parameters=schema("timezone")),
)
SYSTEM = ChatMessage(role="system", content="Be brief.")
HELLO = ChatMessage(role="user", content="hello big wide world")


def ask(driver: str, model: str, *messages: ChatMessage, limits: str = "") -> ModelRequest:
    """`limits` is an ending of the rig's providers."""
    return request(model, *(messages or (SYSTEM, HELLO)), provider=f"{driver}{limits}", driver=driver, tools=TOOLS)


def taken(fake: FakeProvider) -> None:
    assert fake.misread == [], "The provider would not have taken the request."


# --- answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", EVERY)
async def test_text_streams_and_usage_is_told(rig: Rig, driver: str) -> None:
    fake = rig.fakes[driver]
    fake.queue(Answer(pieces=["Hello ", "there"], usage=(17, 5)))

    events = await read(rig, ask(driver, "echo"))

    assert text_of(events) == "Hello there"
    last = finished(events)
    assert (last.finish, last.usage) == ("stop", Usage(input_tokens=17, output_tokens=5))
    assert last.tool_uses == ()
    [asked] = fake.requests
    assert asked.path == PATHS[driver]
    assert "Be brief." in json.dumps(asked.body)


@pytest.mark.parametrize("driver", EVERY)
async def test_the_next_call_needs_no_new_connection(rig: Rig, driver: str) -> None:
    """The answer is read to its end, so that the connection stays usable. One is still being read if the next call
    comes at once; then that takes another."""
    fake = rig.fakes[driver]
    await read(rig, ask(driver, "echo"))
    before = fake.connections
    for _ in range(6):
        assert finished(await read(rig, ask(driver, "echo"))).finish == "stop"
    assert fake.connections <= before + 2
    assert fake.disconnects == []


@pytest.mark.parametrize("driver", EVERY)
async def test_reasoning_is_told_when_it_begins_and_kept_beside_the_answer(rig: Rig, driver: str) -> None:
    rig.fakes[driver].queue(Answer(reasoning=["Six times ", "seven…"], pieces=["It is ", "42."]))

    events = await read(rig, ask(driver, "echo"))

    assert [type(event) for event in events] == [Reasoning, *[TextDelta] * (len(events) - 2), Finished]
    assert text_of(events) == "It is 42."
    assert finished(events).response["reasoning"] == "Six times seven…"


@pytest.mark.parametrize("driver", EVERY)
async def test_the_key_goes_where_the_provider_looks_for_it_and_nowhere_else(rig: Rig, driver: str) -> None:
    fake = rig.fakes[driver]

    await read(rig, ask(driver, "echo"))

    taken(fake)
    [asked] = fake.requests
    headers = {"openai": "authorization", "anthropic": "x-api-key", "gemini": "x-goog-api-key"}
    found = {name for name, value in asked.headers.items() if KEYS[driver] and KEYS[driver] in value}
    assert found == ({headers[driver]} if driver in headers else set())
    assert not KEYS[driver] or KEYS[driver] not in asked.path + json.dumps(asked.body)


@pytest.mark.parametrize("driver", EVERY)
async def test_nothing_is_asked_of_a_provider_but_the_answer(rig: Rig, driver: str) -> None:
    for model in ("echo", "another-model"):
        await read(rig, ask(driver, model))
    await read(rig, ask("openai", "echo"))  # whatever goes on behind an answer has had its time now

    assert len(rig.fakes[driver].requests) == (3 if driver == "openai" else 2)


@pytest.mark.parametrize("driver", EVERY)
async def test_pictures_are_shown_in_the_providers_format_again_in_the_next_round(rig: Rig, driver: str) -> None:
    red, wide = await rig.picture("red.png", png()), await rig.picture("wide.png", png(40))
    said = ChatMessage(role="user", content="Which is wider?", pictures=(red, wide))
    conversation = (SYSTEM, said, ChatMessage(role="assistant", content="The second."), HELLO)

    events = await read(rig, ask(driver, "eyes", SYSTEM, said))
    later = await read(rig, ask(driver, "eyes", *conversation))

    taken(rig.fakes[driver])
    assert text_of(events) == text_of(later) == f"Seen: {len(png())} bytes, {len(png(40))} bytes"
    sent = json.dumps(rig.fakes[driver].requests[0].body)
    assert [word in sent for word in ("Which is wider?", "red.png", "wide.png")] == [True, True, True]


async def test_pictures_for_deepseek_are_dropped_on_the_way_so_nobody_may_count_on_them(rig: Rig) -> None:
    """Why `model_knowledge` takes DeepSeek's models for blind: once this fails, they may see."""
    fake = rig.fakes["openai"]
    rig.providers["deepseek"] = ProviderAccess(driver="deepseek", base_url=fake.base_url, api_key="sk-deep-0123456789")
    said = ChatMessage(role="user", content="Which?", pictures=(await rig.picture("red.png", png()),))

    events = await read(rig, request("eyes", SYSTEM, said, provider="deepseek", driver="deepseek"))

    assert text_of(events) == "Seen: "


async def test_deepseek_refuses_a_schema_so_it_is_never_given_one(rig: Rig) -> None:
    """It knows `json_object` alone (its API's "JSON Output"), and litellm passes on what it is given."""
    fake = rig.fakes["openai"]
    rig.providers["deepseek"] = ProviderAccess(driver="deepseek", base_url=fake.base_url, api_key="sk-deep-0123456789")
    schema: JsonObject = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    asked = replace(request("no-schema", provider="deepseek", driver="deepseek"), tools=(), schema=schema)

    refused, _ = await failure(rig, asked)

    assert refused.code == "provider.bad_request"


@pytest.mark.parametrize("driver", EVERY)
async def test_an_answer_is_held_to_a_schema_in_the_providers_format(rig: Rig, driver: str) -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
        "required": ["city", "people"],
        "additionalProperties": False,
    }

    # litellm knows by their names which models of Google's can be held to one.
    model = "gemini-2.5-shape" if driver == "gemini" else "shape"
    held = await read(rig, replace(ask(driver, model), tools=(), schema=schema))
    free = await read(rig, replace(ask(driver, model), tools=()))

    taken(rig.fakes[driver])
    assert json.loads(text_of(held)) == {"city": "Rome", "people": 7}
    assert (finished(held).finish, finished(held).tool_uses) == ("stop", ())
    assert text_of(free) == "I would rather talk."


def after(events: list[Finished], text: str, *values: str) -> tuple[ChatMessage, ...]:
    """The conversation once the tools have given `values`."""
    last = events[-1]
    results = [
        ChatMessage(role="tool", content=json.dumps({"value": value}), tool_call_id=use.call_id, name=use.name)
        for use, value in zip(last.tool_uses, values, strict=True)
    ]
    return (SYSTEM, HELLO, ChatMessage(role="assistant", content=text, tool_uses=last.tool_uses), *results)


@pytest.mark.parametrize("driver", EVERY)
@pytest.mark.parametrize(
    ("model", "text", "calls"),
    [
        ("tools", "", [("calculator", {"expr": "17.5/100*2480"})]),
        ("parallel", "Two at once.", [("calculator", {"expr": "6*7"}), ("current_time", {"timezone": "UTC"})]),
    ],
)
async def test_tools_are_called_and_their_results_go_back_in_the_providers_format(
    rig: Rig, driver: str, model: str, text: str, calls: list[tuple[str, dict[str, str]]]
) -> None:
    fake = rig.fakes[driver]

    events = await read(rig, ask(driver, model))

    last = finished(events)
    assert (text_of(events), last.finish) == (text, "tool_calls")
    assert [(use.name, json.loads(use.arguments)) for use in last.tool_uses] == calls
    assert len({use.call_id for use in last.tool_uses}) == len(calls)
    assert "Works out a sum." in json.dumps(fake.requests[0].body)
    values = [f"result {number}" for number in range(len(calls))]
    events = await read(rig, ask(driver, model, *after([last], text, *values)))
    taken(fake)
    answer = text_of(events)
    assert answer.startswith("The tools gave: ")
    assert [value for value in values if value not in answer] == []


@pytest.mark.parametrize(
    ("driver", "model", "finish", "text"),
    [
        *((driver, "long-answer", "length", "It begins") for driver in EVERY),
        *((driver, "empty", "stop", "") for driver in EVERY),
        # Ollama has no content filter.
        *((driver, "filtered", "content_filter", "It ") for driver in EVERY if driver != "ollama"),
    ],
)
async def test_an_answer_that_is_not_what_was_hoped_for_says_how_it_ended(
    rig: Rig, driver: str, model: str, finish: str, text: str
) -> None:
    events = await read(rig, ask(driver, model))

    assert (finished(events).finish, text_of(events)) == (finish, text)


# --- failures -----------------------------------------------------------------------------------------

REFUSED = {
    "status-400": "provider.bad_request",
    "status-401": "provider.auth",
    "status-403": "provider.forbidden",
    "status-404": "provider.not_found",
    "status-429": "provider.rate_limited",
    "status-500": "provider.server",
    "status-503": "provider.server",
    "status-529": "provider.rate_limited",
    "too-long": "provider.context_length",
    "garbage": "provider.garbage",
    "garbage-json": "provider.garbage",
    "garbage-at-once": "provider.garbage",
    "broken-at-once": "provider.broken_stream",
    "overloaded-at-once": "provider.rate_limited",
    "silence": "provider.timeout",
}
"""What a provider does before any of its answer has come."""

CUT_OFF = ("broken", "cut", "garbage-within", "overloaded-within", "silence-within")
"""What it does in the middle of an answer."""

OF_ITS_OWN = {
    # Ollama has one event for whatever goes wrong within a stream.
    ("ollama", "overloaded-at-once"): "provider.server",
}


@pytest.mark.parametrize("driver", EVERY)
@pytest.mark.parametrize("model", REFUSED)
async def test_a_failure_before_the_answer_has_its_code_and_is_asked_once(rig: Rig, driver: str, model: str) -> None:
    error, text = await failure(rig, ask(driver, model, limits="-hasty" if model == "silence" else ""))

    assert error.code == OF_ITS_OWN.get((driver, model), REFUSED[model])
    assert (error.streamed, text) == (False, "")
    assert len(rig.fakes[driver].requests) == 1
    taken(rig.fakes[driver])


@pytest.mark.parametrize("driver", EVERY)
@pytest.mark.parametrize("model", CUT_OFF)
async def test_an_answer_that_is_cut_off_is_never_taken_for_a_whole_one(rig: Rig, driver: str, model: str) -> None:
    error, text = await failure(rig, ask(driver, model, limits="-hasty-within" if model == "silence-within" else ""))

    assert text == ("It " if model == "silence-within" else "It begins")
    assert error.streamed
    assert str(error) == '"main" stopped in the middle of its answer. What came is kept.'
    assert len(rig.fakes[driver].requests) == 1


@pytest.mark.parametrize("driver", ["openai", "anthropic"])
async def test_content_that_is_refused_is_told_as_such(rig: Rig, driver: str) -> None:
    error, _ = await failure(rig, ask(driver, "blocked"))

    assert error.code == "provider.content_filter"


async def test_gemini_refuses_content_by_an_answer_without_any(rig: Rig) -> None:
    events = await read(rig, ask("gemini", "blocked"))

    assert (finished(events).finish, text_of(events)) == ("content_filter", "")


@pytest.mark.parametrize("driver", EVERY)
async def test_how_long_a_busy_provider_asks_to_wait_is_told(rig: Rig, driver: str) -> None:
    error, _ = await failure(rig, ask(driver, "status-429"))

    assert error.after_s == 7.0
    assert error.hint.startswith("Run the cell again in 7 s, ")


@pytest.mark.parametrize("driver", EVERY)
async def test_a_providers_own_words_are_kept_without_what_is_wrapped_around_them(rig: Rig, driver: str) -> None:
    error, _ = await failure(rig, ask(driver, "status-400"))

    assert error.detail == "The fake refuses."
    assert str(error) == 'The model provider of "main" did not take the request: "The fake refuses.".'


@pytest.mark.parametrize("driver", [driver for driver in EVERY if KEYS[driver]])
async def test_a_provider_that_repeats_the_key_does_not_make_us_repeat_it(rig: Rig, driver: str) -> None:
    error, _ = await failure(rig, ask(driver, "status-401"))

    assert error.detail == "Incorrect API key provided: [key]."
    assert f"{driver.upper()}_KEY" in error.hint


@pytest.mark.parametrize(
    ("driver", "refusal"),
    [
        ("openai", Refusal(status=429, message="You exceeded your current quota.", code="insufficient_quota")),
        ("openai", Refusal(status=402, message="Insufficient Balance")),
        ("anthropic", Refusal(status=400, message="Your credit balance is too low to access the Anthropic API.")),
    ],
)
async def test_an_empty_account_is_no_busy_model(rig: Rig, driver: str, refusal: Refusal) -> None:
    rig.fakes[driver].queue(refusal)

    error, _ = await failure(rig, ask(driver, "echo"))

    assert error.code == "provider.quota"


# --- addresses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "driver", "code", "sentence", "hint"),
    [
        ("unreachable", "openai", "provider.unreachable", "at http://127.0.0.1:9.", "Check that it runs"),
        ("no-path", "openai", "provider.not_found", 'no model "echo"', "mostly ends in /v1"),
        ("no-tls", "openai", "provider.no_tls", "does not speak https", "Write http://"),
        ("unknown-host", "openai", "provider.unknown_host", "no computer has that name", "Check base_url"),
        ("ollama-not-running", "ollama", "provider.unreachable", "Ollama does not answer at", "ollama serve"),
    ],
)
async def test_an_address_that_is_wrong_is_told_from_others(
    rig: Rig, provider: str, driver: str, code: str, sentence: str, hint: str
) -> None:
    error, _ = await failure(rig, request("echo", provider=provider, driver=driver))

    assert error.code == code
    assert sentence in str(error)
    assert hint in error.hint


# --- servers that speak OpenAI's format ---------------------------------------------------------------


@pytest.mark.parametrize("driver", ["litellm", "openai-compatible", "vllm"])
@pytest.mark.parametrize("key", ["sk-proxy", ""])
async def test_a_proxy_and_compatible_servers_stream_text_and_call_tools(rig: Rig, driver: str, key: str) -> None:
    fake = rig.fakes["openai"]
    rig.providers["compatible"] = ProviderAccess(driver=driver, base_url=fake.base_url, api_key=key)
    use = ToolCall(id="call_1", name="calculator", arguments={"expr": "1+1"})
    fake.queue(Answer(pieces=["Let me see."], tool_calls=[use], usage=(17, 5)))

    events = await read(rig, request("alias/router", SYSTEM, HELLO, provider="compatible", driver=driver, tools=TOOLS))

    taken(fake)
    last = finished(events)
    assert (text_of(events), last.finish, last.usage.input_tokens) == ("Let me see.", "tool_calls", 17)
    assert [(use.name, json.loads(use.arguments)) for use in last.tool_uses] == [("calculator", {"expr": "1+1"})]
    (sent,) = fake.requests
    assert (sent.path, sent.body["model"]) == ("/v1/chat/completions", "alias/router")
    # Without a key of its own, a server must not get the one that OpenAI's variable holds.
    assert sent.headers["authorization"].startswith("Bearer sk-") == bool(key)
    assert "sk-from-the-environment" not in sent.headers["authorization"]
    assert last.cost is None, "whatever the name is, nobody knows what it costs there"
