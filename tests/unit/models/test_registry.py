"""Which model a name stands for, and what is refused before anything is asked of a provider."""

import pytest

from ozzie_server_ext.config.settings import ModelsSettings
from ozzie_server_ext.domain.errors import InputError, Unavailable
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


def test_no_alias_takes_the_place_of_the_offline_script() -> None:
    settings = ModelsSettings.model_validate({"providers": SETTINGS.providers, "aliases": {"offline": "main"}})
    assert ModelRegistry(settings, {}).resolve("offline").driver == "offline"


def test_a_name_that_is_not_known_is_said_to_be_so_with_an_address_too() -> None:
    with pytest.raises(InputError) as caught:
        registry().resolve("nonesuch", base_url="notaurl")
    assert caught.value.code == "model.unknown"
