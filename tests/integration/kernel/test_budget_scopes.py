"""Every scope of budgets in cells of a real kernel: what it costs is shown, and a budget that is used up ends a turn in
words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall
from tests.rig import GatewayHome, Kernel, new_home, start_kernel

pytestmark = pytest.mark.timeout(120)

ROOM = 60_000
"""Tokens: enough for the request of one turn, which offers some 40 tools, but not beside USED."""
USED = (50_000, 1_000)
COST = "&#36;0.06"
"""Of USED, at 1 USD for a million tokens in and 10 for a million out. A dollar would begin a formula."""
MANY = 10**9


@dataclass
class Bench:
    """A kernel whose provider costs, and whose budgets each test sets."""

    home: GatewayHome
    kernel: Kernel
    fake: FakeOpenAI

    def configure(self, scope: str, max_tokens: int) -> None:
        provider = {
            "driver": "openai",
            "model": "echo",
            "base_url": f"{self.fake.url}/v1",
            "auth": {"type": "none"},
            "max_tokens": 2000,
            "capabilities": {"price_in": 1, "price_out": 10},
        }
        budget = {scope: {"max_tokens": max_tokens, "on_exceeded": "stop"}}
        self.home.configure({"models": {"default": "dear", "providers": {"dear": provider}}, "budgets": budget})

    def used(self, whose: str) -> int:
        """How much of its budget that scope has used, as `%cost` shows it."""
        found = re.search(rf"{whose} used ([\d,]+) of", self.kernel.run("%cost").markdown)
        assert found is not None
        return int(found[1].replace(",", ""))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    home = new_home(tmp_path_factory.mktemp("scopes"))
    with FakeOpenAI() as fake:
        bench = Bench(home, start_kernel(home), fake)
        yield bench
        bench.kernel.stop()
        home.stop_gateways()


@pytest.fixture
def bench(running: Bench) -> Bench:
    running.fake.forget()
    running.kernel.run("%session new")
    return running


def answer(**more: Any) -> Answer:
    return Answer(pieces=["Well."], usage=USED, **more)


def test_a_task_budget_ends_the_turn_before_its_next_round(bench: Bench) -> None:
    bench.configure("task", ROOM)
    bench.fake.queue(answer(tool_calls=[ToolCall("calculator", {"expr": "1+1"})]), answer())
    cell = bench.kernel.run("Add it up.")

    assert "This task has used 51,000 tokens of its 60,000 tokens." in cell.markdown
    assert "budgets.task.max_tokens" in cell.markdown
    assert COST in cell.markdown
    assert len(bench.fake.requests) == 1


@pytest.mark.parametrize(
    ("scope", "whose"),
    [("session", "This session"), ("project", "This project"), ("day", "All sessions today")],
)
def test_a_shared_budget_ends_the_turn_that_does_not_fit(bench: Bench, scope: str, whose: str) -> None:
    bench.configure(scope, MANY)
    before = bench.used(whose)
    bench.configure(scope, before + ROOM)
    bench.fake.queue(answer(), answer())
    first = bench.kernel.run("Say it.")
    costs = bench.kernel.run("%cost").markdown
    second = bench.kernel.run("Say it again.")

    assert "Well." in first.markdown
    assert COST in first.markdown
    assert f"Budget: {whose} used {before + sum(USED):,} of {before + ROOM:,} tokens; then turns stop." in costs
    assert COST in costs
    assert f"has used {before + sum(USED):,} tokens of its {before + ROOM:,} tokens." in second.markdown
    assert f"budgets.{scope}.max_tokens" in second.markdown
    assert len(bench.fake.requests) == 1
