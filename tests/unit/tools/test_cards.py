"""What a person reads before they answer: all that determines the effect, and nothing that nobody sees."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ozzie_server_ext.domain.events import CardTarget, TargetName
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect, Target, TargetKind
from ozzie_server_ext.render.text import visible_json
from ozzie_server_ext.tools.base import Preview, ToolContext
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.cards import MOST_NAMES, Card, fewer, preview_of, real_card, shortened, stored_card
from ozzie_server_ext.tools.timeout import planned
from tests.unit.policy.rig import meta

TOOL = meta(
    "office.act",
    side_effect=SideEffect.IRREVERSIBLE,
    risk_level=RiskLevel.MEDIUM,
    targets=(
        Target("path", TargetKind.PATH),
        Target("to", TargetKind.RECIPIENT),
        Target("cc", TargetKind.RECIPIENT),
        Target("account", TargetKind.ACCOUNT),
        Target("amount", TargetKind.AMOUNT, currency="currency"),
        Target("token", TargetKind.OBJECT),
    ),
)
"""A tool with arguments of several kinds."""
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
    names = [name for target in card.targets for name in target.names]
    return [card.sentence, card.proof, card.undo, card.arguments, *(each.text + each.written for each in names)]


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
    real, stored = real_card(TOOL, preview, args), stored_card(TOOL, preview, args, ["a known secret"])
    assert json.loads(real.arguments) == args
    assert not any(UNSEEN.search(text) for text in texts_of(real))
    if any("[redacted: " in text for text in texts_of(stored)) and "[redacted: " not in str([args, said, proof]):
        assert stored != real
        assert stored.digest != real.digest


@pytest.mark.parametrize("command", HIDES.values(), ids=HIDES)
def test_a_command_that_looks_like_a_secret_stands_on_the_real_card_alone(command: str) -> None:
    args: JsonObject = {"command": command}
    preview = Preview(sentence="Run it?", proof=command, shown="text")
    real, stored = real_card(TOOL, preview, args), stored_card(TOOL, preview, args, [])
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
    real, stored = real_card(tool.meta, preview, plan.args), stored_card(tool.meta, preview, plan.args, [])
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
    real = real_card(TOOL, Preview(sentence="?"), args)
    assert json.loads(real.arguments) == args
    assert json.loads(shortened(real)) == {"path": "a", "text": f"{'x' * 200}… (5,008 characters in all)"}


# --- what a call names -----------------------------------------------------------------------------------------


def _targets(**args: Any) -> tuple[CardTarget, ...]:
    return real_card(TOOL, Preview(sentence="Act?"), args).targets


def _names(**args: Any) -> list[TargetName]:
    return [name for target in _targets(**args) for name in target.names]


def test_a_card_has_the_normal_form_of_what_each_argument_names() -> None:
    found = _targets(
        path="a.txt",
        to=["Ben <BEN@firm.example>; carla@firm.example"],
        account="AT61 1904 3002 3457 3201",
        amount=120,
        currency="EUR",
        token='Plan, "B"\u00e9',
    )

    assert [(each.kind.value, each.argument, [name.text for name in each.names]) for each in found] == [
        ("recipient", "to", ["ben@firm.example", "carla@firm.example"]),
        ("account", "account", ["AT611904300234573201"]),
        ("amount", "amount", ["120.00 EUR"]),
        ("object", "token", ['"Plan, \\"B\\"\u00e9"']),
    ]
    assert {name.is_read for each in found for name in each.names} == {True}


def test_the_name_before_an_address_is_not_on_a_card() -> None:
    assert _names(to='"ana@firm.example" <evil@evil.example>') == [TargetName(text="evil@evil.example")]


def test_a_domain_that_looks_like_another_is_seen_to_be_none() -> None:
    (name,) = _names(to='"ana@firm.example" <ana@f\u0456rm.example>')

    assert name == TargetName(text="ana@xn--frm-jhd.example", written='"ana@f\u0456rm.example"')


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"to": "ana@f\u202eirm.example"}, '"ana@f\\u202eirm.example"'),
        ({"to": "a\u200bna@firm.example\nBcc: x@x.example"}, '"a\\u200bna@firm.example\\nBcc: x@x.example"'),
        ({"account": "AT62 1904 3002 3457 3201"}, '"AT62 1904 3002 3457 3201"'),
        ({"amount": 120, "currency": ""}, '"120"'),
        ({"token": {"a": "\u200b"}}, '"{\\"a\\": \\"\\u200b\\"}"'),
    ],
)
def test_what_can_not_be_read_is_shown_as_it_was_given(args: JsonObject, text: str) -> None:
    assert _names(**args) == [TargetName(text=text, is_read=False)]


@pytest.mark.parametrize("argument", ["to", "token"])
def test_a_secret_among_the_names_is_on_the_real_card_alone(argument: str) -> None:
    args: JsonObject = {argument: "Zx9kQ2aaB1Zx9kQ2aaB1Zx"}
    preview = Preview(sentence="Act?")
    real, stored = real_card(TOOL, preview, args), stored_card(TOOL, preview, args, ["Zx9kQ2aaB1Zx9kQ2aaB1Zx"])

    assert "Zx9kQ2aaB1" in str(real.targets)
    assert "Zx9kQ2aaB1" not in str(stored.targets)
    assert real.digest != stored.digest


def test_a_secret_by_the_name_of_its_argument_is_on_the_real_card_alone() -> None:
    args: JsonObject = {"token": "Zx9kQ2aaB1Zx9kQ2aaB1Zx"}

    assert "Zx9kQ2aaB1" not in str(stored_card(TOOL, Preview(sentence="Act?"), args, []).targets)


def test_the_log_has_the_beginning_of_a_long_list_and_how_many_are_left_out() -> None:
    everybody = [f"a{number}@firm.example" for number in range(100)]
    (whole,) = _targets(to=everybody)
    (stored,) = fewer([whole])

    assert [name.text for name in whole.names] == everybody
    assert whole.more == 0
    assert (stored.names, stored.more) == (whole.names[:MOST_NAMES], 80)


def test_the_log_has_no_name_that_nobody_reads_to_its_end() -> None:
    (stored,) = fewer(_targets(to=["ana@firm.example", "x" * 5000]))

    assert ([name.text for name in stored.names], stored.more) == (["ana@firm.example"], 1)


def test_a_card_is_another_one_with_other_targets() -> None:
    card = real_card(TOOL, Preview(sentence="Act?"), {"to": "ana@firm.example"})
    changed = replace(card, targets=real_card(TOOL, Preview(sentence="Act?"), {"cc": "ana@firm.example"}).targets)

    assert changed.digest != card.digest
