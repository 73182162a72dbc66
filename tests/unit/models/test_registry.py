"""Which model a name stands for, and what is refused before anything is asked of a provider."""

import pytest

from ozzie_server_ext.config.settings import ModelsSettings
from ozzie_server_ext.domain.errors import Unavailable
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
