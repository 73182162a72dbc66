"""After a restart nothing is lost, and what keeps killing the gateway is given up."""

import asyncio
import contextlib

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.events import (
    INTERRUPTED,
    Draft,
    Event,
    EventBody,
    Limits,
    ModelCallFailed,
    PromptRequested,
    TaskCancelled,
    TaskCancelRequested,
    TaskCreated,
    TaskFailed,
    TaskPaused,
    TaskPauseRequested,
    TaskQueued,
    TaskResumed,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
    Transient,
    WorkerLost,
    WorkerStarted,
)
from ozzie_server_ext.domain.ids import CallId, MessageId, ReplyId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.toolmeta import SKILLS
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.reconciliation import Reconciler, describe, unfinished
from ozzie_server_ext.tasks.recovery import MAX_DEATHS, MAX_DELEGATED_DEATHS, recover
from tests.replay.histories import call_completed, call_started, completed
from tests.unit.tasks.rig import Gate, TaskRig, always

CREATED = TaskCreated(title="t", mode="FREE", message_id=MessageId("m"), limits=Limits())
QUEUED = TaskQueued(reason="created")
STARTED = TaskStarted(attempt=1, epoch="old")
RECOVERED = TaskQueued(reason="recovered")
CALLED = call_started("c1")
ANSWERED = call_completed("c1")
SAID = completed("01RRRRRRRRRRRRRRRRRRRRRRRR", "I look.")
READ = ToolCallRequested(
    call_id=CallId("t1"), use_id="u1", tool_id="fs.read", name="read_file", version="1", args={}, round=1, index=0
)
PAY = ToolCallRequested(
    call_id=CallId("t2"), use_id="u2", tool_id="shop.pay", name="pay", version="1", args={}, round=1, index=1
)
ALLOWED = ToolCallDecided(call_id=CallId("t1"), decision="ALLOW", rule="r", reason="")


class Taken:
    """A runner that only notes what it is given."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.held: list[str] = []

    def enqueue(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> int:
        self.tasks.append(task_id)
        return 0

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> SessionId | None:
        return None

    def hold(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> None:
        self.held.append(task_id)


@pytest.fixture
def log() -> InMemoryEventLog:
    return InMemoryEventLog(FakeClock(), CountingIds())


async def left(log: InMemoryEventLog, task: str, *bodies: object) -> None:
    """A task as a dead gateway left it."""
    drafts = [
        Draft(body=body, actor="kernel", source="hub", session_id=SessionId("s1"), task_id=TaskId(task))  # pyright: ignore[reportArgumentType]
        for body in bodies
    ]
    await log.append(task_stream(TaskId(task)), drafts)


async def status(log: InMemoryEventLog, task: str) -> object:
    (row,) = await log.rows("tasks", where={"task_id": task})
    return row["status"]


async def test_whatever_was_unfinished_is_taken_up_in_the_order_it_was_created(log: InMemoryEventLog) -> None:
    await left(log, "a-running", CREATED, QUEUED, TaskStarted(attempt=1, epoch="old"))
    await left(log, "b-created", CREATED)
    await left(log, "c-queued", CREATED, QUEUED)
    await left(log, "d-running", CREATED, QUEUED, TaskStarted(attempt=1, epoch="old"))
    runner = Taken()

    assert await recover(log, runner, ids=CountingIds()) == 4

    assert sorted(runner.tasks) == ["a-running", "b-created", "c-queued", "d-running"]
    assert runner.tasks == sorted(runner.tasks), "a session's turns must not change places"
    assert [await status(log, task) for task in runner.tasks] == ["QUEUED"] * 4
    reasons = [(await log.read_stream(task_stream(TaskId(task))))[-1].body for task in runner.tasks]
    assert reasons == [TaskQueued(reason="recovered")] * 2 + [QUEUED] + [TaskQueued(reason="recovered")]


async def test_what_waits_for_a_person_or_has_ended_stays_as_it_is(log: InMemoryEventLog) -> None:
    started = TaskStarted(attempt=1, epoch="old")
    await left(log, "asked", CREATED, QUEUED, started, TaskWaitingApproval(approval_id="a"))
    await left(log, "paused", CREATED, QUEUED, started, TaskPaused(by="ann", reason="lunch"))
    await left(log, "done", CREATED, QUEUED, started, TaskSucceeded(rounds=1))
    head = await log.head()
    runner = Taken()

    assert await recover(log, runner, ids=CountingIds()) == 0

    assert (runner.tasks, sorted(runner.held)) == ([], ["asked", "paused"])
    assert await log.head() == head


def run_at_each_of(deaths: int) -> list[object]:
    """What a turn left that was running at each of so many ends of a gateway, the last of which nobody saw yet."""
    found: list[object] = []
    for number in range(1, deaths + 1):
        found += [RECOVERED, TaskStarted(attempt=number, epoch="old")]
    return found[1:]


async def test_a_turn_that_waited_for_answers_is_not_given_up_for_its_many_runs(log: InMemoryEventLog) -> None:
    runs: list[object] = [STARTED]
    for number in range(2, MAX_DEATHS + 3):
        again = TaskStarted(attempt=number, epoch="old")
        runs += [TaskWaitingInput(question="More?"), TaskResumed(by="ann"), TaskQueued(reason="answered"), again]
    await left(log, "t", CREATED, QUEUED, *runs)

    assert await recover(log, Taken(), ids=CountingIds()) == 1


@pytest.mark.parametrize("attempts", range(1, MAX_DEATHS + 2))
async def test_a_turn_that_ran_at_each_of_three_deaths_is_given_up(log: InMemoryEventLog, attempts: int) -> None:
    await left(log, "t", CREATED, QUEUED, *run_at_each_of(attempts))
    runner = Taken()

    taken = await recover(log, runner, ids=CountingIds())

    last = (await log.read_stream("task:t"))[-1].body
    if attempts < MAX_DEATHS:
        assert (taken, runner.tasks, last) == (1, ["t"], TaskQueued(reason="recovered"))
    else:
        assert (taken, runner.tasks) == (0, [])
        assert isinstance(last, TaskFailed)
        assert (last.code, "Your message is kept." in last.hint) == ("task.interrupted", True)
        assert f"interrupted by a restart {attempts} times" in last.message


@pytest.mark.parametrize("attempts", [MAX_DEATHS, MAX_DELEGATED_DEATHS - 1, MAX_DELEGATED_DEATHS])
async def test_a_step_is_given_up_after_ten_deaths(log: InMemoryEventLog, attempts: int) -> None:
    await left(log, "run", replace(CREATED, mode="GRAPH"), QUEUED, STARTED)
    await left(log, "step", replace(CREATED, parent=TaskId("run")), QUEUED, *run_at_each_of(attempts))
    runner = Taken()

    await recover(log, runner, ids=CountingIds())

    last = (await log.read_stream("task:step"))[-1].body
    if attempts < MAX_DELEGATED_DEATHS:
        assert (runner.tasks, last) == (["run", "step"], TaskQueued(reason="recovered"))
    else:
        assert runner.tasks == ["run"]
        assert isinstance(last, TaskFailed)
        assert "interrupted by a restart 10 times" in last.message


async def test_a_turn_that_waited_at_each_death_for_what_it_had_handed_over_is_not_given_up(
    log: InMemoryEventLog,
) -> None:
    """Recovery ends the call, and it is made again: that is no work of the turn's."""
    handed_over = replace(READ, tool_id=f"{SKILLS}review")
    await left(log, "t", CREATED, QUEUED)
    for attempt in range(1, 2 * MAX_DEATHS):
        call_id = CallId(f"h{attempt}")
        begun = replace(handed_over, call_id=call_id), ToolCallStarted(call_id=call_id)
        await left(log, "t", replace(STARTED, attempt=attempt), *begun)
        assert await recover(log, Taken(), ids=CountingIds(), reconciler_of=always(REPEATED)) == 1
        assert isinstance((await log.read_stream("task:t"))[-2].body, ToolCallCancelled)
    assert await status(log, "t") == "QUEUED"


async def test_a_gateway_that_dies_again_and_again_ends_the_turn_after_three_times() -> None:
    rig = TaskRig()
    rig.turns["deadly"] = Gate()
    sent = await rig.submit("deadly")
    for _ in range(MAX_DEATHS + 1):
        if await rig.reach(sent.task_id, "RUNNING", "FAILED") == "FAILED":
            break
        await rig.driver.stop()
        rig = TaskRig(rig.log)
        rig.turns["deadly"] = Gate()
        await recover(rig.log, rig.driver, ids=CountingIds())

    assert await rig.status(sent.task_id) == "FAILED"
    starts = [body for body in await rig.bodies(sent.task_id) if isinstance(body, TaskStarted)]
    assert [body.attempt for body in starts] == [1, 1, 1]


# --- every phase of a turn ------------------------------------------------------------------------------


def only_reading(tool_id: str) -> bool:
    return tool_id == "fs.read"


async def after(log: InMemoryEventLog, *bodies: object) -> tuple[list[object], list[str], list[Transient]]:
    """What recovery records of a task that a dead gateway left like this, whether it runs, and what it tells."""
    await left(log, "t", CREATED, QUEUED, STARTED, *bodies)
    before = await log.version("task:t")
    runner = Taken()
    told: list[Transient] = []
    await recover(log, runner, ids=CountingIds(), reconciler_of=always(Reconciler(only_reading)), publish=told.append)
    return [event.body for event in await log.read_stream("task:t", after_version=before)], runner.tasks, told


CUT_OFF = "Ozzie's gateway ended in the middle of it."
NOT_ANSWERED = ModelCallFailed(call_id=CallId("c1"), code=INTERRUPTED, message=CUT_OFF, latency_ms=None)
NOT_DONE = ToolCallCancelled(call_id=CallId("t1"), reason=CUT_OFF)
CHECK = replace(CALLED, call_id=CallId("c2"), purpose="check")
NOT_CHECKED = replace(NOT_ANSWERED, call_id=CallId("c2"))
DONE = ToolCallCompleted(call_id=CallId("t1"), ok=True, data={}, summary="", duration_ms=1)
UNKNOWN = ToolCallUncertain(call_id=CallId("t2"), reason=CUT_OFF)
BEGUN = ToolCallStarted(call_id=CallId("t2"))
PAY_AGAIN = replace(PAY, call_id=CallId("t3"))
NOT_PAID = ToolCallFailed(call_id=CallId("t3"), code="shop.closed", message="It is closed.", duration_ms=1)


@pytest.mark.parametrize(
    ("bodies", "recorded"),
    [
        pytest.param([], [RECOVERED], id="claimed"),
        pytest.param([CALLED], [NOT_ANSWERED, RECOVERED], id="model call started"),
        pytest.param([CALLED, ANSWERED, SAID], [RECOVERED], id="model answered"),
        pytest.param([CALLED, ANSWERED, SAID, CHECK], [NOT_CHECKED, RECOVERED], id="check started"),
        pytest.param([CALLED, ANSWERED, SAID, READ], [NOT_DONE, RECOVERED], id="tool requested"),
        pytest.param([CALLED, ANSWERED, SAID, READ, ALLOWED], [NOT_DONE, RECOVERED], id="tool decided"),
        pytest.param(
            [CALLED, ANSWERED, SAID, READ, ALLOWED, ToolCallStarted(call_id=CallId("t1"))],
            [NOT_DONE, RECOVERED],
            id="reading tool started",
        ),
        pytest.param([CALLED, ANSWERED, READ, ALLOWED, DONE], [RECOVERED], id="tool completed"),
        pytest.param([CALLED, ANSWERED, PAY], [ToolCallCancelled(call_id=CallId("t2"), reason=CUT_OFF), RECOVERED]),
    ],
)
async def test_each_phase_gets_an_honest_end_and_goes_on(
    log: InMemoryEventLog, bodies: list[object], recorded: list[object]
) -> None:
    found, runs, _ = await after(log, *bodies)
    assert found == recorded
    assert runs == ["t"]


async def test_a_tool_with_an_effect_that_was_begun_is_uncertain_and_never_made_again(log: InMemoryEventLog) -> None:
    found, runs, _ = await after(
        log, CALLED, ANSWERED, READ, PAY, ToolCallStarted(call_id=CallId("t1")), ToolCallStarted(call_id=CallId("t2"))
    )
    assert found[:2] == [NOT_DONE, UNKNOWN]
    asked, waits = found[2:]
    assert isinstance(asked, PromptRequested)
    assert asked.question == "pay may or may not have happened. Ozzie will not try again by itself."
    assert [option.name for option in asked.options] == ["done", "again", "leave"]
    assert isinstance(waits, TaskWaitingInput)
    assert runs == []


async def test_where_nobody_is_there_to_be_asked_an_uncertain_call_ends_its_task(log: InMemoryEventLog) -> None:
    created = replace(CREATED, attended=False)
    begun = ToolCallStarted(call_id=CallId("t2"))
    await left(log, "t", created, QUEUED, STARTED, CALLED, ANSWERED, PAY, begun)

    assert await recover(log, Taken(), ids=CountingIds(), reconciler_of=always(Reconciler(only_reading))) == 0

    *_, end = await log.read_stream(task_stream(TaskId("t")))
    assert isinstance(end.body, TaskFailed)
    assert (end.body.code, end.body.message) == (
        "tool.uncertain",
        "pay may or may not have happened. Ozzie will not try again by itself.",
    )
    assert "run the cell again" in end.body.hint


REPEATED = Reconciler(lambda tool_id: True)
KEYED = Reconciler(only_reading, takes_key=lambda tool_id: tool_id == "shop.pay")
IN_DOUBT = replace(UNKNOWN, again=True)
"""What is recorded of a call that was begun with its key, and goes on."""


async def recovered_with_keys(log: InMemoryEventLog, *bodies: object) -> list[object]:
    """What recovery records of a task that a dead gateway left like this, where paying takes a key."""
    await left(log, "t", CREATED, QUEUED, STARTED, *bodies)
    before = await log.version("task:t")
    await recover(log, Taken(), ids=CountingIds(), reconciler_of=always(KEYED))
    return [event.body for event in await log.read_stream("task:t", after_version=before)]


async def test_a_call_that_has_a_key_is_in_doubt_until_it_is_made_again_with_it(log: InMemoryEventLog) -> None:
    assert await recovered_with_keys(log, CALLED, ANSWERED, PAY, BEGUN) == [IN_DOUBT, RECOVERED]
    assert await status(log, "t") == "QUEUED"


async def test_a_call_that_has_a_key_and_was_not_begun_was_not_had(log: InMemoryEventLog) -> None:
    found = await recovered_with_keys(log, CALLED, ANSWERED, PAY)
    assert found == [ToolCallCancelled(call_id=CallId("t2"), reason=CUT_OFF), RECOVERED]


async def test_a_call_in_doubt_that_was_not_made_again_yet_still_is_after_another_death(log: InMemoryEventLog) -> None:
    doubt = [CALLED, ANSWERED, PAY, BEGUN, IN_DOUBT, RECOVERED]
    assert await recovered_with_keys(log, *doubt, replace(STARTED, attempt=2)) == [RECOVERED]


async def test_a_call_in_doubt_whose_task_is_given_up_is_left_to_a_person(log: InMemoryEventLog) -> None:
    doubt = [CALLED, ANSWERED, PAY, BEGUN, IN_DOUBT, RECOVERED]
    again = [replace(STARTED, attempt=2), RECOVERED, replace(STARTED, attempt=3)]

    told, asked, waits = await recovered_with_keys(log, *doubt, *again)

    assert told == UNKNOWN, "it is not made again by itself after all"
    assert isinstance(asked, PromptRequested)
    assert asked.question.startswith(f"pay may or may not have happened. {CUT_OFF}")
    assert isinstance(waits, TaskWaitingInput)
    assert [describe(tool) for tool in unfinished(await log.read_stream("task:t")).uncertain] == ["pay"]


async def test_a_call_in_doubt_whose_task_is_stopped_stays_in_doubt(log: InMemoryEventLog) -> None:
    doubt = [CALLED, ANSWERED, PAY, BEGUN, IN_DOUBT, RECOVERED]
    found = await recovered_with_keys(log, *doubt, TaskCancelRequested(by="ann", reason=""))
    assert found == [TaskCancelled(by="ann", reason="")]


@pytest.mark.parametrize(
    ("behind", "doubts"),
    [
        pytest.param([], ["t2"], id="not made again"),
        pytest.param([PAY_AGAIN], ["t2"], id="asked for"),
        pytest.param([PAY_AGAIN, ToolCallCancelled(call_id=CallId("t3"), reason="")], ["t2"], id="not begun"),
        pytest.param([CHECK], ["t2"], id="looked at by a second model"),
        pytest.param([PAY_AGAIN, replace(DONE, call_id=CallId("t3"))], [], id="done"),
        pytest.param([PAY_AGAIN, replace(UNKNOWN, call_id=CallId("t3"))], [], id="in doubt for good"),
        pytest.param([PAY_AGAIN, replace(IN_DOUBT, call_id=CallId("t3"))], ["t3"], id="cut off again"),
        pytest.param([PAY_AGAIN, NOT_PAID], [], id="known not to be done"),
        pytest.param([UNKNOWN], [], id="not made again after all"),
        pytest.param([replace(CALLED, call_id=CallId("c9"))], [], id="the next round"),
    ],
)
async def test_a_call_is_in_doubt_until_the_one_that_is_made_in_its_place_has_an_outcome(
    log: InMemoryEventLog, behind: list[object], doubts: list[str]
) -> None:
    await left(log, "t", CREATED, QUEUED, STARTED, CALLED, ANSWERED, PAY, BEGUN, IN_DOUBT, RECOVERED, *behind)

    found = unfinished(await log.read_stream("task:t"))

    assert [tool.call_id for tool in found.to_repeat] == doubts
    assert "t2" not in [tool.call_id for tool in found.tools]


@pytest.mark.parametrize("stopped", [True, False])
async def test_a_call_that_has_a_key_is_uncertain_where_its_task_does_not_go_on(
    log: InMemoryEventLog, stopped: bool
) -> None:
    again = [] if stopped else [RECOVERED, replace(STARTED, attempt=2)] * (MAX_DEATHS - 1)
    ends = [TaskCancelRequested(by="you", reason="")] if stopped else []
    begun = ToolCallStarted(call_id=CallId("t2"))
    await left(log, "t", CREATED, QUEUED, STARTED, *again, CALLED, ANSWERED, PAY, begun, *ends)
    reconciler = Reconciler(only_reading, takes_key=lambda tool_id: True)

    assert await recover(log, Taken(), ids=CountingIds(), reconciler_of=always(reconciler)) == 0

    found = [event.body for event in await log.read_stream(task_stream(TaskId("t")))]
    assert ToolCallUncertain(call_id=CallId("t2"), reason=CUT_OFF) in found


@pytest.mark.parametrize(
    ("happened", "end"),
    [(True, "tool.call.completed"), (False, "tool.call.cancelled"), (None, "tool.call.uncertain")],
)
async def test_of_a_begun_effect_that_can_be_looked_for_the_tool_says_whether_it_was_had(
    log: InMemoryEventLog, happened: bool | None, end: str
) -> None:
    begun = ToolCallStarted(call_id=CallId("t2"), effect={"what": "p"})
    await left(log, "t", CREATED, QUEUED, STARTED, CALLED, ANSWERED, SAID, PAY, begun)
    asked: list[tuple[str, object]] = []

    async def look(tool_id: str, effect: object) -> bool | None:
        asked.append((tool_id, effect))
        return happened

    runner = Taken()
    await recover(log, runner, ids=CountingIds(), reconciler_of=always(Reconciler(only_reading, look)))

    assert asked == [("shop.pay", {"what": "p"})]
    types = [event.type for event in await log.read_stream(task_stream(TaskId("t")))][8:]
    if happened is None:
        assert types == [end, "prompt.requested", "task.waiting_input"]
        assert runner.tasks == []
    else:
        assert types == [end, "task.queued"], "it goes on: done is done, and what was not done can be done now"
        assert runner.tasks == ["t"]


async def test_a_tool_that_was_left_uncertain_by_a_stop_in_order_is_not_made_again(log: InMemoryEventLog) -> None:
    found, runs, _ = await after(log, CALLED, ANSWERED, PAY, ToolCallStarted(call_id=CallId("t2")), UNKNOWN)
    assert [type(fact) for fact in found] == [PromptRequested, TaskWaitingInput]
    assert runs == []


async def test_without_a_word_on_a_tool_it_is_not_made_again(log: InMemoryEventLog) -> None:
    await left(log, "t", CREATED, QUEUED, STARTED, CALLED, ANSWERED, READ, ToolCallStarted(call_id=CallId("t1")))
    runner = Taken()
    assert await recover(log, runner, ids=CountingIds()) == 0
    assert await status(log, "t") == "WAITING_INPUT"


async def after_erasing(log: InMemoryEventLog, erased: type, *bodies: object) -> tuple[list[object], list[str]]:
    """As `after`, where a fact of that kind was erased while the task was open."""
    await left(log, "t", CREATED, QUEUED, STARTED, CALLED, ANSWERED, *bodies)
    (event,) = [event for event in await log.read() if isinstance(event.body, erased)]
    del log.bodies[event.position]
    before = await log.version("task:t")
    runner = Taken()
    await recover(log, runner, ids=CountingIds(), reconciler_of=always(Reconciler(only_reading)))
    return [event.body for event in await log.read_stream("task:t", after_version=before)], runner.tasks


@pytest.mark.parametrize("recorded", [[], [UNKNOWN]], ids=["killed", "stopped in order"])
async def test_a_tool_that_was_begun_and_whose_request_was_erased_is_not_made_again(
    log: InMemoryEventLog, recorded: list[object]
) -> None:
    found, runs = await after_erasing(log, ToolCallRequested, PAY, BEGUN, *recorded)
    assert runs == []
    *ends, asked, _ = found
    assert ends == ([] if recorded else [UNKNOWN])
    why = f" {UNKNOWN.reason}" if recorded else ""
    assert isinstance(asked, PromptRequested)
    said = f"A tool whose name was erased may or may not have happened.{why} Ozzie will not try again by itself."
    assert asked.question == said


async def test_a_tool_that_only_reads_is_not_taken_for_one_when_its_request_was_erased(log: InMemoryEventLog) -> None:
    found, runs = await after_erasing(log, ToolCallRequested, READ, ToolCallStarted(call_id=CallId("t1")))
    assert [type(fact) for fact in found] == [ToolCallUncertain, PromptRequested, TaskWaitingInput]
    assert runs == []


async def test_a_tool_whose_outcome_is_known_and_whose_request_was_erased_leaves_nothing_open(
    log: InMemoryEventLog,
) -> None:
    found, runs = await after_erasing(log, ToolCallRequested, READ, ToolCallStarted(call_id=CallId("t1")), DONE)
    assert (found, runs) == ([RECOVERED], ["t"])


async def test_a_tool_that_was_begun_and_whose_outcome_was_erased_is_uncertain(log: InMemoryEventLog) -> None:
    done = ToolCallCompleted(call_id=CallId("t2"), ok=True, data={}, summary="", duration_ms=1)
    found, runs = await after_erasing(log, ToolCallCompleted, PAY, BEGUN, done)
    assert found[:1] == [UNKNOWN]
    assert runs == []


@pytest.mark.parametrize("begun", [[], [STARTED], [STARTED, CALLED]])
async def test_a_stop_that_was_asked_for_before_the_death_comes_after_it(
    log: InMemoryEventLog, begun: list[object]
) -> None:
    await left(log, "t", CREATED, QUEUED, *begun, TaskCancelRequested(by="ann", reason="enough"))
    runner = Taken()
    assert await recover(log, runner, ids=CountingIds()) == 0
    last = (await log.read_stream("task:t"))[-1].body
    assert last == TaskCancelled(by="ann", reason="enough")
    assert (await log.rows("model_calls", where={"status": "started"})) == []


async def test_what_is_given_up_leaves_no_call_open(log: InMemoryEventLog) -> None:
    await left(log, "t", CREATED, QUEUED, *run_at_each_of(MAX_DEATHS), CALLED)
    await recover(log, Taken(), ids=CountingIds())
    assert [row["status"] for row in await log.rows("model_calls")] == ["failed"]
    assert await status(log, "t") == "FAILED"


async def test_what_an_interrupted_call_cost_is_not_known(log: InMemoryEventLog) -> None:
    await after(log, CALLED)
    (task,) = await log.rows("tasks")
    (usage,) = await log.rows("usage")
    assert (task["cost_known"], usage["unknown_price_calls"], usage["failed_calls"]) == (0, 1, 1)


async def test_an_interrupted_call_counts_in_budgets_with_all_that_it_had_reserved(log: InMemoryEventLog) -> None:
    called = replace(CALLED, reserved_cost=77, reserved_tokens=7000, project="/p", day="2026-01-31")
    await after(log, called)
    rows = {row["scope"]: (row["key"], row["cost"], row["tokens"]) for row in await log.rows("budgets")}
    assert rows == {
        "task": ("t", 77, 7000),
        "session": ("s1", 77, 7000),
        "project": ("/p", 77, 7000),
        "day": ("2026-01-31", 77, 7000),
    }


@pytest.mark.parametrize(
    "bodies",
    [
        [CALLED],
        # A gateway that stopped in order has recorded the end of the call itself.
        [CALLED, ModelCallFailed(call_id=CallId("c1"), code=INTERRUPTED, message="", latency_ms=3)],
    ],
)
async def test_those_who_follow_are_told_that_a_reply_begins_again(log: InMemoryEventLog, bodies: list[object]) -> None:
    _, _, told = await after(log, *bodies)
    assert [(item.type, item.task_id, item.payload) for item in told] == [
        ("reply.reset", "t", {"reply_id": ReplyId("01RRRRRRRRRRRRRRRRRRRRRRRR")})
    ]


@pytest.mark.parametrize("bodies", [[], [CALLED, ANSWERED, SAID], [CALLED, ANSWERED, READ]])
async def test_a_reply_that_came_whole_does_not_begin_again(log: InMemoryEventLog, bodies: list[object]) -> None:
    assert (await after(log, *bodies))[2] == []


async def test_the_children_of_a_dead_gateway_are_accounted_for_before_anything_is_judged(
    log: InMemoryEventLog,
) -> None:
    for pid in (4711, 4712):
        gone = WorkerStarted(plane="model", pid=pid, started="1", boot="an earlier boot")
        await log.append("worker:model", [Draft(body=gone, actor="system", source="planes")])
    await left(log, "t", CREATED, QUEUED, STARTED)

    await recover(log, Taken(), ids=CountingIds())

    *lost, requeued = [event.body for event in await log.read()][-3:]
    assert lost == [
        WorkerLost(plane="model", pid=pid, reason="Its gateway is gone. It was gone.") for pid in (4711, 4712)
    ]
    assert requeued == RECOVERED
    assert [row["status"] for row in await log.rows("workers")] == ["lost", "lost"]


# --- attempts that overlap ------------------------------------------------------------------------------


async def test_a_stop_outlives_the_gateway_that_was_asked_for_it() -> None:
    rig = TaskRig()
    began, over = asyncio.Event(), asyncio.Event()

    async def lets_not_go(recorder: Recorder) -> int:
        began.set()
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()
        return 1

    rig.turns["stubborn"] = lets_not_go
    sent = await rig.submit("stubborn")
    await asyncio.wait_for(began.wait(), 10)
    await rig.service.cancel(sent.task_id, by="ann", reason="enough")
    await rig.service.cancel(sent.task_id, by="bob")
    assert await rig.status(sent.task_id) == "RUNNING"

    again = TaskRig(rig.log)
    assert await recover(again.log, again.driver, ids=again.ids) == 0

    assert await again.status(sent.task_id) == "CANCELLED"
    assert (await rig.bodies(sent.task_id))[-2:] == [
        TaskCancelRequested(by="ann", reason="enough"),
        TaskCancelled(by="ann", reason="enough"),
    ]
    over.set()
    await rig.driver.stop()


async def test_an_attempt_that_comes_to_its_end_too_late_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    late = TaskRig()
    now = TaskRig(late.log)
    late.turns["one"], now.turns["one"] = slow, quick = Gate(), Gate()
    sent = await late.submit("one")
    await slow.wait()
    await recover(now.log, now.driver, ids=now.ids)
    await quick.wait()

    slow.go_on.set()
    for _ in range(1000):
        await asyncio.sleep(0)
        if not late.driver.busy:
            break
    assert await now.status(sent.task_id) == "RUNNING"
    assert "goes on elsewhere" in caplog.text
    quick.go_on.set()

    assert await now.end(sent.task_id) == "SUCCEEDED"
    ends = [body for body in await now.bodies(sent.task_id) if isinstance(body, TaskSucceeded | TaskFailed)]
    assert len(ends) == 1


async def test_a_check_that_was_cut_off_is_no_reply_that_somebody_has_seen_a_part_of(log: InMemoryEventLog) -> None:
    events = await log.append(
        task_stream(TaskId("t")),
        [Draft(body=body, actor="kernel", source="agent") for body in (CALLED, ANSWERED, CHECK)],
    )

    left = unfinished(events)

    assert ([call.call_id for call in left.models], left.replies) == (["c2"], ())


class Knowing(Taken):
    """Notes what of it was known to be delegated when the log told of its state."""

    def __init__(self, log: InMemoryEventLog) -> None:
        super().__init__()
        self._delegated: set[TaskId] = set()
        self.known: list[TaskId] = []
        log.on_commit(self._follow)

    def hold(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> None:
        super().hold(task_id, session_id)
        if delegated:
            self._delegated.add(task_id)

    def _follow(self, events: tuple[Event, ...]) -> None:
        waits = [event.task_id for event in events if isinstance(event.body, TaskPaused | TaskWaitingInput)]
        self.known += [task_id for task_id in waits if task_id is not None and task_id in self._delegated]


@pytest.mark.parametrize(
    "bodies",
    [(TaskPauseRequested(by="ann"),), (PAY, ToolCallStarted(call_id=CallId("t2")))],
    ids=["paused", "in doubt"],
)
async def test_that_a_task_was_delegated_is_known_before_it_is_said_to_wait(
    log: InMemoryEventLog, bodies: tuple[EventBody, ...]
) -> None:
    """Else it would go on behind the others of its session, among them the run that waits for it."""
    await left(log, "run", replace(CREATED, mode="GRAPH"), QUEUED, STARTED)
    await left(log, "step", replace(CREATED, parent=TaskId("run")), QUEUED, STARTED, *bodies)
    runner = Knowing(log)
    await recover(log, runner, ids=CountingIds())
    assert (runner.known, runner.tasks) == (["step"], ["run"])


async def test_nothing_runs_before_all_that_was_cut_off_has_its_end(log: InMemoryEventLog) -> None:
    """Else a run would take the time without a gateway for time in which its steps worked."""
    await left(log, "run", replace(CREATED, mode="GRAPH"), QUEUED, STARTED)
    await left(log, "step", replace(CREATED, parent=TaskId("run")), QUEUED, STARTED, CALLED)
    runner, late = Taken(), list[str]()
    log.on_commit(lambda events: late.extend(event.type for event in events if runner.tasks))
    await recover(log, runner, ids=CountingIds())
    assert (runner.tasks, late) == (["run", "step"], [])
