"""What a provider's entry may say, and what is refused with the reason."""

from typing import Any

import pytest
from pydantic import ValidationError

from ozzie_server_ext.config.settings import ModelsSettings, OAuth2Auth
from ozzie_server_ext.domain.budget import TokenPrices
from ozzie_server_ext.models.registry import ModelRegistry, UnknownModel
from ozzie_server_ext.protocol.worker import DEFAULT_SOCKET

CLIENT = {
    "type": "oauth2",
    "client_id_env": "CLIENT_ID",
    "client_secret_env": "CLIENT_SECRET",
    "token_url": "https://auth.example/token",
}


def registry(provider: dict[str, Any]) -> ModelRegistry:
    return ModelRegistry(ModelsSettings.model_validate({"providers": {"main": provider}}), {})


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        ({"driver": "openai", "base_url": "localhost:8000/v1"}, "begins with http:// or https://"),
        ({"driver": "openai", "base_url": ""}, "begins with http:// or https://"),
        ({"driver": "openai", "socket": "/run/w.sock"}, '"socket" is for the driver "worker"'),
        ({"driver": "worker", "base_url": "http://localhost:1"}, 'by its "socket"'),
        ({"driver": "worker", "socket": "w.sock"}, "begins with / or ~/"),
        ({"driver": "worker", "auth": {"api_key": "${KEY}"}}, "takes no key"),
        ({"driver": "openai", "timeout_s": 0}, "greater than 0"),
        ({"driver": "openai", "timeout_s": 4000}, "less than or equal to 3600"),
        ({"driver": "telepathy"}, "telepathy"),
        ({"driver": "openai", "auth": {**CLIENT, "token_url": "http://auth.example/token"}}, "begins with https://"),
        ({"driver": "openai", "auth": {**CLIENT, "token_url": "auth.example"}}, "begins with https://"),
        ({"driver": "openai", "auth": {**CLIENT, "token_url": "http://localhost.example/t"}}, "begins with https://"),
        ({"driver": "openai", "auth": {**CLIENT, "scopes": ["a b"]}}, "no blanks"),
        ({"driver": "openai", "auth": {**CLIENT, "client_secret_env": "sk-secret"}}, "begins with no digit"),
        ({"driver": "openai", "capabilities": {"context": 0}}, "greater than or equal to 1"),
        ({"driver": "openai", "capabilities": {"price_in": "0.15"}}, "together"),
        ({"driver": "openai", "capabilities": {"price_in": "-1", "price_out": "1"}}, "greater than or equal to 0"),
        ({"driver": "openai", "capabilities": {"price_in": "nan", "price_out": "1"}}, "finite"),
        ({"driver": "openai", "capabilities": {"price_in": "free", "price_out": "1"}}, "valid decimal"),
        ({"driver": "openai", "capabilities": {"price_in": True, "price_out": "1"}}, "price_in"),
        ({"driver": "openai", "capabilities": {"price_in": "0.0000000001", "price_out": "1"}}, "9 decimal places"),
        ({"driver": "openai", "capabilities": {"vision": True}}, "vision"),
        ({"driver": "worker", "capabilities": {"tools": True}}, "no tools"),
    ],
)
def test_an_entry_that_can_not_work_is_refused_with_the_reason(provider: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError) as caught:
        registry({"model": "m", **provider})
    assert reason in str(caught.value)


def test_a_worker_has_the_specifications_socket_where_none_is_named_and_no_tools() -> None:
    models = registry({"driver": "worker", "model": "gemma", "timeout_s": 60})
    choice = models.resolve("main")
    access = models.access(choice)

    assert (access.socket, access.first_s, access.next_s) == (DEFAULT_SOCKET, 60, 60)
    assert choice.takes_tools is False
    assert access.base_url == access.api_key == ""


def test_a_socket_may_lie_in_ones_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ana")
    models = registry({"driver": "worker", "model": "gemma", "socket": "~/w.sock"})

    assert models.access(models.resolve("main")).socket == "/home/ana/w.sock"


def test_every_provider_has_its_time_out() -> None:
    models = registry({"driver": "openai", "model": "m", "timeout_s": 30})

    access = models.access(models.resolve("main"))

    assert (access.first_s, access.next_s) == (30, 30)


def test_a_provider_that_has_gone_is_not_looked_for_elsewhere() -> None:
    choice = registry({"driver": "openai", "model": "m", "base_url": "http://mine:1/v1"}).resolve("main")

    with pytest.raises(UnknownModel, match="any more"):
        ModelRegistry(ModelsSettings(), {"OPENAI_API_KEY": "sk-mine"}).access(choice)


@pytest.mark.parametrize(
    "url", ["https://auth.example/token", "http://127.0.0.1:8080/t", "http://localhost/t", "http://[::1]:1/t"]
)
def test_a_token_server_is_asked_in_the_clear_only_on_this_machine(url: str) -> None:
    entry = {"driver": "openai", "model": "m", "auth": {**CLIENT, "token_url": url}}
    found = ModelsSettings.model_validate({"providers": {"main": entry}}).providers["main"].auth
    assert isinstance(found, OAuth2Auth)
    assert found.token_url == url


@pytest.mark.parametrize(
    ("read", "written"), [("0.15", "0.60"), (0.15, 0.6), ("0.150000000", "6e-1")], ids=["texts", "numbers", "forms"]
)
def test_prices_are_kept_exactly_however_they_are_written(read: Any, written: Any) -> None:
    models = registry({"driver": "openai", "model": "m", "capabilities": {"price_in": read, "price_out": written}})

    assert models.access(models.resolve("main")).prices == TokenPrices(read=150_000_000, written=600_000_000)


def test_the_finest_price_that_can_be_kept_is_kept() -> None:
    models = registry({"driver": "openai", "model": "m", "capabilities": {"price_in": "0.000000001", "price_out": 0}})

    assert models.access(models.resolve("main")).prices == TokenPrices(read=1, written=0)


def test_without_prices_the_providers_count() -> None:
    models = registry({"driver": "openai", "model": "m", "capabilities": {"context": 32_000}})

    assert models.access(models.resolve("main")).prices is None


@pytest.mark.parametrize(("tools", "takes"), [(True, True), (None, True), (False, False)])
def test_a_model_that_is_said_to_take_no_tools_takes_none(tools: bool | None, takes: bool) -> None:
    models = registry({"driver": "openai", "model": "m", "capabilities": {"tools": tools}})

    assert models.resolve("main").takes_tools is takes
