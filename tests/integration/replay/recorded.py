"""Sessions of every kind, recorded by a real gateway with a script for a model."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import Origin
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Fail, Say, Step, Use
from ozzie_server_ext.tasks.service import NewTurn, SkillRequest
from tests.integration.tasks.test_labels import ALLOW_NOTES, ANA
from tests.scripted_gateway import ScriptedOzzie

WAIT_S = 60
READ = Use("read_file", {"path": "a.txt"})
LIST = Use("list_files", {"path": "."})
MISSING = Use("read_file", {"path": "nowhere.txt"})
NOTED = Use("write_file", {"path": "notes/a.md", "text": "Allowed by the rule.\n"})
ASKING, REFUSED, STOPPED = (Use("write_file", {"path": f"{name}.md", "text": "Asks first.\n"}) for name in "bcd")
QUESTION = Use("ask_user", {"question": "Which?", "options": [{"label": "One"}, {"label": "Two"}]})
SCHEMA = {"type": "object", "properties": {"rows": {"type": "integer"}}, "required": ["rows"]}
SKILL = """{"name": "count", "type": "workflow", "description": "Counts.", "steps": [
 {"id": "look", "call": {"tool": "read_file", "args": {"path": "a.txt"}}},
 {"id": "think", "instruction": "Say what {{steps.look.output}} means.", "needs": ["look"]},
 {"id": "note", "call": {"tool": "write_file", "args": {"path": "notes/n.md", "text": "{{steps.think.output}}"}},
  "needs": ["think"]}]}"""


class Recording:
    """A gateway whose model plays what each turn says."""

    def __init__(self, ozzie: ScriptedOzzie, session_id: SessionId) -> None:
        self.ozzie = ozzie
        self.session_id = session_id

    async def turn(self, *plays: Use | tuple[Use, ...] | list[Step], said: str = "Go on.", **more: object) -> TaskId:
        self.ozzie.plays(*plays, [Say("Done.")])
        return await self.sent(said, **more)

    async def sent(self, said: str, **more: object) -> TaskId:
        origin = Origin(channel="notebook", sender_id="ana")
        turn = NewTurn(self.session_id, said, origin, **more)  # pyright: ignore[reportArgumentType]
        sent = await self.ozzie.submit(turn)
        await self.rests(sent.task_id)
        return sent.task_id

    async def rests(self, task_id: TaskId, count: int = 1) -> str:
        return await self.ozzie.rests(task_id, count, wait_s=WAIT_S)

    async def approve(self, task_id: TaskId) -> None:
        (pending,) = await self.ozzie.approvals.list(task_id=task_id, statuses=["pending"])
        await self.ozzie.approvals.approve(pending.approval_id, ANA, binds=pending.asked.binds)
        await self.rests(task_id, 2)

    async def reject(self, task_id: TaskId, comment: str) -> None:
        (pending,) = await self.ozzie.approvals.list(task_id=task_id, statuses=["pending"])
        await self.ozzie.approvals.reject(pending.approval_id, ANA, comment=comment)
        await self.rests(task_id, 2)

    async def everything(self) -> None:
        """A turn of each kind, in this order."""
        await self.turn(READ, said="Read it.")
        await self.turn((READ, LIST), NOTED, said="Read both, and note it.")
        await self.approve(await self.turn(ASKING, said="Write it."))
        await self.reject(await self.turn(REFUSED, said="Write it again."), "Not there.")
        await self.turn(MISSING, Use("no_such_tool", {}), Use("read_file", {"wrong": 1}), said="Fail.")
        asking = await self.turn(QUESTION, said="Ask me.")
        await self.ozzie.answers.answer(asking, "1", by="Ana")
        await self.rests(asking, 2)
        self.ozzie.plays([Say("four")], [Say('{"rows": 4}')])
        await self.sent("How many?", answer_schema=SCHEMA)
        self.ozzie.plays([Fail("provider.content_filter")])
        await self.sent("Refuse.")
        stopped = await self.turn(STOPPED, said="Wait.")
        await self.ozzie.tasks.cancel(stopped, by="Ana")
        self.ozzie.plays(*([_echo] * 10))
        await self.sent("", skill=SkillRequest(name="count"))


def _echo(request: ModelRequest) -> list[Step]:
    return [Say(f"<{request.messages[-1].content.splitlines()[0]}>")]


@asynccontextmanager
async def recording(folder: Path, *, soul: str = "") -> AsyncIterator[Recording]:
    """Record in the home `folder/home`. The caller has set XDG_CONFIG_HOME."""
    assert "XDG_CONFIG_HOME" in os.environ
    project, home = folder / "project", Home(folder / "home")
    (project / "notes").mkdir(parents=True)
    (project / "a.txt").write_text("one\ntwo\n")
    home.create()
    home.policy_file.write_text(ALLOW_NOTES)
    if soul:
        home.soul_file.write_text(soul)
    (home.root / "skills" / "count.jsonc").write_text(SKILL)
    ozzie = await ScriptedOzzie.start(home, project)
    assert isinstance(ozzie, ScriptedOzzie)
    session = await ozzie.sessions.open("n", title="n", channel="notebook")
    made = Recording(ozzie, session.session_id)
    try:
        yield made
    finally:
        await made.ozzie.stop()
