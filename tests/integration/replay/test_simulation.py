"""Other rules on the calls of a log: what they would have decided, and that the rules of then decide as they did."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.policy.files import load, read
from ozzie_server_ext.policy.rules import Rule
from ozzie_server_ext.replay.record import opened
from ozzie_server_ext.replay.simulation import Simulation, Simulator
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.integration.replay.recorded import recording

pytestmark = pytest.mark.timeout(180)

Recorded = tuple[Home, SessionId]
TOOLS = ToolRegistry(builtin_tools())
ALLOWS: dict[str, Any] = {
    "id": "notes",
    "decision": "allow",
    "when": {"tools": ["write_file"], "paths": ["notes/**"]},
}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder: Path = tmp_path_factory.mktemp("recorded")

    async def record() -> SessionId:
        async with recording(folder) as made:
            await made.everything()
            return made.session_id

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        yield Home(folder / "home"), asyncio.run(record())


def simulated(home: Home, rules_of: Callable[[str], tuple[Rule, ...]], since: datetime = LONG_AGO) -> Simulation:
    with opened(home) as reading:
        return Simulator(TOOLS, rules_of).run(reading, since)


def rules(*texts: dict[str, Any]) -> Callable[[str], tuple[Rule, ...]]:
    """These rules in every project; their examples are of a tool that is not here."""
    examples = {"match": [{"tool": "a.stranger"}]}
    written = [{"id": "r", "reason": "Tried.", "examples": examples, **text} for text in texts]
    found = read(Path("/tried.jsonc"), json.dumps({"rules": written}).encode(), TOOLS.find).rules
    return lambda project: found


def found(simulation: Simulation) -> list[tuple[str, str, str, str]]:
    return [(each.tool, each.was, each.would.decision.value, each.would.rule) for each in simulation.changes]


def test_the_rules_of_then_decide_as_they_did(recorded: Recorded) -> None:
    home, _ = recorded

    simulation = simulated(home, lambda project: load(home, Path(project), TOOLS.find).rules)

    assert found(simulation) == []
    assert simulation.calls >= 9
    assert simulation.sessions == 1


def test_without_its_rule_a_call_would_ask(recorded: Recorded) -> None:
    simulation = simulated(recorded[0], lambda project: ())

    assert Counter(found(simulation)) == {("write_file", "ALLOW", "ASK", "default.changes"): 2}
    assert [each.call.requested.args["path"] for each in simulation.changes] == ["notes/a.md", "notes/n.md"]


def test_a_rule_that_is_tried_counts_where_it_applies(recorded: Recorded) -> None:
    reads = {"tools": ["read_file"]}
    denies = {"decision": "deny", "when": {**reads, "paths": ["a.txt"]}}
    alone = {"decision": "deny", "when": {**reads, "attended": False}}

    denied, unattended = (simulated(recorded[0], rules(each, ALLOWS)) for each in (denies, alone))

    assert Counter(found(denied)) == {("read_file", "ALLOW", "DENY", "r"): 3}
    assert {each.would.place for each in denied.changes} == {"/tried.jsonc, line 1"}
    assert found(unattended) == [], "somebody was there"


def test_calls_of_tools_that_are_gone_are_counted_and_left_out(recorded: Recorded) -> None:
    registry = ToolRegistry([tool for tool in builtin_tools() if tool.meta.name != "write_file"])
    with opened(recorded[0]) as reading:
        simulation = Simulator(registry, lambda project: ()).run(reading, LONG_AGO)

    assert simulation.unknown == {"write_file": 5}
    assert found(simulation) == []


def test_a_project_whose_rules_can_not_be_read_is_left_out_and_said(recorded: Recorded) -> None:
    def broken(project: str) -> tuple[Rule, ...]:
        raise InputError("The rules are damaged.")

    simulation = simulated(recorded[0], broken)

    assert (simulation.calls, simulation.sessions, [*simulation.unread.values()]) == (0, 0, ["The rules are damaged."])


def test_what_was_before_is_not_looked_at(recorded: Recorded) -> None:
    everything = simulated(recorded[0], lambda project: ())
    (first, second) = everything.changes

    later = simulated(recorded[0], lambda project: (), since=second.at)

    assert first.at < second.at
    assert [each.at for each in later.changes] == [second.at]
    assert later.calls < everything.calls
