"""Mistakes in files of settings are told in a person's words, whatever the validator calls them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from ozzie_server_ext.config.jsonc import ConfigError, parse
from ozzie_server_ext.config.settings import Settings
from ozzie_server_ext.config.validation import NOT_LIKE_THAT, validate
from ozzie_server_ext.policy.rules import PolicyText
from tests.tiers import SOAK


def complaints(model: type[BaseModel], text: str) -> list[str]:
    """Without their places."""
    document = parse(text, "f.jsonc")
    with pytest.raises(ConfigError) as refused:
        validate(model, document.value, document.places)
    return [line.split(": ", 1)[1] for line in str(refused.value).splitlines()]


def provider(rest: str) -> str:
    return '{"models": {"providers": {"x": {"driver": "openai", "model": "m", ' + rest + "}}}}"


def rule(**changed: str) -> str:
    keys = {
        "id": '"a"',
        "decision": '"deny"',
        "reason": '"Because."',
        "when": "{}",
        "examples": '{"match": [{"tool": "t"}]}',
        **changed,
    }
    return '{"rules": [{' + ", ".join(f'"{key}": {value}' for key, value in keys.items()) + "}]}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"gateway": {"port": 65536}}', "gateway.port: must be at most 65535; it is 65536."),
        ('{"gateway": {"port": -1}}', "gateway.port: must be at least 0; it is -1."),
        ('{"gateway": {"port": "x"}}', "gateway.port: must be a whole number; it is 'x'."),
        ('{"gateway": {"port": 1.5}}', "gateway.port: must be a whole number; it is 1.5."),
        ('{"gateway": {"port": null}}', "gateway.port: must be a whole number; it is null."),
        ('{"gateway": {"host": 1}}', "gateway.host: must be text; it is 1."),
        ('{"gateway": {"host": [1, 2]}}', "gateway.host: must be text; it is a list."),
        (
            '{"approvals": {"checker": "x"}}',
            '"approvals.checker" names "x", which is not a provider or alias.',
        ),
        ('{"gateway": []}', "gateway: must be an object in braces; it is a list."),
        ('{"models": {"providers": 1}}', "models.providers: must be an object in braces; it is 1."),
        (provider('"timeout_s": "soon"'), "models.providers.x.timeout_s: must be a number; it is 'soon'."),
        (provider('"timeout_s": 0'), "models.providers.x.timeout_s: must be more than 0; it is 0."),
        (provider('"auth": "none"'), "models.providers.x.auth: must be an object in braces."),
        (
            provider('"capabilities": {"tools": "perhaps"}'),
            "models.providers.x.capabilities.tools: must be true or false; it is 'perhaps'.",
        ),
        (
            '{"budgets": {"day": {"max_cost_usd": "much"}}}',
            "budgets.day.max_cost_usd: must be a number; it is 'much'.",
        ),
        (
            '{"budgets": {"day": {"max_cost_usd": "0.0000000001"}}}',
            "budgets.day.max_cost_usd: may have at most 9 digits after the point; it is '0.0000000001'.",
        ),
        (
            '{"budgets": {"day": {"max_tokens": 10000000000001}}}',
            "budgets.day.max_tokens: must be at most 1000000000000; it is 10000000000001.",
        ),
        ('{"models": {"aliases": {"fast": []}}}', "models.aliases.fast: needs at least one."),
        ('{"models": {"aliases": {"fast": 5}}}', "models.aliases.fast: must be text or a list; it is 5."),
        ('{"models": {"aliases": {"fast": ["a", 5]}}}', "models.aliases.fast.1: must be text; it is 5."),
        (
            provider('"tags": {"speed": {}}'),
            "models.providers.x.tags.speed: must be text, a number or true or false; it is an object.",
        ),
        (
            '{"models": {"aliases": {"a b": "x"}}}',
            "models.aliases.a b: may hold the letters a to z and A to Z, digits, '.', '_' and '-' only, at most 64, "
            "and begins with a letter or digit; it is 'a b'.",
        ),
        (
            provider('"auth": {"type": "api_key", "env": "sk-a-key"}'),
            "models.providers.x.auth.env: may hold the letters a to z and A to Z, digits and '_' only, at most 128, "
            "and begins with no digit.",
        ),
        ('{"budgets": {"day": {"max_cost_usd": "inf"}}}', "budgets.day.max_cost_usd: must be a number; it is 'inf'."),
    ],
)
def test_a_mistake_in_the_configuration_is_told_in_words(text: str, said: str) -> None:
    assert complaints(Settings, text) == [said]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (rule(examples='{"match": []}'), "rules.0.examples.match: needs at least one."),
        (
            rule(id='"A b"'),
            "rules.0.id: may hold small letters, digits, '.', '_' and '-' only, at most 64, and begins with a letter "
            "or digit; it is 'A b'.",
        ),
        (rule(id='"a\\n"'), None),
        (rule(reason='"no"'), "rules.0.reason: needs at least 3 characters; it is 'no'."),
        (rule(reason=f'"{"x" * 301}"'), "rules.0.reason: may have at most 300 characters; it has 301."),
        (rule(when='{"tools": [""]}'), "rules.0.when.tools.0: is empty."),
        (
            rule(when='{"tools": [' + ", ".join(['"a"'] * 101) + "]}"),
            "rules.0.when.tools: may have at most 100; it has 101.",
        ),
        (rule(when='{"tools": "fs.*"}'), "rules.0.when.tools: must be a list; it is 'fs.*'."),
        (
            rule(when='{"risks": ["extreme"]}'),
            "rules.0.when.risks.0: must be one of 'low', 'medium' or 'high'; it is 'extreme'.",
        ),
        ('{"rules": {}}', "rules: must be a list; it is an object."),
    ],
)
def test_a_mistake_in_a_rule_is_told_in_words(text: str, said: str | None) -> None:
    (told,) = complaints(PolicyText, text)

    assert told == said if said else told.startswith("rules.0.id: may hold small letters")


VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 1e30, 10**30, "", "x", "inf", "a b", "x" * 600, "9" * 5000,
    [], ["a b"], [None], [""] * 600, {}, {"a b": None}, {"type": "x"},
)  # fmt: skip


def trees(schema: dict[str, Any], defs: dict[str, Any], depth: int = 0) -> Iterator[Any]:
    """Trees of that schema, and each with one wrong value somewhere."""
    if "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
    yield from VALUES if SOAK else VALUES[::3]
    if depth > 8:
        return
    for other in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from trees(other, defs, depth + 1)
    for name, inner in schema.get("properties", {}).items():
        rest = {"driver": "openai", "model": "m"} if "driver" in schema["properties"] else {}
        yield from ({**rest, name: tree} for tree in trees(inner, defs, depth + 1))
    for key in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(key), dict):
            yield from ([tree] if key == "items" else {"x": tree} for tree in trees(inner, defs, depth + 1))


@pytest.mark.sampled
@pytest.mark.parametrize("model", [Settings, PolicyText])
def test_no_word_of_the_validator_s_own_is_left(model: type[BaseModel]) -> None:
    schema = model.model_json_schema()
    kinds: set[str] = set()
    for tree in trees(schema, schema.get("$defs", {})):
        if not isinstance(tree, dict):  # such a file is refused before
            continue
        try:
            model.model_validate(tree)
        except ValidationError as error:
            own = {item["msg"][1:] for item in error.errors() if item["type"] not in ("value_error", NOT_LIKE_THAT)}
            kinds |= {item["type"] for item in error.errors()}
            told = "\n".join(complaints(model, json.dumps(tree)))
            assert not [words for words in own if words in told], tree
    assert len(kinds) > 10
