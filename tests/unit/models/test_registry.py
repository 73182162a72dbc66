"""Which model a name stands for, and what is refused before anything is asked of a provider."""

from typing import Any

import pytest

from ozzie_server_ext.config.settings import ModelsSettings
from ozzie_server_ext.domain.errors import InputError, Unavailable
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.registry import ModelRegistry

SETTINGS = ModelsSettings.model_validate(
    {
        "providers": {
            "main": {"driver": "openai", "model": "m", "auth": {"type": "api_key", "env": "MY_KEY"}},
            "other": {
                "driver": "openai",
                "model": "m",
                "auth": {"type": "api_key", "env": "MY_KEY", "header": "x-key"},
            },
        },
        "aliases": {"fast": "main", "script": "offline"},
        "default": "main",
    }
)


def registry(**env: str) -> ModelRegistry:
    return ModelRegistry(SETTINGS, env)


# --- keys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", ["sk-\udcff", "sk-\x00x", "sk-x\n", "sk-\r\nx-more: 1", "sk-\x7f", "sk-\x85", "sk-\u2028"]
)
@pytest.mark.parametrize(
    ("name", "variable"), [("main", "MY_KEY"), ("other", "MY_KEY"), ("openai/gpt-4o-mini", "OPENAI_API_KEY")]
)
def test_a_key_that_can_not_be_sent_is_refused_by_the_name_of_its_variable(key: str, name: str, variable: str) -> None:
    models = registry(**{variable: key})
    with pytest.raises(Unavailable) as caught:
        models.access(models.resolve(name))
    assert caught.value.code == "provider.bad_key"
    assert variable in str(caught.value)
    assert "sk-" not in f"{caught.value} {caught.value.hint}"


def test_a_key_of_ordinary_characters_is_taken_as_it_is() -> None:
    models = registry(MY_KEY="sk-aB0_+/=.~ ü")
    assert models.access(models.resolve("main")).api_key == "sk-aB0_+/=.~ ü"
    assert models.access(models.resolve("other")).headers == (("x-key", "sk-aB0_+/=.~ ü"),)


# --- chains -------------------------------------------------------------------------------------------


def chains(**models: Any) -> ModelRegistry:
    providers = {name: {"driver": "openai", "model": f"{name}-m"} for name in ("a", "b", "c", "big")}
    return ModelRegistry(ModelsSettings.model_validate({"providers": providers, **models}), {})


def names(chain: Chain) -> list[str]:
    return [choice.provider for choice in chain.choices]


def test_an_alias_stands_for_one_provider_or_for_several_in_order() -> None:
    models = chains(aliases={"one": "a", "many": ["b", "a"], "planner": "many", "mixed": ["one", "many", "c"]})

    assert names(models.chain("one")) == ["a"]
    assert names(models.chain("many")) == ["b", "a"]
    assert names(models.chain("planner")) == ["b", "a"]
    assert names(models.chain("mixed")) == ["a", "b", "c"], "each once"
    assert {choice.alias for choice in models.chain("planner").choices} == {"planner"}


def test_a_sentence_names_a_model_of_several_by_its_own_name() -> None:
    models = chains(aliases={"one": "a", "many": ["b", "a"]})

    assert models.chain("one").first.label == "one"
    assert [choice.label for choice in models.chain("many").choices] == ["b", "a"]


def test_the_alias_fallback_ends_each_alias_and_the_default_and_no_provider_that_is_asked_for() -> None:
    models = chains(default="a", aliases={"main": ["a", "c"], "fallback": ["b", "c"]})

    assert names(models.chain("main")) == ["a", "c", "b"]
    assert names(models.chain("")) == ["a", "b", "c"]
    assert names(models.chain("a")) == ["a"]
    assert names(models.chain("fallback")) == ["b", "c"]
    assert names(models.chain("openai/gpt-4o-mini")) == ["openai"]
    assert names(models.chain("offline")) == ["offline"]


def test_an_alias_of_the_offline_script_keeps_its_name() -> None:
    choice = chains(aliases={"cheap": "offline"}).chain("cheap").first

    assert (choice.alias, choice.provider, choice.driver) == ("cheap", "offline", "offline")


def test_the_stronger_models_are_those_that_the_configuration_names() -> None:
    models = chains(aliases={"cheap": "a", "main": ["big", "b"]}, upgrade={"cheap": "main", "c": "big"})

    assert [choice.provider for choice in models.chain("cheap").stronger] == ["big", "b"]
    assert [choice.provider for choice in models.chain("c").stronger] == ["big"]
    assert models.chain("main").stronger == ()


# --- addresses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    ["http://localhost:1", "https://models.example.org/v1", "HTTP://127.0.0.1:8000/v1", "http://[::1]:8000/v1"],
)
def test_a_model_that_is_named_directly_may_have_an_address(address: str) -> None:
    models = registry()
    assert models.access(models.resolve("openai/x", base_url=address)).base_url == address


@pytest.mark.parametrize(
    "address",
    [
        "notaurl",
        "localhost:8000",
        "ftp://localhost/v1",
        "http://",
        "http:///v1",
        "http://:80",
        "http://h:port",
        "http://h:99999",
        "http://[::1",
        "http://localhost:1 extra",
        "http://local\thost",
        "http://localhost\n",
        "http://localhost\udcff",
    ],
)
@pytest.mark.parametrize("name", ["openai/x", "ollama/x"])
def test_what_is_no_address_is_refused_when_it_is_given(name: str, address: str) -> None:
    with pytest.raises(InputError, match="address") as caught:
        registry().resolve(name, base_url=address)
    assert caught.value.code == "model.address"
    assert "http://" in caught.value.hint


def test_a_key_that_was_typed_in_place_of_an_address_is_not_repeated() -> None:
    with pytest.raises(InputError) as caught:
        registry().resolve("openai/x", base_url="sk-secret")
    assert "sk-secret" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("address", ["https://me:secret@host/v1", "https://secret@host", "https://host/v1?key=secret"])
def test_a_secret_within_an_address_is_refused_before_it_is_recorded(address: str) -> None:
    with pytest.raises(InputError, match="password") as caught:
        registry().resolve("openai/x", base_url=address)
    assert "secret" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("name", ["main", "fast", "offline", "script", ""])
def test_an_address_for_a_name_that_has_its_own_is_refused_and_not_dropped(name: str) -> None:
    with pytest.raises(InputError, match=name or "main") as caught:
        registry().resolve(name, base_url="http://localhost:1")
    assert caught.value.code == "model.address"
    assert "openai/gpt-4o-mini http://localhost:8000/v1" in caught.value.hint


def test_a_name_that_is_not_known_is_said_to_be_so_with_an_address_too() -> None:
    with pytest.raises(InputError) as caught:
        registry().resolve("nonesuch", base_url="notaurl")
    assert caught.value.code == "model.unknown"
