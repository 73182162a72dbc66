"""Messages of the worker protocol: ours come back as they went, and S2's own are understood."""

import json

import pytest

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.codec import InvalidShape, encode
from ozzie_server_ext.protocol.worker import (
    Abort,
    ClientCredentials,
    CloseSession,
    Command,
    Configure,
    CreateSession,
    Describe,
    Described,
    Error,
    Generate,
    ModelFacts,
    ModelName,
    Provider,
    Status,
    Stop,
    StreamEvent,
    Token,
    command_json,
    event_json,
    parse_command,
    parse_described,
    parse_event,
)

STOP = Stop(
    finish="tool_calls",
    tool_uses=(ToolUse(call_id=CallId("c1"), name="calculator", arguments='{"expr":"1"}'),),
    usage=Usage(input_tokens=3, output_tokens=4),
    cost=5,
    provider={"model": "m"},
)


@pytest.mark.parametrize(
    "command",
    [
        Configure(providers={"gpt4": Provider(driver="openai", api_key="k", headers={"x": "y"})}),
        Generate(session_id="s", prompt="", id="1", request={"model": "m"}, first_s=1.5),
        CreateSession(params={"model": "m"}),
        CloseSession(session_id="s"),
        Abort(session_id="s", id="1"),
        Status(),
        Describe(id="1", models=(ModelName(driver="openai", model="m"), ModelName(driver="ollama", model="n"))),
    ],
)
def test_a_command_comes_back_as_it_went(command: Command) -> None:
    assert parse_command(command_json(command)) == command


@pytest.mark.parametrize("event", [Token(text="a"), STOP, Error(message="no", code="provider.auth", after_s=2.0)])
def test_an_event_comes_back_as_it_went_and_names_its_call(event: StreamEvent) -> None:
    message = event_json(event, "1")
    assert message["id"] == "1"
    assert parse_event(message) == event


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ({"type": "token", "text": "a"}, Token(text="a")),
        ("a plain line", Token(text="a plain line")),
        ({"type": "stop"}, Stop()),
        ({"type": "error", "message": "no"}, Error(message="no")),
        ({"ok": False, "error": "no"}, Error(message="no")),
    ],
)
def test_events_of_a_foreign_worker_are_understood(message: JsonObject | str, event: StreamEvent) -> None:
    assert parse_event(message) == event


def test_the_generate_of_the_specification_is_understood() -> None:
    command = parse_command({"type": "generate", "session_id": "abc", "prompt": "...", "stream": True})
    assert command == Generate(session_id="abc", prompt="...")


@pytest.mark.parametrize(
    "message", [{}, {"type": 7}, {"type": "dance"}, {"type": "abort"}, {"type": "token", "text": 1}]
)
def test_anything_else_is_refused(message: JsonObject) -> None:
    for parse in (parse_command, parse_event):
        with pytest.raises(InvalidShape):
            parse(message)


def test_a_key_shows_in_no_repr() -> None:
    assert "sk-secret" not in repr(Configure(providers={"p": Provider(driver="openai", api_key="sk-secret")}))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (CreateSession(params={}), {"type": "create_session", "params": {}}),
        (
            Generate(session_id="s", prompt="hello", id="1", request={"model": "m"}),
            {"type": "generate", "session_id": "s", "prompt": "hello", "stream": True},
        ),
        (Abort(session_id="s", id="1"), {"type": "abort", "session_id": "s"}),
        (CloseSession(session_id="s"), {"type": "close_session", "session_id": "s"}),
        (Status(id="1"), {"type": "status"}),
    ],
)
def test_a_plain_command_has_the_specifications_fields_alone(command: Command, message: JsonObject) -> None:
    assert command_json(command, plain=True) == message


def test_the_secret_of_a_client_shows_in_no_repr() -> None:
    client = ClientCredentials(token_url="https://x.example/token", client_id="a", client_secret="s3cret")
    assert "s3cret" not in repr(Configure(providers={"p": Provider(driver="openai", oauth2=client)}))


def test_a_clients_credentials_arrive_as_they_were_sent() -> None:
    client = ClientCredentials(token_url="https://x.example/token", client_id="a", client_secret="s", scopes=("b", "c"))
    sent = Configure(providers={"p": Provider(driver="openai", oauth2=client), "q": Provider(driver="ollama")})
    assert parse_command(json.loads(json.dumps(command_json(sent)))) == sent


def test_what_is_known_of_models_arrives_with_what_is_not() -> None:
    known = (ModelFacts(context=8192, tools=False, price_in=0), ModelFacts())
    message: JsonObject = {"ok": True, "id": "1", **json.loads(json.dumps(encode(Described(models=known))))}

    assert parse_described(message) == known


@pytest.mark.parametrize("message", [{}, {"ok": False}, {"models": {}}, {"models": [{"tools": 1}]}])
def test_what_describes_no_models_is_refused(message: JsonObject) -> None:
    with pytest.raises(InvalidShape):
        parse_described(message)
