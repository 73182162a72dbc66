"""Where a provider's key comes from, and what is said where there is none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.settings import ModelsSettings
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.models.credentials import VaultSecrets
from ozzie_server_ext.models.driver import ModelChoice
from ozzie_server_ext.models.failures import ErrorContext, model_error
from ozzie_server_ext.models.registry import ModelRegistry
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.vault.scope import EVERYBODY, ProjectReader, Scope, Secret
from ozzie_server_ext.vault.vault import Vault

PASSPHRASE = "correct horse battery"
NewVault = Callable[[], Vault]


@pytest.fixture
def new_vault(tmp_path: Path) -> NewVault:
    return lambda: Vault(tmp_path / "secrets", lambda: tmp_path / "keys", SystemClock())


def registry(vault: Vault, auth: dict[str, Any] | None = None, **env: str) -> ModelRegistry:
    provider = {"driver": "openai", "model": "m", "auth": auth or {"type": "api_key", "env": "MY_KEY"}}
    settings = ModelsSettings.model_validate({"providers": {"main": provider}})
    return ModelRegistry(settings, env, VaultSecrets(vault, ProjectReader(project="/w/shop")))


def key(found: ModelRegistry, name: str = "main") -> tuple[str, str]:
    access = found.access(found.resolve(name))
    return access.api_key, access.key_place


@pytest.mark.parametrize("auth", [{"type": "api_key", "env": "MY_KEY"}, {"type": "api_key", "vault": "MY_KEY"}])
def test_the_vault_goes_before_the_environment(new_vault: NewVault, auth: dict[str, Any]) -> None:
    vault = new_vault()
    without = key(registry(vault, auth, MY_KEY="sk-env"))
    vault.set("MY_KEY", EVERYBODY, Secret("sk-everybody"), by="ann")
    everybodys = key(registry(vault, auth, MY_KEY="sk-env"))
    vault.set("MY_KEY", Scope("project", "/w/shop"), Secret("sk-project"), by="ann")
    vault.set("MY_KEY", Scope("plugin", "telegram"), Secret("sk-plugin"), by="ann")

    assert without == ("sk-env", "environment")
    assert everybodys == ("sk-everybody", "vault")
    assert key(registry(vault, auth, MY_KEY="sk-env")) == ("sk-project", "vault")


def test_a_model_that_is_named_directly_has_its_key_from_the_vault_too(new_vault: NewVault) -> None:
    vault = new_vault()
    vault.set("GOOGLE_API_KEY", EVERYBODY, Secret("sk-vault"), by="ann")
    found = registry(vault)

    assert key(found, "gemini/gemini-2.5-flash") == ("sk-vault", "vault")
    assert "GOOGLE_API_KEY is in the vault" in [offer.found for offer in found.offers()]


def test_a_header_gets_the_key_of_the_vault(new_vault: NewVault) -> None:
    vault = new_vault()
    vault.set("MY_KEY", EVERYBODY, Secret("sk-vault"), by="ann")
    found = registry(vault, {"type": "api_key", "vault": "MY_KEY", "header": "X-Key"})
    access = found.access(found.resolve("main"))

    assert (access.api_key, access.headers) == ("", (("X-Key", "sk-vault"),))
    assert "sk-vault" not in repr(access)


def test_the_list_says_where_each_key_comes_from(new_vault: NewVault) -> None:
    vault = new_vault()

    def said(**env: str) -> tuple[str, str]:
        (main, _) = registry(vault, None, **env).listed()
        return main.key, main.missing

    missing, environment = said(), said(MY_KEY="sk-env")
    vault.set("MY_KEY", EVERYBODY, Secret("sk-vault"), by="ann")
    there = said()
    vault.protect(["passphrase"], by="ann", passphrase=PASSPHRASE)
    vault.lock()

    assert missing == ("", "MY_KEY is not set")
    assert environment == ("environment", "")
    assert there == ("vault", "")
    assert said(MY_KEY="sk-env") == ("vault", "MY_KEY is in the vault, which is locked")


def refused(found: ModelRegistry, name: str = "main") -> OzzieError:
    with pytest.raises(Unavailable) as caught:
        found.access(found.resolve(name))
    return caught.value


def test_a_missing_key_says_how_to_set_it(new_vault: NewVault) -> None:
    error = refused(registry(new_vault()))

    assert str(error) == 'There is no key for "main": MY_KEY is not set.'
    assert error.hint == "Set it with ozzie secrets set MY_KEY, or choose another model with %model."
    assert error.code == "provider.no_key"


def test_a_locked_vault_is_said_to_be_locked_and_other_models_work_on(new_vault: NewVault) -> None:
    new_vault().set("MY_KEY", EVERYBODY, Secret("sk-vault"), by="ann")
    new_vault().protect(["passphrase"], by="ann", passphrase=PASSPHRASE)
    found = registry(new_vault(), MY_KEY="sk-env", ANTHROPIC_API_KEY="sk-direct")

    error = refused(found)

    assert str(error) == 'The key for "main" (MY_KEY) is in the vault, which is locked.'
    assert error.hint == (
        "Unlock it with ozzie secrets unlock, or choose another model with %model. Your message is kept."
    )
    assert error.code == "vault.locked"
    assert key(found, "anthropic/claude-sonnet-4-6") == ("sk-direct", "environment")
    assert found.resolve("offline").driver == "offline"


def test_a_vault_that_can_not_be_used_keeps_no_key_of_the_environment_away(new_vault: NewVault) -> None:
    vault = new_vault()
    vault.set("MY_KEY", EVERYBODY, Secret("sk-vault"), by="ann")
    vault.path.write_bytes(b"{}")

    error = refused(registry(new_vault()))

    assert key(registry(new_vault(), MY_KEY="sk-env")) == ("sk-env", "environment")
    assert str(error).startswith('There is no key for "main": MY_KEY is not set, and the vault can\'t be used. ')
    assert error.code == "vault.damaged"
    assert registry(new_vault()).listed()[0].missing.startswith("MY_KEY is not set, and the vault can't be used: ")


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (ErrorContext(key_name="MY_KEY", key_place="vault"), "Check it with ozzie secrets set MY_KEY, or choose"),
        (ErrorContext(key_name="MY_KEY"), "Check the environment variable MY_KEY, or choose"),
        (ErrorContext(), "Check its auth entry in the configuration, or choose"),
    ],
)
def test_a_key_that_is_refused_says_where_it_is_checked(place: ErrorContext, says: str) -> None:
    choice = ModelChoice(alias="main", provider="main", driver="openai", model="m")

    assert model_error("provider.auth", choice, place=place).hint.startswith(says)


def test_a_key_of_the_vault_that_may_not_use_a_model_is_named_as_a_secret() -> None:
    choice = ModelChoice(alias="main", provider="main", driver="openai", model="m")
    error = model_error("provider.forbidden", choice, place=ErrorContext(key_name="MY_KEY", key_place="vault"))

    assert error.hint.startswith("Check what the secret MY_KEY is allowed to use, or choose")
