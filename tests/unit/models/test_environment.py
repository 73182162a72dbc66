"""Where the environment says that a provider is."""

import pytest

from ozzie_server_ext.config.settings import ModelsSettings
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.models.credentials import ADDRESS_VARIABLES, base_url_of
from ozzie_server_ext.models.registry import ModelRegistry


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("", "http://127.0.0.1:11434"),
        ("127.0.0.1:9999", "http://127.0.0.1:9999"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("box", "http://box:11434"),
        ("[::]:8080", "http://[::1]:8080"),
        ("http://box", "http://box"),
        ("https://ollama.example.org/", "https://ollama.example.org"),
        (" 127.0.0.1 ", "http://127.0.0.1:11434"),
    ],
)
def test_the_host_of_ollama_is_read_as_ollama_reads_it(value: str, address: str) -> None:
    assert base_url_of("ollama", {"OLLAMA_HOST": value}) == address


@pytest.mark.parametrize("value", ["ftp://box", "http://", "two words", "http://box:port", "[::"])
def test_what_is_no_address_is_refused_by_the_name_of_its_variable(value: str) -> None:
    with pytest.raises(Unavailable, match="OLLAMA_HOST") as caught:
        base_url_of("ollama", {"OLLAMA_HOST": value})
    assert value not in str(caught.value)


@pytest.mark.parametrize("driver", ADDRESS_VARIABLES)
def test_the_first_variable_that_is_set_counts(driver: str) -> None:
    first, *others = ADDRESS_VARIABLES[driver]

    for later in others:
        assert base_url_of(driver, {later: "http://later:1"}) == "http://later:1"
        assert base_url_of(driver, {first: "http://first:1", later: "http://later:1"}) == "http://first:1"


def registry(base_url: str | None = None, **env: str) -> ModelRegistry:
    provider = {"driver": "anthropic", "model": "m", "base_url": base_url, "auth": {"api_key": "${MY_KEY}"}}
    settings = ModelsSettings.model_validate({"providers": {"main": provider}})
    return ModelRegistry(settings, {"MY_KEY": "sk-mine", "ANTHROPIC_API_KEY": "sk-direct", **env})


def test_a_configured_address_goes_before_that_of_the_environment() -> None:
    models = registry("http://configured:1", ANTHROPIC_BASE_URL="http://environment:1")

    assert models.access(models.resolve("main")).base_url == "http://configured:1"


@pytest.mark.parametrize(("name", "key"), [("main", "sk-mine"), ("anthropic/claude-x", "sk-direct")])
def test_the_environments_address_gets_the_key_as_it_is_the_same_persons(name: str, key: str) -> None:
    models = registry(ANTHROPIC_BASE_URL="http://environment:1")

    access = models.access(models.resolve(name))

    assert (access.base_url, access.api_key) == ("http://environment:1", key)


def test_a_typed_address_gets_no_key_whatever_the_environment_says() -> None:
    models = registry(ANTHROPIC_BASE_URL="http://environment:1")

    access = models.access(models.resolve("anthropic/claude-x", base_url="http://typed:1"))

    assert (access.base_url, access.api_key, access.headers) == ("http://typed:1", "", ())


def test_an_environment_that_names_no_address_does_not_break_the_list() -> None:
    assert registry(OLLAMA_HOST="two words").ollama_address == ""


@pytest.mark.parametrize(
    ("driver", "hint"),
    [
        ("vllm", "Give the model a base_url in the configuration or set HOSTED_VLLM_API_BASE."),
        ("litellm", "Give the model a base_url in the configuration or set LITELLM_PROXY_API_BASE."),
        ("openai-compatible", "Give the model a base_url in the configuration."),
    ],
)
def test_a_server_of_ones_own_is_not_asked_at_somebody_elses_address(driver: str, hint: str) -> None:
    settings = ModelsSettings.model_validate({"providers": {"main": {"driver": driver, "model": "m"}}})
    models = ModelRegistry(settings, {})
    with pytest.raises(Unavailable, match=f'The driver "{driver}" needs an address') as caught:
        models.access(models.resolve("main"))
    assert caught.value.hint == hint
    assert models.listed()[0].missing == str(caught.value)


def test_a_proxy_is_found_by_its_variables_and_not_offered_without_a_models_name() -> None:
    env = {"LITELLM_PROXY_API_BASE": "http://proxy:4000", "LITELLM_PROXY_API_KEY": "sk-proxy"}
    models = ModelRegistry(ModelsSettings(), env)
    access = models.access(models.resolve("litellm/alias/router"))

    assert (access.driver, access.base_url, access.api_key) == ("litellm", "http://proxy:4000", "sk-proxy")
    assert models.resolve("litellm/alias/router").model == "alias/router"
    assert models.offers() == ()
