"""A history in which every kind of event of format 1 occurs, with what is hard to keep: all of Unicode, large numbers,
nothing."""

from collections.abc import Iterator

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import (
    ConfigChanged,
    Draft,
    EventBody,
    InjectedTool,
    Limits,
    MessageCompleted,
    MessageReceived,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    Origin,
    SessionArchived,
    SessionClosed,
    SessionCreated,
    SessionForked,
    SessionModelChosen,
    SessionMoved,
    SessionRenamed,
    SessionResumed,
    TaskCancelled,
    TaskCancelRequested,
    TaskCreated,
    TaskFailed,
    TaskPaused,
    TaskQueued,
    TaskResumed,
    TaskRetried,
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
    ToolsetInjected,
    ToolUse,
    WorkerLost,
    WorkerStarted,
)
from ozzie_server_ext.domain.ids import (
    BlobRef,
    CallId,
    EventId,
    MessageId,
    ReplyId,
    SessionId,
    TaskId,
    session_stream,
    task_stream,
)

FIRST, SECOND = (SessionId(f"sess_01J8ZQ00000000000000000SE{number}") for number in (1, 2))
TASKS = tuple(TaskId(f"01J8ZQ0000000000000000TSK{number}") for number in range(6))
BLOB = BlobRef("sha256:" + "ab" * 32)
WORDS = 'Größe · 数据 · עברית · 🙂🏽 · a\u2028b · \t"quoted" \\ / \x7f · \u0301 · 𝔘'

Append = tuple[str, list[Draft]]


def history() -> Iterator[Append]:
    """One append after the other; the log takes them all."""
    yield from _sessions()
    yield from _a_turn_with_tools(TASKS[0])
    yield from _a_turn_that_waits_fails_and_is_tried_again(TASKS[1])
    yield from _a_turn_that_is_stopped(TASKS[2])
    yield from _a_turn_that_may_have_done_something(TASKS[3])
    yield from _a_turn_that_never_began(TASKS[4])
    yield (
        "system",
        [_of(ConfigChanged(version="2", blob=BLOB, files=("config.jsonc", WORDS), previous="1"), actor="system")],
    )
    yield (
        "worker:model",
        [_of(WorkerStarted(plane="model", pid=2**31 - 1, started="123456789", boot="b-o-o-t"), actor="system")],
    )
    yield "worker:model", [_of(WorkerLost(plane="model", pid=2**31 - 1, reason=WORDS), actor="system")]
    yield session_stream(FIRST), [_of(SessionClosed(by="ana"))]
    yield session_stream(SECOND), [_of(SessionArchived(by=""), session=SECOND)]


def _of(
    body: EventBody,
    *,
    task: TaskId | None = None,
    session: SessionId | None = FIRST,
    actor: str = "user",
    **envelope: object,
) -> Draft:
    return Draft(body=body, actor=actor, source="sample", session_id=session, task_id=task, **envelope)  # type: ignore[arg-type]


def _turn(task: TaskId, *bodies: EventBody, actor: str = "kernel") -> Append:
    return task_stream(task), [_of(body, task=task, actor=actor) for body in bodies]


def _sessions() -> Iterator[Append]:
    stream = session_stream(FIRST)
    yield stream, [_of(SessionCreated(key="notebook:/a/b.ipynb", title=WORDS, channel="notebook", by="ana"))]
    yield stream, [_of(SessionRenamed(title="", by=""))]
    yield stream, [_of(SessionModelChosen(model="local/llama", base_url="http://127.0.0.1:11434/v1", by="ana"))]
    yield stream, [_of(SessionMoved(before="notebook:/a/b.ipynb", key="notebook:/a/c.ipynb", by="jupyter"))]
    yield stream, [_of(SessionResumed(key="cli:tty", by="ana"))]
    yield (
        session_stream(SECOND),
        [
            _of(SessionCreated(key=str(SECOND), title="copy", channel="notebook"), session=SECOND),
            _of(SessionForked(parent=FIRST, position=5, by="ana"), session=SECOND),
        ],
    )


def _begun(task: TaskId, text: str = "What?", *, attempt: int = 1) -> Iterator[Append]:
    message = MessageId(f"{task[:-4]}MSG{task[-1]}")
    origin = Origin(channel="notebook", sender_id="ana", sender_name=WORDS, kernel_id="k-1", cell_id="c-1")
    received = MessageReceived(message_id=message, text=text, origin=origin)
    created = TaskCreated(
        title="What?",
        mode="FREE",
        message_id=message,
        limits=Limits(max_rounds=10, deadline_s=3600.5, max_cost=2**53 - 1),
        thread_id=str(FIRST),
        scope_id=f"chat:notebook:{FIRST}",
        channel="notebook",
        sender_id="ana",
        risk_level="low",
        model="",
    )
    labels, sources = ("web",), ("https://example.org/" + WORDS,)
    yield (
        task_stream(task),
        [
            _of(received, task=task, labels=labels, sources=sources),
            _of(created, task=task, actor="kernel"),
            _of(
                TaskQueued(reason="created"),
                task=task,
                actor="kernel",
                idempotency_key="queue",
                causation_id=EventId("e-1"),
            ),
        ],
    )
    yield _turn(task, TaskStarted(attempt=attempt, epoch="01J8ZQ0000000000000000EPO1"))


def _call(task: TaskId, number: int) -> tuple[CallId, ReplyId, ModelCallStarted]:
    call, reply = CallId(f"{task[:-5]}CAL{number}{task[-1]}"), ReplyId(f"{task[:-5]}REP{number}{task[-1]}")
    started = ModelCallStarted(
        call_id=call,
        reply_id=reply,
        round=number,
        alias="main",
        provider="local",
        model="m",
        request_blob=BLOB,
        config="c",
        prompt="p",
        tools="t",
    )
    return call, reply, started


def _answered(task: TaskId, number: int, *uses: ToolUse) -> Iterator[Append]:
    call, reply, started = _call(task, number)
    yield _turn(task, started)
    completed = ModelCallCompleted(
        call_id=call,
        response_blob=BLOB,
        finish="tool_calls" if uses else "stop",
        tool_uses=uses,
        usage=Usage(input_tokens=2**40, output_tokens=0, cached_tokens=1),
        cost=None if uses else 123_456_789_012,
        latency_ms=0.125,
        ttft_ms=None if uses else 1e-3,
    )
    yield _turn(task, completed, MessageCompleted(reply_id=reply, text=WORDS * 50, finish=completed.finish))


def _tool(task: TaskId, name: str, index: int) -> tuple[CallId, ToolCallRequested]:
    call = CallId(f"{task[:-5]}TOO{index}{task[-1]}")
    args = {"text": WORDS, "none": None, "deep": [[{"x": [1, 2.5, -0.0, 1e300, True]}]], "": {}}
    return call, ToolCallRequested(
        call_id=call, use_id=f"u{index}", tool_id=name, name=name, version="v", args=args, round=1, index=index
    )


def _a_turn_with_tools(task: TaskId) -> Iterator[Append]:
    yield from _begun(task, WORDS)
    yield _turn(task, ToolsetInjected(tools=(InjectedTool(tool_id="calc.eval", name="calculator", version="v"),)))
    yield from _answered(
        task, 1, *(ToolUse(call_id=CallId(f"u{index}"), name="calculator", arguments="{}") for index in range(3))
    )
    for index, outcome in enumerate(("completed", "failed", "cancelled")):
        call, requested = _tool(task, "calc.eval", index)
        yield _turn(task, requested)
        yield _turn(task, ToolCallDecided(call_id=call, decision="ALLOW", rule="r", reason=WORDS))
        yield _turn(task, ToolCallStarted(call_id=call))
        ends: dict[str, EventBody] = {
            "completed": ToolCallCompleted(
                call_id=call, ok=True, data={"rows": [None, 0, "", []]}, summary="3 rows", duration_ms=1.5, blob=BLOB
            ),
            "failed": ToolCallFailed(call_id=call, code="tool.timed_out", message=WORDS, duration_ms=0.0),
            "cancelled": ToolCallCancelled(call_id=call, reason=""),
        }
        yield _turn(task, ends[outcome])
    yield from _answered(task, 2)
    yield _turn(task, TaskSucceeded(rounds=2))


def _a_turn_that_waits_fails_and_is_tried_again(task: TaskId) -> Iterator[Append]:
    yield from _begun(task)
    yield _turn(task, TaskWaitingApproval(approval_id="a-1"))
    yield _turn(task, TaskResumed(by="ana"))
    yield _turn(task, TaskWaitingInput(question=WORDS))
    yield _turn(task, TaskResumed(by="ana"))
    yield _turn(task, TaskPaused(by="ana", reason="lunch"))
    yield _turn(task, TaskResumed(by="ana"))
    call, reply, started = _call(task, 1)
    yield _turn(task, started)
    failed = ModelCallFailed(call_id=call, code="provider.broken", message=WORDS, latency_ms=None, partial_blob=BLOB)
    yield _turn(task, failed, MessageCompleted(reply_id=reply, text="Half an ans", finish="failed"))
    yield _turn(task, TaskFailed(kind="model", code="provider.broken", message="m", hint="h", detail=WORDS))
    yield _turn(task, TaskRetried(by="ana", attempt=2))


def _a_turn_that_is_stopped(task: TaskId) -> Iterator[Append]:
    yield from _begun(task)
    yield _turn(task, TaskQueued(reason="recovered"))
    yield _turn(task, TaskStarted(attempt=2, epoch="01J8ZQ0000000000000000EPO2"))
    yield _turn(task, TaskCancelRequested(by="ana", reason="enough"), actor="user")
    yield _turn(task, TaskCancelled(by="ana", reason="enough"), actor="user")


def _a_turn_that_may_have_done_something(task: TaskId) -> Iterator[Append]:
    yield from _begun(task)
    call, requested = _tool(task, "mail.send", 0)
    yield _turn(task, requested, ToolCallStarted(call_id=call))
    yield _turn(task, ToolCallUncertain(call_id=call, reason="the gateway ended"))


def _a_turn_that_never_began(task: TaskId) -> Iterator[Append]:
    yield next(_begun(task))
