"""The one gate: what is recorded of a call, in which order, and what never runs."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.events import (
    ArtifactCreated,
    ArtifactSuperseded,
    EventBody,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
    ToolUse,
    Transient,
)
from ozzie_server_ext.domain.ids import CallId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import (
    Idempotency,
    RiskLevel,
    SideEffect,
    Target,
    TargetKind,
    ToolError,
    ToolMeta,
    ToolResult,
)
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.policy.decision import Caller
from ozzie_server_ext.policy.engine import FixedRulings, Rulings
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import (
    Before,
    EffectTool,
    FunctionTool,
    Plan,
    Tool,
    ToolContext,
    ToolFailed,
    ToolUncertain,
    Unsettled,
)
from ozzie_server_ext.tools.broker import Begun, CallPosition, ToolBroker
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.brokers import broker_of
from tests.unit.policy.rig import rule
from tests.unit.tools.test_base import tool

TASK = TaskId("t")


class Bench:
    """A broker with one tool, `probe`, whose body a test gives."""

    def __init__(self, context: ToolContext) -> None:
        self.clock = FakeClock()
        self.blobs = InMemoryBlobs()
        self.log = InMemoryEventLog(self.clock, CountingIds())
        self.artifacts = ArtifactStore(self.log, self.blobs, CountingIds())
        self.recorder = Recorder(log=self.log, session_id=SessionId("s"), task_id=TASK)
        self.context = context
        self.rulings: Rulings = FixedRulings()
        self.publish: Callable[[Transient], None] = lambda transient: None

    def broker(self, *tools: Tool) -> ToolBroker:
        return broker_of(
            ToolRegistry(tools),
            self.rulings,
            self.artifacts,
            self.clock,
            CountingIds(),
            known_secrets=lambda: [KNOWN],
            publish=self.publish,
        )

    async def call(
        self, *tools: Tool, name: str = "probe", arguments: str = "{}", begun: Begun | None = None
    ) -> tuple[EventBody, ...]:
        use = ToolUse(call_id=CallId("call_1"), name=name, arguments=arguments)
        await self.broker(*tools).call(use, CallPosition(round=2, index=1), self.context, self.recorder, begun=begun)
        return await self.recorded()

    async def recorded(self) -> tuple[EventBody, ...]:
        return tuple(event.body for event in await self.log.read_stream(task_stream(TASK)))


@pytest.fixture
def bench(context: ToolContext) -> Bench:
    return Bench(context)


def probe(body: Callable[[ToolContext, str], Any], **changed: Any) -> Tool:
    async def run(context: ToolContext, *, text: str = "") -> ToolResult:
        """Do what the test says, and answer."""
        found = body(context, text)
        return await found if asyncio.iscoroutine(found) else found

    return tool(run, tool_id="test.probe", name="probe", **changed)


def types(recorded: tuple[EventBody, ...]) -> list[str]:
    return [body.type.removeprefix("tool.call.") for body in recorded]


async def test_a_call_is_requested_decided_and_started_before_it_runs_and_completed_after(bench: Bench) -> None:
    seen_while_running: list[str] = []

    async def body(context: ToolContext, text: str) -> ToolResult:
        seen_while_running.extend(types(await bench.recorded()))
        bench.clock.advance(0.25)
        return ToolResult(ok=True, data={"said": text}, summary="1 word")

    def answer(context: ToolContext, text: str) -> Any:
        return body(context, text)

    requested, decided, started, completed = await bench.call(probe(answer), arguments='{"text": "hi"}')

    assert seen_while_running == ["requested", "decided", "started"]
    assert isinstance(requested, ToolCallRequested)
    assert (requested.use_id, requested.tool_id, requested.name) == ("call_1", "test.probe", "probe")
    assert (requested.args, requested.round, requested.index) == ({"text": "hi"}, 2, 1)
    assert requested.version == probe(answer).meta.version
    assert isinstance(decided, ToolCallDecided)
    assert (decided.decision, decided.rule) == ("ALLOW", "default.read_only")
    assert started == ToolCallStarted(call_id=requested.call_id)
    assert completed == ToolCallCompleted(
        call_id=requested.call_id, ok=True, data={"said": "hi"}, summary="1 word", duration_ms=250.0
    )
    assert decided.call_id == requested.call_id
    assert requested.call_id != "call_1", "the model's ids are unique in one answer only"


async def test_a_tool_whose_call_is_denied_never_runs_and_the_model_reads_the_reason(bench: Bench) -> None:
    ran: list[str] = []

    def body(context: ToolContext, text: str) -> ToolResult:
        ran.append(text)
        return ToolResult(ok=True)

    bench.rulings = FixedRulings((rule("deny", {"tools": ["test.probe"]}, "no-probes", "Probes are dangerous."),))
    requested, decided, failed = await bench.call(probe(body))

    assert ran == []
    assert isinstance(requested, ToolCallRequested)
    assert isinstance(decided, ToolCallDecided)
    assert (decided.decision, decided.rule, decided.reason) == ("DENY", "no-probes", "Probes are dangerous.")
    assert decided.place == "/rules.jsonc, line 1"
    assert isinstance(failed, ToolCallFailed)
    assert failed.code == "policy.denied"
    assert failed.message == "Not allowed: probes are dangerous. Rule no-probes in /rules.jsonc, line 1."


async def test_what_would_have_to_be_asked_for_is_not_done_where_nobody_is(bench: Bench) -> None:
    ran: list[str] = []

    def body(context: ToolContext, text: str) -> ToolResult:
        ran.append(text)
        return ToolResult(ok=True)

    bench.context = msgspec.structs.replace(bench.context, caller=Caller(attended=False))
    _, decided, failed = await bench.call(probe(body, side_effect=SideEffect.IRREVERSIBLE))

    assert ran == []
    assert isinstance(decided, ToolCallDecided)
    assert (decided.decision, decided.rule) == ("ASK", "floor.irreversible")
    assert isinstance(failed, ToolCallFailed)
    assert (failed.code, failed.message) == ("policy.unattended", "Not done: nobody was there to ask (probe).")


async def test_a_rule_sees_the_arguments_that_the_tool_will_get(bench: Bench) -> None:
    bench.rulings = FixedRulings((rule("deny", {"paths": ["data/**"]}),))
    reading = FunctionTool(
        read_data,
        ToolMeta(
            tool_id="test.read",
            name="read",
            side_effect=SideEffect.NONE,
            risk_level=RiskLevel.LOW,
            timeout_s=1,
            idempotency=Idempotency.SUPPORTED,
            targets=(Target("path", TargetKind.PATH),),
        ),
    )

    _, decided, *_ = await bench.call(reading, name="read")

    assert isinstance(decided, ToolCallDecided)
    assert decided.decision == "DENY", "the default of an argument counts as well as what was said"


async def read_data(context: ToolContext, *, path: str = "data/all.csv") -> ToolResult:
    """Read what is there."""
    return ToolResult(ok=True)


async def test_an_unknown_tool_is_answered_with_those_that_there_are(bench: Bench) -> None:
    requested, failed = await bench.call(probe(lambda *_: None), name="format_disk" + "k" * 100, arguments='{"a":1}')

    assert isinstance(requested, ToolCallRequested)
    assert (requested.tool_id, requested.args, len(requested.name)) == ("", {}, 64)
    assert isinstance(failed, ToolCallFailed)
    assert failed.code == "tool.unknown"
    assert failed.message.endswith("there are: probe.")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ('{"text": 1}', "tool.arguments"),
        ('{"colour": "red"}', "tool.arguments"),
        ("[]", "tool.arguments"),
        ("no json", "tool.arguments"),
        ('{"text": "a", "text": "b"}', "tool.arguments"),
        ("[" * 100_000, "tool.arguments"),
        ('{"text": NaN}', "tool.arguments"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_before_anything_is_decided(
    bench: Bench, arguments: str, code: str
) -> None:
    ran: list[str] = []

    requested, failed = await bench.call(probe(lambda _, text: ran.append(text)), arguments=arguments)

    assert ran == []
    assert isinstance(requested, ToolCallRequested)
    assert isinstance(failed, ToolCallFailed)
    assert (failed.code, failed.call_id) == (code, requested.call_id)


@pytest.mark.parametrize(("arguments", "text"), [("", ""), ("{}", ""), ('{"text":"\\ud800"}', "\ufffd")])
async def test_what_can_be_meant_is_taken(bench: Bench, arguments: str, text: str) -> None:
    recorded = await bench.call(probe(lambda _, given: ToolResult(ok=True, data=given)), arguments=arguments)

    assert isinstance(recorded[-1], ToolCallCompleted)
    assert recorded[-1].data == text


async def test_a_tool_that_takes_too_long_is_ended_and_that_is_recorded(bench: Bench) -> None:
    ended = asyncio.Event()

    async def body() -> ToolResult:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ToolResult(ok=True)

    recorded = await bench.call(probe(lambda *_: body(), timeout_s=0.01))

    assert ended.is_set()
    assert types(recorded) == ["requested", "decided", "started", "failed"]
    assert isinstance(recorded[-1], ToolCallFailed)
    assert (recorded[-1].code, recorded[-1].message) == ("tool.timed_out", "probe did not finish within 0.01 s.")


async def test_a_tool_that_breaks_does_not_break_the_turn_and_tells_no_insides(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def body(context: ToolContext, text: str) -> ToolResult:
        raise ZeroDivisionError("inside")

    recorded = await bench.call(probe(body))

    assert types(recorded) == ["requested", "decided", "started", "failed"]
    assert isinstance(recorded[-1], ToolCallFailed)
    assert (recorded[-1].code, recorded[-1].message) == ("tool.broken", "probe broke; the log has the details.")
    assert "ZeroDivisionError" in caplog.text


async def test_a_tool_that_says_why_it_can_not_is_quoted(bench: Bench) -> None:
    def body(context: ToolContext, text: str) -> ToolResult:
        raise ToolFailed("There is no such city.")

    recorded = await bench.call(probe(body))

    assert isinstance(recorded[-1], ToolCallFailed)
    assert (recorded[-1].code, recorded[-1].message) == ("tool.failed", "There is no such city.")


async def test_a_result_that_is_an_error_keeps_its_words(bench: Bench) -> None:
    error = ToolError(code="city.unknown", message="There is no such city.")

    recorded = await bench.call(probe(lambda *_: ToolResult(ok=False, error=error, summary="not found")))

    assert isinstance(recorded[-1], ToolCallCompleted)
    assert (recorded[-1].ok, recorded[-1].summary) == (False, "not found")
    assert recorded[-1].data == {"code": "city.unknown", "message": "There is no such city."}


@pytest.mark.parametrize("data", [float("nan"), {1: object()}, "\ud800", json.loads("[" * 99 + "]" * 99)])
async def test_a_result_that_is_no_json_is_a_failure_of_the_tool(bench: Bench, data: Any) -> None:
    recorded = await bench.call(probe(lambda *_: ToolResult(ok=True, data=data)))

    assert types(recorded) == ["requested", "decided", "started", "failed"]


async def test_a_large_result_becomes_an_artifact_and_its_beginning_and_end_go_into_the_log(bench: Bench) -> None:
    recorded = await bench.call(probe(lambda *_: ToolResult(ok=True, data="x" * 5000), max_inline_chars=100))

    assert [body.type for body in recorded[-2:]] == ["artifact.created", "tool.call.completed"]
    created, completed = recorded[-2:]
    assert isinstance(created, ArtifactCreated)
    assert isinstance(completed, ToolCallCompleted)
    assert (created.kind, created.mime, created.size, created.version) == ("log", "text/plain", 5000, 1)
    assert created.call_id == completed.call_id
    assert created.meta == {"tool_id": "test.probe"}
    assert completed.artifacts == (created.artifact_id,)
    assert completed.summary == "5.0 kB"
    assert isinstance(completed.data, dict)
    assert completed.data["artifact"] == created.artifact_id
    artifact = await bench.artifacts.get(created.artifact_id)
    assert await bench.artifacts.content(artifact) == b"x" * 5000


async def test_the_words_of_a_tool_for_its_result_stay_beside_the_artifact(bench: Bench) -> None:
    result = ToolResult(ok=True, data="x" * 5000, summary="64 lines")

    recorded = await bench.call(probe(lambda *_: result, max_inline_chars=100))

    assert isinstance(recorded[-1], ToolCallCompleted)
    assert recorded[-1].summary == "64 lines"


async def test_the_same_call_made_again_is_the_next_version_and_another_call_is_not(bench: Bench) -> None:
    tool = probe(lambda _, text: ToolResult(ok=True, data=text * 5000), max_inline_chars=100)

    await bench.call(tool, arguments='{"text": "a"}')
    await bench.call(tool, arguments='{"text": "a"}')
    recorded = await bench.call(tool, arguments='{"text": "b"}')

    created = [body for body in recorded if isinstance(body, ArtifactCreated)]
    assert [body.version for body in created] == [1, 2, 1]
    assert created[0].name == created[1].name != created[2].name
    (superseded,) = (body for body in recorded if isinstance(body, ArtifactSuperseded))
    assert (superseded.artifact_id, superseded.by) == (created[0].artifact_id, created[1].artifact_id)


async def test_artifacts_that_a_tool_made_itself_are_told_with_its_result(bench: Bench) -> None:
    recorded = await bench.call(probe(lambda *_: ToolResult(ok=True, artifact_refs=("01A",))))

    assert isinstance(recorded[-1], ToolCallCompleted)
    assert recorded[-1].artifacts == ("01A",)


KEY = "ghp_" + "aB3dE6gH9" * 4
KNOWN = "correct horse battery staple"


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(ok=True, data={"line": f"key: {KEY}, and {KNOWN}"}),
        ToolResult(ok=True, data=f"{KEY} {KNOWN}", summary=f"found {KEY} {KNOWN}"),
        ToolResult(ok=True, data=[KEY, KNOWN, "x" * 40_000]),
        ToolResult(ok=True, data=cast("Any", ({1: KEY}, (KNOWN, KEY)))),
        ToolResult(ok=False, error=ToolError(code="refused", message=f"{KEY} {KNOWN} is no good")),
    ],
)
async def test_no_secret_of_a_result_gets_anywhere(bench: Bench, result: ToolResult) -> None:
    recorded = await bench.call(probe(lambda *_: result))

    assert "[redacted: GitHub token]" in str(recorded)
    artifacts = [await bench.artifacts.content(artifact) for artifact in await bench.artifacts.list()]
    for secret in (KEY, KNOWN):
        assert secret not in str(recorded)
        assert secret.encode() not in b"".join(artifacts)


async def test_no_secret_of_a_failure_gets_anywhere(bench: Bench) -> None:
    def body(context: ToolContext, text: str) -> ToolResult:
        raise ToolFailed(f"The server refused {KEY} and {KNOWN}.")

    recorded = await bench.call(probe(body))

    assert isinstance(recorded[-1], ToolCallFailed)
    assert recorded[-1].message == "The server refused [redacted: GitHub token] and [redacted: known secret]."


@pytest.mark.parametrize(
    ("side_effect", "kind", "end"),
    [
        (SideEffect.NONE, ToolCallCancelled, "cancelled"),
        # Nobody knows how far it came, so it must not look as if it could be called again.
        (SideEffect.REVERSIBLE, ToolCallUncertain, "uncertain"),
        (SideEffect.IRREVERSIBLE, ToolCallUncertain, "uncertain"),
    ],
)
async def test_stopping_the_turn_stops_the_tool_and_is_recorded(
    bench: Bench, side_effect: SideEffect, kind: type[EventBody], end: str
) -> None:
    bench.rulings = FixedRulings((rule("allow", {"tools": ["test.probe"]}),))
    running = asyncio.Event()

    async def body() -> ToolResult:
        running.set()
        await asyncio.Event().wait()
        return ToolResult(ok=True)

    calling = asyncio.ensure_future(bench.call(probe(lambda *_: body(), side_effect=side_effect)))
    await asyncio.wait_for(running.wait(), 10)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    recorded = await bench.recorded()
    assert types(recorded) == ["requested", "decided", "started", end]
    assert isinstance(recorded[-1], ToolCallCancelled | ToolCallUncertain)
    assert (type(recorded[-1]), recorded[-1].reason) == (kind, "The turn was stopped.")


ALLOWED = FixedRulings((rule("allow", {"tools": ["test.probe"]}),))


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (TimeoutError, "probe did not finish within 0.01 s."),
        (ZeroDivisionError("inside"), "probe broke; the log has the details."),
        (Unsettled("Somebody was quicker.", hint="Look at it."), "Somebody was quicker. Look at it."),
    ],
)
async def test_an_effect_of_which_nobody_knows_ends_the_turn_and_is_not_told_as_a_failure(
    bench: Bench, fails: Any, said: str
) -> None:
    """A model that reads of a failure tries again."""

    async def body() -> ToolResult:
        if fails is TimeoutError:
            await asyncio.Event().wait()
        raise fails

    bench.rulings = ALLOWED
    changing = probe(lambda *_: body(), side_effect=SideEffect.REVERSIBLE, timeout_s=0.01)

    with pytest.raises(ToolUncertain) as ended:
        await bench.call(changing)

    assert str(ended.value).startswith('probe ({"text": ""}) may or may not have happened.')
    assert str(ended.value).endswith("Ozzie will not try again by itself.")
    recorded = await bench.recorded()
    assert types(recorded) == ["requested", "decided", "started", "uncertain"]
    assert isinstance(recorded[-1], ToolCallUncertain)
    assert recorded[-1].reason == said


async def test_an_effect_that_was_not_had_is_a_failure_and_the_turn_goes_on(bench: Bench) -> None:
    def body(context: ToolContext, text: str) -> ToolResult:
        raise ToolFailed("The file has changed.")

    bench.rulings = ALLOWED
    recorded = await bench.call(probe(body, side_effect=SideEffect.REVERSIBLE))

    assert isinstance(recorded[-1], ToolCallFailed)
    assert recorded[-1].message == "The file has changed."


# --- a tool that says what it will do ------------------------------------------------------------------------


BEFORE = Before(name="a.txt (replaced)", mime="text/plain", content=b"old")


class Planner:
    """Makes a tool that writes down what it is asked to do; each step may be made to fail."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.plans = 0
        self.fails: Exception | None = None
        self.nothing: ToolResult | None = None
        self.keys: list[str] = []
        self.knows = True
        self.idempotency = Idempotency.SUPPORTED

    async def plan(self, context: ToolContext, *, text: str = "") -> Plan:
        """Write something down."""
        self.plans += 1
        if self.fails:
            raise self.fails
        self.keys.append(context.key)
        work = f"planned {text}"
        return Plan(args={"text": text}, effect={"of": text}, before=BEFORE, work=work, nothing=self.nothing)

    async def run(self, context: ToolContext, plan: Plan) -> ToolResult:
        self.done.append(plan.work)
        return ToolResult(ok=True, summary="done")

    async def happened(self, context: ToolContext, effect: JsonObject) -> bool | None:
        if self.fails:
            raise self.fails
        if not self.knows:
            return None
        return effect["of"] in [str(each).removeprefix("planned ") for each in self.done]

    @property
    def tool(self) -> EffectTool:
        meta = ToolMeta(
            tool_id="test.probe",
            name="probe",
            side_effect=SideEffect.REVERSIBLE,
            risk_level=RiskLevel.MEDIUM,
            timeout_s=1,
            idempotency=self.idempotency,
        )
        return EffectTool(self.plan, self.run, meta, happened=self.happened)


async def test_what_will_be_done_is_recorded_before_it_is_and_exactly_that_is_done(bench: Bench) -> None:
    planner = Planner()
    bench.rulings = ALLOWED

    recorded = await bench.call(planner.tool, arguments='{"text": "a"}')

    created, *_, started, completed = recorded
    assert created.type == "artifact.created"
    assert completed.type == "tool.call.completed"
    assert isinstance(started, ToolCallStarted)
    assert started.effect == {"of": "a"}
    assert started.before is not None
    kept, content = await bench.artifacts.of(SessionId("s")).open(started.before)
    assert (kept.name, content) == ("a.txt (replaced)", b"old"), "what is replaced is kept before it is gone"
    assert planner.done == ["planned a"]
    assert planner.keys == ["t-2-1"], "of the same task, round and index it is the same"


IN_DOUBT = Begun(effect={"of": "a"}, in_doubt=True)


async def test_a_call_in_doubt_is_made_again_with_its_key(bench: Bench) -> None:
    planner = Planner()
    planner.knows = False
    bench.rulings = ALLOWED

    recorded = await bench.call(planner.tool, arguments='{"text": "a"}', begun=IN_DOUBT)

    assert recorded[-1].type == "tool.call.completed"
    assert planner.keys == ["t-2-1"]


@pytest.mark.parametrize("is_there", [True, False], ids=["takes no key now", "is gone"])
async def test_a_call_in_doubt_whose_tool_takes_no_key_any_more_is_not_made_again(bench: Bench, is_there: bool) -> None:
    """It may have been changed or removed between two starts of the gateway."""
    planner = Planner()
    planner.knows = False
    planner.idempotency = Idempotency.NOT_SUPPORTED
    bench.rulings = ALLOWED

    with pytest.raises(ToolUncertain, match=r"probe \(a\) may or may not have happened"):
        await bench.call(*([planner.tool] if is_there else []), arguments='{"text": "a"}', begun=IN_DOUBT)

    assert planner.done == []
    last = (await bench.recorded())[-1]
    assert isinstance(last, ToolCallUncertain)
    assert not last.again


async def test_a_call_that_was_in_doubt_and_is_known_not_to_be_done_is_made_without_a_key_too(bench: Bench) -> None:
    planner = Planner()
    planner.idempotency = Idempotency.NOT_SUPPORTED
    bench.rulings = ALLOWED

    recorded = await bench.call(planner.tool, arguments='{"text": "a"}', begun=IN_DOUBT)

    assert recorded[-1].type == "tool.call.completed"
    assert planner.done == ["planned a"]


async def test_what_is_denied_is_not_even_planned(bench: Bench) -> None:
    planner = Planner()
    bench.rulings = FixedRulings((rule("deny", {"tools": ["*"]}),))

    recorded = await bench.call(planner.tool)

    assert (planner.plans, planner.done) == (0, [])
    assert types(recorded) == ["requested", "decided", "failed"]


@pytest.mark.parametrize(
    ("fails", "code"), [(ToolFailed("No such file."), "tool.failed"), (ValueError("inside"), "tool.broken")]
)
async def test_a_plan_that_can_not_be_made_is_a_failure_and_nothing_was_begun(
    bench: Bench, fails: Exception, code: str
) -> None:
    planner = Planner()
    planner.fails = fails
    bench.rulings = ALLOWED

    recorded = await bench.call(planner.tool)

    assert types(recorded) == ["requested", "decided", "failed"]
    assert isinstance(recorded[-1], ToolCallFailed)
    assert recorded[-1].code == code
    assert planner.done == []


async def test_where_there_is_nothing_to_do_nothing_is_done(bench: Bench) -> None:
    planner = Planner()
    planner.nothing = ToolResult(ok=True, summary="nothing to change")
    bench.rulings = ALLOWED

    recorded = await bench.call(planner.tool)

    assert isinstance(recorded[-1], ToolCallCompleted)
    assert recorded[-1].summary == "nothing to change"
    assert planner.done == []


async def test_a_stop_that_a_tool_keeps_off_until_it_is_done_is_recorded_as_done_and_still_stops(bench: Bench) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def body() -> ToolResult:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await may_end.wait()
        return ToolResult(ok=True, summary="written")

    bench.rulings = ALLOWED
    calling = asyncio.ensure_future(bench.call(probe(lambda *_: body(), side_effect=SideEffect.REVERSIBLE)))
    await asyncio.wait_for(begun.wait(), 10)
    calling.cancel()
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await calling

    recorded = await bench.recorded()
    assert types(recorded) == ["requested", "decided", "started", "completed"]


class HeldLog(InMemoryEventLog):
    """Lets an append wait."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock, CountingIds())
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def append(self, *given: Any, **named: Any) -> Any:
        self.reached.set()
        await self.go_on.wait()
        return await super().append(*given, **named)


async def test_a_stop_while_the_intent_is_recorded_leaves_a_call_that_was_not_begun(bench: Bench) -> None:
    held = HeldLog(bench.clock)
    bench.log = held
    bench.recorder = msgspec.structs.replace(bench.recorder, log=held)
    bench.artifacts = ArtifactStore(held, bench.blobs, CountingIds())
    bench.rulings = ALLOWED
    planner = Planner()
    calling = asyncio.ensure_future(bench.call(planner.tool))
    await asyncio.wait_for(held.reached.wait(), 10)
    calling.cancel()
    held.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await calling

    recorded = await bench.recorded()
    assert [body.type for body in recorded if isinstance(body, ToolCallStarted | ToolCallCancelled)] == [
        "tool.call.started",
        "tool.call.cancelled",
    ]
    assert planner.done == [], "what is said not to have begun has not"


async def test_after_a_crash_the_tool_is_asked_and_whatever_is_wrong_with_it_is_no_answer(bench: Bench) -> None:
    planner = Planner()
    broker = broker_of(ToolRegistry([planner.tool]), ALLOWED, bench.artifacts, bench.clock, CountingIds())
    planner.done.append("planned a")

    assert await broker.happened("test.probe", {"of": "a"}, bench.context) is True
    assert await broker.happened("test.probe", {"of": "b"}, bench.context) is False
    assert await broker.happened("test.gone", {"of": "a"}, bench.context) is None
    planner.fails = RuntimeError("inside")
    assert await broker.happened("test.probe", {"of": "a"}, bench.context) is None
    planner.fails = ToolFailed("The disk is gone.")
    assert await broker.happened("test.probe", {"of": "a"}, bench.context) is None


async def test_a_call_by_a_further_name_is_recorded_under_the_tools_own(bench: Bench) -> None:
    answering = probe(lambda *_: ToolResult(ok=True), further_names=("probe_it",))

    recorded = await bench.call(answering, name="probe_it")

    assert isinstance(recorded[0], ToolCallRequested)
    assert (recorded[0].name, recorded[0].tool_id) == ("probe", "test.probe")
