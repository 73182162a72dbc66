"""Before a call that a person has to be asked for: what they are shown, and which yes counts."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.approvals import REQUEST_EXPIRES_S, YES_EXPIRES_S, AuthStrength, SessionGrant
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalRequested,
    ArtifactCreated,
    EventBody,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolUse,
)
from ozzie_server_ext.domain.ids import ApprovalId, CallId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.toolmeta import Category, RiskLevel, SideEffect, Target, TargetKind, ToolMeta, ToolResult
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.policy.decision import UNREAD, Caller, Decision, Reading, Verdict
from ozzie_server_ext.policy.engine import FixedRulings, Ruling, Rulings
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import EffectTool, Plan, Preview, Tool, ToolContext, ToolFailed
from ozzie_server_ext.tools.broker import CallPosition
from ozzie_server_ext.tools.permissions import MOST_SHOWN, EarlierRequest, Grant, refusal
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.brokers import broker_of, facts_of
from tests.unit.policy.rig import meta, rule
from tests.unit.tools.test_broker import KEY, KNOWN, types

ASKED_FOR = FixedRulings((rule("ask", {"tools": ["test.probe"]}, "probes-ask", "Probes are for people to decide."),))


class Probe:
    """Makes a tool that would do `would` to what its argument names, and notes what it did."""

    def __init__(self) -> None:
        self.would: str = "a"
        self.preview: Callable[[], Preview] | None = None
        self.nothing: ToolResult | None = None
        self.done: list[str] = []
        self.previews = 0

    async def plan(self, context: ToolContext, *, path: str = "notes/a.md") -> Plan:
        """Do something to a file."""
        would = self.would

        def preview() -> Preview:
            self.previews += 1
            shown = self.preview or (lambda: Preview(sentence=f"Do {would}?", proof=would, shown="text", undo="Undo."))
            return shown()

        return Plan(
            args={"path": path}, effect={"does": would, "to": path}, preview=preview, work=would, nothing=self.nothing
        )

    async def run(self, context: ToolContext, plan: Plan) -> ToolResult:
        self.done.append(plan.work)
        return ToolResult(ok=True)

    async def happened(self, context: ToolContext, effect: Any) -> bool | None:
        return None

    def tool(self, **changed: Any) -> Tool:
        settings: dict[str, Any] = {
            "name": "probe",
            "side_effect": SideEffect.REVERSIBLE,
            "risk_level": RiskLevel.MEDIUM,
            "targets": (Target("path", TargetKind.PATH),),
        }
        return EffectTool(self.plan, self.run, meta("test.probe", **(settings | changed)), happened=self.happened)


class Yeses:
    """The yeses for the session, as a test has them."""

    def __init__(self) -> None:
        self.covers: list[SessionGrant] = []
        self.asked_of: list[SessionId] = []
        self.needs: list[AuthStrength] = []

    async def covering(
        self, session_id: SessionId, fits: Callable[[SessionGrant], bool], needs: AuthStrength
    ) -> ApprovalId | None:
        self.asked_of.append(session_id)
        self.needs.append(needs)
        return next((ApprovalId("01SESSION") for cover in self.covers if fits(cover)), None)


class Bench:
    """One broker; `ask` makes a call that has no yes, `again` the same one once there is an answer."""

    def __init__(self, context: ToolContext) -> None:
        self.clock = FakeClock()
        self.ids = CountingIds()
        self.log = InMemoryEventLog(self.clock, self.ids)
        self.artifacts = ArtifactStore(self.log, InMemoryBlobs(), self.ids)
        self.recorder = Recorder(log=self.log, session_id=SessionId("s"), task_id=TaskId("t"))
        self.context = msgspec.structs.replace(context, caller=Caller(project="/home/ana/work"))
        self.rulings: Rulings = ASKED_FOR
        self.yeses = Yeses()
        self.expires_s = float(REQUEST_EXPIRES_S)

    async def call(
        self,
        tool: Tool,
        earlier: EarlierRequest | None = None,
        arguments: str = "{}",
        place: CallPosition | None = None,
    ) -> tuple[EventBody, ...]:
        """The facts that ask; none where the call was made, or refused."""
        broker = broker_of(
            ToolRegistry([tool]),
            self.rulings,
            self.artifacts,
            self.clock,
            self.ids,
            self.yeses,
            expires_s=lambda: self.expires_s,
            known_secrets=lambda: [KNOWN],
        )
        use = ToolUse(call_id=CallId("call_1"), name="probe", arguments=arguments)
        position = place or CallPosition(round=2, index=1)
        return facts_of(await broker.call(use, position, self.context, self.recorder, earlier))

    async def ask(self, tool: Tool, arguments: str = "{}") -> ApprovalRequested:
        asked = (await self.call(tool, arguments=arguments))[-1]
        assert isinstance(asked, ApprovalRequested)
        return asked

    def yes(self, asked: ApprovalRequested, way: AuthStrength = AuthStrength.BROWSER, **changed: Any) -> EarlierRequest:
        return EarlierRequest(asked=asked, grant=Grant(way=way, at=self.clock.now()), is_open=False, **changed)

    async def recorded(self) -> tuple[EventBody, ...]:
        return tuple(event.body for event in await self.log.read_stream(task_stream(TaskId("t"))))


@pytest.fixture
def bench(context: ToolContext) -> Bench:
    return Bench(context)


@pytest.fixture
def probe() -> Probe:
    return Probe()


# --- what is asked -------------------------------------------------------------------------------------------


async def test_where_a_person_has_to_be_asked_nothing_is_done_and_nothing_recorded_yet(
    bench: Bench, probe: Probe
) -> None:
    requested, decided, asked = await bench.call(probe.tool())

    assert (probe.done, await bench.recorded()) == ([], ())
    assert isinstance(requested, ToolCallRequested)
    assert isinstance(decided, ToolCallDecided)
    assert (decided.decision, decided.rule) == ("ASK", "probes-ask")
    assert isinstance(asked, ApprovalRequested)
    assert asked.call_id == decided.call_id == requested.call_id
    assert (asked.tool_id, asked.name, asked.sentence) == ("test.probe", "probe", "Do a?")
    assert (asked.proof, asked.shown, asked.whole, asked.undo) == ("a", "text", None, "Undo.")
    assert (asked.reason, asked.rule) == ("Probes are for people to decide.", "probes-ask")
    assert asked.place == "/rules.jsonc, line 1"
    assert (asked.side_effect, asked.risk_level, asked.needs) == (
        SideEffect.REVERSIBLE,
        RiskLevel.MEDIUM,
        AuthStrength.RELAY,
    )
    assert asked.cover is not None
    assert (asked.cover.said, asked.key) == ("`probe` in `notes/`", "t-2-1")
    assert asked.expires_at == "2026-01-01T01:00:00.000000Z"


async def test_how_long_a_question_waits_is_asked_anew_each_time(bench: Bench, probe: Probe) -> None:
    bench.expires_s = 60

    assert (await bench.ask(probe.tool())).expires_at == "2026-01-01T00:01:00.000000Z"


@pytest.mark.parametrize(
    ("contract", "needs"),
    [
        ({"side_effect": SideEffect.IRREVERSIBLE}, AuthStrength.CLI),
        ({"risk_level": RiskLevel.HIGH}, AuthStrength.CLI),
        ({"categories": frozenset({Category.HOST_COMMAND})}, AuthStrength.CLI),
    ],
)
async def test_what_a_kernel_may_not_say_yes_to_is_offered_once_only(
    bench: Bench, probe: Probe, contract: dict[str, Any], needs: AuthStrength
) -> None:
    asked = await bench.ask(probe.tool(**contract))

    assert (asked.needs, asked.cover) == (needs, None)


@pytest.mark.parametrize(
    ("rule_needs", "contract", "needs"),
    [
        ("browser", {}, AuthStrength.BROWSER),
        ("cli", {}, AuthStrength.CLI),
        ("cli", {"risk_level": RiskLevel.HIGH}, AuthStrength.CLI),
        ("browser", {"risk_level": RiskLevel.HIGH}, AuthStrength.BROWSER),
    ],
)
async def test_a_rule_may_want_a_stronger_way_than_the_contract(
    bench: Bench, probe: Probe, rule_needs: str, contract: dict[str, Any], needs: AuthStrength
) -> None:
    bench.rulings = FixedRulings((rule("ask", {"tools": ["test.probe"]}, needs=rule_needs),))

    asked = await bench.ask(probe.tool(**contract))

    assert asked.needs is needs
    assert bench.yeses.needs == [needs], "no weaker one for the session covers it"
    weaker = bench.yes(asked, AuthStrength.RELAY if needs is AuthStrength.CLI else AuthStrength.CLI)
    assert isinstance((await bench.call(probe.tool(**contract), weaker))[-1], ApprovalRequested)
    assert probe.done == []
    assert await bench.call(probe.tool(**contract), bench.yes(asked, needs)) == ()
    assert probe.done == ["a"]


async def test_all_arguments_are_told_as_they_are_carried_out_without_secrets(bench: Bench, probe: Probe) -> None:
    async def plan(context: ToolContext, *, path: str, text: str, said: str, more: list[str]) -> Plan:
        """Do something to a file."""
        preview = Preview(sentence="Do it?")
        return Plan(args={"path": path, "text": text, "said": said, "more": [*more]}, preview=lambda: preview)

    given = {"path": "a\u202e`b`.md", "text": "x" * 5000, "said": f"is {KNOWN}", "more": ["1" * 1500]}
    tool = EffectTool(plan, probe.run, probe.tool().meta, happened=probe.happened)
    asked = await bench.ask(tool, json.dumps(given))

    assert "x" * 201 not in asked.arguments
    assert KNOWN not in asked.arguments
    told = json.loads(asked.arguments.replace("\\u202e", "(202e)"))
    assert told == {
        "path": "a(202e)`b`.md",
        "text": f"{'x' * 200}… (5,000 characters in all)",
        "said": "is [redacted: known secret]",
        "more": ["1" * 1500],
    }


async def test_a_tool_that_says_nothing_is_shown_with_all_of_its_arguments(bench: Bench, probe: Probe) -> None:
    async def plan(context: ToolContext, *, path: str, text: str) -> Plan:
        """Do something to a file."""
        return Plan(args={"path": path, "text": text})

    tool = EffectTool(plan, probe.run, probe.tool().meta, happened=probe.happened)
    arguments = {"path": "notes/\u202egpj.sh", "text": "rm -rf /\u2028\x1b[2K\nnice"}

    asked = await bench.ask(tool, json.dumps(arguments))

    assert asked.sentence == "Run `probe` on `notes/\\u202egpj.sh`?"
    assert asked.proof == '{\n  "path": "notes/\\u202egpj.sh",\n  "text": "rm -rf /\\u2028\\u001b[2K\\nnice"\n}'
    assert asked.shown == "text"


async def test_nothing_in_what_is_shown_can_disguise_the_rest(bench: Bench, probe: Probe) -> None:
    hidden = "a\u202eb\u2066c\x1b[31md\u0085e\u2028f"
    probe.preview = lambda: Preview(sentence=hidden, proof=hidden, shown="text", undo=hidden)

    asked = await bench.ask(probe.tool())

    shown = "a\\u202eb\\u2066c\\u001b[31md\\u0085e\\u2028f"
    assert (asked.sentence, asked.proof, asked.undo) == (shown, shown, shown)


async def test_no_secret_is_shown_or_kept(bench: Bench, probe: Probe) -> None:
    said = f"{KEY} and {KNOWN}\n"
    probe.preview = lambda: Preview(sentence=said, proof=said + "x\n" * MOST_SHOWN, shown="diff", undo=said)

    asked = await bench.ask(probe.tool())

    contents = [await bench.artifacts.content(artifact) for artifact in await bench.artifacts.list()]
    for secret in (KEY, KNOWN):
        assert secret not in str(asked)
        assert secret.encode() not in b"".join(contents)
    assert "[redacted: GitHub token] and [redacted: known secret]" in asked.sentence


async def test_of_a_long_proof_the_beginning_is_shown_and_all_of_it_is_kept(bench: Bench, probe: Probe) -> None:
    proof = "".join(f"+{number}\n" for number in range(20_000))
    probe.preview = lambda: Preview(sentence="?", proof=proof, shown="diff")

    asked = await bench.ask(probe.tool())

    assert asked.whole is not None
    artifact, content = await bench.artifacts.of(SessionId("s")).open(asked.whole)
    assert (content, artifact.mime) == (proof.encode(), "text/x-diff")
    assert proof.startswith(asked.proof + "\n"), "it is cut behind a line"
    assert MOST_SHOWN // 2 < len(asked.proof) <= MOST_SHOWN
    (created,) = await bench.recorded()
    assert isinstance(created, ArtifactCreated)
    assert created.call_id == asked.call_id


async def test_of_a_proof_with_one_endless_line_as_much_is_shown_as_of_any(bench: Bench, probe: Probe) -> None:
    proof = "{\n" + "x" * 2 * MOST_SHOWN
    probe.preview = lambda: Preview(sentence="?", proof=proof, shown="text")

    asked = await bench.ask(probe.tool())

    assert asked.proof == proof[:MOST_SHOWN]
    assert asked.whole is not None


@pytest.mark.parametrize(
    ("fails", "code"), [(ToolFailed("It is gone."), "tool.failed"), (ValueError("inside"), "tool.broken")]
)
async def test_a_tool_that_can_not_say_what_it_would_do_does_not_do_it(
    bench: Bench, probe: Probe, fails: Exception, code: str
) -> None:
    def preview() -> Preview:
        raise fails

    probe.preview = preview

    assert await bench.call(probe.tool()) == ()

    recorded = await bench.recorded()
    assert types(recorded) == ["requested", "decided", "failed"]
    assert isinstance(recorded[-1], ToolCallFailed)
    assert (recorded[-1].code, "inside" in recorded[-1].message) == (code, False)
    assert probe.done == []


async def test_a_tool_that_never_comes_to_say_what_it_would_do_fails(bench: Bench, probe: Probe) -> None:
    let_go = Event()

    def preview() -> Preview:
        let_go.wait(10)
        return Preview(sentence="?")

    probe.preview = preview
    try:
        assert await bench.call(probe.tool(timeout_s=0.01)) == ()
    finally:
        let_go.set()

    recorded = await bench.recorded()
    assert isinstance(recorded[-1], ToolCallFailed)
    assert recorded[-1].code == "tool.timed_out"


async def test_where_there_is_nothing_to_do_nobody_is_asked(bench: Bench, probe: Probe) -> None:
    probe.nothing = ToolResult(ok=True, summary="nothing to change")

    assert await bench.call(probe.tool()) == ()

    assert types(await bench.recorded()) == ["requested", "decided", "completed"]


# --- which yes counts ----------------------------------------------------------------------------------------


async def test_a_yes_lets_exactly_that_call_run_and_is_named_by_its_intent(bench: Bench, probe: Probe) -> None:
    asked = await bench.ask(probe.tool())

    assert await bench.call(probe.tool(), bench.yes(asked)) == ()

    assert probe.done == ["a"]
    recorded = await bench.recorded()
    assert types(recorded) == ["decided", "started", "completed"], "it was requested when it was asked for"
    assert isinstance(recorded[1], ToolCallStarted)
    assert (recorded[1].approval_id, recorded[1].call_id) == (asked.approval_id, asked.call_id)
    assert probe.previews == 1, "what nobody looks at is not made"


def change_arguments(bench: Bench, probe: Probe) -> dict[str, Any]:
    return {"arguments": '{"path": "notes/b.md"}'}


def change_effect(bench: Bench, probe: Probe) -> dict[str, Any]:
    probe.would = "b"
    return {}


def change_rule(bench: Bench, probe: Probe) -> dict[str, Any]:
    bench.rulings = FixedRulings((rule("ask", {"tools": ["test.probe"]}, "another"),))
    return {}


def change_rules_version(bench: Bench, probe: Probe) -> dict[str, Any]:
    bench.rulings = Versioned("v2")
    return {}


def change_project(bench: Bench, probe: Probe) -> dict[str, Any]:
    bench.context = msgspec.structs.replace(bench.context, caller=Caller(project="/home/ana/elsewhere"))
    return {}


def change_labels(bench: Bench, probe: Probe) -> dict[str, Any]:
    bench.context = msgspec.structs.replace(bench.context, reading=Reading(content=Content(labels=("web",))))
    return {}


class Versioned(Rulings):
    """The same rules under another version."""

    def __init__(self, version: str) -> None:
        self.version = version

    async def of(self, meta: ToolMeta, args: Any, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        return replace(await ASKED_FOR.of(meta, args, caller, reading), asking=self.version)


@pytest.mark.parametrize(
    "change",
    [change_arguments, change_effect, change_rule, change_rules_version, change_project, change_labels],
)
async def test_a_yes_to_something_else_is_void_and_it_is_asked_anew(
    bench: Bench, probe: Probe, change: Callable[[Bench, Probe], dict[str, Any]]
) -> None:
    before = await bench.ask(probe.tool())

    facts = await bench.call(probe.tool(), bench.yes(before), **change(bench, probe))

    assert (probe.done, await bench.recorded()) == ([], ())
    decided, void, asked = facts
    assert isinstance(decided, ToolCallDecided)
    assert void == ApprovalExpired(approval_id=before.approval_id, why="changed")
    assert isinstance(asked, ApprovalRequested)
    assert asked.call_id == before.call_id
    assert asked.approval_id != before.approval_id
    assert asked.binds != before.binds


async def test_a_yes_to_another_version_of_the_tool_is_void(bench: Bench, probe: Probe) -> None:
    before = await bench.ask(probe.tool())

    *_, void, asked = await bench.call(probe.tool(timeout_s=2), bench.yes(before))

    assert void == ApprovalExpired(approval_id=before.approval_id, why="changed")
    assert isinstance(asked, ApprovalRequested)
    assert probe.done == []


async def test_a_yes_is_good_for_ten_minutes_and_then_asked_for_again(bench: Bench, probe: Probe) -> None:
    before = await bench.ask(probe.tool())
    yes = bench.yes(before)
    bench.clock.advance(YES_EXPIRES_S + 0.001)

    _, void, asked = await bench.call(probe.tool(), yes)

    assert void == ApprovalExpired(approval_id=before.approval_id, why="time")
    assert isinstance(asked, ApprovalRequested)
    assert probe.done == []

    still_good = replace(
        yes, grant=Grant(way=AuthStrength.BROWSER, at=bench.clock.now() - timedelta(seconds=YES_EXPIRES_S))
    )
    assert await bench.call(probe.tool(), still_good) == ()
    assert probe.done == ["a"]


async def test_a_yes_by_a_way_that_is_too_weak_does_not_count_whoever_let_it_in(bench: Bench, probe: Probe) -> None:
    grave = probe.tool(side_effect=SideEffect.IRREVERSIBLE)
    asked = await bench.ask(grave)

    assert await bench.call(grave, bench.yes(asked, AuthStrength.RELAY)) != ()
    assert probe.done == []

    assert await bench.call(grave, bench.yes(asked, AuthStrength.CLI)) == ()
    assert probe.done == ["a"]


async def test_without_an_answer_it_is_asked_anew_and_what_was_open_is_so_no_more(bench: Bench, probe: Probe) -> None:
    before = await bench.ask(probe.tool())

    _, void, asked = await bench.call(probe.tool(), EarlierRequest(asked=before))
    assert void == ApprovalExpired(approval_id=before.approval_id, why="changed")
    assert isinstance(asked, ApprovalRequested)

    _, again = await bench.call(probe.tool(), EarlierRequest(asked=before, is_open=False))
    assert isinstance(again, ApprovalRequested), "of one that nobody can answer any more, nothing more is said"
    assert probe.done == []


async def test_a_call_that_a_restart_put_off_is_another_call_under_the_same_yes(bench: Bench, probe: Probe) -> None:
    asked = await bench.ask(probe.tool())

    assert await bench.call(probe.tool(), bench.yes(asked, has_ended=True)) == ()

    recorded = await bench.recorded()
    assert types(recorded) == ["requested", "decided", "started", "completed"]
    assert isinstance(recorded[2], ToolCallStarted)
    assert recorded[2].call_id != asked.call_id
    assert recorded[2].approval_id == asked.approval_id


async def test_a_rule_that_denies_by_now_counts_more_than_a_yes(bench: Bench, probe: Probe) -> None:
    asked = await bench.ask(probe.tool())
    assert asked.cover is not None
    bench.yeses.covers.append(asked.cover)
    bench.rulings = FixedRulings((rule("deny", {"tools": ["test.probe"]}),))

    assert await bench.call(probe.tool(), bench.yes(asked)) == ()

    recorded = await bench.recorded()
    assert types(recorded) == ["decided", "failed"]
    assert isinstance(recorded[-1], ToolCallFailed)
    assert (recorded[-1].code, probe.done) == ("policy.denied", [])


async def test_where_nobody_is_there_any_more_a_yes_does_not_count(bench: Bench, probe: Probe) -> None:
    asked = await bench.ask(probe.tool())
    assert asked.cover is not None
    bench.yeses.covers.append(asked.cover)
    bench.context = msgspec.structs.replace(bench.context, caller=replace(bench.context.caller, attended=False))

    assert await bench.call(probe.tool(), bench.yes(asked)) == ()

    recorded = await bench.recorded()
    assert isinstance(recorded[-1], ToolCallFailed)
    assert (recorded[-1].code, probe.done) == ("policy.unattended", [])


async def test_a_rule_that_allows_by_now_needs_no_yes(bench: Bench, probe: Probe) -> None:
    asked = await bench.ask(probe.tool())
    bench.rulings = FixedRulings((rule("allow", {"tools": ["test.probe"]}),))

    assert await bench.call(probe.tool(), EarlierRequest(asked=asked, is_open=False)) == ()

    recorded = await bench.recorded()
    assert isinstance(recorded[1], ToolCallStarted)
    assert recorded[1].approval_id is None
    assert probe.done == ["a"]


async def test_a_yes_for_the_session_lets_what_it_covers_run_and_is_named(bench: Bench, probe: Probe) -> None:
    asked = await bench.ask(probe.tool())
    assert asked.cover is not None
    bench.yeses.covers.append(asked.cover)

    assert await bench.call(probe.tool(), arguments='{"path": "notes/deep/b.md"}') == ()
    started = (await bench.recorded())[2]
    assert isinstance(started, ToolCallStarted)
    assert started.approval_id == "01SESSION"
    assert probe.done == ["a"]

    assert await bench.call(probe.tool(), arguments='{"path": "data/b.md"}') != ()
    assert await bench.call(probe.tool(risk_level=RiskLevel.LOW), arguments='{"path": "notes/b.md"}') != ()
    bench.context = msgspec.structs.replace(bench.context, reading=Reading(content=Content(labels=("web",))))
    assert await bench.call(probe.tool(), arguments='{"path": "notes/b.md"}') != ()
    assert probe.done == ["a"]
    assert set(bench.yeses.asked_of) == {SessionId("s")}


async def test_a_stop_while_the_question_is_made_leaves_nothing_behind(bench: Bench, probe: Probe) -> None:
    begun, let_go = asyncio.Event(), Event()
    loop = asyncio.get_running_loop()

    def preview() -> Preview:
        loop.call_soon_threadsafe(begun.set)
        let_go.wait(10)
        return Preview(sentence="?")

    probe.preview = preview
    calling = asyncio.ensure_future(bench.call(probe.tool()))
    await asyncio.wait_for(begun.wait(), 10)
    calling.cancel()
    let_go.set()

    with pytest.raises(asyncio.CancelledError):
        await calling
    assert (probe.done, await bench.recorded()) == ([], ())


@pytest.mark.parametrize(("channel", "runs"), [("mcp", True), ("notebook", False), ("", False)])
def test_what_is_for_mcp_clients_nobody_else_calls(channel: str, runs: bool) -> None:
    reads = meta("session.read", for_clients=True)
    allowed = Verdict(decision=Decision.ALLOW, rule="", reason="")

    refused = refusal(reads, allowed, Caller(channel=channel))

    assert (refused is None) is runs
    assert runs or str(refused) == f"Not done: only an MCP client calls {reads.name}."
