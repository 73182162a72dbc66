"""Who looks at calls that a rule has checked: the alias that is named for that, or the turn's own model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.models.chain import Chain, Health
from ozzie_server_ext.models.driver import ModelChoice
from ozzie_server_ext.models.registry import OFFLINE
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.tasks.configuration import Configuration
from ozzie_server_ext.tasks.models import LastModelCalls, ModelService
from ozzie_server_ext.tasks.sessions import Sessions
from tests.unit.tasks.calls import Calls

HERE = {"driver": "openai-compatible", "base_url": "http://localhost:8000/v1"}
PROVIDERS: dict[str, Any] = {
    "own": {**HERE, "model": "m-1"},
    "small": {**HERE, "model": "m-2"},
    "keyless": {"driver": "openai", "model": "m-3", "auth": {"type": "api_key", "env": "NO_SUCH_KEY"}},
}
OWN = Chain((ModelChoice(alias="own", provider="own", driver="openai-compatible", model="m-1"),))


@pytest.fixture
def service(tmp_path: Path) -> Callable[..., ModelService]:
    def make(checker: str = "", **aliases: Any) -> ModelService:
        home, calls = Home(tmp_path / "home"), Calls()
        home.root.mkdir()
        approvals = {"checker": checker} if checker else {}
        models = {"providers": PROVIDERS, "aliases": aliases}
        home.config_file.write_text(json.dumps({"models": models, "approvals": approvals}))
        return ModelService(
            Configuration(home, tmp_path, calls.log, InMemoryBlobs()),
            Sessions(calls.log, calls.ids),
            warm=lambda: None,
            last_calls=LastModelCalls(calls.log, calls.clock),
            config_file=home.config_file,
            health=Health(calls.clock),
        )

    return make


@pytest.mark.parametrize(
    ("checker", "aliases", "expected"),
    [
        ("", {}, "own"),
        ("", {"cheap": "small"}, "small"),
        ("", {"cheap": ["keyless", "small"]}, "small"),
        ("small", {"cheap": "own"}, "small"),
        ("careful", {"careful": "small"}, "small"),
        ("", {"cheap": "keyless"}, None),
        ("", {"cheap": "offline"}, None),
        ("offline", {}, None),
    ],
)
async def test_who_looks(
    service: Callable[..., ModelService], checker: str, aliases: dict[str, Any], expected: str | None
) -> None:
    models = service(checker, **aliases)
    await models.listing()

    found = models.checker(OWN)

    assert (found and found.first.provider) == expected


async def test_a_script_is_no_second_model(service: Callable[..., ModelService]) -> None:
    models = service()
    await models.listing()

    assert models.checker(Chain((OFFLINE,))) is None
