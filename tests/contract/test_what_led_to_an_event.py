"""What the log adds to an event's envelope: its trace, its work, and the event that led to it (docs/adr/0052)."""

from msgspec.structs import replace

from ozzie_server_ext.domain.events import Event, TaskQueued, TaskStarted, ToolCallRequested
from ozzie_server_ext.domain.ids import CallId, TaskId
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from tests.replay.histories import (
    SESSION,
    TASK,
    artifact_created,
    call_completed,
    call_started,
    received,
    renamed,
    task_created,
    task_draft,
)

STREAM = f"task:{TASK}"
BEGUN = (received("Plot it."), task_created(), TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"))
INNER = TaskId("01J00000000000000000000INR")


def causes(events: tuple[Event, ...]) -> list[str | None]:
    """For each event the type of the one that led to it."""
    types = {event.event_id: event.type for event in events}
    return [event.causation_id and types.get(event.causation_id, "elsewhere") for event in events]


async def test_each_event_of_a_turn_names_the_one_before_it(log: EventLog) -> None:
    await log.append(
        STREAM, [task_draft(received("Plot it.")), task_draft(task_created()), task_draft(TaskQueued(reason="created"))]
    )
    await log.append(STREAM, [task_draft(TaskStarted(attempt=1, epoch="e"))])
    events = await log.read_stream(STREAM)

    assert causes(events) == [None, "message.received", "task.created", "task.queued"]


async def test_a_turn_is_one_trace_from_its_first_event_on(log: EventLog) -> None:
    await log.append(STREAM, [task_draft(received("Plot it.")), task_draft(task_created())])
    await log.append(STREAM, [task_draft(TaskQueued(reason="created"))])

    assert {event.trace_id for event in await log.read_stream(STREAM)} == {TASK}


async def test_a_delegated_task_is_of_the_trace_of_the_one_that_delegated_it(log: EventLog) -> None:
    outer = await log.append(STREAM, [task_draft(body) for body in BEGUN])
    inner = await log.append(
        f"task:{INNER}",
        [
            task_draft(body, task_id=INNER)
            for body in (replace(task_created(), parent=TASK), TaskQueued(reason="created"))
        ],
    )

    assert {event.trace_id for event in inner} == {TASK}
    assert [event.causation_id for event in inner] == [outer[-1].event_id, inner[0].event_id]


async def test_an_event_of_a_call_belongs_to_that_call_and_any_other_to_its_task(log: EventLog) -> None:
    await log.append(STREAM, [task_draft(body) for body in (*BEGUN, call_started("c"), call_completed("c"))])
    spans = [event.span_id for event in await log.read_stream(STREAM)]

    assert spans == [TASK] * 4 + ["c", "c"]


async def test_a_recorder_names_another_cause_for_its_next_facts(log: EventLog) -> None:
    first, *_ = await log.append(STREAM, [task_draft(body) for body in BEGUN])
    recorder = Recorder(log=log, session_id=SESSION, task_id=TASK).caused_by(first.event_id)
    started, completed = await recorder.append(call_started("c"), call_completed("c"))

    assert started.causation_id == first.event_id
    assert completed.causation_id == started.event_id


async def test_calls_that_are_requested_together_follow_from_the_same_event(log: EventLog) -> None:
    first, *_ = await log.append(STREAM, [task_draft(body) for body in BEGUN])
    recorder = Recorder(log=log, session_id=SESSION, task_id=TASK).caused_by(first.event_id)
    requests = [
        ToolCallRequested(
            call_id=CallId(name), use_id=name, tool_id="test.read", name="read", version="1", args={}, round=1, index=0
        )
        for name in ("a", "b")
    ]

    assert [event.causation_id for event in await recorder.append(*requests)] == [first.event_id] * 2


async def test_events_of_a_session_are_in_no_trace_and_have_no_cause(log: EventLog) -> None:
    for event in await log.append(f"session:{SESSION}", [renamed("a"), renamed("b")]):
        assert (event.trace_id, event.span_id, event.causation_id) == ("", "", None)


async def test_in_a_stream_that_tasks_share_each_event_follows_from_its_own_task(log: EventLog) -> None:
    begun = {
        task: (await log.append(f"task:{task}", [task_draft(body, task_id=task) for body in BEGUN]))[-1]
        for task in (TASK, INNER)
    }
    for number, task in enumerate((TASK, INNER, TASK)):
        (event,) = await log.append(
            "artifacts", [task_draft(artifact_created(f"a{number}", name=f"{number}.txt"), task_id=task)]
        )

        assert (event.trace_id, event.causation_id) == (task, begun[task].event_id)
