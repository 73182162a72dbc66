"""The steps of a task, as REST tells them."""

from msgspec.structs import replace

from ozzie_server_ext.domain.events import ModelCallStarted, ToolCallCompleted, ToolCallRequested, ToolCallUncertain
from ozzie_server_ext.domain.ids import ArtifactId, BlobRef, CallId, ReplyId
from ozzie_server_ext.gateway.rest.steps import Steps
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from tests.replay.histories import task_draft


async def test_a_step_names_the_artifacts_that_its_call_made() -> None:
    call_id = CallId("c")
    requested = ToolCallRequested(
        call_id=call_id, use_id="u", tool_id="fs.read", name="read_file", version="1", args={}, round=1, index=0
    )
    completed = ToolCallCompleted(
        call_id=call_id, ok=True, data=None, summary="9 lines", duration_ms=1, artifacts=(ArtifactId("01A"),)
    )
    log = InMemoryEventLog(FakeClock(), CountingIds())
    steps = Steps()

    for event in await log.append("task:t", [task_draft(requested), task_draft(completed)]):
        steps.take(event)

    (step,) = steps.all()
    assert (step.status, step.summary, step.artifacts) == ("completed", "9 lines", ["01A"])


async def test_a_call_in_doubt_stays_beside_the_one_that_is_made_in_its_place() -> None:
    asked = ToolCallRequested(
        call_id=CallId("c"), use_id="u", tool_id="shop.pay", name="pay", version="1", args={}, round=1, index=0
    )
    doubt = ToolCallUncertain(call_id=CallId("c"), reason="It was cut off.", again=True)
    done = ToolCallCompleted(call_id=CallId("d"), ok=True, data=None, summary="paid", duration_ms=1)
    log = InMemoryEventLog(FakeClock(), CountingIds())
    steps = Steps()

    bodies = (asked, doubt, replace(asked, call_id=CallId("d")), done)
    for event in await log.append("task:t", [task_draft(body) for body in bodies]):
        steps.take(event)

    cut, again = steps.all()
    assert (cut.status, cut.error and cut.error.message) == ("uncertain", "It was cut off.")
    assert (again.status, again.error) == ("completed", None)


async def test_a_check_is_a_step_of_a_model_that_is_told_apart() -> None:
    log = InMemoryEventLog(FakeClock(), CountingIds())
    steps = Steps()
    answer = ModelCallStarted(
        call_id=CallId("m"),
        reply_id=ReplyId("r"),
        round=1,
        alias="main",
        provider="p",
        model="m-1",
        request_blob=BlobRef("b"),
        config="",
        prompt="",
        tools="",
    )
    check = replace(answer, call_id=CallId("k"), alias="cheap", purpose="check")

    for event in await log.append("task:t", [task_draft(answer), task_draft(check)]):
        steps.take(event)

    assert [(step.kind, step.purpose, step.name) for step in steps.all()] == [
        ("model", "answer", "main"),
        ("model", "check", "cheap"),
    ]
