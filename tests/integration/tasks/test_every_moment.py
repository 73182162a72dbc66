"""A turn that is cut off between any two of its appends ends as it would have ended, with everything said once."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from ozzie_kernel.cellturn import fold_frame
from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    MessageCompleted,
    ModelCallStarted,
    Origin,
    PromptAnswered,
    PromptRequested,
    ToolCallCompleted,
    ToolCallRequested,
    ToolCallResolved,
    ToolCallStarted,
    Transient,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.protocol.frames import event_frame
from ozzie_server_ext.render.turnfold import new_turn
from ozzie_server_ext.render.turnview import TextPart
from ozzie_server_ext.tasks.approvals import Answerer
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.tools.builtin import writing
from ozzie_server_ext.tools.changes import replace as changing
from tests.integration.tasks.cut_logs import Append, cut_off, cuts_of, recorded_appends
from tests.tiers import SOAK

WAIT_S = 20
ASKED = "How many rows has @data/three.csv?"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "three.csv").write_text("a,b\n1,2\n3,4\n5,6\n")
    return folder


async def whole_turn(
    home: Home, project: Path, monkeypatch: pytest.MonkeyPatch, asked: str = ASKED
) -> tuple[TaskId, list[Append]]:
    """A turn that nothing disturbs, and the appends that it consists of, in the order of the log."""
    with recorded_appends(monkeypatch) as appends:
        ozzie = await Ozzie.start(home, project)
        session = await ozzie.sessions.open("test", title="test", channel="test")
        task_id = (await ozzie.submit(NewTurn(session.session_id, asked, Origin(channel="test")))).task_id
        await allowed(ozzie, task_id)
        await seen_through(ozzie, task_id)
        await ozzie.stop()
    return task_id, appends


async def succeeded(ozzie: Ozzie, task_id: TaskId) -> None:
    kinds = frozenset({"task.succeeded", "task.failed", "task.cancelled"})
    async with asyncio.timeout(WAIT_S), ozzie.feed.subscribe(0, types=kinds, task_id=task_id) as events:
        assert (await anext(events)).type == "task.succeeded"


async def seen_through(ozzie: Ozzie, task_id: TaskId) -> None:
    """Say yes to whatever the turn asks, until it has succeeded."""
    kinds = frozenset({"task.succeeded", "task.failed", "task.cancelled", "task.waiting_approval"})
    async with asyncio.timeout(WAIT_S), ozzie.feed.subscribe(0, types=kinds, task_id=task_id) as events:
        async for event in events:
            if event.type != "task.waiting_approval":
                assert event.type == "task.succeeded"
                return
            for asked in await ozzie.approvals.list(task_id=task_id, statuses=["pending"]):
                await ozzie.approvals.approve(asked.approval_id, Answerer(name="ann", way=AuthStrength.BROWSER))


async def allowed(ozzie: Ozzie, task_id: TaskId) -> None:
    """Where the turn asks for more than its budget, it is allowed; returns once it has ended, goes on or asks for
    something else."""
    kinds = frozenset(
        {"task.succeeded", "task.failed", "task.cancelled", "task.waiting_input", "task.waiting_approval"}
    )
    async with asyncio.timeout(WAIT_S), ozzie.feed.subscribe(0, types=kinds, task_id=task_id) as events:
        await anext(events)
    if await ozzie.answers.question(task_id) is not None:
        await ozzie.answers.answer(task_id, "allow", by="ann", amount=100_000)


@pytest.mark.sampled
async def test_a_turn_cut_off_behind_any_append_ends_as_one_that_was_not(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Home(tmp_path / "whole")
    first.create()
    task_id, appends = await whole_turn(first, project, monkeypatch)
    stream = task_stream(task_id)
    begins = next(index for index, (_, name, _) in enumerate(appends) if name == stream)
    expected = ""
    cuts = cuts_of(stream, appends, begins)
    assert len(cuts) >= (9 if SOAK else 8), "a turn of two tools has at least so many appends"

    for cut in reversed(cuts):  # the whole one first: it says what the others have to come to
        home = Home(tmp_path / f"cut-{cut}")
        home.create()
        shutil.copytree(first.blobs, home.blobs, dirs_exist_ok=True)
        await cut_off(home, appends[:cut])
        ozzie = await Ozzie.start(home, project)
        await succeeded(ozzie, task_id)

        where = f"cut off behind {appends[cut - 1][2][-1].body.type}"
        bodies = [event.body for event in await ozzie.log.read_stream(stream)]
        said = [body.text for body in bodies if isinstance(body, MessageCompleted)]
        expected = expected or said[-1]
        assert "**3 rows**" in expected
        assert (said[-1], len(said), len(set(said))) == (expected, 1, 1), where
        done = [body for body in bodies if isinstance(body, ToolCallCompleted)]
        assert len(done) == 2, f"{where}: a step that had an outcome was done again, or one was left out"
        begun = {body.call_id for body in bodies if isinstance(body, ToolCallStarted)}
        steps = await ozzie.log.rows("model_calls", where={"status": "started"})
        assert (steps, {body.call_id for body in done} <= begun) == ([], True), where
        assert (await ozzie.log.verify()).ok
        assert await ozzie.log.dump() == await ozzie.log.rebuild()
        await ozzie.stop()


NOTE = "notes/hello.md"
WRITTEN = "Line 1 of 2 from Ozzie's offline script.\nLine 2 of 2 from Ozzie's offline script.\n"
NOTES_ARE_FREE = """{"rules": [{
  "id": "notes", "decision": "allow", "reason": "Notes are free.",
  "when": {"tools": ["fs.write"], "paths": ["notes/**"]},
  "examples": {"match": [{"tool": "write_file", "args": {"path": "notes/a.md"}}]}
}]}"""


@pytest.mark.sampled
@pytest.mark.parametrize("rules", [NOTES_ARE_FREE, ""], ids=["allowed", "asked for"])
@pytest.mark.parametrize("done", [False, True], ids=["before the effect", "behind the effect"])
async def test_a_turn_that_writes_cut_off_behind_any_append_writes_once_and_says_so_once(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: bool, rules: str
) -> None:
    """Whether or not the file was written when the gateway went; behind its outcome, it was. What was approved before
    is not asked for again."""
    first = Home(tmp_path / "whole")
    first.create()
    if rules:
        first.policy_file.write_text(rules)
    note = project / NOTE
    task_id, appends = await whole_turn(first, project, monkeypatch, f"Write a two-line note to {NOTE}.")
    assert note.read_text() == WRITTEN
    stream = task_stream(task_id)
    begins = next(index for index, (_, name, _) in enumerate(appends) if name == stream)
    cuts = cuts_of(stream, appends, begins)
    writes: list[Path] = []
    replace_file = changing.replace

    def counted(root: Path, *given: Any) -> Any:
        writes.append(root)
        return replace_file(root, *given)

    monkeypatch.setattr(writing, "replace", counted)
    for cut in cuts:
        recorded = [draft.body for _, _, drafts in appends[:cut] for draft in drafts]
        begun = any(isinstance(body, ToolCallStarted) for body in recorded)
        ended = any(isinstance(body, ToolCallCompleted) for body in recorded)
        there = ended or (begun and done)
        shutil.rmtree(note.parent)
        if there:
            note.parent.mkdir()
            note.write_text(WRITTEN)
        writes.clear()
        home = Home(tmp_path / f"cut-{cut}")
        home.create()
        if rules:
            home.policy_file.write_text(rules)
        shutil.copytree(first.blobs, home.blobs, dirs_exist_ok=True)
        await cut_off(home, appends[:cut])
        ozzie = await Ozzie.start(home, project)
        await seen_through(ozzie, task_id)

        where = f"cut off behind {appends[cut - 1][2][-1].body.type}, {'with' if there else 'without'} the file"
        bodies = [event.body for event in await ozzie.log.read_stream(stream)]
        assert note.read_text() == WRITTEN, where
        assert len(writes) == (0 if there else 1), f"{where}: written {len(writes)} times"
        outcomes = [body for body in bodies if isinstance(body, ToolCallCompleted)]
        assert [body.ok for body in outcomes] == [True], where
        assert sum(isinstance(body, ApprovalRequested) for body in bodies) == (not rules), where
        assert sum(isinstance(body, MessageCompleted) for body in bodies) == 1, where
        assert await ozzie.log.dump() == await ozzie.log.rebuild()
        await ozzie.stop()


@pytest.mark.parametrize(
    ("said", "end", "calls"),
    [("done", "task.succeeded", 1), ("again", "task.succeeded", 3), ("leave", "task.failed", 1)],
)
async def test_a_write_of_which_nobody_knows_is_left_to_a_person(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, end: str, calls: int
) -> None:
    """Somebody else's file lies there when the gateway comes back; what a person says of the write is what counts."""
    first = Home(tmp_path / "whole")
    first.create()
    first.policy_file.write_text(NOTES_ARE_FREE)
    task_id, appends = await whole_turn(first, project, monkeypatch, f"Write a two-line note to {NOTE}.")
    started = next(
        index for index, (_, _, drafts) in enumerate(appends, 1) if isinstance(drafts[-1].body, ToolCallStarted)
    )
    (project / NOTE).write_text("somebody else's\n")
    home = Home(tmp_path / "cut")
    home.create()
    home.policy_file.write_text(NOTES_ARE_FREE)
    shutil.copytree(first.blobs, home.blobs, dirs_exist_ok=True)
    await cut_off(home, appends[:started])

    ozzie = await Ozzie.start(home, project)

    (row,) = await ozzie.log.rows("tasks", where={"task_id": task_id})
    assert row["status"] == "WAITING_INPUT"
    assert str(row["reason"]).startswith("write_file (notes/hello.md) may or may not have happened.")
    await ozzie.stop()
    ozzie = await Ozzie.start(home, project)  # it waits in the log, for whatever gateway there is
    question = await ozzie.answers.question(task_id)
    assert question is not None
    assert question.prompt.kind == "uncertain"
    await ozzie.answers.answer(task_id, said, by="ann")

    kinds = frozenset({"task.succeeded", "task.failed"})
    async with asyncio.timeout(WAIT_S), ozzie.feed.subscribe(0, types=kinds, task_id=task_id) as events:
        assert (await anext(events)).type == end
    bodies = [event.body for event in await ozzie.log.read_stream(task_stream(task_id))]
    assert [body.outcome for body in bodies if isinstance(body, ToolCallResolved)] == [
        {"done": "done", "again": "again", "leave": "left"}[said]
    ]
    assert sum(isinstance(body, ToolCallRequested) for body in bodies) == calls
    assert (project / NOTE).read_text() == "somebody else's\n", "also a second try sees that it is not the one"
    await ozzie.stop()


@pytest.mark.sampled
async def test_a_turn_that_asks_cut_off_behind_any_append_asks_once_and_ends_as_one_that_was_not(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its question, between that and the answer, and behind it (docs/adr/0021)."""
    first = Home(tmp_path / "whole")
    first.create()
    budget = '{"budgets": {"task": {"max_tokens": 1000}}}'
    first.config_file.write_text(budget)
    task_id, appends = await whole_turn(first, project, monkeypatch)
    stream = task_stream(task_id)
    begins = next(index for index, (_, name, _) in enumerate(appends) if name == stream)
    cuts = cuts_of(stream, appends, begins)
    types = {draft.body.type for _, _, drafts in appends for draft in drafts}
    assert types >= {"budget.exceeded", "prompt.requested", "prompt.answered", "budget.raised", "task.resumed"}

    for cut in cuts:
        home = Home(tmp_path / f"cut-{cut}")
        home.create()
        home.config_file.write_text(budget)
        shutil.copytree(first.blobs, home.blobs, dirs_exist_ok=True)
        await cut_off(home, appends[:cut])
        ozzie = await Ozzie.start(home, project)
        behind = (
            await ozzie.submit(NewTurn(await session_of(ozzie, task_id), "And then?", Origin(channel="test")))
        ).task_id
        await allowed(ozzie, task_id)
        await succeeded(ozzie, task_id)
        await allowed(ozzie, behind)
        await succeeded(ozzie, behind)

        where = f"cut off behind {appends[cut - 1][2][-1].body.type}"
        bodies = [event.body for event in await ozzie.log.read_stream(stream)]
        assert sum(isinstance(body, PromptRequested) for body in bodies) == 1, where
        assert sum(isinstance(body, PromptAnswered) for body in bodies) == 1, where
        assert sum(isinstance(body, MessageCompleted) for body in bodies) == 1, where
        assert await ozzie.log.rows("model_calls", where={"status": "started"}) == [], where
        assert await ozzie.log.dump() == await ozzie.log.rebuild()
        await ozzie.stop()


async def session_of(ozzie: Ozzie, task_id: TaskId) -> SessionId:
    return SessionId(str((await ozzie.tasks.get(task_id))["session_id"]))


async def test_who_joins_late_sees_the_reply_once_and_hears_that_the_first_begins_again(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Home(tmp_path / "whole")
    first.create()
    task_id, appends = await whole_turn(first, project, monkeypatch)
    asked = [index for index, (_, _, drafts) in enumerate(appends) if drafts[-1].body.type == "model.call.started"]
    cut_call = appends[asked[-1]][2][-1].body
    assert isinstance(cut_call, ModelCallStarted)
    home = Home(tmp_path / "cut")
    home.create()
    shutil.copytree(first.blobs, home.blobs, dirs_exist_ok=True)
    await cut_off(home, appends[: asked[-1] + 1])

    ozzie = await Ozzie.start(home, project)
    view = new_turn(task_id=task_id)
    resets: list[object] = []
    async with asyncio.timeout(WAIT_S), ozzie.feed.subscribe(0, task_id=task_id) as items:
        async for item in items:
            view = fold_frame(view, event_frame(item))
            if isinstance(item, Transient) and item.type == "reply.reset":
                resets.append(item.payload["reply_id"])
            if view.is_final:
                break

    said = [part.text for part in view.parts if isinstance(part, TextPart)]
    assert resets == [cut_call.reply_id]
    assert (view.status, view.recoveries, len(said)) == ("Done", 1, 1)
    assert said[0].count("**3 rows**") == 1
    rows = await ozzie.log.rows("messages", where={"role": "assistant"})
    assert [row["text"] for row in rows] == said
    await ozzie.stop()
