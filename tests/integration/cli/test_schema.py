"""`ozzie ask --schema`: an answer that the next program can read, or words and an exit status."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer
from tests.integration.gateway.test_rest import get, post
from tests.rig import Gateway, new_home, ozzie, start_gateway

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, fake_openai_server: FakeOpenAI) -> Iterator[Gateway]:
    """`held` is a model that its provider holds to a schema; `talks` one that nobody does."""
    home = new_home(tmp_path_factory.mktemp("schema"))
    address = f"{fake_openai_server.url}/v1"
    talks = {"driver": "openai", "model": "shape", "base_url": address, "auth": {"type": "none"}}
    held = {**talks, "capabilities": {"structured": True}}
    home.configure({"models": {"default": "held", "providers": {"held": held, "talks": talks}}})
    with start_gateway(home) as gateway:
        yield gateway


@pytest.fixture
def schema(tmp_path: Path) -> str:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    return str(file)


def test_the_answer_is_printed_as_json_and_nothing_else(running: Gateway, schema: str, fake_openai: FakeOpenAI) -> None:
    done = ozzie(running.home, "ask", "Which city?", "--schema", schema)

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"city": "Rome", "people": 7}
    free, held = (request.body for request in fake_openai.requests)
    assert (bool(free["tools"]), "response_format" in free) == (True, False)
    assert "tools" not in held
    assert held["response_format"]["json_schema"] == {"name": "answer", "schema": SCHEMA, "strict": True}


def test_beside_the_rest_of_the_turn_where_that_is_asked_for(running: Gateway, schema: str) -> None:
    done = ozzie(running.home, "ask", "Which city?", "--schema", schema, "--json")

    told = json.loads(done.stdout)
    assert (told["status"], told["answer"]) == ("Done", {"city": "Rome", "people": 7})


def test_a_model_that_does_not_come_to_it_ends_in_words(running: Gateway, schema: str, fake_openai: FakeOpenAI) -> None:
    done = ozzie(running.home, "ask", "Which city?", "--schema", schema, "--model", "talks")

    assert (done.returncode, done.stdout) == (1, "")
    assert '"talks" gave no answer that fits the schema, in 3 tries.' in done.stderr
    assert "Traceback" not in done.stderr
    assert len(fake_openai.requests) == 3
    assert "does not fit the JSON Schema" in fake_openai.requests[1].body["messages"][-1]["content"]


def test_the_tasks_steps_say_what_did_not_fit(running: Gateway, schema: str, fake_openai: FakeOpenAI) -> None:
    fake_openai.queue(Answer(pieces=['{"city": "Rome"}']), Answer(pieces=['{"city": "Rome", "people": 7}']))

    done = ozzie(running.home, "ask", "Which city?", "--schema", schema, "--model", "talks", "--json")

    task_id = json.loads(done.stdout)["task_id"]
    steps = get(running, f"tasks/{task_id}")["steps"]
    assert [(step["status"], (step["error"] or {}).get("message")) for step in steps] == [
        ("rejected", 'At $: "people" is a required property.'),
        ("completed", None),
    ]
    shown = ozzie(running.home, "tasks", "show", task_id).stdout
    assert 'rejected   At $: "people" is a' in shown


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "can't be read: No such file"),
        ("{", "schema.json: "),
        ("[]", "A JSON Schema is a JSON object."),
        ('{"type": "text"}', 'The schema is no JSON Schema, at $.type: "text" is not valid'),
        ('{"$ref": "http://127.0.0.1:9/x"}', "may refer only to itself"),
    ],
)
def test_a_file_that_is_no_schema_says_so(
    running: Gateway, tmp_path: Path, fake_openai: FakeOpenAI, content: str | None, said: str
) -> None:
    file = tmp_path / "schema.json"
    if content is not None:
        file.write_text(content)

    done = ozzie(running.home, "ask", "Which city?", "--schema", str(file))

    assert (done.returncode != 0, done.stdout, fake_openai.requests) == (True, "", [])
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_over_rest_the_task_has_the_value(running: Gateway) -> None:
    whole = post(running, "message", content="Which city?", wait=True, answer_schema=SCHEMA)
    plain = post(running, "message", content="Which city?", wait=True)
    refused = post(running, "message", 400, content="Which city?", answer_schema={"type": "text"})

    assert whole["answer"] == get(running, f"tasks/{whole['task_id']}")["answer"] == {"city": "Rome", "people": 7}
    assert json.loads(whole["text"]) == whole["answer"]
    assert (plain["answer"], plain["text"]) == (None, "I would rather talk.")
    assert (refused["code"], bool(refused["hint"])) == ("schema.invalid", True)


def test_an_empty_name_of_a_file_is_not_no_file(running: Gateway, fake_openai: FakeOpenAI) -> None:
    done = ozzie(running.home, "ask", "Which city?", "--schema", "")

    assert (done.returncode != 0, done.stdout, fake_openai.requests) == (True, "", [])
    assert "can't be read" in done.stderr


def test_what_is_no_schema_starts_no_gateway(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    file = tmp_path / "schema.json"
    file.write_text('{"type": "text"}')

    done = ozzie(home, "ask", "Which city?", "--schema", str(file))

    assert (done.returncode != 0, "The schema is no JSON Schema" in done.stderr) == (True, True)
    assert home.handshake() is None


def test_nothing_that_a_terminal_obeys_comes_out(running: Gateway, schema: str, fake_openai: FakeOpenAI) -> None:
    """Neither in a value nor in what is said of one."""
    fake_openai.queue(Answer(pieces=[json.dumps({"city": "\x9b31m\u202eRome", "people": 7}, ensure_ascii=False)]))
    value = ozzie(running.home, "ask", "Which city?", "--schema", schema, "--model", "talks")
    for _ in range(3):
        fake_openai.queue(Answer(pieces=['{"\x1b]0;x\x07\x9b31m": 1, "city": "Rome", "people": 7}']))
    words = ozzie(running.home, "ask", "Which city?", "--schema", schema, "--model", "talks")

    assert json.loads(value.stdout)["city"] == "\x9b31m\u202eRome"
    assert value.stdout.isascii()
    assert (words.returncode, words.stdout) == (1, "")
    assert "in 3 tries" in words.stderr
    assert not {"\x1b", "\x07", "\x9b"} & set(words.stderr)
