"""Answers to what a task asks: the first that may come from there counts, and every other is recorded."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import REQUEST_EXPIRES_S, SESSION_YES_EXPIRES_S, AuthStrength
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound, OzzieError, PolicyError
from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRefused,
    ApprovalRejected,
    ApprovalRequested,
    TaskCancelled,
    TaskResumed,
    TaskStarted,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolCallFailed,
    ToolsetInjected,
)
from ozzie_server_ext.domain.ids import ApprovalId, SessionId, ulid_text
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.tasks.approvals import MAX_COMMENT, Answerer, Approvals
from tests.unit.tasks.asked import ANA, BEN, NOTES, S1, S2, Waiting, kernel_of

LATE = r"Already answered: Ana approved it at \d\d:\d\d\. Your answer did nothing\."
"""The text for a place where nobody clicks."""


@pytest.fixture
def rig() -> Waiting:
    return Waiting()


async def refusal(answer: Awaitable[None]) -> OzzieError:
    with pytest.raises(OzzieError) as refused:
        await answer
    return refused.value


# --- yes and no ----------------------------------------------------------------------------------------------


async def test_a_yes_is_recorded_with_who_gave_it_and_how_and_sets_the_task_going(rig: Waiting) -> None:
    task_id, approval_id = await rig.one()
    before = len(await rig.bodies(task_id))
    rig.clock.advance(5)

    await rig.approvals.approve(approval_id, ANA)

    assert await rig.bodies(task_id, before) == [
        ApprovalGranted(approval_id=approval_id, extent="once", by="Ana", way=AuthStrength.BROWSER),
        TaskResumed(by="Ana"),
    ]
    found = await rig.approvals.get(approval_id)
    assert (found.status, found.by, found.way, found.extent) == ("granted", "Ana", "browser", "once")
    assert found.answered_at is not None
    assert (found.answered_at - found.requested_at).total_seconds() == 5
    assert await rig.status(task_id) == "RUNNING"


async def test_a_no_gives_the_call_its_outcome_which_the_model_reads(rig: Waiting) -> None:
    task_id, approval_id = await rig.one()
    before = len(await rig.bodies(task_id))

    await rig.approvals.reject(approval_id, BEN, comment="  Not in this folder.\n")

    rejected, failed, *on = await rig.bodies(task_id, before)
    assert rejected == ApprovalRejected(
        approval_id=approval_id, comment="Not in this folder.", by="Ben", way=AuthStrength.CLI
    )
    assert isinstance(failed, ToolCallFailed)
    assert (failed.code, failed.message) == ("approval.rejected", 'Rejected by Ben: "Not in this folder."')
    assert failed.call_id == (await rig.approvals.get(approval_id)).asked.call_id
    assert [fact.type for fact in on] == ["task.resumed"]


async def test_a_no_needs_no_comment_and_takes_no_endless_one(rig: Waiting) -> None:
    task_id, approval_id = await rig.one()

    with pytest.raises(InputError):
        await rig.approvals.reject(approval_id, ANA, comment="x" * (MAX_COMMENT + 1))
    await rig.approvals.reject(approval_id, ANA)

    (failed,) = (body for body in await rig.bodies(task_id) if isinstance(body, ToolCallFailed))
    assert failed.message == "Rejected by Ana."


async def test_a_no_may_come_from_where_a_yes_may_not(rig: Waiting) -> None:
    _, approval_id = await rig.one(needs=AuthStrength.BROWSER)

    await rig.approvals.reject(approval_id, kernel_of(S1))

    assert (await rig.approvals.get(approval_id)).status == "rejected"


async def test_a_task_that_asks_for_several_calls_goes_on_with_the_last_answer(rig: Waiting) -> None:
    task_id, (first, second, third) = await rig.wait("a", "b", "c")

    await rig.approvals.reject(second, ANA)
    await rig.approvals.approve(third, ANA)
    assert await rig.status(task_id) == "WAITING_APPROVAL"

    await rig.approvals.approve(first, ANA)
    assert await rig.status(task_id) == "RUNNING"
    assert len([body for body in await rig.bodies(task_id) if isinstance(body, TaskResumed)]) == 1


async def test_an_answer_does_not_set_a_task_going_that_waits_for_something_else(rig: Waiting) -> None:
    task_id, first = await rig.one()
    await rig.approvals.approve(first, ANA)
    asked = rig.requested("b", expires_s=REQUEST_EXPIRES_S)
    await rig.record(task_id, [TaskStarted(attempt=1, epoch="f"), asked, TaskWaitingInput(question="More?")])

    await rig.approvals.approve(asked.approval_id, ANA)

    assert (await rig.approvals.get(asked.approval_id)).status == "granted"
    assert await rig.status(task_id) == "WAITING_INPUT"


# --- the first answer wins -----------------------------------------------------------------------------------


async def test_whoever_is_late_is_told_by_whom_and_when_it_was_answered(rig: Waiting) -> None:
    task_id, approval_id = await rig.one()
    await rig.approvals.approve(approval_id, ANA)
    before = await rig.bodies(task_id)

    for answer in (rig.approvals.approve, rig.approvals.reject):
        late = await refusal(answer(approval_id, BEN))
        assert isinstance(late, Conflict)
        assert late.code == "approval.late"
        assert re.fullmatch(LATE, str(late))

    assert await rig.bodies(task_id) == before, "a click that did nothing does nothing"
    assert [(fact.answer, fact.by, fact.way, fact.why) for fact in await rig.refused()] == [
        ("approve", "Ben", AuthStrength.CLI, "answered"),
        ("reject", "Ben", AuthStrength.CLI, "answered"),
    ]


@pytest.mark.parametrize(
    ("way", "nothing"),
    [
        (AuthStrength.BROWSER, "Your click did nothing."),
        (AuthStrength.CLI, "Your answer did nothing."),
        (AuthStrength.RELAY, "Your answer did nothing."),
    ],
)
async def test_only_who_answers_in_a_page_is_told_of_a_click(rig: Waiting, way: AuthStrength, nothing: str) -> None:
    _, approval_id = await rig.one()
    await rig.approvals.approve(approval_id, ANA)

    for answer in (rig.approvals.reject, rig.approvals.renew):
        late = await refusal(answer(approval_id, Answerer(name="Eve", way=way)))
        assert str(late).endswith(nothing)


class MovingLog(InMemoryEventLog):
    """`meanwhile` happens once, between what an answer read and what it records; `before_version` once, between what it
    read first and the version for which it reads again."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock, CountingIds())
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None
        self.before_version: Callable[[], Awaitable[Any]] | None = None

    async def version(self, stream: str) -> int:
        if (happens := self.before_version) is not None:
            self.before_version = None
            await happens()
        return await super().version(stream)

    async def append(self, *given: Any, **named: Any) -> Any:
        if named.get("expected_version") is not None and (happens := self.meanwhile) is not None:
            self.meanwhile = None
            await happens()
        return await super().append(*given, **named)


def moving() -> tuple[Waiting, MovingLog]:
    clock = FakeClock()
    log = MovingLog(clock)
    return Waiting(log, clock), log


async def test_of_two_answers_in_the_same_moment_one_counts_and_the_other_did_nothing() -> None:
    rig, log = moving()
    task_id, approval_id = await rig.one()
    log.meanwhile = lambda: rig.approvals.approve(approval_id, ANA)

    late = await refusal(rig.approvals.reject(approval_id, BEN))

    assert re.fullmatch(LATE, str(late))
    kinds = [body.type for body in await rig.bodies(task_id)]
    assert (kinds.count("approval.granted"), kinds.count("approval.rejected")) == (1, 0)
    assert kinds.count("task.resumed") == 1


async def test_of_two_last_answers_in_the_same_moment_one_sets_the_task_going() -> None:
    rig, log = moving()
    task_id, (first, second) = await rig.wait("a", "b")
    log.meanwhile = lambda: rig.approvals.approve(first, ANA)

    await rig.approvals.approve(second, BEN)

    kinds = [body.type for body in await rig.bodies(task_id)]
    assert (kinds.count("approval.granted"), kinds.count("task.resumed")) == (2, 1)
    assert await rig.status(task_id) == "RUNNING"


async def test_whatever_else_is_recorded_of_the_task_meanwhile_an_answer_gets_through() -> None:
    rig, log = moving()
    task_id, approval_id = await rig.one()
    log.meanwhile = lambda: rig.record(task_id, [ToolsetInjected(tools=())])

    await rig.approvals.approve(approval_id, ANA)

    assert (await rig.approvals.get(approval_id)).status == "granted"


async def test_where_something_is_recorded_all_the_time_nobody_tries_for_ever() -> None:
    rig, log = moving()
    task_id, approval_id = await rig.one(cover=NOTES)

    async def again() -> None:
        await rig.record(task_id, [ToolsetInjected(tools=())])
        log.meanwhile = again

    log.meanwhile = again
    busy = await refusal(rig.approvals.approve(approval_id, ANA))

    assert (busy.code, (await rig.approvals.get(approval_id)).status) == ("conflict", "pending")
    assert "Your answer did nothing; give it again." in str(busy)


async def test_a_task_that_is_stopped_in_the_moment_of_a_yes_stays_stopped() -> None:
    rig, log = moving()
    task_id, approval_id = await rig.one()
    log.meanwhile = lambda: rig.record(task_id, [TaskCancelled(by="Ben", reason="")])

    late = await refusal(rig.approvals.approve(approval_id, ANA))

    assert (late.code, str(late)) == ("approval.expired", "It is not asked any more. Nothing was done.")
    assert await rig.status(task_id) == "CANCELLED"


async def test_of_many_at_once_on_a_real_log_exactly_one_counts(tmp_path: Path) -> None:
    clock = FakeClock()
    log = await SqliteEventLog.open(tmp_path / "ozzie.db", clock=clock, ids=CountingIds())
    rig = Waiting(log, clock)
    task_id, approval_id = await rig.one()
    both = [Approvals(log, clock), Approvals(log, clock)]
    people = [Answerer(name=f"P{number}", way=AuthStrength.BROWSER) for number in range(20)]

    ended = await asyncio.gather(
        *(
            (both[number % 2].approve if number % 3 else both[number % 2].reject)(approval_id, who)
            for number, who in enumerate(people)
        ),
        return_exceptions=True,
    )

    assert [error for error in ended if error is None] == [None]
    assert {error.code for error in ended if isinstance(error, OzzieError)} == {"approval.late"}
    kinds = [body.type for body in await rig.bodies(task_id)]
    assert len([kind for kind in kinds if kind in ("approval.granted", "approval.rejected")]) == 1
    assert kinds.count("task.resumed") == 1
    assert len(await rig.refused()) == 19
    await log.close()


async def test_wrong_answers_by_one_door_fill_no_log_and_are_refused_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ozzie_server_ext.tasks.approvals.MOST_NOTED", 3)
    rig = Waiting()
    _, approval_id = await rig.one()

    codes = [(await refusal(rig.approvals.approve(approval_id, kernel_of(S2)))).code for _ in range(5)]
    other_door = await refusal(rig.approvals.approve(ApprovalId("no-such-approval"), ANA))

    assert codes == ["policy.session"] * 5
    assert isinstance(other_door, NotFound)
    assert [fact.why for fact in await rig.refused()] == ["session", "session", "session", "unknown"]
    assert (await rig.approvals.get(approval_id)).status == "pending"


# --- who may answer, and what --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "answerer", "extent", "binds", "code", "why"),
    [
        ({}, kernel_of(S2), "once", "", "policy.session", "session"),
        ({"needs": AuthStrength.CLI}, kernel_of(S1), "once", "", "policy.way", "way"),
        ({"needs": AuthStrength.BROWSER}, BEN, "once", "", "policy.way", "way"),
        ({"needs": AuthStrength.STEP_UP}, ANA, "once", "", "policy.way", "way"),
        ({"cover": None}, ANA, "session", "", "policy.extent", "extent"),
        ({}, ANA, "once", "binds b", "approval.changed", "changed"),
    ],
)
async def test_a_yes_that_may_not_come_from_there_or_is_to_something_else_counts_nothing(
    rig: Waiting, how: dict[str, Any], answerer: Answerer, extent: Any, binds: str, code: str, why: Any
) -> None:
    task_id, approval_id = await rig.one(**how)
    before = await rig.bodies(task_id)

    refused = await refusal(rig.approvals.approve(approval_id, answerer, extent=extent, binds=binds))

    assert refused.code == code
    assert isinstance(refused, PolicyError | Conflict)
    assert await rig.bodies(task_id) == before
    assert await rig.refused() == [
        ApprovalRefused(approval_id=approval_id, answer="approve", by=answerer.name, way=answerer.way, why=why)
    ]
    assert (await rig.approvals.get(approval_id)).status == "pending"


async def test_a_yes_to_what_was_seen_counts(rig: Waiting) -> None:
    _, approval_id = await rig.one()

    await rig.approvals.approve(approval_id, kernel_of(S1), binds="binds a")

    assert (await rig.approvals.get(approval_id)).way == "relay"


@pytest.mark.parametrize("act", ["approve", "reject", "renew", "revoke"])
async def test_a_kernel_can_not_touch_what_is_another_sessions(rig: Waiting, act: str) -> None:
    task_id, approval_id = await rig.one(cover=NOTES)
    if act == "revoke":
        await rig.approvals.approve(approval_id, ANA, extent="session")
    before = await rig.bodies(task_id)

    refused = await refusal(getattr(rig.approvals, act)(approval_id, kernel_of(S2)))

    assert (refused.code, await rig.bodies(task_id)) == ("policy.session", before)
    assert [(fact.answer, fact.why) for fact in await rig.refused()] == [(act, "session")]


@pytest.mark.parametrize("act", ["approve", "reject", "renew", "revoke"])
@pytest.mark.parametrize("given", ["", "x" * 10_000, "\ud800\n\u202e", ulid_text(77), "a' OR '1'='1"])
async def test_what_names_no_approval_is_told_so_and_recorded_harmlessly(rig: Waiting, given: str, act: str) -> None:
    with pytest.raises(NotFound):
        await getattr(rig.approvals, act)(given, ANA)

    (fact,) = await rig.refused()
    assert (fact.why, fact.answer) == ("unknown", act)
    assert len(fact.approval_id) <= 240
    assert fact.approval_id.isprintable()


# --- time ----------------------------------------------------------------------------------------------------


async def test_an_approval_that_is_over_by_the_clock_takes_no_answer_though_nobody_had_said_so(rig: Waiting) -> None:
    task_id, approval_id = await rig.one(expires_s=60)
    rig.clock.advance(60)

    late = await refusal(rig.approvals.approve(approval_id, ANA))

    assert late.code == "approval.expired"
    assert re.fullmatch(r"Expired at \d\d:\d\d\. Nothing was done\.", str(late))
    assert (await rig.bodies(task_id))[-1] == ApprovalExpired(approval_id=approval_id, why="time")
    assert [fact.why for fact in await rig.refused()] == ["expired"]
    assert await rig.status(task_id) == "WAITING_APPROVAL", "it stays, and can be asked anew"


async def test_in_its_last_moment_it_can_be_answered(rig: Waiting) -> None:
    _, approval_id = await rig.one(expires_s=60)
    rig.clock.advance(59.999)

    await rig.approvals.approve(approval_id, ANA)

    assert (await rig.approvals.get(approval_id)).status == "granted"


async def test_what_is_over_is_recorded_and_how_long_the_next_one_has_is_told(rig: Waiting) -> None:
    assert await rig.approvals.expire() is None
    _, first = await rig.one(expires_s=60)
    _, second = await rig.one(expires_s=90)
    assert await rig.approvals.expire() == 60

    rig.clock.advance(61)

    assert await rig.approvals.expire() == 29
    statuses = [(await rig.approvals.get(each)).status for each in (first, second)]
    assert statuses == ["expired", "pending"]


async def test_an_end_is_recorded_though_something_else_is_recorded_of_the_task_in_that_moment() -> None:
    rig, log = moving()
    task_id, approval_id = await rig.one(expires_s=60)
    rig.clock.advance(61)
    log.meanwhile = lambda: rig.record(task_id, [ToolsetInjected(tools=())])

    await rig.approvals.expire()

    assert (await rig.approvals.get(approval_id)).status == "expired"


async def test_an_answer_that_comes_in_the_moment_of_the_end_is_not_undone() -> None:
    rig, log = moving()
    task_id, approval_id = await rig.one(expires_s=60)
    rig.clock.advance(61)
    granted = ApprovalGranted(approval_id=approval_id, extent="once", by="Ana", way=AuthStrength.BROWSER)
    log.meanwhile = lambda: rig.record(task_id, [granted])

    await rig.approvals.expire()

    found = await rig.approvals.get(approval_id)
    assert (found.status, found.why) == ("granted", "")


async def test_an_expired_one_is_asked_anew_by_letting_its_task_look_again(rig: Waiting) -> None:
    task_id, approval_id = await rig.one(expires_s=60)
    rig.clock.advance(61)
    await rig.approvals.expire()
    before = len(await rig.bodies(task_id))

    await rig.approvals.renew(approval_id, kernel_of(S1))

    assert await rig.bodies(task_id, before) == [TaskResumed(by="kernel")]
    assert (await rig.approvals.get(approval_id)).status == "expired", "the one that comes is another one"
    again = await refusal(rig.approvals.renew(approval_id, ANA))
    assert again.code == "approval.expired"


async def test_a_person_may_have_one_that_waits_asked_anew(rig: Waiting) -> None:
    task_id, approval_id = await rig.one()
    before = len(await rig.bodies(task_id))

    await rig.approvals.renew(approval_id, ANA)

    expired = ApprovalExpired(approval_id=approval_id, why="changed")
    assert await rig.bodies(task_id, before) == [expired, TaskResumed(by="Ana")]


async def test_a_yes_given_in_the_same_moment_is_not_ended_by_asking_anew() -> None:
    rig, log = moving()
    task_id, approval_id = await rig.one()
    log.before_version = lambda: rig.approvals.approve(approval_id, ANA)

    late = await refusal(rig.approvals.renew(approval_id, BEN))

    assert re.fullmatch(LATE, str(late))
    assert (await rig.approvals.get(approval_id)).status == "granted"
    assert "approval.expired" not in [body.type for body in await rig.bodies(task_id)]


async def test_only_what_is_over_is_asked_anew_and_only_once_nothing_else_is_open(rig: Waiting) -> None:
    _, waiting = await rig.one()
    assert (await refusal(rig.approvals.renew(waiting, kernel_of(S1)))).code == "approval.waiting"

    _, answered = await rig.one()
    await rig.approvals.approve(answered, ANA)
    assert (await refusal(rig.approvals.renew(answered, ANA))).code == "approval.late"

    task_id, over = await rig.one(expires_s=60)
    other = rig.requested("b", expires_s=REQUEST_EXPIRES_S)
    await rig.record(task_id, [other])
    rig.clock.advance(61)
    await rig.approvals.expire()
    refused = await refusal(rig.approvals.renew(over, ANA))
    assert (refused.code, await rig.status(task_id)) == ("approval.expired", "WAITING_APPROVAL")
    assert str(refused) == "Not requested again: its task waits for another answer, or has gone on."
    assert [fact.answer for fact in await rig.refused()] == ["renew"] * 3


async def test_with_the_task_its_questions_end(rig: Waiting) -> None:
    task_id, (first, second) = await rig.wait("a", "b")
    await rig.record(task_id, [TaskCancelled(by="Ana", reason="")])

    for approval_id in (first, second):
        found = await rig.approvals.get(approval_id)
        assert (found.status, found.why) == ("expired", "task")
        for answer in (rig.approvals.approve, rig.approvals.reject, rig.approvals.renew):
            refused = await refusal(answer(approval_id, ANA))
            assert (refused.code, str(refused)) == ("approval.expired", "It is not asked any more. Nothing was done.")


# --- for the session -----------------------------------------------------------------------------------------


async def yes_for_the_session(rig: Waiting, session_id: SessionId = S1) -> str:
    _, approval_id = await rig.one(cover=NOTES, session_id=session_id)
    await rig.approvals.approve(approval_id, ANA, extent="session")
    return approval_id


async def test_a_yes_for_the_session_is_found_for_what_it_covers_in_that_session_for_half_an_hour(rig: Waiting) -> None:
    approval_id = await yes_for_the_session(rig)
    seen: list[Any] = []

    assert await rig.approvals.covering(S1, lambda cover: not seen.append(cover), AuthStrength.RELAY) == approval_id
    assert seen == [NOTES]
    assert await rig.approvals.covering(S1, lambda cover: False, AuthStrength.RELAY) is None
    assert await rig.approvals.covering(S2, lambda cover: True, AuthStrength.RELAY) is None

    rig.clock.advance(SESSION_YES_EXPIRES_S - 1)
    assert await rig.approvals.covering(S1, lambda cover: True, AuthStrength.RELAY) == approval_id
    rig.clock.advance(1)
    assert await rig.approvals.covering(S1, lambda cover: True, AuthStrength.RELAY) is None


async def test_a_yes_for_the_session_covers_nothing_that_needs_a_stronger_way(rig: Waiting) -> None:
    _, approval_id = await rig.one(cover=NOTES)
    await rig.approvals.approve(approval_id, BEN, extent="session")

    found = [
        await rig.approvals.covering(S1, lambda cover: True, way)
        for way in (AuthStrength.MODEL, AuthStrength.RELAY, BEN.way)
    ]
    assert found == [approval_id] * 3
    assert await rig.approvals.covering(S1, lambda cover: True, AuthStrength.BROWSER) is None


async def test_a_yes_once_covers_nothing_else(rig: Waiting) -> None:
    _, approval_id = await rig.one(cover=NOTES)
    await rig.approvals.approve(approval_id, ANA)

    assert await rig.approvals.covering(S1, lambda cover: True, AuthStrength.RELAY) is None


async def test_a_yes_for_the_session_can_be_taken_back_at_once(rig: Waiting) -> None:
    approval_id = await yes_for_the_session(rig)

    await rig.approvals.revoke(approval_id, kernel_of(S1))

    assert await rig.approvals.covering(S1, lambda cover: True, AuthStrength.RELAY) is None
    found = await rig.approvals.get(approval_id)
    assert (found.status, found.why, found.in_force_until()) == ("granted", "revoked", None)
    assert (await refusal(rig.approvals.revoke(approval_id, ANA))).code == "approval.revoke"


async def test_of_two_who_take_it_back_in_the_same_moment_one_does() -> None:
    rig, log = moving()
    approval_id = await yes_for_the_session(rig)
    log.meanwhile = lambda: rig.approvals.revoke(approval_id, ANA)

    assert (await refusal(rig.approvals.revoke(approval_id, BEN))).code == "approval.revoke"

    assert len(await log.read(types=frozenset({"approval.expired"}))) == 1


async def test_what_is_not_in_force_can_not_be_taken_back(rig: Waiting) -> None:
    _, pending = await rig.one(cover=NOTES)
    _, once = await rig.one(cover=NOTES)
    await rig.approvals.approve(once, ANA)
    over = await yes_for_the_session(rig)
    rig.clock.advance(SESSION_YES_EXPIRES_S)

    for approval_id in (pending, once, over):
        assert (await refusal(rig.approvals.revoke(approval_id, ANA))).code == "approval.revoke"
    assert [fact.answer for fact in await rig.refused()] == ["revoke"] * 3


# --- lists ---------------------------------------------------------------------------------------------------


async def test_they_are_listed_the_newest_first_page_by_page_by_session_task_and_status(rig: Waiting) -> None:
    first_task, (a, b) = await rig.wait("a", "b")
    _, c = await rig.one(session_id=S2)
    await rig.approvals.approve(a, ANA)

    async def ids(**how: Any) -> list[str]:
        return [found.approval_id for found in await rig.approvals.list(**how)]

    assert await ids() == [c, b, a]
    assert await ids(limit=2) == [c, b]
    assert await ids(limit=2, after=b) == [a]
    assert await ids(session_id=S2) == [c]
    assert await ids(task_id=first_task) == [b, a]
    assert await ids(statuses=["pending"]) == [c, b]
    assert await ids(statuses=["granted", "rejected"]) == [a]


async def test_what_was_asked_stands_in_the_list_as_it_was_asked(rig: Waiting) -> None:
    task_id, approval_id = await rig.one(cover=NOTES)
    (asked,) = (body for body in await rig.bodies(task_id) if isinstance(body, ApprovalRequested))

    (found,) = await rig.approvals.list()

    assert (found.asked, found.approval_id, found.session_id, found.task_id) == (asked, approval_id, S1, task_id)


async def test_a_yes_that_is_void_by_now_says_why(rig: Waiting) -> None:
    for why in ("changed", "time"):
        task_id, approval_id = await rig.one(cover=NOTES)
        await rig.approvals.approve(approval_id, ANA, extent="session")
        await rig.record(task_id, [ApprovalExpired(approval_id=approval_id, why=why)])

        found = await rig.approvals.get(approval_id)

        assert (found.status, found.why, found.by) == ("granted", why, "Ana")
    assert await rig.approvals.covering(S1, lambda cover: True, AuthStrength.RELAY) is None


async def test_how_one_ended_stays_whatever_is_recorded_behind(rig: Waiting) -> None:
    task_id, (rejected, over) = await rig.wait("a", "b", expires_s=60)
    await rig.approvals.reject(rejected, ANA)
    rig.clock.advance(61)
    await rig.approvals.expire()

    await rig.record(task_id, [ApprovalExpired(approval_id=each, why="changed") for each in (rejected, over)])

    found = [await rig.approvals.get(each) for each in (rejected, over)]
    assert [(each.status, each.why) for each in found] == [("rejected", ""), ("expired", "time")]
    assert await rig.log.dump() == await rig.log.rebuild()


async def test_what_asks_after_all_are_answered_waits_again(rig: Waiting) -> None:
    task_id, approval_id = await rig.one()
    await rig.approvals.approve(approval_id, ANA)
    asked = rig.requested("a", expires_s=REQUEST_EXPIRES_S)
    await rig.record(
        task_id, [TaskStarted(attempt=1, epoch="f"), asked, TaskWaitingApproval(approval_id=asked.approval_id)]
    )

    await rig.approvals.approve(asked.approval_id, BEN)

    assert await rig.status(task_id) == "RUNNING"


# --- a yes from now on


STANDING = "`write_file` and `edit_file` in `notes/`"


async def test_a_yes_from_now_on_is_a_yes_to_the_call_and_makes_a_rule(tmp_path: Path) -> None:
    home = Home(tmp_path)
    rig = Waiting(home=home)
    task_id, approval_id = await rig.one(cover=NOTES, standing=STANDING)

    await rig.approvals.approve(approval_id, ANA, extent="standing")

    assert (await rig.approvals.get(approval_id)).extent == "standing"
    assert await rig.status(task_id) == "RUNNING"
    text = home.standing_file.read_text()
    assert '"reason":"Ana let changes in `notes/` of /p through on a card on' in text
    assert '"project":"/p","paths":["notes/**"]' in text


@pytest.mark.parametrize("by", [BEN, kernel_of(S1)])
async def test_only_the_page_gives_a_yes_from_now_on(by: Answerer, tmp_path: Path) -> None:
    home = Home(tmp_path)
    rig = Waiting(home=home)
    _, approval_id = await rig.one(cover=NOTES, standing=STANDING)

    refused = await refusal(rig.approvals.approve(approval_id, by, extent="standing"))

    assert isinstance(refused, PolicyError)
    assert "in the page alone" in str(refused)
    assert [fact.why for fact in await rig.refused()] == ["way"]
    assert ((await rig.approvals.get(approval_id)).status, home.standing_file.exists()) == ("pending", False)


async def test_a_yes_from_now_on_is_given_only_where_it_is_offered_and_kept(tmp_path: Path) -> None:
    for rig, how in ((Waiting(home=Home(tmp_path)), ""), (Waiting(), STANDING)):
        _, approval_id = await rig.one(cover=NOTES, standing=how)

        refused = await refusal(rig.approvals.approve(approval_id, ANA, extent="standing"))

        assert "not offered" in str(refused)
        assert [fact.why for fact in await rig.refused()] == ["extent"]
    assert not Home(tmp_path).standing_file.exists()


async def test_no_rule_is_made_by_an_answer_that_comes_too_late(tmp_path: Path) -> None:
    home = Home(tmp_path)
    rig = Waiting(home=home)
    _, approval_id = await rig.one(cover=NOTES, standing=STANDING)
    await rig.approvals.reject(approval_id, BEN)

    assert isinstance(await refusal(rig.approvals.approve(approval_id, ANA, extent="standing")), Conflict)

    assert not home.standing_file.exists()


async def test_a_rule_that_can_not_be_written_is_told_and_nothing_is_approved(tmp_path: Path) -> None:
    home = Home(tmp_path / "gone")
    rig = Waiting(home=home)
    task_id, approval_id = await rig.one(cover=NOTES, standing=STANDING)

    refused = await refusal(rig.approvals.approve(approval_id, ANA, extent="standing"))

    assert str(refused).startswith("Not approved: that it need not be asked again could not be written.")
    assert "Errno" not in str(refused)
    assert ((await rig.approvals.get(approval_id)).status, await rig.status(task_id)) == ("pending", "WAITING_APPROVAL")


async def test_a_rule_is_taken_away_again_if_another_answer_was_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    rig = Waiting(home=home)
    _, approval_id = await rig.one(cover=NOTES, standing=STANDING)
    there: list[bool] = []
    record = rig.approvals._record

    async def rejected_meanwhile(*args: Any) -> None:
        there.append("standing.notes" in home.standing_file.read_text())
        monkeypatch.setattr(rig.approvals, "_record", record)
        await rig.approvals.reject(approval_id, BEN)
        await record(*args)

    monkeypatch.setattr(rig.approvals, "_record", rejected_meanwhile)

    assert isinstance(await refusal(rig.approvals.approve(approval_id, ANA, extent="standing")), Conflict)

    assert there == [True]
    assert "standing.notes" not in home.standing_file.read_text()
