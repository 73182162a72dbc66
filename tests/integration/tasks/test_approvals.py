"""A turn that asks before it writes, on real files, with the offline script: what was approved is done, or nothing."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import SESSION_YES_EXPIRES_S, AuthStrength
from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalRequested,
    EventBody,
    ModelCallStarted,
    Origin,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.policy import standing
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.tasks import approvals
from ozzie_server_ext.tasks.approvals import Answerer, Approval, Approvals
from ozzie_server_ext.tasks.service import NewTurn
from tests.replaying import replayed

WAIT_S = 20
ANA = Answerer(name="Ana", way=AuthStrength.BROWSER)
RESTS = frozenset({"task.succeeded", "task.failed", "task.cancelled", "task.waiting_input", "task.waiting_approval"})
TEXT = "Line 1 of 2 from Ozzie's offline script.\nLine 2 of 2 from Ozzie's offline script.\n"

T = TypeVar("T", bound=EventBody)


class MovedClock(SystemClock):
    """The machine's time, moved by `later`."""

    later = timedelta()

    def now(self) -> datetime:
        return super().now() + self.later


class Bench:
    """One home and one project, and the gateways on them one after the other."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        for name in ("notes/deep", "data"):
            (self.project / name).mkdir(parents=True)
        self.home = Home(folder / "home")
        self.home.create()
        self.ozzie: Ozzie
        self.is_running = False

    async def start(self) -> None:
        self.ozzie = await Ozzie.start(self.home, self.project)
        self.is_running = True

    async def stop(self) -> None:
        if self.is_running:
            self.is_running = False
            await self.ozzie.stop()

    async def turn(self, path: str = "notes/a.md", notebook: str = "n") -> TaskId:
        """A turn that wants to write that note, once it rests."""
        task_id = await self.begin(path, notebook)
        await self.rests(task_id)
        return task_id

    async def begin(self, path: str, notebook: str = "n") -> TaskId:
        session = await self.session(notebook)
        origin = Origin(channel="notebook", sender_id="ana")
        return (await self.ozzie.submit(NewTurn(session, f"Write a 2-line note to {path}", origin))).task_id

    async def session(self, notebook: str = "n") -> SessionId:
        return (await self.ozzie.sessions.open(notebook, title=notebook, channel="notebook")).session_id

    async def rests(self, task_id: TaskId, count: int = 1) -> str:
        """What the task came to rest with, the given time that it did."""
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=RESTS, task_id=task_id) as events:
            for _ in range(count - 1):
                await anext(events)
            return (await anext(events)).type

    async def pending(self) -> Approval:
        (found,) = await self.ozzie.approvals.list(statuses=["pending"])
        return found

    async def facts(self, task_id: TaskId, kind: type[T]) -> list[T]:
        bodies = [event.body for event in await self.ozzie.log.read_stream(task_stream(task_id))]
        return [body for body in bodies if isinstance(body, kind)]

    def read(self, path: str = "notes/a.md") -> str:
        return (self.project / path).read_text()

    def is_there(self, path: str = "notes/a.md") -> bool:
        return (self.project / path).exists()


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    monkeypatch.setattr("ozzie_server_ext.app.SystemClock", MovedClock)
    monkeypatch.setattr(MovedClock, "later", timedelta())
    bench = Bench(tmp_path)
    await bench.start()
    yield bench
    if bench.is_running:
        assert (await bench.ozzie.log.verify()).ok
        assert await bench.ozzie.log.dump() == await bench.ozzie.log.rebuild()
    await bench.stop()


async def test_a_yes_lets_the_turn_write_what_was_shown_and_go_on(bench: Bench) -> None:
    task_id = await bench.turn()
    asked = await bench.pending()
    assert asked.asked.sentence == "Write a new file, `notes/a.md`, of 2 lines?"
    assert asked.asked.proof == "@@ -0,0 +1,2 @@\n+" + TEXT.rstrip().replace("\n", "\n+")
    assert (bench.is_there(), await bench.rests(task_id)) == (False, "task.waiting_approval")

    await bench.ozzie.approvals.approve(asked.approval_id, ANA, binds=asked.asked.binds)

    assert await bench.rests(task_id, 2) == "task.succeeded"
    assert bench.read() == TEXT
    (started,) = await bench.facts(task_id, ToolCallStarted)
    assert (started.approval_id, started.call_id) == (asked.approval_id, asked.asked.call_id)
    assert len(await bench.facts(task_id, ToolCallRequested)) == 1


async def test_a_no_reaches_the_model_with_its_comment_and_nothing_is_written(bench: Bench) -> None:
    task_id = await bench.turn()

    await bench.ozzie.approvals.reject((await bench.pending()).approval_id, ANA, comment="Into data/, please.")

    assert await bench.rests(task_id, 2) == "task.succeeded"
    assert not bench.is_there()
    last = (await bench.facts(task_id, ModelCallStarted))[-1]
    read = json.loads(await bench.ozzie.blobs.get(last.request_blob))["messages"][-1]
    assert read["role"] == "tool"
    assert json.loads(read["content"]) == {
        "ok": False,
        "data": None,
        "error": {"code": "approval.rejected", "message": 'Rejected by Ana: "Into data/, please."'},
        "artifact_refs": [],
    }


async def test_what_nobody_answers_expires_and_can_be_asked_anew(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.stop()
    monkeypatch.setattr(approvals, "LOOK_S", 0.02)
    await bench.start()
    task_id = await bench.turn()
    first = await bench.pending()

    monkeypatch.setattr(MovedClock, "later", timedelta(hours=2))
    async with asyncio.timeout(WAIT_S), bench.ozzie.feed.subscribe(0, types=frozenset({"approval.expired"})) as events:
        await anext(events)

    with pytest.raises(Conflict, match=r"^Expired at \d\d:\d\d\. Nothing was done\.$"):
        await bench.ozzie.approvals.approve(first.approval_id, ANA)
    assert not bench.is_there()

    await bench.ozzie.approvals.renew(first.approval_id, ANA)
    assert await bench.rests(task_id, 2) == "task.waiting_approval"
    second = await bench.pending()
    assert (second.asked.call_id, second.asked.binds) == (first.asked.call_id, first.asked.binds)
    await bench.ozzie.approvals.approve(second.approval_id, ANA)

    assert await bench.rests(task_id, 3) == "task.succeeded"
    assert bench.read() == TEXT


async def test_a_question_outlives_the_gateway(bench: Bench) -> None:
    task_id = await bench.turn()
    asked = await bench.pending()
    await bench.stop()

    await bench.start()
    assert (await bench.pending()) == asked
    assert not bench.is_there()
    await bench.ozzie.approvals.approve(asked.approval_id, ANA)

    assert await bench.rests(task_id, 2) == "task.succeeded"
    assert bench.read() == TEXT
    assert len(await bench.facts(task_id, ApprovalRequested)) == 1, "it is not asked twice"


@pytest.mark.parametrize("hours", [0, 1], ids=["soon", "an hour later"])
async def test_a_yes_outlives_a_gateway_that_ended_before_the_call_began_but_not_for_long(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    task_id = await bench.turn()
    asked = await bench.pending()
    await bench.stop()
    await answered_at_the_end(bench.home, asked)

    monkeypatch.setattr(MovedClock, "later", timedelta(hours=hours))
    await bench.start()

    if hours:
        assert await bench.rests(task_id, 2) == "task.waiting_approval"
        assert not bench.is_there()
        assert (await bench.pending()).asked.binds == asked.asked.binds
        (void,) = await bench.facts(task_id, ApprovalExpired)
        assert (void.approval_id, void.why) == (asked.approval_id, "time")
        return
    assert await bench.rests(task_id, 2) == "task.succeeded"
    assert bench.read() == TEXT
    (not_begun,) = await bench.facts(task_id, ToolCallCancelled)
    (started,) = await bench.facts(task_id, ToolCallStarted)
    assert not_begun.call_id == asked.asked.call_id != started.call_id
    assert started.approval_id == asked.approval_id
    assert len(await bench.facts(task_id, ToolCallCompleted)) == 1


async def answered_at_the_end(home: Home, asked: Approval) -> None:
    """A yes that is the last thing that a gateway recorded before it was killed."""
    async with nobody_acts(home) as approvals:
        await approvals.approve(asked.approval_id, ANA)


@asynccontextmanager
async def nobody_acts(home: Home) -> AsyncIterator[Approvals]:
    """The approvals of a home while no gateway runs that would act on an answer."""
    clock = SystemClock()
    log = await SqliteEventLog.open(home.database, clock=clock, ids=UlidSource(clock))
    yield Approvals(log, clock)
    await log.close()


async def test_a_turn_that_is_stopped_while_it_waits_takes_no_answer_any_more(bench: Bench) -> None:
    task_id = await bench.turn()
    asked = await bench.pending()

    await bench.ozzie.tasks.cancel(task_id, by="ana")
    assert await bench.rests(task_id, 2) == "task.cancelled"

    with pytest.raises(Conflict, match="It is not asked any more"):
        await bench.ozzie.approvals.approve(asked.approval_id, ANA)
    assert not bench.is_there()
    (not_done,) = await bench.facts(task_id, ToolCallCancelled)
    assert not_done.call_id == asked.asked.call_id
    assert not_done.reason == "The turn was stopped before it was allowed."
    other = await bench.turn("notes/b.md")
    assert await bench.rests(other) == "task.waiting_approval", "its session goes on"


async def test_a_file_that_somebody_else_writes_meanwhile_stays_as_it_is(bench: Bench) -> None:
    task_id = await bench.turn()
    (bench.project / "notes/a.md").write_text("mine\n")

    await bench.ozzie.approvals.approve((await bench.pending()).approval_id, ANA)

    assert await bench.rests(task_id, 2) == "task.succeeded"
    assert bench.read() == "mine\n"
    (failed,) = await bench.facts(task_id, ToolCallFailed)
    assert "is there already" in failed.message
    begun = await bench.facts(task_id, ToolCallStarted)
    assert [started.approval_id for started in begun] == [None], "it only read"


async def test_a_folder_that_becomes_another_meanwhile_is_asked_for_anew(bench: Bench) -> None:
    task_id = await bench.turn()
    first = await bench.pending()
    os.rename(bench.project / "notes", bench.project / "old-notes")
    (bench.project / "notes").mkdir()

    await bench.ozzie.approvals.approve(first.approval_id, ANA)

    assert await bench.rests(task_id, 2) == "task.waiting_approval"
    second = await bench.pending()
    assert second.asked.binds != first.asked.binds
    void = await bench.ozzie.approvals.get(first.approval_id)
    assert (void.status, void.why) == ("granted", "changed")
    assert not bench.is_there()
    with pytest.raises(Conflict, match="The request changed"):
        await bench.ozzie.approvals.approve(second.approval_id, ANA, binds=first.asked.binds)

    await bench.ozzie.approvals.approve(second.approval_id, ANA, binds=second.asked.binds)
    assert await bench.rests(task_id, 3) == "task.succeeded"
    assert (bench.read(), bench.is_there("old-notes/a.md")) == (TEXT, False)


async def test_what_need_not_be_asked_again_runs_in_every_session_until_it_is_taken_back(bench: Bench) -> None:
    first = await bench.turn()
    elsewhere = await bench.turn("data/b.md", "other")
    asked, other = sorted(
        await bench.ozzie.approvals.list(statuses=["pending"]), key=lambda each: each.asked.approval_id
    )
    assert asked.asked.standing == "`write_file` and `edit_file` in `notes/`"

    await bench.ozzie.approvals.approve(asked.approval_id, ANA, extent="standing", binds=asked.asked.binds)

    assert await bench.rests(first, 2) == "task.succeeded"
    assert await bench.rests(await bench.turn("notes/b.md", "third")) == "task.succeeded"
    assert await bench.rests(await bench.turn("notes/deep/c.md", "third")) == "task.succeeded"
    assert bench.is_there("notes/b.md")
    await bench.ozzie.approvals.approve(other.approval_id, ANA, binds=other.asked.binds)
    assert await bench.rests(elsewhere, 2) == "task.succeeded", "the yes to another card is not void"

    assert standing.revoke(bench.home, "standing.notes")
    assert await bench.rests(await bench.turn("notes/d.md", "third")) == "task.waiting_approval"

    third = await bench.session("third")
    verdict = await asyncio.to_thread(replayed, bench.home, third)
    assert verdict.is_same, verdict.sentence


async def test_a_yes_for_the_session_is_for_its_folder_its_session_and_half_an_hour(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await bench.turn()
    asked = await bench.pending()
    assert asked.asked.cover is not None
    assert asked.asked.cover.said == "`write_file` in `notes/`"
    await bench.ozzie.approvals.approve(asked.approval_id, ANA, extent="session")
    assert await bench.rests(first, 2) == "task.succeeded"

    covered = await bench.turn("notes/deep/b.md")
    assert await bench.rests(covered) == "task.succeeded"
    (started,) = await bench.facts(covered, ToolCallStarted)
    assert (started.approval_id, bench.read("notes/deep/b.md")) == (asked.approval_id, TEXT)

    for path, notebook in (("data/c.md", "n"), ("notes/c.md", "another")):
        task_id = await bench.turn(path, notebook)
        assert await bench.rests(task_id) == "task.waiting_approval", (path, notebook)
        await bench.ozzie.tasks.cancel(task_id, by="ana")

    monkeypatch.setattr(MovedClock, "later", timedelta(seconds=SESSION_YES_EXPIRES_S + 1))
    over = await bench.turn("notes/d.md")
    assert await bench.rests(over) == "task.waiting_approval"
    assert [bench.is_there(path) for path in ("data/c.md", "notes/c.md", "notes/d.md")] == [False] * 3


async def test_a_yes_for_the_session_that_is_taken_back_covers_nothing_more(bench: Bench) -> None:
    first = await bench.turn()
    asked = await bench.pending()
    await bench.ozzie.approvals.approve(asked.approval_id, ANA, extent="session")
    assert await bench.rests(first, 2) == "task.succeeded"
    await bench.ozzie.approvals.revoke(asked.approval_id, ANA)

    task_id = await bench.turn("notes/b.md")

    assert await bench.rests(task_id) == "task.waiting_approval"
    assert not bench.is_there("notes/b.md")


async def test_a_yes_that_is_taken_back_before_the_call_was_made_is_asked_for_anew(bench: Bench) -> None:
    task_id = await bench.turn()
    asked = await bench.pending()
    await bench.stop()
    async with nobody_acts(bench.home) as approvals:
        await approvals.approve(asked.approval_id, ANA, extent="session")
        await approvals.revoke(asked.approval_id, ANA)

    await bench.start()

    assert await bench.rests(task_id, 2) == "task.waiting_approval"
    assert (await bench.pending()).approval_id != asked.approval_id
    assert not bench.is_there()


async def test_a_fork_of_a_session_inherits_no_yes(bench: Bench) -> None:
    first = await bench.turn()
    asked = await bench.pending()
    await bench.ozzie.approvals.approve(asked.approval_id, ANA, extent="session")
    assert await bench.rests(first, 2) == "task.succeeded"
    await bench.ozzie.sessions.copy(await bench.session(), key="copy", title="copy", channel="notebook")

    task_id = await bench.turn("notes/b.md", notebook="copy")

    assert await bench.rests(task_id) == "task.waiting_approval"
    assert not bench.is_there("notes/b.md")


async def test_where_nobody_is_there_it_is_not_done_and_not_asked(bench: Bench) -> None:
    origin = Origin(channel="notebook", sender_id="ana")
    asked = "Write a 2-line note to notes/a.md"
    task_id = (await bench.ozzie.submit(NewTurn(await bench.session(), asked, origin, attended=False))).task_id

    assert await bench.rests(task_id) == "task.succeeded"
    assert (bench.is_there(), await bench.ozzie.approvals.list()) == (False, [])
    (failed,) = await bench.facts(task_id, ToolCallFailed)
    assert failed.code == "policy.unattended"
