"""What every event log promises (`store.log.EventLog`), over each adapter."""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from ozzie_server_ext.domain.errors import Conflict, Gone, IllegalTransition, InputError, VersionConflict
from ozzie_server_ext.domain.events import (
    Draft,
    Event,
    SessionRenamed,
    StepCompleted,
    StepFailed,
    StepSkipped,
    StepStarted,
    TaskQueued,
    TaskStarted,
    TaskSucceeded,
    ToolCallCompleted,
)
from ozzie_server_ext.domain.ids import CallId, EventId, SessionId
from ozzie_server_ext.domain.steps import IllegalStep
from ozzie_server_ext.domain.tasks import Claim
from ozzie_server_ext.store.log import ClaimLost, EventIdTaken, EventLog, Head, IdempotencyConflict, LogClosed
from tests.replay.histories import (
    SESSION,
    TASK,
    call_completed,
    call_started,
    draft,
    received,
    renamed,
    session_created,
    task_created,
    task_draft,
)
from tests.replay.stores import Store

STREAM = f"session:{SESSION}"
TASK_STREAM = f"task:{TASK}"


async def titles(log: EventLog, stream: str = STREAM) -> list[str]:
    return [cast(SessionRenamed, event.body).title for event in await log.read_stream(stream)]


# --- order --------------------------------------------------------------------------------------------


async def test_an_empty_log_stands_at_position_zero(log: EventLog) -> None:
    assert await log.head() == Head(0, "0" * 64)
    assert await log.read() == ()
    assert await log.version("nothing") == 0
    assert (await log.verify()).ok


async def test_an_appended_event_reads_back_as_it_was_returned(log: EventLog) -> None:
    body = ToolCallCompleted(
        call_id=CallId("c"), ok=True, data={"b": [1, 2.5, None], "a": "größe 🙂 \x00"}, summary="", duration_ms=1
    )
    (event,) = await log.append(TASK_STREAM, [draft(body, labels=("web", "file"))])
    assert await log.read() == (event,)
    assert await log.read_stream(TASK_STREAM) == (event,)
    assert event.body == body
    assert event.labels == ("web", "file")
    assert event.ts == datetime(2026, 1, 1, tzinfo=UTC)
    assert (event.position, event.version, event.stream) == (1, 1, TASK_STREAM)
    assert await log.head() == Head(1, event.hash)


async def test_positions_have_no_gap_and_versions_count_each_stream(log: EventLog) -> None:
    names = [f"stream{number % 3}" for number in range(12)]
    await asyncio.gather(*[log.append(name, [renamed("a"), renamed("b")]) for name in names])
    events = await log.read()
    assert [event.position for event in events] == list(range(1, 25))
    for name in set(names):
        assert [event.version for event in events if event.stream == name] == list(range(1, 9))
        assert await log.version(name) == 8


async def test_the_drafts_of_one_append_stand_next_to_each_other(log: EventLog) -> None:
    await asyncio.gather(*[log.append("s", [renamed(f"{n}"), renamed(f"{n}")]) for n in range(10)])
    read = await titles(log, "s")
    assert read[0::2] == read[1::2]


async def test_each_event_carries_the_hash_of_the_one_before(log: EventLog) -> None:
    events = await log.append(STREAM, [renamed("a"), renamed("b"), renamed("c")])
    assert [event.prev_hash for event in events] == ["0" * 64, events[0].hash, events[1].hash]
    assert len({event.hash for event in events} | {event.commitment for event in events}) == 6


async def test_equal_bodies_have_different_commitments(log: EventLog) -> None:
    first, second = await log.append(STREAM, [renamed("same"), renamed("same")])
    assert first.commitment != second.commitment


# --- versions -----------------------------------------------------------------------------------------


async def test_of_two_appends_that_saw_the_same_version_one_wins(log: EventLog) -> None:
    results = await asyncio.gather(
        *[log.append(STREAM, [renamed(f"{n}")], expected_version=0) for n in range(5)], return_exceptions=True
    )
    conflicts = [result for result in results if isinstance(result, VersionConflict)]
    assert len(conflicts) == 4
    assert (conflicts[0].stream, conflicts[0].expected, conflicts[0].actual) == (STREAM, 0, 1)
    assert len(await log.read()) == 1


async def test_an_append_may_not_expect_a_version_that_is_yet_to_come(log: EventLog) -> None:
    with pytest.raises(VersionConflict):
        await log.append(STREAM, [renamed("a")], expected_version=1)


async def test_appends_that_name_each_others_versions_all_pass(log: EventLog) -> None:
    await asyncio.gather(*[log.append(STREAM, [renamed(f"{n}")], expected_version=n) for n in range(20)])
    assert await titles(log) == [f"{n}" for n in range(20)]


# --- what is refused ----------------------------------------------------------------------------------


async def test_one_bad_append_fails_alone(log: EventLog) -> None:
    bad = ToolCallCompleted(call_id=CallId("c"), ok=True, data=float("nan"), summary="", duration_ms=1)
    results = await asyncio.gather(
        log.append("a", [renamed("1")]),
        log.append("b", [renamed("2"), draft(bad)]),
        log.append("c", [renamed("3"), task_draft(TaskQueued(reason="created"))]),
        log.append("d", [renamed("4")], expected_version=7),
        log.append("e", [renamed("\ud800")]),
        log.append("f", [renamed("5")]),
        return_exceptions=True,
    )
    kinds = [type(result) for result in results]
    assert issubclass(kinds[1], InputError)
    assert kinds[2:4] == [IllegalTransition, VersionConflict]
    assert issubclass(kinds[4], InputError)
    assert [event.stream for event in await log.read()] == ["a", "f"]
    assert (await log.verify()).ok
    assert await log.dump() == await log.rebuild()


@pytest.mark.parametrize(
    "broken",
    [
        Draft(body=SessionRenamed(title="a"), actor="user", source="\ud800"),
        Draft(body=SessionRenamed(title="a"), actor="user", source="s", labels=("\udfff",)),
        Draft(body=SessionRenamed(title=cast(str, 7)), actor="user", source="s"),
        Draft(body=SessionRenamed(title=cast(str, object())), actor="user", source="s"),
    ],
    ids=["surrogate in the envelope", "surrogate in a label", "wrong type", "no JSON"],
)
async def test_what_could_not_be_read_back_never_enters(log: EventLog, broken: Draft) -> None:
    with pytest.raises(InputError):
        await log.append(STREAM, [renamed("fine"), broken])
    assert await log.read() == ()


async def test_an_append_needs_a_stream_and_something_to_append(log: EventLog) -> None:
    with pytest.raises(InputError):
        await log.append(STREAM, [])
    with pytest.raises(InputError):
        await log.append("", [renamed("a")])


async def test_an_event_id_is_used_once(log: EventLog) -> None:
    once = Draft(body=SessionRenamed(title="a"), actor="user", source="s", event_id=EventId("01X"))
    other = log.append("other", [renamed("b")])
    results = await asyncio.gather(log.append("s", [once]), log.append("t", [once]), other, return_exceptions=True)
    assert [type(result) for result in results] == [tuple, EventIdTaken, tuple]
    with pytest.raises(EventIdTaken):
        await log.append("u", [once])
    assert [event.position for event in await log.read()] == [1, 2]


async def test_a_task_takes_only_what_its_state_allows(log: EventLog) -> None:
    with pytest.raises(IllegalTransition):
        await log.append(TASK_STREAM, [task_draft(TaskQueued(reason="created"))])
    await log.append(TASK_STREAM, [task_draft(task_created()), task_draft(TaskQueued(reason="created"))])
    for body in (TaskSucceeded(rounds=1), task_created(), TaskQueued(reason="created")):
        with pytest.raises(IllegalTransition):
            await log.append(TASK_STREAM, [task_draft(body)])
    with pytest.raises(IllegalTransition):  # legal at first, illegal in the end: nothing of it stays
        await log.append(TASK_STREAM, [task_draft(TaskStarted(attempt=1, epoch="e"))] * 2)
    (row,) = await log.rows("tasks")
    assert (row["status"], row["attempt"], await log.version(TASK_STREAM)) == ("QUEUED", 0, 2)


async def test_a_fact_about_a_task_names_the_task(log: EventLog) -> None:
    with pytest.raises(InputError):
        await log.append("s", [draft(task_created())])


async def test_of_two_sessions_with_one_key_the_first_stands(log: EventLog) -> None:
    results = await asyncio.gather(
        *[
            log.append(f"session:{name}", [draft(session_created(), session_id=SessionId(name))], expected_version=0)
            for name in ("sess_a", "sess_b")
        ],
        return_exceptions=True,
    )
    assert [isinstance(result, Conflict) for result in results] == [False, True]
    assert [row["session_id"] for row in await log.rows("sessions", where={"key": "notebook.ipynb"})] == ["sess_a"]


async def test_a_counter_is_never_raised_beyond_what_a_column_holds(log: EventLog) -> None:
    await log.append(TASK_STREAM, [task_draft(task_created()), task_draft(call_started("c"))])
    with pytest.raises(InputError):
        await log.append(TASK_STREAM, [task_draft(call_completed("c", tokens=1 << 62))])
    assert await log.version(TASK_STREAM) == 2


async def test_a_closed_log_takes_nothing(log: EventLog) -> None:
    await log.close()
    await log.close()
    with pytest.raises(LogClosed):
        await log.append(STREAM, [renamed("a")])


# --- idempotency --------------------------------------------------------------------------------------


async def test_a_repeated_append_returns_what_was_recorded(log: EventLog) -> None:
    drafts = [renamed("a"), draft(SessionRenamed(title="b"), key="once"), renamed("c")]
    first = await log.append(STREAM, drafts, expected_version=0)
    await log.append(STREAM, [renamed("between")])
    assert await log.append(STREAM, drafts, expected_version=0) == first
    assert await log.version(STREAM) == 4


async def test_of_appends_with_one_key_at_the_same_time_one_is_recorded(log: EventLog) -> None:
    heard: list[Event] = []
    log.on_commit(heard.extend)
    once = [draft(SessionRenamed(title="a"), key="once")]
    results = await asyncio.gather(*[log.append(STREAM, once) for _ in range(8)])
    assert len(set(results)) == 1
    assert len(await log.read()) == len(heard) == 1


async def test_a_key_belongs_to_its_stream(log: EventLog) -> None:
    once = [draft(SessionRenamed(title="a"), key="once")]
    await log.append("s", once)
    await log.append("t", once)
    assert len(await log.read()) == 2


@pytest.mark.parametrize(
    "other",
    [
        [draft(session_created(), key="once")],
        [renamed("before"), draft(SessionRenamed(title="a"), key="once")],
        [draft(SessionRenamed(title="a"), key="once"), renamed("after")],
        [draft(SessionRenamed(title="a"), key="once"), draft(SessionRenamed(title="b"), key="new")],
    ],
    ids=["another type", "one more before", "one more after", "a further key"],
)
async def test_a_key_never_stands_for_something_else(log: EventLog, other: list[Draft]) -> None:
    await log.append(STREAM, [draft(SessionRenamed(title="a"), key="once")])
    with pytest.raises(IdempotencyConflict):
        await log.append(STREAM, other)
    assert len(await log.read()) == 1


async def test_a_key_stands_once_in_an_append(log: EventLog) -> None:
    with pytest.raises(InputError):
        await log.append(STREAM, [draft(SessionRenamed(title="a"), key="k"), draft(SessionRenamed(title="b"), key="k")])


# --- publishing ---------------------------------------------------------------------------------------


async def test_listeners_hear_everything_once_in_order_and_after_the_commit(log: EventLog) -> None:
    heard: list[Event] = []
    readers: list[asyncio.Task[tuple[Event, ...]]] = []

    def listen(events: tuple[Event, ...]) -> None:
        heard.extend(events)
        readers.append(asyncio.create_task(log.read(after=events[0].position - 1, limit=1)))

    log.on_commit(listen)
    await asyncio.gather(*[log.append(f"s{n % 4}", [renamed(f"{n}")] * 2) for n in range(30)])
    assert [event.position for event in heard] == list(range(1, 61))
    assert heard == list(await log.read())
    assert all([len(await reader) == 1 for reader in readers])


async def test_when_an_append_returns_its_listeners_have_heard(log: EventLog) -> None:
    heard: list[int] = []
    log.on_commit(lambda events: heard.extend(event.position for event in events))
    for _ in range(3):
        (event,) = await log.append(STREAM, [renamed("a")])
        assert heard[-1] == event.position == (await log.head()).position


async def test_nobody_hears_of_what_was_refused(log: EventLog) -> None:
    heard: list[Event] = []
    log.on_commit(heard.extend)
    with pytest.raises(VersionConflict):
        await log.append(STREAM, [renamed("a")], expected_version=3)
    assert heard == []


async def test_a_listener_for_some_types_hears_only_of_those_and_of_no_batch_without_them(log: EventLog) -> None:
    batches: list[list[str]] = []
    log.on_commit(lambda events: batches.append([event.type for event in events]), types={SessionRenamed.type})
    await log.append(TASK_STREAM, [task_draft(received("hi"))])
    await log.append(STREAM, [renamed("a"), draft(session_created()), renamed("b")])
    await log.append(STREAM, [renamed("c")])
    assert batches == [[SessionRenamed.type] * 2, [SessionRenamed.type]]


async def test_a_failing_listener_does_not_keep_others_from_hearing(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Event] = []

    def fail(events: tuple[Event, ...]) -> None:
        raise RuntimeError("no")

    log.on_commit(fail)
    log.on_commit(heard.extend)
    await log.append(STREAM, [renamed("a")])
    assert len(heard) == 1
    assert "A listener of the event log failed" in caplog.text


# --- reading ------------------------------------------------------------------------------------------


async def test_reading_filters_by_position_type_session_and_task(log: EventLog) -> None:
    await log.append(STREAM, [draft(session_created()), renamed("a")])
    await log.append(TASK_STREAM, [task_draft(received("hi")), task_draft(task_created())])
    await log.append("session:sess_other", [draft(SessionRenamed(title="b"), session_id=SessionId("sess_other"))])

    async def positions(**filters: Any) -> list[int]:
        return [event.position for event in await log.read(**filters)]

    assert await positions(after=3) == [4, 5]
    assert await positions(limit=2) == [1, 2]
    assert await positions(limit=0) == []
    assert await positions(types=frozenset({"session.renamed", "task.created"})) == [2, 4, 5]
    assert await positions(types=frozenset()) == []
    assert await positions(session_id=SESSION) == [1, 2, 3, 4]
    assert await positions(task_id=TASK) == [3, 4]
    assert await positions(session_id=SESSION, types=frozenset({"session.renamed"}), after=1) == [2]
    assert await positions(after=1000) == []


async def test_reading_goes_backwards_and_through_a_span_of_time(store: Store, log: EventLog) -> None:
    for number in range(6):
        await log.append(STREAM, [renamed(f"{number}")])
        store.clock.advance(3600)

    async def positions(**filters: Any) -> list[int]:
        return [event.position for event in await log.read(**filters)]

    def hour(number: int) -> datetime:
        return datetime(2026, 1, 1, number, tzinfo=UTC)

    assert await positions(newest_first=True, limit=2) == [6, 5]
    assert await positions(newest_first=True, limit=2, before=5) == [4, 3]
    assert await positions(newest_first=True, after=2, before=5) == [4, 3]
    assert await positions(before=0) == await positions(after=9, newest_first=True) == []
    assert await positions(before=99) == [1, 2, 3, 4, 5, 6]
    assert await positions(since=hour(1), until=hour(3)) == [2, 3], "the beginning belongs to it, the end does not"
    assert await positions(since=hour(4), newest_first=True) == [6, 5]


async def test_a_reading_ends_behind_so_many_bytes_of_bodies_but_never_before_the_first(log: EventLog) -> None:
    await log.append("s", [renamed("x" * 1000) for _ in range(5)])
    await log.append("s", [renamed("")])

    async def positions(most_bytes: int, **where: Any) -> list[int]:
        return [event.position for event in await log.read(most_bytes=most_bytes, **where)]

    assert await positions(1) == [1]
    assert await positions(1000) == [1]
    assert await positions(2500) == [1, 2, 3]
    assert await positions(2500, after=3) == [4, 5, 6]
    assert await positions(2500, newest_first=True) == [6, 5, 4, 3]
    assert await positions(1 << 20) == [1, 2, 3, 4, 5, 6]
    assert await positions(1 << 20, limit=2) == [1, 2]


async def test_a_stream_reads_from_a_version_on(log: EventLog) -> None:
    await log.append(STREAM, [renamed(f"{n}") for n in range(5)])
    assert [event.version for event in await log.read_stream(STREAM, after_version=3)] == [4, 5]
    assert await log.read_stream("nothing") == ()


# --- erasing ------------------------------------------------------------------------------------------


async def test_after_a_body_is_erased_the_chain_still_verifies(store: Store, log: EventLog) -> None:
    await log.append(STREAM, [renamed("a"), renamed("secret"), renamed("c")])
    await store.erase(2)
    found = await log.verify()
    assert (found.ok, found.events, found.erased) == (True, 3, 1)
    assert [event.position for event in await log.read()] == [1, 3]
    assert [event.version for event in await log.read_stream(STREAM)] == [1, 3]
    (event,) = await log.append(STREAM, [renamed("d")], expected_version=3)
    assert event.position == 4


async def test_a_repeat_of_what_was_erased_hears_that_it_is_gone(store: Store, log: EventLog) -> None:
    once = [draft(SessionRenamed(title="a"), key="once")]
    await log.append(STREAM, once)
    await store.erase(1)
    with pytest.raises(Gone, match="erased since"):
        await log.append(STREAM, once)


# --- verifying ----------------------------------------------------------------------------------------


async def test_the_hash_of_an_event_is_known_by_its_position_also_once_it_is_erased(
    store: Store, log: EventLog
) -> None:
    events = await log.append(STREAM, [renamed("a"), renamed("b")])
    await store.erase(1)
    assert [await log.hash_at(position) for position in (0, 1, 2, 3)] == [None, events[0].hash, events[1].hash, None]


# --- claims -------------------------------------------------------------------------------------------

FIRST = Claim(task_id=TASK, epoch="old", attempt=1)
SECOND = Claim(task_id=TASK, epoch="new", attempt=2)


async def claimed(log: EventLog) -> None:
    """A task that the first attempt holds."""
    bodies = (task_created(), TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="old"))
    await log.append(TASK_STREAM, [task_draft(body) for body in bodies])


async def test_an_attempt_records_while_the_task_is_its_own(log: EventLog) -> None:
    await claimed(log)
    await log.append(TASK_STREAM, [task_draft(call_started("c"))], claim=FIRST)
    await log.append(TASK_STREAM, [task_draft(TaskSucceeded(rounds=1))], claim=FIRST)
    await log.append(TASK_STREAM, [task_draft(call_completed("c"))], claim=FIRST)
    assert await log.version(TASK_STREAM) == 6


async def test_an_attempt_comes_too_late_once_its_task_went_back_to_the_queue(log: EventLog) -> None:
    await claimed(log)
    await log.append(TASK_STREAM, [task_draft(TaskQueued(reason="recovered"))])
    before = await log.dump()
    with pytest.raises(ClaimLost):
        await log.append(TASK_STREAM, [task_draft(call_started("c"))], claim=FIRST)
    await log.append(TASK_STREAM, [task_draft(TaskStarted(attempt=2, epoch="new"))])
    for body in (call_started("c"), TaskSucceeded(rounds=1)):
        with pytest.raises(ClaimLost):
            await log.append(TASK_STREAM, [task_draft(body)], claim=FIRST)
    await log.append(TASK_STREAM, [task_draft(TaskSucceeded(rounds=1))], claim=SECOND)
    assert await log.version(TASK_STREAM) == 6
    assert await log.dump() != before


async def test_a_claim_of_a_task_that_is_not_there_is_refused(log: EventLog) -> None:
    with pytest.raises(ClaimLost):
        await log.append(TASK_STREAM, [task_draft(call_started("c"))], claim=FIRST)
    assert (await log.head()).position == 0


async def test_a_step_ends_once_whatever_is_appended(log: EventLog) -> None:
    """A second end of a step is refused by the records, and nothing of its append is kept."""
    done = StepCompleted(step_id="a", output=1)
    await log.append(TASK_STREAM, [task_draft(task_created()), task_draft(StepStarted(step_id="a"))])
    await log.append(TASK_STREAM, [task_draft(done)])
    for late in (done, StepFailed(step_id="a", kind="tool", code="c", message="m"), StepStarted(step_id="a")):
        with pytest.raises(IllegalStep):
            await log.append(TASK_STREAM, [task_draft(StepSkipped(step_id="b", reason="r")), task_draft(late)])
    assert await log.version(TASK_STREAM) == 3
    assert [row["step_id"] for row in await log.rows("steps")] == ["a"]
    again = await log.append(TASK_STREAM, [task_draft(StepStarted(step_id="a", visit=2))])
    assert again[0].version == 4
