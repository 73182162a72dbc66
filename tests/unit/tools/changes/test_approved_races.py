"""Between a person's yes and the write, somebody swaps the file, its folder or a link as fast as they can: what is
written is what was approved, in the place of what was shown, or nothing is."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    EventBody,
    Limits,
    TaskCreated,
    TaskQueued,
    TaskStarted,
    TaskWaitingApproval,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolUse,
)
from ozzie_server_ext.domain.ids import CallId, MessageId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.policy.engine import FixedRulings
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.approvals import Answerer, Approvals
from ozzie_server_ext.tools.base import ToolContext, ToolUncertain
from ozzie_server_ext.tools.broker import CallPosition
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.builtin.files import version_of
from ozzie_server_ext.tools.changes.diff import unified
from ozzie_server_ext.tools.permissions import EarlierRequest, Grant
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.brokers import broker_of
from tests.hostile.racing import FILE, lay_out
from tests.tiers import SOAK
from tests.unit.tools.changes.test_races import (
    MOVING,
    Race,
    attempts,
    contents,
    in_a_process,
    in_a_thread,
    name,
    seen_file,
)

ANA = Answerer(name="Ana", way=AuthStrength.BROWSER)
SESSION = SessionId("sess_1")
ATTEMPTS = 1_000 if SOAK else 10
"""For each of the ten; below the broker, each race is run ten times as often."""
MOST_QUESTIONS = 1000
"""Until one is put: a plan fails where the file was swapped since it was read."""
CALLS_A_LOG = 50
"""A log in memory is slow when it is long."""


class Gate:
    """The broker and the approvals on a project, with the real tools that change files."""

    def __init__(self, root: Path) -> None:
        self.clock, self.ids = FakeClock(), CountingIds()
        self.log = InMemoryEventLog(self.clock, self.ids)
        self.artifacts = ArtifactStore(self.log, InMemoryBlobs(), self.ids)
        self.approvals = Approvals(self.log, self.clock)
        self.context = ToolContext(root, self.clock)
        registry = ToolRegistry(builtin_tools())
        self.broker = broker_of(registry, FixedRulings(), self.artifacts, self.clock, self.ids, self.approvals)

    async def asked(self, use: ToolUse) -> tuple[Recorder, ApprovalRequested] | None:
        """The question about a call, in a task of its own; None where the call came to its end without one."""
        recorder = Recorder(log=self.log, session_id=SESSION, task_id=TaskId(self.ids.new()))
        created = TaskCreated(title="t", mode="FREE", message_id=MessageId("m"), limits=Limits())
        await recorder.append(created, TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"))
        asks = await self.broker.call(use, CallPosition(1, 0), self.context, recorder)
        if asks is None:
            return None
        assert isinstance(asks.request, ApprovalRequested)
        await recorder.append(*asks.facts, TaskWaitingApproval(approval_id=asks.request.approval_id))
        return recorder, asks.request

    async def approved(self, use: ToolUse, recorder: Recorder, asked: ApprovalRequested) -> EventBody:
        """The last fact of the call after a yes; where it asks again, the question. Raises ToolUncertain."""
        await self.approvals.approve(asked.approval_id, ANA, binds=asked.binds)
        await recorder.append(TaskStarted(attempt=2, epoch="e"))
        yes = EarlierRequest(asked=asked, grant=Grant(way=ANA.way, at=self.clock.now()), is_open=False)
        asks = await self.broker.call(use, CallPosition(1, 0), self.context, recorder, yes)
        return asks.request if asks is not None else (await self.bodies(recorder))[-1]

    async def bodies(self, recorder: Recorder) -> list[EventBody]:
        return [event.body for event in await self.log.read_stream(task_stream(recorder.task_id))]


@dataclass
class Story:
    """How the attempts ended, and what must lie somewhere in the end."""

    root: Path
    expected: Counter[str]
    gate: Gate = field(init=False)
    ended: Counter[str] = field(default_factory=Counter)
    perhaps: Counter[str] = field(default_factory=Counter)

    async def attempt(self, number: int) -> None:
        """One file, seen in a moment in which it can be; a question about it, a yes, and the call."""
        if number % CALLS_A_LOG == 0:
            self.gate = Gate(self.root)
        new = f"ours {number}\n"
        use, recorder, asked = await self._question(new)
        try:
            last = await self.gate.approved(use, recorder, asked)
        except ToolUncertain:
            self.ended["uncertain"] += 1
            self.perhaps[new] += 1
            return
        match last:
            case ToolCallCompleted():
                await self._written(recorder, asked, new)
            case ApprovalRequested():
                self.ended["asked anew"] += 1
            case ToolCallFailed(code=code):
                self.ended[code] += 1
            case _:
                raise AssertionError(last)

    async def _question(self, new: str) -> tuple[ToolUse, Recorder, ApprovalRequested]:
        for _ in range(MOST_QUESTIONS):
            version = version_of(seen_file(self.root).content)
            args: JsonObject = {"path": FILE, "text": new, "version": version}
            use = ToolUse(call_id=CallId("call_1"), name="write_file", arguments=dumps(args))
            found = await self.gate.asked(use)
            if found is not None:
                return use, *found
        raise AssertionError("the file is never there for long enough to ask")

    async def _written(self, recorder: Recorder, asked: ApprovalRequested, new: str) -> None:
        """It was done: what went is what the question showed to go, and what came what it showed to come."""
        (started,) = (body for body in await self.gate.bodies(recorder) if isinstance(body, ToolCallStarted))
        assert started.approval_id == asked.approval_id
        assert started.before is not None
        _, content = await self.gate.artifacts.of(SESSION).open(started.before)
        assert asked.proof == unified(content.decode(), new)
        self.ended["done"] += 1
        self.expected[content.decode()] -= 1
        self.expected[new] += 1


@pytest.mark.sampled
@pytest.mark.timeout(1800 if SOAK else 60)
@pytest.mark.parametrize("racing", [in_a_thread, in_a_process])
@pytest.mark.parametrize("race", MOVING)
async def test_what_is_written_is_what_was_approved_or_nothing(
    tmp_path: Path, race: str, racing: Race, say: Callable[[str], None]
) -> None:
    story = Story(lay_out(tmp_path), contents(tmp_path))

    with racing(race, tmp_path):
        for number in attempts(story.ended, ATTEMPTS):
            await story.attempt(number)

    say(f"approved, {race}, {name(racing)}: {dict(story.ended)}")
    found = contents(tmp_path)
    assert +(story.expected - found) == Counter(), "this is lost"
    assert found - +story.expected <= story.perhaps, "this should not be there"
    assert (tmp_path / "victim.txt").read_text() == "first of victim.txt\n"
    assert len(story.ended) > 1, "nobody raced"
