"""Several project folders under one gateway: a session works in one, with its files, rules, skills, keys and budget
(docs/adr/0056-projects.md)."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from ozzie_server_ext.config.home import key_folder
from ozzie_server_ext.config.loader import PROJECT_FILE as CONFIG_FILE
from ozzie_server_ext.config.trust import trust
from ozzie_server_ext.domain.calls import CallRecord
from ozzie_server_ext.domain.errors import InputError, NotFound, PolicyError, Unavailable
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    ConfigChanged,
    Draft,
    EventBody,
    MessageReceived,
    ModelCallStarted,
    Origin,
    TaskWaitingApproval,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
)
from ozzie_server_ext.domain.ids import CallId, SessionId, TaskId, session_stream, task_stream
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.jupyter.cells import CellKind, version_of
from ozzie_server_ext.models.scripted import Say, Use
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.policy.files import PROJECT_FILE as RULES_FILE
from ozzie_server_ext.policy.files import trust_rules
from ozzie_server_ext.skills.library import PROJECT_FOLDER as SKILLS_FOLDER
from ozzie_server_ext.tasks.configuration import CONFIG_STREAM
from ozzie_server_ext.tasks.projects import Project
from ozzie_server_ext.tasks.service import NewTurn, SkillRequest
from ozzie_server_ext.tools.builtin.files import version_of as file_version
from ozzie_server_ext.vault.scope import Scope, Secret
from ozzie_server_ext.vault.vault import Vault
from tests.fakes.pictures import png
from tests.integration.tasks.runs_rig import ANA, RESTS, WAIT_S, Runs, runs_in

NO_NOTES = {
    "rules": [
        {
            "id": "no-notes",
            "decision": "deny",
            "reason": "Nothing is written here.",
            "when": {"tools": ["fs.write"]},
            "examples": {"match": [{"tool": "write_file", "args": {"path": "note.md"}}]},
        }
    ]
}
KEYED = {"driver": "openai", "model": "m", "auth": {"type": "api_key", "env": "A_KEY_OF_THIS_TEST"}}


class Folders(Runs):
    """A gateway with a project of its own, and a second folder that sessions may work in."""

    @property
    def own(self) -> Path:
        return self.ozzie.project

    @property
    def other(self) -> Path:
        folder = self.own.parent / "other"
        folder.mkdir(exist_ok=True)
        return folder

    async def session(self, project: Path | None = None) -> SessionId:
        """The session of that folder; by default the gateway's own."""
        key = "own" if project is None else str(project)
        return (await self.ozzie.sessions.open(key, title="n", channel="notebook", project=project)).session_id

    async def project(self) -> Project:
        """The second one."""
        return await self.ozzie.projects.at(self.other)

    async def turn(self, use: Use, project: Path | None = None) -> TaskId:
        """A turn that makes this call, begun in the session of that folder."""
        await self.project()
        self.ozzie.plays(use, [Say("Done.")])
        return await self.begins(NewTurn(await self.session(project), "Go on.", Origin(channel="notebook")))

    async def message(self, text: str, project: Path | None = None) -> NewTurn:
        return NewTurn(await self.session(project), text, Origin(channel="notebook"))

    async def begins(self, turn: NewTurn) -> TaskId:
        return (await self.ozzie.submit(turn)).task_id

    async def tried(self, use: Use, project: Path | None = None) -> list[EventBody]:
        """What a turn with this call records; a person rejects what asks."""
        task_id = await self.turn(use, project)
        ends = RESTS | {TaskWaitingApproval.type}
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=ends, task_id=task_id) as events:
            while (await anext(events)).type == TaskWaitingApproval.type:
                await self.reject("No.")
        return [event.body for event in await self.ozzie.log.read_stream(task_stream(task_id))]

    def trusts(self, file: Path, content: dict[str, Any]) -> None:
        """Write a file of the second folder, as it counts once a person has trusted it."""
        path = self.other / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
        trust(self.ozzie.home, path, path.read_bytes())

    async def wrote(self, task_id: TaskId) -> None:
        """Say yes to the task's call, and wait for its end."""
        asked = await self.pending()
        await self.ozzie.approvals.approve(asked.approval_id, ANA, binds=asked.asked.binds)
        assert await self.rests(task_id) == "task.succeeded"


@pytest.fixture
async def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Folders]:
    async with runs_in(tmp_path, monkeypatch, Folders) as folders:
        yield folders


WRITE = Use("write_file", {"path": "note.md", "text": "mine"})
READ = Use("read_file", {"path": "a.txt"})


async def test_each_session_reads_in_its_own_folder(folders: Folders) -> None:
    (folders.own / "a.txt").write_text("here")
    (folders.other / "a.txt").write_text("there")

    for project, text in ((None, "here"), (folders.other, "there")):
        task_id = await folders.turn(READ, project)
        await folders.rests(task_id)
        (read,) = await folders.facts(task_id, ToolCallCompleted)
        assert text in json.dumps(read.data)


async def test_each_session_writes_in_its_own_folder(folders: Folders) -> None:
    await folders.wrote(await folders.turn(WRITE, folders.other))

    assert (folders.other / "note.md").read_text() == "mine"
    assert not (folders.own / "note.md").exists()


async def test_a_question_names_the_folder_if_it_is_not_the_gateways_own(folders: Folders) -> None:
    task_id = await folders.turn(WRITE, folders.other)
    asked = (await folders.pending()).asked
    card = await (await folders.project()).cards.of(asked.approval_id)
    assert asked.sentence.startswith(f"In `{folders.other}`: ")
    assert card.sentence == asked.sentence
    await folders.wrote(task_id)

    task_id = await folders.turn(WRITE)
    assert not (await folders.pending()).asked.sentence.startswith("In ")
    await folders.wrote(task_id)


ENDS = (ToolCallCompleted, ToolCallFailed, ApprovalRequested)
SECRET = "only in the gateway's own project"


def calls_in(folder: str) -> list[Use]:
    """A call of each tool that takes a path, for what `filled` puts into that folder."""
    text: JsonObject = {"path": f"{folder}/a.txt"}
    notebook: JsonObject = {"path": f"{folder}/n.ipynb"}
    as_read = text | {"version": file_version(SECRET.encode())}
    in_cell = notebook | {"cell": "one", "version": version_of(CellKind.CODE, SECRET)}
    return [
        Use("list_files", {"path": folder}),
        Use("read_file", text),
        Use("search", {"query": "only in", "path": folder}),
        Use("find_files", {"pattern": "*.txt", "path": folder}),
        Use("write_file", {"path": f"{folder}/new.md", "text": "new"}),
        Use("edit_file", as_read | {"old": "only", "new": "not only"}),
        Use("trash_file", as_read),
        Use("read_notebook", notebook),
        Use("insert_cell", notebook | {"kind": "code", "source": "x = 1"}),
        Use("edit_cell", in_cell | {"source": "x = 1"}),
        Use("move_cell", in_cell | {"after": "end"}),
        Use("delete_cell", in_cell),
        *sandboxed("cat *", folder=folder),
        *sandboxed("rm -f *", editable_folder=folder),
    ]


def sandboxed(command: str, **folders: Json) -> list[Use]:
    """A call of `shell`, where there is a sandbox."""
    return [Use("shell", {"command": command, **folders})] if shutil.which("bwrap") else []


def filled(folder: Path) -> None:
    (folder / "a.txt").write_text(SECRET)
    (folder / "p.png").write_bytes(png())
    cells = [new_code_cell(SECRET, id="one"), new_code_cell("x = 0", id="two")]
    nbformat.write(new_notebook(cells=cells), folder / "n.ipynb")


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


async def test_nothing_of_another_project_can_be_reached_from_a_session(folders: Folders) -> None:
    filled(folders.own)
    before = content_of(folders.own)

    for use in calls_in("."):
        found = await folders.tried(use)
        assert any(isinstance(fact, ToolCallCompleted | ApprovalRequested) for fact in found), (use, found)
    for folder in ("../project", str(folders.own)):
        for use in calls_in(folder):
            found = await folders.tried(use, folders.other)
            assert [type(fact) for fact in found if isinstance(fact, ENDS)] == [ToolCallFailed], (use, found)
            assert SECRET not in str([fact for fact in found if not isinstance(fact, ToolCallRequested)]), use
        for use in sandboxed(f"cat {folder}/*"):
            found = await folders.tried(use, folders.other)
            assert SECRET not in str(found), use
    assert content_of(folders.own) == before


async def test_no_picture_of_another_project_is_shown(folders: Folders) -> None:
    filled(folders.own)
    await folders.project()

    shown = await folders.begins(await folders.message("Look at @p.png"))
    with pytest.raises(InputError, match="can't be shown"):
        await folders.begins(await folders.message("Look at @../project/p.png", folders.other))
    # An absolute path is no mention of a picture.
    absolute = await folders.begins(await folders.message(f"Look at @{folders.own}/p.png", folders.other))
    for task_id, names in ((shown, ["p.png"]), (absolute, [])):
        await folders.rests(task_id)
        (received,) = await folders.facts(task_id, MessageReceived)
        assert [picture.path for picture in received.pictures] == names


async def test_the_rules_of_a_project_bind_its_own_sessions_only(folders: Folders) -> None:
    (folders.other / ".ozzie").mkdir()
    (folders.other / RULES_FILE).write_text(json.dumps(NO_NOTES))
    trust_rules(folders.ozzie.home, folders.other, folders.ozzie.projects.own.tools.find)

    denied = await folders.turn(WRITE, folders.other)
    await folders.rests(denied)
    (decided,) = await folders.facts(denied, ToolCallDecided)
    assert (decided.decision, decided.rule) == ("DENY", "no-notes")

    await folders.wrote(await folders.turn(WRITE))
    assert (folders.own / "note.md").exists()


async def test_broken_rules_of_a_project_stop_its_own_sessions_only(folders: Folders) -> None:
    folders.trusts(RULES_FILE, {"rules": []})
    (folders.other / RULES_FILE).write_text("{}")
    (folders.own / "a.txt").write_text("here")

    stopped = await folders.turn(READ, folders.other)
    await folders.rests(stopped)
    (decided,) = await folders.facts(stopped, ToolCallDecided)
    assert (decided.decision, decided.rule) == ("DENY", "policy.broken")

    goes_on = await folders.turn(READ)
    await folders.rests(goes_on)
    assert await folders.facts(goes_on, ToolCallCompleted)


async def test_a_skill_of_a_project_is_known_in_its_own_sessions_only(folders: Folders) -> None:
    skill = {"name": "greet", "type": "simple", "description": "Greets.", "instruction": "Greet."}
    folders.trusts(SKILLS_FOLDER / "greet.jsonc", skill)
    greet = SkillRequest(name="greet", words=("Ana",))

    task_id = await folders.begins(
        NewTurn(await folders.session(folders.other), "", Origin(channel="notebook"), skill=greet)
    )
    assert await folders.rests(task_id) == "task.succeeded"
    with pytest.raises(NotFound, match="greet"):
        await folders.begins(NewTurn(await folders.session(), "", Origin(channel="notebook"), skill=greet))
    assert (await folders.project()).tools.find("skill_greet") is not None
    assert folders.ozzie.projects.own.tools.find("skill_greet") is None


async def test_a_key_of_a_project_opens_no_model_for_another(folders: Folders) -> None:
    (folders.ozzie.home.root / "config.jsonc").write_text(json.dumps({"models": {"providers": {"main": KEYED}}}))
    vault = Vault(folders.ozzie.home.secrets, key_folder, SystemClock())
    vault.set("A_KEY_OF_THIS_TEST", Scope("project", str(folders.other)), Secret("sk-there"), by="ana")
    own, other = folders.ozzie.projects.own, await folders.project()
    for project in (own, other):
        await project.configuration.refresh()

    assert other.models.access(other.models.registry.resolve("main")).api_key == "sk-there"
    with pytest.raises(Unavailable, match="A_KEY_OF_THIS_TEST"):
        own.models.access(own.models.registry.resolve("main"))


async def test_each_project_has_its_own_settings_and_they_are_recorded_for_it(folders: Folders) -> None:
    folders.trusts(CONFIG_FILE, {"agent": {"max_rounds": 3}})
    other = await folders.project()

    assert other.config.settings.agent.max_rounds == 3
    assert folders.ozzie.projects.own.config.settings.agent.max_rounds != 3
    events = await folders.ozzie.log.read_stream(CONFIG_STREAM)
    changes = [event.body for event in events if isinstance(event.body, ConfigChanged)]
    assert [(change.project, change.previous) for change in changes] == [
        (str(folders.own), ""),
        (str(folders.other), ""),
    ]


async def test_a_gateway_that_starts_again_records_no_settings_that_it_knows(folders: Folders) -> None:
    await folders.project()
    before = await folders.ozzie.log.read_stream(CONFIG_STREAM)
    await folders.restart()
    await folders.project()

    assert await folders.ozzie.log.read_stream(CONFIG_STREAM) == before


async def test_what_a_project_costs_counts_for_it_alone(folders: Folders) -> None:
    for project in (None, folders.other):
        task_id = await folders.turn(READ, project)
        await folders.rests(task_id)
        (first, *_) = await folders.facts(task_id, ModelCallStarted)
        assert first.project == str(project or folders.own)


async def test_a_label_of_a_file_counts_in_its_own_project_only(folders: Folders) -> None:
    session_id, other = await folders.session(folders.other), await folders.project()
    wrote = ToolCallCompleted(
        call_id=CallId("c"), ok=True, data={}, summary="", duration_ms=0.0, wrote=(f"{folders.other}/page.md",)
    )
    draft = Draft(
        body=wrote, actor="tool", source="test", session_id=session_id, labels=("web",), sources=("web:example.org",)
    )
    await folders.ozzie.log.append(session_stream(session_id), [draft])

    assert [(file.path, file.content.labels) for file in await other.labels.files()] == [("page.md", ("web",))]
    assert await folders.ozzie.projects.own.labels.files() == []


async def test_a_fork_works_in_the_project_of_its_parent(folders: Folders) -> None:
    parent = await folders.session(folders.other)
    fork = await folders.ozzie.sessions.copy(parent, "fork", title="fork", channel="notebook")

    assert fork.project == str(folders.other)
    assert await folders.ozzie.projects.of(fork.session_id) is await folders.project()


async def test_a_session_goes_on_in_its_project_after_a_start_in_another_folder(folders: Folders) -> None:
    task_id = await folders.turn(WRITE, folders.other)
    await folders.pending()
    third = folders.own.parent / "third"
    third.mkdir()
    folders.ozzie.project = third
    await folders.restart()  # as `ozzie gateway --project third` would
    assert folders.own == third

    await folders.wrote(task_id)
    assert (folders.other / "note.md").read_text() == "mine"
    assert not (third / "note.md").exists()


async def test_what_a_call_did_before_a_crash_is_looked_up_in_its_own_folder(folders: Folders) -> None:
    task_id = await folders.turn(WRITE, folders.other)
    await folders.wrote(task_id)
    (requested,) = await folders.facts(task_id, ToolCallRequested)
    (started,) = await folders.facts(task_id, ToolCallStarted)
    call = CallRecord(call_id=CallId("c"), requested=requested, started=started)
    own, other = folders.ozzie.projects.own, await folders.project()

    assert await other.reconciler.was_done(call) is True
    assert await own.reconciler.was_done(call) is not True


async def test_two_who_need_a_project_at_once_get_the_same(folders: Folders) -> None:
    session = await folders.session(folders.other)
    projects = folders.ozzie.projects
    found = await asyncio.gather(*(projects.at(folders.other) for _ in range(3)), projects.of(session))

    assert len(set(map(id, found))) == 1
    assert len(projects.opened) == 2


async def test_recovery_asks_the_project_of_each_session(folders: Folders) -> None:
    own, other = await folders.session(), await folders.session(folders.other)

    assert await folders.ozzie._reconciler_of(own) is folders.ozzie.projects.own.reconciler
    assert await folders.ozzie._reconciler_of(other) is (await folders.project()).reconciler


async def test_a_project_that_can_not_be_opened_does_not_keep_the_gateway_from_recovering(folders: Folders) -> None:
    session = await folders.ozzie.sessions.open(
        "x", title="x", channel="test", project=folders.ozzie.home.root / "skills"
    )
    with pytest.raises(Unavailable, match="overlap"):
        await folders.ozzie.projects.of(session.session_id)
    reconciler = await folders.ozzie._reconciler_of(session.session_id)

    assert reconciler.may_repeat("fs.read")
    assert not reconciler.may_repeat("fs.write")
    task_id = await folders.begins(NewTurn(await folders.session(), "Go on.", Origin(channel="notebook")))
    assert await folders.rests(task_id) == "task.succeeded", "other sessions go on"


async def test_two_paths_of_a_folder_are_one_project(folders: Folders) -> None:
    link = folders.own.parent / "link"
    link.symlink_to(folders.other)

    assert await folders.ozzie.projects.at(link) is await folders.project()
    assert await folders.ozzie.projects.at(folders.own) is folders.ozzie.projects.own


async def test_a_folder_that_is_no_project_is_refused_with_what_to_do(folders: Folders) -> None:
    for path, message in (("other", "no absolute path"), (folders.own / "none", "can't be a project")):
        with pytest.raises(InputError, match=message) as refused:
            await folders.ozzie.projects.at(Path(path))
        assert refused.value.hint
    with pytest.raises(PolicyError, match="overlap"):
        await folders.ozzie.projects.at(folders.ozzie.home.root / "skills")
    with pytest.raises(PolicyError, match="overlap"):
        await folders.ozzie.projects.at(folders.own.parent)


async def test_a_session_whose_folder_is_gone_finds_no_files_and_other_sessions_go_on(folders: Folders) -> None:
    session = await folders.session(folders.other)
    folders.other.rmdir()
    (folders.own / "a.txt").write_text("here")
    await folders.ozzie.projects.of(session)

    folders.ozzie.plays(READ, [Say("Done.")])
    gone = await folders.begins(NewTurn(session, "Go on.", Origin(channel="notebook")))
    assert await folders.rests(gone) == "task.succeeded"
    assert await folders.facts(gone, ToolCallFailed)
    folders.ozzie.plays(READ, [Say("Done.")])
    there = await folders.begins(NewTurn(await folders.session(), "Go on.", Origin(channel="notebook")))
    await folders.rests(there)
    assert await folders.facts(there, ToolCallCompleted)


async def test_a_session_from_before_sessions_had_a_project_works_in_the_gateways_own(folders: Folders) -> None:
    folders.ozzie.sessions = type(folders.ozzie.sessions)(folders.ozzie.log, folders.ozzie.ids)
    old = await folders.ozzie.sessions.open("old", title="old", channel="notebook")

    assert old.project == ""
    assert await folders.ozzie.projects.of(old.session_id) is folders.ozzie.projects.own
