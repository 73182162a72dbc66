"""What workers say of models: asked once in a worker's life, kept, and done without where none answers."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.settings import ModelsSettings
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.models import facts
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.facts import Ability, FactBook
from ozzie_server_ext.models.registry import ModelRegistry
from ozzie_server_ext.planes.supervisor import Pace, Supervisor
from ozzie_server_ext.protocol.worker import ModelFacts, ModelName
from ozzie_server_ext.tasks.models import ModelKnowledge
from tests.fakes.ollama_wire import MODELS, TOOLLESS, OllamaWire
from tests.fakes.provider_server import FakeProvider
from tests.integration.models.rig import WAIT_S, Rig

CHILD = (sys.executable, "-m", "tests.fakes.plane_child", "--behaviour")

Make = Callable[[str], Supervisor]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    planes: list[Supervisor] = []

    def build(behaviour: str) -> Supervisor:
        plane = Supervisor(
            "model worker",
            (*CHILD, behaviour),
            log_file=tmp_path / "log",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            pace=Pace(pauses_s=(0.01,), circuit_deaths=3),
        )
        planes.append(plane)
        return plane

    yield build
    for plane in planes:
        await plane.stop()


def named(*models: str) -> list[ModelName]:
    return [ModelName(driver="openai", model=model) for model in models]


async def learn(book: FactBook, *models: str) -> list[ModelFacts]:
    async with asyncio.timeout(WAIT_S):
        await book.learn(named(*models))
    return [facts for name in named(*models) if (facts := book.known(name))]


async def test_each_model_is_asked_for_once(make: Make) -> None:
    book = FactBook(make("serve").channel)

    first = await learn(book, "a", "b", "a")
    again = await learn(book, "a", "b")
    more = await learn(book, "b", "c")

    assert [facts.context for facts in first] == [1, 1, 1]
    assert again == first[:2]
    assert [facts.context for facts in more] == [1, 2]


async def test_the_next_worker_is_asked_anew_and_until_then_the_last_ones_word_counts(make: Make) -> None:
    plane = make("serve")
    book = FactBook(plane.channel)
    (first,) = await learn(book, "a")
    with pytest.raises(Unavailable):
        await learn(book, "death")

    assert book.known(named("a")[0]) == first
    (second,) = await learn(book, "a")

    assert plane.pid == second.max_output != first.max_output


@pytest.mark.parametrize("model", ["silence", "too few", "nonsense", "death"])
async def test_a_worker_that_does_not_answer_is_done_without(
    make: Make, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setattr(facts, "ANSWER_S", 0.2 if model == "silence" else WAIT_S)
    book = FactBook(make("serve").channel)

    with pytest.raises(Unavailable):
        await learn(book, model)

    assert book.known(named(model)[0]) is None


async def test_without_a_worker_nothing_is_known(make: Make) -> None:
    with pytest.raises(Unavailable):
        await learn(FactBook(make("dead").channel), "a")


async def test_what_was_learnt_longest_ago_is_forgotten_first(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "MAX_KNOWN", 2)
    book = FactBook(make("serve").channel)
    for model in "abc":
        await learn(book, model)

    assert [book.known(name) is not None for name in named("a", "b", "c")] == [False, True, True]


@pytest.mark.asyncio(loop_scope="session")
async def test_the_real_worker_tells_what_litellms_table_says(rig: Rig) -> None:
    book = FactBook(rig.plane.channel)

    (mini,) = await learn(book, "gpt-4o-mini")

    assert (mini.context, mini.tools, mini.price_in) == (128_000, True, 150_000_000)


# --- under the settings of the moment -----------------------------------------------------------------

PROVIDERS: dict[str, Any] = {
    "plain": {"driver": "openai", "model": "m"},
    "toolless": {"driver": "openai", "model": "toolless"},
    "said": {
        "driver": "openai",
        "model": "toolless",
        "capabilities": {"tools": True, "images": True, "max_output": 100, "price_in": 1, "price_out": 2},
    },
    "half-said": {
        "driver": "openai",
        "model": "blind",
        "capabilities": {"tools": True, "max_output": 100, "price_in": 1, "price_out": 2},
    },
    "deepseek": {"driver": "deepseek", "model": "m"},
    "deepseek-said": {"driver": "deepseek", "model": "m", "capabilities": {"images": True}},
    "deepseek-seeing": {"driver": "deepseek", "model": "seeing"},
    "elsewhere": {"driver": "openai", "model": "toolless", "base_url": "http://localhost:1/v1"},
    "gemma": {"driver": "worker", "model": "gemma"},
}


def registry(**env: str) -> ModelRegistry:
    return ModelRegistry(ModelsSettings.model_validate({"providers": PROVIDERS}), env)


def knowledge(plane: Supervisor, **env: str) -> ModelKnowledge:
    return ModelKnowledge(
        lambda: registry(**env), FactBook(plane.channel), is_ready=lambda: plane.connected is not None
    )


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("plain", True),
        ("toolless", False),
        ("said", True),
        ("elsewhere", True),
        ("gemma", False),
        ("offline", True),
        ("ollama/toolless", False),
    ],
)
async def test_a_turn_offers_no_tools_to_a_model_that_is_known_to_take_none(make: Make, name: str, takes: bool) -> None:
    choice = registry().resolve(name)

    informed = await asyncio.wait_for(knowledge(make("serve")).informed(Chain((choice,)), wait_s=None), WAIT_S)

    assert informed.first.takes_tools is takes
    assert informed.first.model == choice.model


@pytest.mark.parametrize(
    ("name", "sees"),
    [
        ("plain", True),
        ("said", True),
        ("half-said", False),
        ("gemma", False),
        ("offline", False),
        # litellm drops pictures on the way there, whatever anybody else says of the model.
        ("deepseek", False),
        ("deepseek-said", False),
        ("deepseek-seeing", True),
    ],
)
async def test_a_turn_knows_whom_it_can_show_pictures(make: Make, name: str, sees: bool) -> None:
    it, choice = knowledge(make("serve")), registry().resolve(name)

    informed = await asyncio.wait_for(it.informed(Chain((choice,)), wait_s=None), WAIT_S)

    assert informed.first.sees is sees
    if name not in ("gemma", "offline"):
        assert (await asyncio.wait_for(it.priced(choice), WAIT_S)).sees is sees


@pytest.mark.parametrize("name", ["said", "elsewhere", "gemma", "offline"])
async def test_no_worker_is_started_for_what_its_table_can_not_tell(make: Make, name: str) -> None:
    plane = make("serve")

    await knowledge(plane).informed(registry().chain(name), wait_s=None)
    if name != "said":
        await knowledge(plane).find(registry().resolve(name))

    assert plane.pid is None


@pytest.mark.parametrize(("behaviour", "wait_s"), [("dead", None), ("mute", 0.1)])
async def test_a_turn_goes_on_where_nobody_can_be_asked(make: Make, behaviour: str, wait_s: float | None) -> None:
    chain = registry().chain("toolless")

    found = await asyncio.wait_for(knowledge(make(behaviour)).informed(chain, wait_s=wait_s), WAIT_S)

    assert found == chain


async def test_all_that_may_answer_a_turn_are_asked_for_at_once(make: Make) -> None:
    plane = make("serve")
    first, *then = map(registry().resolve, ("plain", "toolless", "elsewhere", "gemma"))
    chain = Chain((first, *then[:2]), stronger=tuple(then))

    found = await asyncio.wait_for(knowledge(plane).informed(chain, wait_s=None), WAIT_S)

    assert [choice.takes_tools for choice in found.choices] == [True, False, True]
    assert [choice.takes_tools for choice in found.stronger] == [False, True, False]


async def test_no_worker_is_started_for_those_that_only_might_answer(make: Make) -> None:
    plane = make("serve")
    chain = Chain((registry().resolve("gemma"), registry().resolve("toolless")))

    assert await knowledge(plane).informed(chain, wait_s=None) == chain
    assert plane.pid is None


async def test_a_look_starts_no_worker_and_asks_one_that_runs(make: Make) -> None:
    plane = make("serve")
    it, choice = knowledge(plane), registry().resolve("toolless")

    before = await it.look(choice)
    assert plane.pid is None
    await asyncio.wait_for(plane.channel(), WAIT_S)
    after = await it.look(choice)

    assert before.tools == Ability(value=None, source="unknown")
    assert after.tools == Ability(value=False, source="litellm")


async def test_an_ollama_is_asked_what_its_model_can_do_without_any_worker(make: Make) -> None:
    plane = make("dead")
    with FakeProvider(OllamaWire()) as fake:
        it, models = knowledge(plane, OLLAMA_HOST=fake.base_url), registry()
        found = await it.look(models.resolve(f"ollama/{TOOLLESS}"))
        names = (f"ollama/{TOOLLESS}", f"ollama/{MODELS[0]}")
        chain = Chain(tuple(map(models.resolve, names)))
        informed = await asyncio.wait_for(it.informed(chain, wait_s=None), WAIT_S)

    assert found.tools == Ability(value=False, source="Ollama")
    assert [choice.takes_tools for choice in informed.choices] == [False, True]


async def test_an_address_in_the_environment_is_somebodys_own_too(make: Make) -> None:
    plane = make("serve")
    found = await knowledge(plane, OPENAI_BASE_URL="http://localhost:1/v1").find(registry().resolve("plain"))

    assert found.context.source == "unknown"
    assert plane.pid is None
