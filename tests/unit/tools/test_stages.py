"""The stages of a call, each by itself. How they follow each other: `test_broker.py`."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import ToolCallCompleted, ToolCallFailed, ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.policy.decision import UNREAD, Caller, Decision, Reading, Verdict
from ozzie_server_ext.policy.engine import Ruling, Rulings
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tools.base import InvalidArguments, Plan, Tool, ToolContext, ToolFailed, Unsettled
from ozzie_server_ext.tools.broker import NoResult, ruling_on, run_tool, validate
from ozzie_server_ext.tools.outcome import OutcomeWriter
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.unit.tools.test_base import tool

CALL = CallId("c")
FROM_WEB = Content.of(Label.WEB, ["example.org"])


def probe(body: Callable[[], Any] = lambda: ToolResult(ok=True, data={}, summary=""), **changed: Any) -> Tool:
    async def run(context: ToolContext, *, text: str = "") -> ToolResult:
        """Do what the test says."""
        return body()

    return tool(run, tool_id="test.probe", name="probe", **changed)


def use(arguments: str = "{}", name: str = "probe") -> ToolUse:
    return ToolUse(call_id=CALL, name=name, arguments=arguments)


# --- validate ---------------------------------------------------------------------------------------------------------


def test_a_valid_call_is_its_tool_and_its_arguments() -> None:
    known = probe()

    assert validate(use('{"text": "hi"}'), ToolRegistry([known]), lambda meta: True) == (known, {"text": "hi"})


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (use(name="prob"), "tool.unknown"),
        (use("[1]"), InvalidArguments.code),
        (use("{"), InvalidArguments.code),
    ],
)
def test_a_call_of_nothing_or_with_anything_but_an_object_is_not_valid(call: ToolUse, code: str) -> None:
    with pytest.raises(OzzieError) as refused:
        validate(call, ToolRegistry([probe()]), lambda meta: True)
    assert refused.value.code == code


def test_a_tool_that_the_skill_does_not_have_is_refused_before_its_arguments_are_read() -> None:
    with pytest.raises(OzzieError) as refused:
        validate(use("{"), ToolRegistry([probe()]), lambda meta: False)
    assert refused.value.code == "policy.skill"


# --- decide -----------------------------------------------------------------------------------------------------------


class Says(Rulings):
    """Rules that say one thing."""

    def __init__(self, decision: Decision) -> None:
        self.ruling = Ruling(verdict=Verdict(decision=decision, rule="mine", reason="so"), version="1")

    async def of(self, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        return self.ruling


@pytest.mark.parametrize(
    ("says", "content", "asks_first", "decision"),
    [
        (Decision.ALLOW, False, False, Decision.ALLOW),
        (Decision.ALLOW, True, False, Decision.ALLOW),
        (Decision.CHECK, False, False, Decision.CHECK),
        (Decision.CHECK, True, False, Decision.ASK),
        (Decision.ALLOW, False, True, Decision.ASK),
        (Decision.CHECK, False, True, Decision.ASK),
        (Decision.ASK, True, True, Decision.ASK),
        (Decision.DENY, True, True, Decision.DENY),
    ],
)
async def test_outside_content_and_skills_only_make_a_decision_stricter(
    context: ToolContext, says: Decision, content: bool, asks_first: bool, decision: Decision
) -> None:
    reading = replace(context.reading, content=FROM_WEB) if content else context.reading
    context = msgspec.structs.replace(context, reading=reading, asks_first=lambda meta: asks_first)

    ruling = await ruling_on(Says(says), probe().meta, {}, context)

    assert ruling.verdict.decision is decision


# --- run --------------------------------------------------------------------------------------------------------------

CHANGES = {"side_effect": SideEffect.IRREVERSIBLE, "risk_level": RiskLevel.MEDIUM}


@pytest.mark.parametrize(
    ("error", "changes", "is_known"),
    [
        (ToolFailed("no such file"), CHANGES, True),
        (Unsettled("the line broke"), CHANGES, False),
        (ValueError("its own mistake"), CHANGES, False),
        (ValueError("its own mistake"), {}, True),
        (TimeoutError(), CHANGES, False),
    ],
)
async def test_a_run_without_a_result_says_whether_it_is_certain_that_nothing_was_done(
    context: ToolContext, error: Exception, changes: dict[str, Any], is_known: bool
) -> None:
    def body() -> ToolResult:
        raise error

    ended = await run_tool(probe(body, **changes), Plan(args={}), context)

    assert isinstance(ended, NoResult)
    assert ended.is_known is is_known
    assert isinstance(ended.error, OzzieError)
    assert "its own mistake" not in str(ended.error)


async def test_a_run_gives_the_result_of_the_tool(context: ToolContext) -> None:
    result = ToolResult(ok=True, data={"said": "hi"}, summary="1 word")

    assert await run_tool(probe(lambda: result), Plan(args={}), context) == result


# --- shorten ----------------------------------------------------------------------------------------------------------


def outcome_writer() -> OutcomeWriter:
    clock = FakeClock()
    log = InMemoryEventLog(clock, CountingIds())
    return OutcomeWriter(ArtifactStore(log, InMemoryBlobs(), CountingIds()), lambda: ["sesame-of-forty"])


async def test_a_short_result_stays_as_it_is_but_for_secrets() -> None:
    result = ToolResult(ok=True, data={"said": "open sesame-of-forty"}, summary="1 word")

    outcome, kept = await outcome_writer().outcome_of(CALL, probe().meta, {}, result, lambda: 2.5)

    assert isinstance(outcome, ToolCallCompleted)
    assert outcome.duration_ms == 2.5
    assert "sesame" not in str(outcome.data)
    assert kept == []


async def test_a_long_result_is_kept_whole_and_told_in_part() -> None:
    result = ToolResult(ok=True, data={"said": "word " * 20_000}, summary="")

    outcome, kept = await outcome_writer().outcome_of(CALL, probe().meta, {}, result, lambda: 0.0)

    assert isinstance(outcome, ToolCallCompleted)
    assert len(str(outcome.data)) < 20_000
    assert outcome.artifacts == tuple(each.artifact_id for each in kept)
    assert len(kept) == 1


async def test_a_result_that_can_not_be_told_is_a_failure_with_nothing_to_keep() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless

    outcome, kept = await outcome_writer().outcome_of(
        CALL, probe().meta, {}, ToolResult(ok=True, data=endless, summary=""), lambda: 0.0
    )

    assert isinstance(outcome, ToolCallFailed)
    assert kept == []
