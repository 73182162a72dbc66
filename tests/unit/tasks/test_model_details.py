"""One model in full, under real settings, with a log in memory and no worker."""

import json
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.models.chain import Health
from ozzie_server_ext.models.facts import Ability, Amount, FactBook
from ozzie_server_ext.models.registry import UnknownModel
from ozzie_server_ext.planes.channel import Channel
from ozzie_server_ext.planes.supervisor import PlaneUnavailable
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.tasks.configuration import Configuration
from ozzie_server_ext.tasks.models import LastModelCalls, ModelDetails, ModelKnowledge, ModelService
from ozzie_server_ext.tasks.sessions import Sessions
from tests.unit.tasks.calls import Calls

PROVIDERS: dict[str, Any] = {
    "own": {
        "driver": "openai-compatible",
        "model": "mistral",
        "base_url": "http://ana:secret@localhost:8000/private/v1?key=secret",
        "tags": {"security": 4},
        "capabilities": {"context": 32000, "tools": False, "price_in": "0.15", "price_out": "0.60"},
    },
    "theirs": {"driver": "openai", "model": "gpt-4o-mini", "auth": {"type": "api_key", "env": "NO_SUCH_KEY"}},
    "gemma": {"driver": "worker", "model": "gemma", "socket": "/run/w.sock"},
}


async def no_worker() -> Channel:
    raise PlaneUnavailable("The model worker does not start.")


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def details(calls: Calls, tmp_path: Path) -> ModelDetails:
    home = Home(tmp_path / "home")
    home.root.mkdir()
    settings: dict[str, Any] = {
        "models": {"providers": PROVIDERS, "aliases": {"fast": ["own", "gemma"]}, "default": "fast"}
    }
    settings["models"]["upgrade"] = {"fast": "theirs"}
    home.config_file.write_text(json.dumps(settings))
    configuration = Configuration(home, tmp_path, calls.log, InMemoryBlobs())
    last_calls = LastModelCalls(calls.log, calls.clock)
    models = ModelService(
        configuration,
        Sessions(calls.log, calls.ids),
        warm=lambda: None,
        last_calls=last_calls,
        config_file=home.config_file,
        health=Health(calls.clock),
    )
    knowledge = ModelKnowledge(lambda: models.registry, FactBook(no_worker))
    return ModelDetails(calls.log, calls.clock, models, knowledge, last_calls)


async def test_an_alias_is_followed_to_what_it_stands_for(details: ModelDetails) -> None:
    found = (await details.show("fast")).glance

    assert (found.name, found.provider, found.driver, found.model) == ("fast", "own", "openai-compatible", "mistral")
    assert (found.is_default, found.tags) == (True, {"security": 4})
    assert (found.then, found.stronger) == (("gemma",), ("theirs",))


async def test_without_a_name_the_default_is_told_of(details: ModelDetails) -> None:
    assert (await details.show("")).glance.name == "fast"


async def test_an_address_is_told_without_anything_secret_in_it(details: ModelDetails) -> None:
    assert (await details.show("own")).glance.address == "http://localhost:8000"
    assert (await details.show("gemma")).glance.address == "/run/w.sock"
    assert (await details.show("theirs")).glance.address == ""


async def test_what_the_configuration_says_needs_no_worker(details: ModelDetails) -> None:
    found = await details.show("own")

    assert found.unasked == ""
    assert found.glance.capabilities.context == Amount(value=32_000, source="configuration")
    assert found.glance.capabilities.tools == Ability(value=False, source="configuration")
    assert found.glance.capabilities.price_in == Amount(value=150_000_000, source="configuration")
    assert found.glance.capabilities.images == Ability()


async def test_where_no_worker_comes_it_is_said_and_the_rest_is_told(details: ModelDetails) -> None:
    found = await details.show("theirs")

    assert found.unasked == "The model worker does not start."
    assert found.glance.capabilities.context == Amount()
    assert "NO_SUCH_KEY is not set" in found.glance.missing
    assert (await details.glance("theirs")).capabilities.context == Amount()


async def test_calls_tell_how_it_fares_and_what_it_used_under_whatever_name(
    details: ModelDetails, calls: Calls
) -> None:
    await calls.answered("own", "mistral", cost=7)
    await calls.failed("own", "provider.rate_limited", "mistral")
    await calls.answered("theirs", "gpt-4o-mini", cost=100)
    calls.clock.advance(120)

    found = await details.show("fast")

    assert found.glance.health == "was busy 2 min ago"
    assert found.glance.last_call is not None
    assert found.glance.last_call.code == "provider.rate_limited"
    assert (found.usage.total.calls, found.usage.total.failed_calls, found.usage.total.cost) == (2, 1, 7)


async def test_the_offline_script_needs_no_key_and_has_no_address(details: ModelDetails) -> None:
    found = (await details.show("offline")).glance

    assert (found.provider, found.driver, found.address, found.key, found.missing) == ("", "offline", "", "", "")


async def test_a_name_that_stands_for_nothing_is_refused(details: ModelDetails) -> None:
    with pytest.raises(UnknownModel):
        await details.show("nonesuch")
