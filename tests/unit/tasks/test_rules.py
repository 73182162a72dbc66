"""The rules in force follow their files; a broken one denies everything until it is mended."""

import asyncio
import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.files import Stamps, stamps_of
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError
from ozzie_server_ext.domain.events import ConfigChanged
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.policy.decision import Action, Caller, Decision, Verdict
from ozzie_server_ext.policy.engine import Ruling, decide
from ozzie_server_ext.policy.files import CLASSES, PROJECT_FILE, trust_rules, untrust_rules
from ozzie_server_ext.policy.rules import Rule
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks import rules
from ozzie_server_ext.tasks.rules import RulesInForce
from ozzie_server_ext.tasks.spent import SpentToday
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry


def text_of(decision: str = "deny", paths: str = "private/**") -> str:
    match = {"tool": "read_file", "args": {"path": paths.replace("**", "a")}}
    rule = {"id": "private", "decision": decision, "reason": "Private.", "when": {"paths": [paths]}}
    return json.dumps({"rules": [rule | {"examples": {"match": [match]}}]})


class Desk:
    """Rules in force, with their files and the log that they are recorded in."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "home")
        self.home.create()
        self.project = folder / "project"
        (self.project / PROJECT_FILE).parent.mkdir(parents=True)
        self.registry = ToolRegistry(builtin_tools())
        self.log = InMemoryEventLog(FakeClock(), CountingIds())
        self.blobs = InMemoryBlobs()
        self.rules = self.again()

    def again(self) -> RulesInForce:
        none = self.home.root / "none"
        spent = SpentToday(self.log, FakeClock())
        return RulesInForce(self.home, self.project, self.registry, self.log, self.blobs, spent, system_file=none)

    async def reading(self, path: str) -> Ruling:
        tool = self.registry.find("fs.read")
        assert tool is not None
        return await self.rules.of(tool.meta, {"path": path}, Caller())

    async def decision(self, path: str) -> Decision:
        return (await self.reading(path)).verdict.decision

    async def recorded(self) -> list[ConfigChanged]:
        found = [event.body for event in await self.log.read_stream(rules.STREAM)]
        return [body for body in found if isinstance(body, ConfigChanged)]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_rule_counts_from_the_moment_that_its_file_has_it(desk: Desk) -> None:
    assert await desk.decision("private/a") is Decision.ALLOW
    desk.home.policy_file.write_text(text_of())
    assert await desk.decision("private/a") is Decision.DENY
    assert await desk.decision("public/a") is Decision.ALLOW
    desk.home.policy_file.unlink()
    assert await desk.decision("private/a") is Decision.ALLOW


async def test_while_a_file_is_broken_every_call_is_denied_and_the_reason_says_what_to_mend(desk: Desk) -> None:
    desk.home.policy_file.write_text(text_of())
    assert await desk.decision("public/a") is Decision.ALLOW
    desk.home.policy_file.write_text(text_of()[:-1])

    ruling = await desk.reading("public/a")

    assert (ruling.verdict.decision, ruling.verdict.rule) == (Decision.DENY, rules.BROKEN)
    assert ruling.verdict.refusal.startswith(f"Not allowed: {desk.home.policy_file}, line 1, column")
    assert ruling.verdict.refusal.endswith("Correct the file there and try again.")
    desk.home.policy_file.write_text(text_of())
    assert await desk.decision("public/a") is Decision.ALLOW


async def test_rules_that_can_not_be_read_for_whatever_reason_are_not_taken_for_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any, **named: Any) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(rules, "load", broken)

    assert (await desk.reading("a")).verdict.rule == rules.BROKEN


async def test_an_error_that_passes_denies_no_longer_than_it_lasts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_handles(*given: Any, **named: Any) -> None:
        raise ConfigError("policy.jsonc: can't be read: Too many open files.")

    with monkeypatch.context() as for_a_moment:
        for_a_moment.setattr(rules, "load", no_handles)
        assert await desk.decision("a") is Decision.DENY
    assert await desk.decision("a") is Decision.ALLOW


async def test_the_rules_of_a_trusted_project_that_are_gone_deny_until_that_is_meant(desk: Desk) -> None:
    (desk.project / PROJECT_FILE).write_text(text_of())
    trust_rules(desk.home, desk.project, desk.registry.find)
    assert await desk.decision("public/a") is Decision.ALLOW

    (desk.project / PROJECT_FILE).unlink()
    ruling = await desk.reading("public/a")

    assert (ruling.verdict.decision, ruling.verdict.rule) == (Decision.DENY, rules.BROKEN)
    assert ruling.verdict.refusal.endswith(f"run: ozzie policy untrust {desk.project}.")
    untrust_rules(desk.home, desk.project)
    assert await desk.decision("private/a") is Decision.ALLOW


async def test_calls_are_compared_with_rules_away_from_the_loop(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def seen(action: Action, found: tuple[Rule, ...]) -> Verdict:
        threads.append(threading.get_ident())
        return decide(action, found)

    monkeypatch.setattr("ozzie_server_ext.policy.engine.decide", seen)
    assert await desk.decision("private/a") is Decision.ALLOW
    desk.home.policy_file.write_text(text_of())
    assert await desk.decision("private/a") is Decision.DENY

    here = threading.get_ident()
    assert [thread == here for thread in threads] == [True, False]


async def test_calls_that_come_during_a_look_share_the_next_one(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, going_on, looks = threading.Event(), threading.Event(), 0

    def slow(files: Iterable[Path]) -> Stamps:
        nonlocal looks
        looks += 1
        found = stamps_of(files)
        begun.set()
        assert going_on.wait(10)
        return found

    await desk.rules.refresh()
    monkeypatch.setattr(rules, "stamps_of", slow)
    early = asyncio.create_task(desk.decision("private/a"))
    await asyncio.to_thread(begun.wait, 10)
    desk.home.policy_file.write_text(text_of())  # too late for the look that is under way
    late = [asyncio.create_task(desk.decision("private/a")) for _ in range(5)]
    await asyncio.sleep(0)
    late[0].cancel()
    going_on.set()

    assert await early is Decision.ALLOW
    assert await asyncio.gather(*late[1:]) == [Decision.DENY] * 4
    assert looks == 2


async def test_every_set_of_rules_that_counted_is_recorded_once_with_its_text(desk: Desk) -> None:
    await desk.rules.refresh()
    (shipped,) = await desk.recorded()
    assert shipped.files == (str(CLASSES),), "the classes that come with Ozzie"
    desk.home.policy_file.write_text(text_of())
    (desk.project / PROJECT_FILE).write_text(text_of("ask", "drafts/**"))
    await desk.rules.refresh()
    trust_rules(desk.home, desk.project, desk.registry.find)
    await desk.rules.refresh()
    desk.rules = desk.again()
    ruling = await desk.reading("drafts/a")

    _, first, second = await desk.recorded()
    assert (first.previous, second.previous) == (shipped.version, first.version)
    assert first.files == (str(desk.home.policy_file), str(CLASSES))
    assert second.files == (str(desk.home.policy_file), str(desk.project / PROJECT_FILE), str(CLASSES))
    texts = loads_object((await desk.blobs.get(second.blob)).decode())
    assert texts.pop(str(CLASSES))
    assert texts == {
        str(desk.home.policy_file): text_of(),
        str(desk.project / PROJECT_FILE): text_of("ask", "drafts/**"),
    }
    assert (ruling.verdict.decision, ruling.version) == (Decision.ASK, second.version)


async def test_rules_that_go_away_are_recorded_too(desk: Desk) -> None:
    desk.home.policy_file.write_text(text_of())
    await desk.rules.refresh()
    desk.home.policy_file.unlink()
    await desk.rules.refresh()

    first, second = await desk.recorded()
    assert (second.previous, second.files) == (first.version, (str(CLASSES),))


async def test_tools_that_are_denied_whatever_their_arguments_are_told_for_whoever_asks(desk: Desk) -> None:
    rule = {
        "id": "no-shell",
        "decision": "deny",
        "reason": "Not for Ben.",
        "when": {"tools": ["shell"], "users": ["ben"]},
    }
    rule["examples"] = {"match": [{"tool": "shell", "user": "ben"}]}
    assert await desk.rules.denied(Caller(user="ben")) == frozenset()

    desk.home.policy_file.write_text(json.dumps({"rules": [rule, *json.loads(text_of())["rules"]]}))

    assert await desk.rules.denied(Caller(user="ben")) == {"shell.run"}
    assert await desk.rules.denied(Caller(user="ana")) == frozenset()


async def test_while_the_rules_are_broken_no_tool_is_hidden_so_that_each_call_says_why(desk: Desk) -> None:
    rule = {"id": "no-shell", "decision": "deny", "reason": "No.", "when": {"tools": ["shell"]}}
    rule["examples"] = {"match": [{"tool": "shell"}]}
    desk.home.policy_file.write_text(json.dumps({"rules": [rule]}))
    assert await desk.rules.denied(Caller()) == {"shell.run"}

    desk.home.policy_file.write_text("{")

    assert await desk.rules.denied(Caller()) == frozenset()
    assert await desk.decision("a") is Decision.DENY
