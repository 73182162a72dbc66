"""README's steps from a key to an answer, one cell each, against the providers on loopback; and what `%model` finds."""

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.foreign_worker import FakeForeignWorker
from tests.fakes.ollama_wire import TOOLLESS
from tests.fakes.provider_server import FakeProvider
from tests.fakes.providers import all_providers
from tests.rig import GatewayHome, Kernel, new_home, start_kernel

pytestmark = pytest.mark.timeout(120)

README = (Path(__file__).resolve().parents[3] / "README.md").read_text()
STEPS = dict(re.findall(r"^\| ([^|]+) \| `(%model \w+/\S+(?: http\S+)?)` \|$", README, re.MULTILINE))
KEYS = {
    "anthropic": "sk-ant-0123456789",
    "openai": "sk-proj-0123456789",
    "gemini": "AIza0123456789",
    "deepseek": "sk-deep-0123456789",
}


@dataclasses.dataclass
class Desk:
    kernel: Kernel
    home: GatewayHome
    fakes: dict[str, FakeProvider]
    worker: FakeForeignWorker


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A home with keys in its `.env` and no configuration but a worker; the environment leads to the fakes."""
    with all_providers() as fakes, FakeForeignWorker() as worker:
        # It speaks OpenAI's format, as DeepSeek does.
        at = {driver: fake.base_url for driver, fake in fakes.items()} | {"deepseek": fakes["openai"].base_url}
        home = new_home(tmp_path_factory.mktemp("connect"))
        home = dataclasses.replace(home, env={**home.env, "OLLAMA_HOST": at["ollama"].removeprefix("http://")})
        places = {
            "ANTHROPIC_BASE_URL": at["anthropic"],
            "OPENAI_BASE_URL": at["openai"],
            "GEMINI_API_BASE": at["gemini"],
            "DEEPSEEK_API_BASE": at["deepseek"],
        }
        keys = {f"{driver.upper()}_API_KEY": key for driver, key in KEYS.items()}
        lines = "".join(f"{name}={value}\n" for name, value in {**keys, **places}.items())
        (home.home / ".env").write_text(lines)
        (home.home / ".env").chmod(0o600)
        local = {"driver": "worker", "model": "gemma", "socket": worker.path}
        home.configure({"models": {"default": "offline", "providers": {"local": local}}})
        kernel = start_kernel(home)
        yield Desk(kernel, home, fakes, worker)
        kernel.stop()
        home.stop_gateways()


def test_readme_has_a_step_for_each_provider() -> None:
    assert [step.split()[1].partition("/")[0] for step in STEPS.values()] == [
        "anthropic",
        "openai",
        "gemini",
        "deepseek",
        "ollama",
        "openai",
    ]


def test_what_is_found_is_offered_and_nothing_of_it_is_used(desk: Desk) -> None:
    listed = desk.kernel.run("%model")

    for found in (*(f"{driver.upper()}_API_KEY is set" for driver in KEYS), "Ollama has llama3.2:latest"):
        assert found in listed.markdown.replace("\\_", "_"), listed.markdown
    assert "%model ollama/llama3.2:latest" in listed.markdown
    assert "Offline script" in desk.kernel.run("hello").markdown
    asked = [request.path for fake in desk.fakes.values() for request in fake.requests]
    assert set(asked) == {"/api/tags"}


@pytest.mark.parametrize("have", STEPS)
def test_one_step_leads_from_what_one_has_to_an_answer(desk: Desk, have: str) -> None:
    step = STEPS[have]
    driver, _, model = step.split()[1].partition("/")
    fake = desk.fakes["openai" if driver == "deepseek" else driver]
    typed = "http" in step
    if variable := re.search(r"`(\w+_API_KEY)`", have):
        assert variable[1] == f"{driver.upper()}_API_KEY"

    chosen = desk.kernel.run(re.sub(r"http\S+", f"{fake.url}/v1", step))
    output = desk.kernel.run(f"Hello {driver}, here is one who has {driver}.")

    assert (chosen.status, output.status) == ("ok", "ok")
    assert f"Hello {driver}" in output.turn["parts"][-1]["text"]
    assert fake.misread == []
    asked = fake.requests[-1]
    assert model in asked.path + json.dumps(asked.body)
    sent = json.dumps([*asked.headers.values()]) + asked.path
    if driver in KEYS and not typed:
        assert KEYS[driver] in sent
    else:
        assert [key for key in KEYS.values() if key in sent] == [], "A typed address got a key."


def test_an_ollamas_model_that_takes_no_tools_is_offered_none_and_answers(desk: Desk) -> None:
    desk.kernel.run(f"%model ollama/{TOOLLESS}")

    output = desk.kernel.run("Tell me what you are without tools.")

    assert output.status == "ok"
    assert "Tell me what you are without tools." in output.turn["parts"][-1]["text"]
    assert "calculator" not in json.dumps(desk.fakes["ollama"].requests[-1].body)


def test_a_worker_of_somebody_elses_answers_a_cell_and_is_told_of_no_tools(desk: Desk) -> None:
    desk.kernel.run("%model local")

    output = desk.kernel.run("Tell me about gemma.")

    assert output.status == "ok"
    assert "Tell me about gemma." in output.turn["parts"][-1]["text"]
    prompt = next(message["prompt"] for message in desk.worker.messages if message["type"] == "generate")
    assert "calculator" not in prompt
    assert prompt.rstrip().endswith("Assistant:")
