"""`read_notebook` and the tools that edit cells: on exactly the cell that was read, or not at all; nothing is lost."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import nbformat
import pytest
from nbformat.sign import NotebookNotary

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.artifacts import REPLACED_BY
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Category, ToolResult
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.policy.decision import Reading
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import Plan, Preview, ToolContext, ToolFailed
from ozzie_server_ext.tools.builtin import notebooks
from ozzie_server_ext.tools.changes.seen import FileChanged
from ozzie_server_ext.tools.notebook import files as door
from tests.unit.tools.notebook.test_text import cell, file, ids
from tests.unit.tools.test_base import carried_out

READ, INSERT, EDIT, MOVE, DELETE, UNDO = notebooks.TOOLS
PATH = "work/a.ipynb"
SESSION = SessionId("sess_1")
STREAM: JsonObject = {"output_type": "stream", "name": "stdout", "text": ["42\n"]}
HTML: JsonObject = {"output_type": "display_data", "metadata": {}, "data": {"text/plain": "t", "text/html": "<b>t</b>"}}


class KeptArtifacts:
    """Keeps what the broker would keep of a plan, in a session's real artifacts."""

    def __init__(self, clock: FakeClock) -> None:
        ids = CountingIds()
        log = InMemoryEventLog(clock, ids)
        self.store = ArtifactStore(log, InMemoryBlobs(), ids)
        self._recorder = Recorder(log=log, session_id=SESSION, task_id=TaskId(ids.new()))

    async def keep(self, plan: Plan, tool_id: str) -> str:
        """Its name."""
        assert plan.before is not None
        before = plan.before
        meta: JsonObject = {REPLACED_BY: tool_id}
        kept = await self.store.keep(before.content, kind="file", name=before.name, mime=before.mime, meta=meta)
        await self.store.record(self._recorder, kept)
        return before.name


@pytest.fixture
def kept() -> KeptArtifacts:
    return KeptArtifacts(FakeClock())


@pytest.fixture
def context(project: Path, context: ToolContext, kept: KeptArtifacts) -> ToolContext:
    (project / "work").mkdir()
    (project / PATH).write_bytes(
        file(cell("a", "x = 1\n"), cell("b", "# Title\n", "markdown"), {**cell("c", "print(x)"), "outputs": [STREAM]})
    )
    return msgspec.structs.replace(context, key="task-1-0", artifacts=kept.store.of(SESSION))


def now(context: ToolContext) -> list[dict[str, Any]]:
    return json.loads((context.project / PATH).read_bytes())["cells"]


async def read(context: ToolContext, **args: Any) -> Any:
    return (await carried_out(READ, {"path": PATH, **args}, context)).data


async def version(context: ToolContext, cell_id: str) -> str:
    """As the model reads it."""
    return next(each["version"] for each in (await read(context))["cells"] if each["id"] == cell_id)


async def planned(tool: Any, context: ToolContext, **args: Any) -> Plan:
    return await tool.plan(tool.check({"path": PATH, **args}), context)


async def done(tool: Any, context: ToolContext, **args: Any) -> ToolResult:
    return await carried_out(tool, {"path": PATH, **args}, context)


def shown(plan: Plan) -> Preview:
    assert plan.preview is not None
    return plan.preview()


# --- reading -------------------------------------------------------------------------------------------------


async def test_each_cell_comes_with_its_id_its_version_and_what_it_says(context: ToolContext) -> None:
    data = await read(context)

    assert [(each["number"], each["id"], each["kind"], each["source"]) for each in data["cells"]] == [
        (1, "a", "code", "x = 1\n"),
        (2, "b", "markdown", "# Title\n"),
        (3, "c", "code", "print(x)"),
    ]
    assert (data["count"], data["next"], data["read_from"]) == (3, None, "file")
    assert data["cells"][2]["has_outputs"] == ["stream"]


async def test_outputs_come_when_they_are_asked_for_and_are_from_outside(context: ToolContext) -> None:
    plain = await carried_out(READ, {"path": PATH}, context)
    asked = await carried_out(READ, {"path": PATH, "outputs": True}, context)

    assert not plain.content
    assert asked.content == Content.of(Label.OUTPUT, [PATH])
    assert asked.data["cells"][2]["outputs"] == "42"  # type: ignore[index, call-overload]


async def test_a_cell_that_says_what_it_was_made_from_brings_that(context: ToolContext) -> None:
    marked = {**cell("a", "x"), "metadata": {"ozzie": {"made_from": ["web:example.org", "nonsense", 7]}}}
    (context.project / PATH).write_bytes(file(marked))

    assert (await carried_out(READ, {"path": PATH}, context)).content == Content.of(Label.WEB, ["example.org"])


async def test_a_long_notebook_comes_in_parts_and_a_cell_in_part_has_no_version(context: ToolContext) -> None:
    (context.project / PATH).write_bytes(
        file(cell("a", "x" * 10_000), cell("b", "y" * 10_000), cell("c", "z" * 20_000))
    )

    first = await read(context)
    last = await read(context, first_cell=3)

    assert ([each["id"] for each in first["cells"]], first["next"]) == (["a"], 2)
    assert (len(last["cells"][0]["source"]), last["cells"][0]["version"]) == (notebooks.MAX_CHARACTERS, "")
    with pytest.raises(ToolFailed, match="Read the cell first, all of it"):
        await done(EDIT, context, cell="c", version="", source="z")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("work/none.ipynb", "does not exist"),
        ("readme.md", "is not a notebook"),
        ("../a.ipynb", "leads out of the project"),
        ("/etc/a.ipynb", "not below the project"),
        (".hidden/a.ipynb", "is hidden"),
        ("link.ipynb", "symbolic link"),
        ("folder.ipynb", "not a plain file"),
        ("pipe.ipynb", "not a plain file"),
        ("work/a\u202e.ipynb", "nobody can see or read"),
        ("data/sales.csv", "is not a notebook"),
    ],
)
async def test_what_is_not_a_notebook_of_the_project_is_refused(context: ToolContext, path: str, why: str) -> None:
    (context.project / "link.ipynb").symlink_to(context.project / PATH)
    (context.project / "folder.ipynb").mkdir()
    os.mkfifo(context.project / "pipe.ipynb")

    with pytest.raises(ToolFailed, match=why):
        await carried_out(READ, {"path": path}, context)
    with pytest.raises(ToolFailed, match=why):
        await carried_out(INSERT, {"path": path, "kind": "code", "source": "x"}, context)


# --- editing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "order"),
    [("end", ["a", "b", "c", "new"]), ("top", ["new", "a", "b", "c"]), ("a", ["a", "new", "b", "c"])],
)
async def test_a_cell_is_added_where_it_was_put(context: ToolContext, after: str, order: list[str]) -> None:
    result = await done(INSERT, context, kind="markdown", source="## More\ntext", after=after)

    data: Any = result.data
    assert [{data["cell"]: "new"}.get(each, each) for each in ids((context.project / PATH).read_bytes())] == order
    assert data["version"] == await version(context, data["cell"])
    assert (result.summary, data["changed_in"], data["notes"]) == ("1 cell added", "file", [])
    assert result.wrote == (f"{context.project.resolve()}/{PATH}",)


async def test_the_same_call_makes_the_same_cell_and_not_two(context: ToolContext) -> None:
    """As after a crash, when it is planned again."""
    plan = await planned(INSERT, context, kind="code", source="y")
    assert (await planned(INSERT, context, kind="code", source="y")).effect == plan.effect

    await INSERT.run(plan, context)

    with pytest.raises(OzzieError, match=r"There is a cell ozzie-[0-9a-f]+ already"):
        await INSERT.run(plan, context)
    assert plan.effect is not None
    assert await INSERT.happened(plan.effect, context) is True


async def test_an_edit_changes_that_cell_and_keeps_what_it_put_out(context: ToolContext) -> None:
    before = now(context)

    result = await done(EDIT, context, cell="c", version=await version(context, "c"), source="print(x + 1)")

    assert now(context) == [*before[:2], {**before[2], "source": ["print(x + 1)"]}]
    data: Any = result.data
    assert data["version"] == await version(context, "c")


@pytest.mark.parametrize(
    ("tool", "more"),
    [(EDIT, {"source": "mine"}), (MOVE, {"after": "end"}), (DELETE, {})],
    ids=["edit", "move", "delete"],
)
async def test_a_cell_that_somebody_changed_since_it_was_read_is_left_alone(
    context: ToolContext, tool: Any, more: JsonObject
) -> None:
    args = {"cell": "a", "version": await version(context, "a"), **more}
    plan = await planned(tool, context, **args)
    theirs = file(cell("a", "x = 2\n"), *now(context)[1:])
    (context.project / PATH).write_bytes(theirs)

    for attempt in (tool.run(plan, context), planned(tool, context, **args)):
        with pytest.raises(OzzieError, match=r"The cell a has changed since it was read"):
            await attempt

    assert (context.project / PATH).read_bytes() == theirs
    assert plan.effect is not None
    assert await tool.happened(plan.effect, context) in (None, False)


async def test_what_others_do_to_other_cells_in_between_stays(context: ToolContext) -> None:
    plan = await planned(EDIT, context, cell="a", version=await version(context, "a"), source="mine")
    a, b, c = now(context)
    (context.project / PATH).write_bytes(file(cell("n", "new"), c, {**b, "source": ["theirs"]}, a))

    await EDIT.run(plan, context)

    assert now(context) == [cell("n", "new"), c, {**b, "source": ["theirs"]}, {**a, "source": ["mine"]}]


async def test_a_file_that_is_saved_in_the_very_moment_is_looked_at_again(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = [file(cell("a", "x = 1\n"), cell("b", f"theirs {number}", "markdown")) for number in range(3)]
    real = door.replace

    def saved_meanwhile(*args: Any, **more: Any) -> Any:
        if theirs:
            (context.project / PATH).write_bytes(theirs.pop())
        return real(*args, **more)

    plan = await planned(EDIT, context, cell="a", version=await version(context, "a"), source="mine")
    monkeypatch.setattr(door, "replace", saved_meanwhile)

    await EDIT.run(plan, context)

    assert [each["source"] for each in now(context)] == [["mine"], ["theirs 0"]]


async def test_a_file_that_never_rests_is_left_alone(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any, **more: Any) -> Any:
        raise FileChanged("It is being changed by another program.")

    plan = await planned(EDIT, context, cell="a", version=await version(context, "a"), source="mine")
    monkeypatch.setattr(door, "replace", never)

    with pytest.raises(FileChanged, match="being changed"):
        await EDIT.run(plan, context)


async def test_a_moved_cell_stands_behind_the_other_and_what_stands_right_is_not_moved(context: ToolContext) -> None:
    await done(MOVE, context, cell="c", version=await version(context, "c"), after="top")
    again = await planned(MOVE, context, cell="c", version=await version(context, "c"), after="top")

    assert ids((context.project / PATH).read_bytes()) == ["c", "a", "b"]
    assert again.nothing is not None


async def test_a_cell_can_not_be_put_behind_itself_or_behind_none(context: ToolContext) -> None:
    for after in ("a", "q"):
        with pytest.raises(OzzieError, match=f"There is no cell {after} in it"):
            await planned(MOVE, context, cell="a", version=await version(context, "a"), after=after)


async def test_a_cell_with_other_outputs_than_were_shown_is_not_deleted(context: ToolContext) -> None:
    plan = await planned(DELETE, context, cell="c", version=await version(context, "c"))
    changed = [*now(context)[:2], {**now(context)[2], "outputs": []}]
    (context.project / PATH).write_bytes(file(*changed))

    with pytest.raises(OzzieError, match="other outputs than when it was looked at"):
        await DELETE.run(plan, context)


# --- undoing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (INSERT, {"kind": "code", "source": "y", "after": "a"}),
        (EDIT, {"cell": "b", "source": "other"}),
        (MOVE, {"cell": "c", "after": "top"}),
        (DELETE, {"cell": "c"}),
    ],
    ids=["insert", "edit", "move", "delete"],
)
async def test_each_edit_can_be_taken_back_and_done_again(
    context: ToolContext, kept: KeptArtifacts, tool: Any, args: JsonObject
) -> None:
    before = now(context)
    if "cell" in args:
        args = {**args, "version": await version(context, str(args["cell"]))}
    plan = await planned(tool, context, **args)
    await kept.keep(plan, tool.meta.tool_id)
    data: Any = (await tool.run(plan, context)).data
    after = now(context)
    assert after != before

    back = await planned(UNDO, context, undo=data["undo"])
    await kept.keep(back, UNDO.meta.tool_id)
    again: Any = (await UNDO.run(back, context)).data

    assert now(context) == before
    await done(UNDO, context, undo=again["undo"])
    assert now(context) == after


async def test_what_was_changed_since_is_not_taken_back(context: ToolContext, kept: KeptArtifacts) -> None:
    plan = await planned(EDIT, context, cell="b", version=await version(context, "b"), source="mine")
    await kept.keep(plan, EDIT.meta.tool_id)
    data: Any = (await EDIT.run(plan, context)).data
    await done(EDIT, context, cell="b", version=await version(context, "b"), source="theirs")

    with pytest.raises(OzzieError, match="has changed since it was read"):
        await planned(UNDO, context, undo=data["undo"])


async def test_only_what_an_edit_of_this_notebook_left_is_taken_back(context: ToolContext, kept: KeptArtifacts) -> None:
    plan = await planned(EDIT, context, cell="b", version=await version(context, "b"), source="mine")
    (context.project / "b.ipynb").write_bytes((context.project / PATH).read_bytes())
    await kept.keep(plan, EDIT.meta.tool_id)
    assert plan.before is not None
    name = plan.before.name

    with pytest.raises(ToolFailed, match=r"is about `work/a\.ipynb`, and not about this notebook"):
        await carried_out(UNDO, {"path": "b.ipynb", "undo": name}, context)
    with pytest.raises(ToolFailed, match="There is nothing"):
        await planned(UNDO, context, undo="cells/other.json")
    await kept.keep(plan, "shell.run")
    with pytest.raises(ToolFailed, match="There is nothing"):
        await planned(UNDO, context, undo=name)


async def test_a_cell_with_a_secret_is_changed_and_the_card_says_that_ozzie_can_not_undo_it(
    context: ToolContext,
) -> None:
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    (context.project / PATH).write_bytes(file(cell("a", f"key = '{secret}'")))
    found = (await read(context))["cells"][0]

    plan = await planned(DELETE, context, cell="a", version=found["version"])

    assert secret not in found["source"]
    assert plan.before is None
    assert "Ozzie can't: the cell has what looks like a secret" in shown(plan).undo
    with pytest.raises(ToolFailed, match="a secret that would be lost"):
        await planned(EDIT, context, cell="a", version=found["version"], source=found["source"] + "\n")


# --- what a person is asked, and what is decided ---------------------------------------------------------------


async def test_the_question_counts_cells_and_lines_as_a_person_does(context: ToolContext) -> None:
    insert = await planned(INSERT, context, kind="code", source="y\nz", after="a")
    edit = await planned(EDIT, context, cell="b", version=await version(context, "b"), source="# Title\nmore\n")
    move = await planned(MOVE, context, cell="c", version=await version(context, "c"), after="top")
    delete = await planned(DELETE, context, cell="c", version=await version(context, "c"))

    assert [shown(plan).sentence for plan in (insert, edit, move, delete)] == [
        "Add a code cell of 2 lines to `work/a.ipynb`, behind cell 1 (code cell)?",
        "Add 1 line to cell 2 (Markdown cell) of `work/a.ipynb`?",
        "Move cell 3 (code cell) of `work/a.ipynb` to the top?",
        "Delete cell 3 (code cell) of `work/a.ipynb`?",
    ]
    assert shown(insert).proof == "@@ -0,0 +1,2 @@\n+y\n+z"
    assert shown(delete).proof == "print(x)\n\nIts outputs, which go with it:\n42"


async def test_code_in_a_cell_is_told_as_such_and_the_rest_is_not(context: ToolContext) -> None:
    code = frozenset({Category.CODE_CELL})

    async def told(tool: Any, **args: Any) -> frozenset[Category]:
        if "cell" in args:
            args["version"] = await version(context, args["cell"])
        return (await planned(tool, context, **args)).categories

    assert await told(INSERT, kind="code", source="y") == code
    assert await told(INSERT, kind="markdown", source="y") == frozenset()
    assert await told(INSERT, kind="code", source=" \n") == frozenset()
    assert await told(EDIT, cell="a", source="y") == code
    assert await told(EDIT, cell="b", source="y") == frozenset()
    assert await told(DELETE, cell="a") == frozenset()
    assert await told(MOVE, cell="a", after="end") == frozenset()


@pytest.mark.parametrize("source", ["![](http://evil.example/a.png)", "<img src='http://evil.example'>"])
async def test_a_cell_that_would_load_something_is_not_written(context: ToolContext, source: str) -> None:
    with pytest.raises(ToolFailed, match="whenever somebody looks at it"):
        await planned(INSERT, context, kind="markdown", source=source)
    with pytest.raises(ToolFailed, match="whenever somebody looks at it"):
        await planned(EDIT, context, cell="b", version=await version(context, "b"), source=source)
    assert (await planned(INSERT, context, kind="code", source=f"'''{source}'''")).effect is not None


async def test_a_cell_made_from_content_from_outside_says_so(context: ToolContext) -> None:
    outside = msgspec.structs.replace(context, reading=Reading(content=Content.of(Label.WEB, ["example.org"])))

    made: Any = (await done(INSERT, outside, kind="markdown", source="new")).data
    await done(EDIT, outside, cell="a", version=await version(context, "a"), source="x = 3")
    await done(EDIT, context, cell="a", version=await version(context, "a"), source="x = 4")

    marks = {each["id"]: each["metadata"] for each in now(context)}
    expected = {"ozzie": {"made_from": ["web:example.org"]}}
    assert (marks[made["cell"]], marks["a"], marks["b"]) == (expected, expected, {})


async def test_a_notebook_with_large_outputs_is_edited_all_the_same(context: ToolContext) -> None:
    picture = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "A" * 3_000_000}}
    (context.project / PATH).write_bytes(file(cell("a", "x"), {**cell("b", "y"), "outputs": [picture]}))

    await done(EDIT, context, cell="a", version=await version(context, "a"), source="z")

    assert now(context)[1]["outputs"] == [picture]


async def test_a_notebook_is_not_trusted_any_more_once_it_was_edited(context: ToolContext, tmp_path: Path) -> None:
    notary = NotebookNotary(data_dir=str(tmp_path), db_file=":memory:")
    before = {**cell("c", "1"), "outputs": [HTML]}
    (context.project / PATH).write_bytes(file(before, cell("b", "text", "markdown")))
    as_it_was: Any = nbformat.read(context.project / PATH, as_version=4)
    notary.sign(as_it_was)
    assert notary.check_signature(as_it_was)

    await done(EDIT, context, cell="b", version=await version(context, "b"), source="other")

    as_it_is: Any = nbformat.read(context.project / PATH, as_version=4)
    assert as_it_is.cells[0].outputs == as_it_was.cells[0].outputs
    assert not notary.check_signature(as_it_is)


async def test_edits_side_by_side_are_all_made(context: ToolContext) -> None:
    (context.project / PATH).write_bytes(file(*(cell(f"c{number}", "old") for number in range(8))))
    names = [f"c{number}" for number in range(8)]
    plans = [
        await planned(EDIT, context, cell=name, version=await version(context, name), source=name) for name in names
    ]

    results = await asyncio.gather(*(EDIT.run(plan, context) for plan in plans), return_exceptions=True)

    made = [number for number, each in enumerate(results) if isinstance(each, ToolResult)]
    refused = [each for each in results if not isinstance(each, ToolResult)]
    assert [each["source"] for each in now(context)] == [[f"c{n}"] if n in made else ["old"] for n in range(8)]
    assert all(isinstance(each, ToolFailed) for each in refused)
    assert len(made) >= 4
