"""A run that is paused, hears more, and waits for something outside, cut off behind any of its appends: it ends as one
that was not, with each step done once and nothing heard twice."""

import asyncio
import contextlib
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import (
    Origin,
    SkillCompleted,
    StepCompleted,
    TaskSignalled,
    TaskUpdated,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.domain.tasks import FINAL, TaskStatus
from ozzie_server_ext.models.scripted import ScriptedDriver
from ozzie_server_ext.tasks.service import NewTurn, SkillRequest
from ozzie_server_ext.tasks.signals import awaited
from tests.integration.tasks.cut_logs import Append, cut_off, recorded_appends
from tests.integration.tasks.test_skill_runs import WAIT_S, echo
from tests.scripted_gateway import ScriptedOzzie
from tests.tiers import SOAK, cut_points

SKILL = {
    "name": "order",
    "type": "workflow",
    "steps": [
        {"id": "a", "instruction": "One"},
        {"id": "payment", "wait": {"event": "paid"}, "needs": ["a"]},
        {"id": "sum", "call": {"tool": "calculator", "args": {"expr": "6*7"}}, "needs": ["payment"]},
        {"id": "b", "instruction": "Two", "needs": ["sum"]},
        {"id": "c", "instruction": "Three", "needs": ["b"]},
    ],
}


async def person(ozzie: ScriptedOzzie, task_id: TaskId, *, pauses: bool = False) -> str:
    """Whoever sees the run through: says more to it once, tells it once, and lets it go on where it is paused; how it
    ends. With `pauses`, they pause it while it waits."""
    control, was_paused_here = ozzie.control, False
    async with asyncio.timeout(WAIT_S), ozzie.feed.subscribe(0) as feed:
        while True:
            row = await ozzie.tasks.get(task_id)
            if row["status"] in FINAL:
                return str(row["status"])
            with contextlib.suppress(Conflict):  # it has gone on meanwhile
                events = await ozzie.log.read_stream(task_stream(task_id))
                if not row["updates"]:
                    await control.updates.update(task_id, "In French.", by="ann")
                elif row["status"] == TaskStatus.PAUSED or (row["pause_by"] and not was_paused_here):
                    await control.pauses.resume(task_id, by="ann")
                elif awaited(events) and pauses:
                    if row["status"] == TaskStatus.WAITING_INPUT:
                        pauses, was_paused_here = False, True
                        await control.pauses.pause(task_id, by="ann")
                elif awaited(events) and not row["pause_by"]:
                    await control.signals.send(task_id, "paid", {"amount": 12}, by="ann", key="invoice-7")
            await anext(feed)


def home_with_skill(folder: Path) -> Home:
    home = Home(folder)
    home.create()
    (home.root / "skills" / "order.jsonc").write_text(json.dumps(SKILL))
    return home


async def gateway(home: Home, project: Path) -> ScriptedOzzie:
    """One whose model answers from the first moment."""

    class Answering(ScriptedOzzie):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.offline = scripted

    scripted = ScriptedDriver([echo] * 60)
    started = await Answering.start(home, project)
    assert isinstance(started, ScriptedOzzie)
    return started


async def whole_run(home: Home, project: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[TaskId, list[Append]]:
    with recorded_appends(monkeypatch) as appends:
        ozzie = await gateway(home, project)
        session = await ozzie.sessions.open("n", title="n", channel="notebook")
        origin = Origin(channel="notebook", sender_id="ann")
        task_id = (
            await ozzie.submit(
                NewTurn(session.session_id, "", origin, skill=SkillRequest(name="order", words=("tea",)))
            )
        ).task_id
        assert await person(ozzie, task_id, pauses=True) == "SUCCEEDED"
        await ozzie.stop()
    return task_id, appends


@pytest.mark.sampled
@pytest.mark.timeout(180)
async def test_a_run_cut_off_behind_any_append_ends_as_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    project = tmp_path / "project"
    project.mkdir()
    first = home_with_skill(tmp_path / "whole")
    task_id, appends = await whole_run(first, project, monkeypatch)
    begins = next(index for index, (_, name, _) in enumerate(appends) if name == task_stream(task_id))
    cuts = cut_points(
        range(begins + 1, len(appends)), lambda index: " ".join(draft.body.type for draft in appends[index - 1][2])
    )
    assert len(cuts) >= (25 if SOAK else 12)
    recorded = {draft.body.type for _, _, drafts in appends for draft in drafts}
    assert recorded >= {"task.pausing", "task.paused", "task.resumed", "task.updated", "task.told"}
    assert recorded >= {"task.waiting_input", "tool.call.completed"}, "it waits, and calls a tool at once"

    for cut in cuts:
        home = home_with_skill(tmp_path / f"cut-{cut}")
        shutil.copytree(first.blobs, home.blobs, dirs_exist_ok=True)
        await cut_off(home, appends[:cut])
        ozzie = await gateway(home, project)
        where = f"cut off behind {appends[cut - 1][2][-1].body.type}"
        assert await person(ozzie, task_id) == "SUCCEEDED", where

        bodies = [event.body for event in await ozzie.log.read_stream(task_stream(task_id))]
        ends = Counter(body.step_id for body in bodies if isinstance(body, StepCompleted))
        assert ends == {"a": 1, "payment": 1, "sum": 1, "b": 1, "c": 1}, where
        (done,) = [body.output for body in bodies if isinstance(body, SkillCompleted)]
        assert done == "<Three>", where
        assert sum(isinstance(body, TaskSignalled) for body in bodies) == 1, where
        assert sum(isinstance(body, TaskUpdated) for body in bodies) == 1, where
        assert [body.step_id for body in bodies if isinstance(body, ToolCallRequested)] == ["sum"], where
        assert (await ozzie.log.verify()).ok
        assert await ozzie.log.dump() == await ozzie.log.rebuild()
        await ozzie.stop()
