"""The settings tree: the examples of the specification documents load as they stand, and mistakes do not."""

import re
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.settings import (
    ApiKeyAuth,
    ClaudeCodeAuth,
    NoAuth,
    OAuth2Auth,
    Settings,
)
from tests.unit.config.conftest import Load

EXAMPLES = Path(__file__).parent / "examples"
"""Copied verbatim: the specifications of the model registry and of the JSONC configuration."""


def test_s0s_registry_of_models_loads_as_it_stands(load_text: Load) -> None:
    models = load_text((EXAMPLES / "s0_models.jsonc").read_text()).settings.models

    assert models.default == "sonnet"
    assert list(models.providers) == [
        "sonnet",
        "haiku",
        "gemini-pro",
        "gpt4",
        "infomaniak-llm",
        "local-llama",
        "compliance-ft",
    ]
    swiss = models.providers["infomaniak-llm"]
    assert (swiss.driver, swiss.base_url) == ("openai", "https://api.infomaniak.com/v1")
    assert swiss.auth == ApiKeyAuth(env="INFOMANIAK_API_KEY")
    assert swiss.tags["jurisdiction"] == "swiss"
    assert models.providers["local-llama"].auth == NoAuth(type="none")
    assert models.providers["sonnet"].max_tokens == 4096
    assert models.providers["sonnet"].tags["security"] == 2, "a number stays one, for the selectors"


def test_s0s_kinds_of_authentication_load_as_they_stand(load_text: Load) -> None:
    blocks = re.findall(r'"auth": \{.*?\n\}', (EXAMPLES / "s0_auth.jsonc").read_text(), re.DOTALL)
    providers = ",".join(f'"p{i}": {{"driver": "openai", "model": "m", {block}}}' for i, block in enumerate(blocks))

    found = load_text(f'{{"models": {{"providers": {{{providers}}}}}}}').settings.models.providers

    assert [provider.auth for provider in found.values()] == [
        ApiKeyAuth(env="ANTHROPIC_API_KEY"),
        ApiKeyAuth(env="CUSTOM_API_KEY", header="X-Custom-Auth"),
        ClaudeCodeAuth(type="claude_code_token"),
        OAuth2Auth(
            type="oauth2",
            client_id_env="OAUTH_CLIENT_ID",
            client_secret_env="OAUTH_CLIENT_SECRET",
            token_url="https://auth.corp.internal/oauth/token",
            scopes=("llm:invoke",),
        ),
        NoAuth(type="none"),
    ]


def test_s1s_configuration_loads_as_it_stands(load_text: Load) -> None:
    config = load_text((EXAMPLES / "s1_config.jsonc").read_text(), ANTHROPIC_API_KEY="sk-secret")

    assert (config.settings.gateway.host, config.settings.gateway.port) == ("127.0.0.1", 4242)
    assert config.settings.models.providers["main"].auth == ApiKeyAuth(env="ANTHROPIC_API_KEY")
    assert "sk-secret" not in f"{config.settings!r}{config.raw!r}"


def test_the_key_of_a_provider_need_not_be_set_to_load_its_configuration(load_text: Load) -> None:
    assert load_text((EXAMPLES / "s1_config.jsonc").read_text()).settings.models.default == "main"


def test_without_any_file_the_defaults_hold() -> None:
    settings = Settings()

    assert (settings.gateway.host, settings.gateway.port) == ("127.0.0.1", 18420)
    assert settings.models.default is None
    assert settings.models.providers == {}
    assert (settings.agent.max_rounds, settings.agent.system_prompt) == (25, "")
    assert settings.budgets.task.deadline_s is None
    for budget in (settings.budgets.task, settings.budgets.session, settings.budgets.project, settings.budgets.day):
        assert (budget.max_cost, budget.max_tokens, budget.on_exceeded) == (None, None, "ask")
    assert settings.sessions.max_history == 200


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        ({"budgets": {"task": {"on_breach": "stop"}}}, ("stop", 40)),
        ({"budgets": {"task": {"on_breach": "stop", "on_exceeded": "ask"}}}, ("ask", 40)),
        ({"tools": {"offer_at_most": 7}}, ("ask", 7)),
    ],
)
def test_a_key_is_read_by_its_former_name(tree: dict[str, Any], found: tuple[str, int]) -> None:
    settings = Settings.model_validate(tree)

    assert (settings.budgets.task.on_exceeded, settings.tools.max_offered) == found


def _provider(**changed: Any) -> dict[str, Any]:
    return {"driver": "openai", "model": "m", **changed}


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"gateway": {"port": 65536}}, "less than or equal to 65535"),
        ({"gateway": {"port": "80"}}, None),
        ({"agent": {"max_rounds": 0}}, "greater than or equal to 1"),
        ({"tools": {"max_offered": 0}}, "greater than or equal to 1"),
        ({"tools": {"always": "read_file"}}, "valid tuple"),
        ({"tools": {"always": ["read file"]}}, "begins with a letter or digit"),
        ({"budgets": {"task": {"deadline_s": 0}}}, "greater than 0"),
        ({"budgets": {"session": {"deadline_s": 60}}}, "Extra inputs"),
        ({"budgets": {"day": {"max_cost_usd": 0}}}, "greater than 0"),
        ({"budgets": {"day": {"max_cost_usd": "0.0000000001"}}}, "decimal places"),
        ({"budgets": {"project": {"max_tokens": 0}}}, "greater than or equal to 1"),
        ({"budgets": {"task": {"on_exceeded": "panic"}}}, "'ask', 'degrade' or 'stop'"),
        ({"budgets": {"task": {"on_exceeded": "degrade"}}}, 'the alias "cheap", which is missing'),
        ({"approvals": {"checker": "nope"}}, '"approvals.checker" names "nope", which is not a provider or alias'),
        ({"sessions": {"max_history": 0}}, "greater than or equal to 1"),
        ({"models": {"providers": {"a b": _provider()}}}, "begins with a letter or digit"),
        ({"models": {"providers": {"x": _provider(driver="acme")}}}, "'anthropic', 'openai'"),
        ({"models": {"providers": {"x": _provider(max_tokens=0)}}}, "greater than or equal to 1"),
        ({"models": {"providers": {"x": _provider(auth={"type": "magic"})}}}, "'api_key'"),
        ({"models": {"providers": {"x": _provider(auth={"api_key": "sk-in-the-file"})}}}, "never kept here"),
        ({"models": {"providers": {"x": _provider(auth={"api_key": "${A}", "env": "A"})}}}, "not both"),
        (
            {"models": {"providers": {"x": _provider(auth={"type": "api_key", "env": "sk-a-key"})}}},
            "begins with no digit",
        ),
        ({"models": {"default": "nope"}}, "not a provider or alias; there are: offline"),
        ({"models": {"aliases": {"fast": "nope"}}}, 'the alias "fast" names "nope"'),
        ({"models": {"aliases": {"fast": []}}}, "at least 1 item"),
        ({"models": {"aliases": {"a": "b", "b": ["a"]}}}, 'the alias "a" names itself: a → b → a'),
        ({"models": {"aliases": {"offline": "offline"}}}, '"offline" is the name of the built-in driver'),
        (
            {"models": {"providers": {"x": _provider()}, "aliases": {"fast": ["x", "offline"]}}},
            "a script that cannot replace a model",
        ),
        ({"models": {"aliases": {"fallback": "offline"}}}, "a script that cannot replace a model"),
        ({"models": {"upgrade": {"fast": "big"}}}, '"upgrade" names "fast"'),
        ({"models": {"retry": {"max_attempts": 0}}}, "greater than or equal to 1"),
        ({"models": {"providers": {"x": {**_provider(), "limits": {"parallel": 0}}}}}, "greater than or equal to 1"),
        ({"models": {"providers": {"x": _provider()}, "aliases": {"x": "x"}}}, "both an alias and a provider"),
        ({"models": {"providers": {"offline": _provider()}}}, "built-in driver"),
    ],
)
def test_a_value_that_can_not_be_meant_is_refused(tree: dict[str, Any], says: str | None) -> None:
    if says is None:
        assert Settings.model_validate(tree).gateway.port == 80, "a number in quotes, as templates give it, is one"
        return
    with pytest.raises(ValueError, match=re.escape(says)):
        Settings.model_validate(tree)


@pytest.mark.parametrize("default", ["main", "fast", "offline"])
def test_the_default_is_a_provider_an_alias_or_the_offline_script(default: str) -> None:
    tree = {"models": {"default": default, "providers": {"main": _provider()}, "aliases": {"fast": "main"}}}

    assert Settings.model_validate(tree).models.default == default
