"""What a person reads before they answer: all that determines the effect, and nothing that nobody sees."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.text import visible_json
from ozzie_server_ext.tools.base import Preview, ToolContext
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.cards import Card, preview_of, real_card, shortened, stored_card
from ozzie_server_ext.tools.timeout import planned

HIDES = {
    "a command in the password of an address": "git clone https://user:Zx9kQ2aaB1`./x.sh`@github.com/a/b",
    "a command behind a token": "export GITHUB_TOKEN=Zx9kQ2aaB1|./x.sh && echo done",
    "a command in a password in quotes": 'PASSWORD="Zx9kQ2aaB1`./x.sh`Zx9k9"',
    "a command in a secret that is evaluated": "secret='Zx9kQ2aaB1;cp\tx\ty;Zx9kQ2';eval \"$secret\"",
}
"""Shell commands that look like secrets, and what they are."""
TEXTS = st.text(max_size=60) | st.sampled_from(
    [*HIDES.values(), "a\u202eb", "\\u202e", "a\r\nb", "\U000e0041", "\ud800"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def texts_of(card: Card) -> list[str]:
    return [card.sentence, card.proof, card.undo, card.arguments]


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_the_arguments_can_be_read_back_from_what_is_seen(args: JsonObject) -> None:
    text = visible_json(args)
    assert json.loads(text) == args
    assert not UNSEEN.search(text)


@given(st.dictionaries(TEXTS, VALUES, max_size=4), TEXTS, TEXTS)
def test_whatever_is_taken_out_of_a_card_shows_in_that_it_is_another_one(
    args: JsonObject, said: str, proof: str
) -> None:
    preview = Preview(sentence=said, proof=proof, shown="text")
    real, stored = real_card(preview, args), stored_card(preview, args, ["a known secret"])
    assert json.loads(real.arguments) == args
    assert not any(UNSEEN.search(text) for text in texts_of(real))
    if any("[redacted: " in text for text in texts_of(stored)) and "[redacted: " not in str([args, said, proof]):
        assert stored != real
        assert stored.digest != real.digest


@pytest.mark.parametrize("command", HIDES.values(), ids=HIDES)
def test_a_command_that_looks_like_a_secret_stands_on_the_real_card_alone(command: str) -> None:
    preview = Preview(sentence="Run it?", proof=command, shown="text")
    real, stored = real_card(preview, {"command": command}), stored_card(preview, {"command": command}, [])
    assert command.replace("\t", "") in real.proof.replace("\t", "")
    assert json.loads(real.arguments) == {"command": command}
    assert "[redacted: " in stored.proof
    assert real.digest != stored.digest


# --- the cards of the tools themselves -------------------------------------------------------------------------

NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
CALLS: dict[str, Callable[[str], JsonObject]] = {
    "host_command": lambda text: {"argv": ["sh", "-c", text]},
    "write_file": lambda text: {"path": "run.sh", "text": text},
    "insert_cell": lambda text: {"path": "n.ipynb", "kind": "code", "source": text},
    "fetch_url": lambda text: {"url": f"https://a.example/?q={text}"},
    "web_search": lambda text: {"query": text},
    "gate": lambda text: {"question": "Go on?", "show": text},
}
"""Calls with that text in what they would do."""


@pytest.mark.parametrize("text", HIDES.values(), ids=HIDES)
@pytest.mark.parametrize("name", CALLS)
async def test_every_byte_of_what_a_tool_would_do_can_be_read_on_its_real_card(
    context: ToolContext, name: str, text: str
) -> None:
    (context.project / "n.ipynb").write_text(NOTEBOOK)
    tool = next(tool for tool in builtin_tools() if tool.meta.name == name)
    plan = await planned(tool, tool.check(CALLS[name](text)), context)
    preview = await preview_of(tool, plan, context)
    real, stored = real_card(preview, plan.args), stored_card(preview, plan.args, [])
    assert json.loads(real.arguments) == plan.args
    assert any(text in each for each in _strings(json.loads(real.arguments)))
    assert "[redacted: " not in "".join(texts_of(real))
    assert "[redacted: " in "".join(texts_of(stored))
    assert json.loads(shortened(stored)) != plan.args


def _strings(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)
        case str():
            yield value
        case _:
            pass


def test_arguments_that_are_long_are_whole_on_the_real_card_and_shortened_in_the_log() -> None:
    args: JsonObject = {"path": "a", "text": "x" * 5000 + "; ./x.sh"}
    real = real_card(Preview(sentence="?"), args)
    assert json.loads(real.arguments) == args
    assert json.loads(shortened(real)) == {"path": "a", "text": f"{'x' * 200}… (5,008 characters in all)"}
