"""What turns write: the appends of one turn with a tool call after the other, as the gateway makes them; and a log full
of them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.events import (
    Draft,
    EventBody,
    InjectedTool,
    Limits,
    MessageCompleted,
    MessageReceived,
    ModelCallCompleted,
    ModelCallStarted,
    Origin,
    SessionCreated,
    TaskCreated,
    TaskQueued,
    TaskStarted,
    TaskSucceeded,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallRequested,
    ToolCallStarted,
    ToolsetInjected,
    ToolUse,
)
from ozzie_server_ext.domain.ids import (
    BlobRef,
    CallId,
    MessageId,
    ReplyId,
    SessionId,
    TaskId,
    session_stream,
    task_stream,
)
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.admission import Append, prepare, random_salt
from ozzie_server_ext.store.database import open_writable
from ozzie_server_ext.store.writer import Committer

Appended = tuple[str, list[Draft]]

_BATCH = 256

APPENDS_A_TURN = 9
EVENTS_A_TURN = 15

_BLOB = BlobRef("sha256:" + "0123456789abcdef" * 4)
_TOOLS = ("calculator", "current_time", "list_files", "read_file")
_QUESTION = "How many rows has data/sales.csv, and what is the average of the last column? Please say both."
_ANSWER = "The file has 1,204 rows. The average of its last column, `amount`, is 87.31. " * 6


class _PastClock(SystemClock):
    """Spreads events over the last days."""

    def __init__(self, events: int, days: int) -> None:
        self._step = timedelta(days=days) / events
        self._now = datetime.now(UTC) - timedelta(days=days)

    def now(self) -> datetime:
        self._now += self._step
        return self._now


def fill(path: Path, events: int, *, sessions: int, days: int = 0) -> int:
    """Write at least so many events of turns into the log at `path`, and return how many there are. With `days`, they
    are spread over these, one session after the other; else all sessions go on at once. What makes writing durable is
    left out."""
    connection = open_writable(path)
    connection.execute("PRAGMA synchronous = OFF")
    committer = Committer(connection, path)
    committer.make_current()
    clock = _PastClock(events, days)
    ids = UlidSource(SystemClock())
    sources = [turns(client, ids) for client in range(sessions)]
    written = number = 0
    while written < events:
        batch: list[Append] = []
        for _ in range(_BATCH):
            now = min(written * sessions // events, sessions - 1) if days else number % sessions
            stream, drafts = next(sources[now])
            number += 1
            batch.append(prepare(stream, drafts, expected_version=None, clock=clock, ids=ids, salts=random_salt))
        written += len(committer.commit(batch).new)
    connection.close()
    return written


def turns(client: int, ids: IdSource) -> Iterator[Appended]:
    """A session, then turns in it without end. The ids are made when they are needed, as in the gateway."""
    session_id = SessionId(f"sess_{ids.new()}")
    created = SessionCreated(key=f"notebook:{client}.ipynb", title=f"{client}.ipynb", channel="notebook")
    yield session_stream(session_id), [Draft(body=created, actor="user", source="hub", session_id=session_id)]
    while True:
        yield from _turn(session_id, ids)


def _turn(session_id: SessionId, ids: IdSource) -> Iterator[Appended]:
    task_id = TaskId(ids.new())
    message_id = MessageId(ids.new())

    def append(*bodies: EventBody) -> Appended:
        return task_stream(task_id), [
            Draft(body=body, actor="kernel", source="agent", session_id=session_id, task_id=task_id) for body in bodies
        ]

    def call(number: int, *, first: tuple[EventBody, ...] = (), uses: tuple[ToolUse, ...] = ()) -> Iterator[Appended]:
        call_id, reply_id = CallId(ids.new()), ReplyId(ids.new())
        started = ModelCallStarted(
            call_id=call_id,
            reply_id=reply_id,
            round=number,
            alias="main",
            provider="anthropic",
            model="claude-sonnet-4-20250514",
            request_blob=_BLOB,
            config="0123456789abcdef",
            prompt="0123456789abcdef",
            tools="0123456789abcdef",
        )
        yield append(*first, started)
        done = ModelCallCompleted(
            call_id=call_id,
            response_blob=_BLOB,
            finish="tool_calls" if uses else "stop",
            tool_uses=uses,
            usage=Usage(input_tokens=1840, output_tokens=212, cached_tokens=0),
            cost=8_700_000,
            latency_ms=2113.52,
            ttft_ms=411.07,
        )
        text = () if uses else (MessageCompleted(reply_id=reply_id, text=_ANSWER, finish="stop"),)
        yield append(done, *text)

    yield append(
        MessageReceived(message_id=message_id, text=_QUESTION, origin=Origin(channel="notebook", cell_id="a1b2c3d4")),
        TaskCreated(
            title=_QUESTION[:80],
            mode="FREE",
            message_id=message_id,
            limits=Limits(),
            thread_id=str(session_id),
            scope_id=f"chat:notebook:{session_id}",
            channel="notebook",
            sender_id="user",
        ),
        TaskQueued(reason="created"),
    )
    yield append(TaskStarted(attempt=1, epoch=task_id))
    tools = tuple(InjectedTool(tool_id=name, name=name, version="1") for name in _TOOLS)
    use = ToolUse(call_id=CallId("toolu_01"), name="read_file", arguments='{"path": "data/sales.csv"}')
    yield from call(1, first=(ToolsetInjected(tools=tools),), uses=(use,))
    tool_call = CallId(ids.new())
    yield append(
        ToolCallRequested(
            call_id=tool_call,
            use_id="toolu_01",
            tool_id="fs.read",
            name="read_file",
            version="1",
            args={"path": "data/sales.csv"},
            round=1,
            index=0,
        ),
        ToolCallDecided(call_id=tool_call, decision="ALLOW", rule="default.read_only", reason="It changes nothing."),
        ToolCallStarted(call_id=tool_call),
    )
    yield append(
        ToolCallCompleted(
            call_id=tool_call,
            ok=True,
            data={"text": "date,shop,amount\n" * 12, "lines": 1204},
            summary="1,204 lines",
            duration_ms=1.73,
        )
    )
    yield from call(2)
    yield append(TaskSucceeded(rounds=2))
