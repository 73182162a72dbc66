"""`write_file`, `edit_file`, `trash_file`: on exactly what was read, or not at all; and nothing is lost."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.tools.base import EffectTool, InvalidArguments, Plan, ToolContext, ToolFailed
from ozzie_server_ext.tools.builtin import builtin_tools, writing
from ozzie_server_ext.tools.builtin.files import TextFile, version_of
from ozzie_server_ext.tools.builtin.writing import counts
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.unit.tools.test_base import carried_out

WRITE, EDIT, TRASH = writing.TOOLS
READ = ToolRegistry(builtin_tools()).find("fs.read")


@pytest.fixture
def context(context: ToolContext) -> ToolContext:
    return ToolContext(context.project, context.clock, key="task-1-0")


async def version(context: ToolContext, path: str) -> str:
    """As the model reads it."""
    assert READ is not None
    data: Any = (await carried_out(READ, {"path": path}, context)).data
    return data["version"]


async def planned(tool: EffectTool, context: ToolContext, **args: Any) -> Plan:
    return await tool.plan(tool.check(args), context)


# --- writing -------------------------------------------------------------------------------------------------


async def test_a_new_file_is_written_with_its_folders(context: ToolContext) -> None:
    done = await carried_out(WRITE, {"path": "notes/2026/hello.md", "text": "One.\nTwo.\n"}, context)

    assert (context.project / "notes/2026/hello.md").read_text() == "One.\nTwo.\n"
    assert (done.ok, done.summary) == (True, "2 lines")
    assert done.data == {
        "path": "notes/2026/hello.md",
        "version": await version(context, "notes/2026/hello.md"),
        "changed": True,
        "notes": [],
    }


async def test_a_file_that_was_read_is_replaced_and_what_it_was_is_kept(context: ToolContext) -> None:
    plan = await planned(
        WRITE, context, path="readme.md", text="hello\nworld\n", version=await version(context, "readme.md")
    )

    assert plan.before is not None
    assert (plan.before.name, plan.before.content) == ("readme.md (replaced)", b"hello\n")
    assert plan.effect is not None
    assert plan.effect["sha256"] == hashlib.sha256(b"hello\nworld\n").hexdigest()
    assert (context.project / "readme.md").read_text() == "hello\n", "a plan changes nothing"
    done = await WRITE.run(plan, context)
    assert (context.project / "readme.md").read_text() == "hello\nworld\n"
    assert done.summary == "+1 −0 lines"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"path": "readme.md", "text": "x"}, "readme.md is there already: read it first, and name its version."),
        (
            {"path": "readme.md", "text": "x", "version": "0123"},
            "readme.md has changed since it was read; read it again.",
        ),
        ({"path": "new.md", "text": "x", "version": "0123"}, "new.md is gone since it was read"),
        ({"path": "data", "text": "x"}, "data is not a plain file"),
        ({"path": "../x.md", "text": "x"}, "leads out of the project folder"),
        ({"path": ".bashrc", "text": "x"}, "is hidden"),
        ({"path": "a/.ssh/b", "text": "x"}, "is hidden"),
        ({"path": "/etc/passwd", "text": "x"}, "is not below the project folder"),
        ({"path": "a\u202eb.md", "text": "x"}, "characters that nobody can see or read"),
        ({"path": "a\nb.md", "text": "x"}, "characters that nobody can see or read"),
        ({"path": "new.md", "text": "a\0b"}, "non-text characters"),
        ({"path": "new.md", "text": "a\rb"}, "non-text characters"),
    ],
)
async def test_what_can_not_be_written_is_said_and_nothing_is_there_afterwards(
    context: ToolContext, args: dict[str, Any], said: str
) -> None:
    before = sorted(path for path in context.project.rglob("*"))

    with pytest.raises(ToolFailed) as refused:
        await carried_out(WRITE, args, context)

    assert said in str(refused.value)
    assert sorted(path for path in context.project.rglob("*")) == before
    assert (context.project / "readme.md").read_text() == "hello\n"


async def test_a_link_is_not_written_through(context: ToolContext, tmp_path: Path) -> None:
    (context.project / "link.md").symlink_to(tmp_path / "secret.txt")
    (context.project / "folder").symlink_to(tmp_path)

    for path in ("link.md", "folder/secret.txt"):
        with pytest.raises(ToolFailed, match="symbolic link"):
            await carried_out(WRITE, {"path": path, "text": "x"}, context)

    assert (tmp_path / "secret.txt").read_text() == "SECRET"


async def test_a_file_that_changes_between_plan_and_run_is_left_alone(context: ToolContext) -> None:
    plan = await planned(WRITE, context, path="readme.md", text="mine\n", version=await version(context, "readme.md"))
    (context.project / "readme.md").write_text("theirs\n")

    with pytest.raises(ToolFailed, match="look at it again"):
        await WRITE.run(plan, context)

    assert (context.project / "readme.md").read_text() == "theirs\n"


async def test_a_file_that_appears_between_plan_and_run_is_left_alone(context: ToolContext) -> None:
    plan = await planned(WRITE, context, path="new.md", text="mine\n")
    (context.project / "new.md").write_text("theirs\n")

    with pytest.raises(ToolFailed, match="was not there when it was looked at"):
        await WRITE.run(plan, context)

    assert (context.project / "new.md").read_text() == "theirs\n"


async def test_what_is_there_already_needs_no_writing(context: ToolContext) -> None:
    named = await version(context, "readme.md")
    inode = (context.project / "readme.md").stat().st_ino

    plan = await planned(WRITE, context, path="readme.md", text="hello\n", version=named)

    assert plan.nothing is not None
    assert plan.nothing.summary == "nothing to change"
    assert (context.project / "readme.md").stat().st_ino == inode


async def test_where_a_secret_was_taken_out_what_was_read_is_not_written_back_over_it(context: ToolContext) -> None:
    (context.project / "env.txt").write_text("name = ozzie\npassword = 'tr0ub4dor&3-x9Q'\n")
    named = await version(context, "env.txt")
    read = "name = Ozzie\npassword = '[redacted: password]'\n"

    with pytest.raises(ToolFailed, match="the secret would be lost"):
        await carried_out(WRITE, {"path": "env.txt", "text": read, "version": named}, context)
    args: JsonObject = {"path": "env.txt", "old": "name = ozzie", "new": "name = Ozzie", "version": named}
    await carried_out(EDIT, args, context)

    assert (context.project / "env.txt").read_text() == "name = Ozzie\npassword = 'tr0ub4dor&3-x9Q'\n"


async def test_who_has_read_a_part_may_change_a_passage_and_not_write_the_whole(context: ToolContext) -> None:
    text = "".join(f"line {number}\n" for number in range(5000))
    (context.project / "long.txt").write_text(text)
    assert READ is not None
    read: Any = (await carried_out(READ, {"path": "long.txt"}, context)).data
    assert read["truncated"] is True

    args: JsonObject = {"path": "long.txt", "text": read["text"] + "new\n", "version": read["version"]}
    with pytest.raises(ToolFailed, match=r"Only a part of long\.txt was read, and the rest would be lost"):
        await carried_out(WRITE, args, context)
    changed: JsonObject = {"path": "long.txt", "old": "line 7\n", "new": "line seven\n", "version": read["version"]}
    await carried_out(EDIT, changed, context)

    assert (context.project / "long.txt").read_text() == text.replace("line 7\n", "line seven\n")


@given(st.text(alphabet="ab\n\u00e9", max_size=40), st.booleans(), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_read_and_is_written_back_leaves_the_file_as_it_was(
    context: ToolContext, text: str, windows: bool, marked: bool
) -> None:
    content = TextFile(text, windows and "\n" in text, marked).content
    (context.project / "back.txt").write_bytes(content)

    async def back() -> ToolResult:
        assert READ is not None
        read: Any = (await carried_out(READ, {"path": "back.txt"}, context)).data
        args: JsonObject = {"path": "back.txt", "text": read["text"], "version": read["version"]}
        return await carried_out(WRITE, args, context)

    assert asyncio.run(back()).summary == "nothing to change"
    assert (context.project / "back.txt").read_bytes() == content


async def test_another_project_that_is_open_after_a_restart_is_not_asked(context: ToolContext, tmp_path: Path) -> None:
    plan = await planned(WRITE, context, path="new.md", text="x\n")
    (tmp_path / "other").mkdir()
    assert plan.effect is not None

    assert await WRITE.happened(plan.effect, ToolContext(tmp_path / "other", context.clock)) is None


async def test_writing_the_same_twice_is_writing_it_once(context: ToolContext) -> None:
    """As after an outcome that was lost: the second call names a version that is no more."""
    named = await version(context, "readme.md")
    args: JsonObject = {"path": "readme.md", "text": "twice\n", "version": named}
    plan = await planned(WRITE, context, **args)
    await WRITE.run(plan, context)

    assert plan.effect is not None
    assert await WRITE.happened(plan.effect, context) is True
    with pytest.raises(ToolFailed, match="has changed since it was read"):
        await carried_out(WRITE, args, context)
    assert (context.project / "readme.md").read_text() == "twice\n"


# --- editing -------------------------------------------------------------------------------------------------


async def test_one_passage_is_replaced_and_the_rest_stays_byte_for_byte(context: ToolContext) -> None:
    (context.project / "a.py").write_bytes(b"one = 1\r\ntwo = 2\r\nthree = 3\r\n")
    named = await version(context, "a.py")

    done = await carried_out(
        EDIT, {"path": "a.py", "old": "two = 2\n", "new": "two = 22\ntwo_b = 3\n", "version": named}, context
    )

    assert (context.project / "a.py").read_bytes() == b"one = 1\r\ntwo = 22\r\ntwo_b = 3\r\nthree = 3\r\n"
    assert done.summary == "+2 −1 lines"


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("nothing", "the passage to replace is not in it."),
        ("l", "the passage to replace is in it 2 times; include more of its surroundings."),
        ("", "the passage to replace is not in it."),
    ],
)
async def test_a_passage_that_is_not_clear_is_not_replaced(context: ToolContext, old: str, said: str) -> None:
    named = await version(context, "readme.md")

    with pytest.raises(ToolFailed) as refused:
        await carried_out(EDIT, {"path": "readme.md", "old": old, "new": "x", "version": named}, context)

    assert str(refused.value) == f"readme.md was not changed: {said}"
    assert (context.project / "readme.md").read_text() == "hello\n"


async def test_an_edit_has_to_name_the_version_that_was_read(context: ToolContext) -> None:
    named = await version(context, "readme.md")
    (context.project / "readme.md").write_text("hello you\n")

    with pytest.raises(ToolFailed, match="has changed since it was read"):
        await carried_out(EDIT, {"path": "readme.md", "old": "hello", "new": "bye", "version": named}, context)
    with pytest.raises(InvalidArguments, match="version: field required"):
        await carried_out(EDIT, {"path": "readme.md", "old": "hello", "new": "bye"}, context)

    assert (context.project / "readme.md").read_text() == "hello you\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"caf\xe9 hello", "is not UTF-8 text"),
        (b"hello\0", "is not text"),
        (b"hello\rthere\n", "ends its lines in more than one way"),
        (b"hello\r\nthere\n", "ends its lines in more than one way"),
    ],
)
async def test_what_could_not_be_written_back_as_it_was_is_not_edited(
    context: ToolContext, content: bytes, said: str
) -> None:
    (context.project / "f.txt").write_bytes(content)

    args: JsonObject = {"path": "f.txt", "old": "hello", "new": "bye", "version": version_of(content)}

    with pytest.raises(ToolFailed, match=said):
        await carried_out(EDIT, args, context)

    assert (context.project / "f.txt").read_bytes() == content


@given(st.text(alphabet="ab\n\u00e9\U0001f600\t", max_size=30), st.booleans(), st.booleans())
def test_a_text_goes_back_as_it_came(text: str, windows: bool, marked: bool) -> None:
    content = TextFile(text, windows and "\n" in text, marked).content

    assert TextFile.of(content, "f").content == content


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "a\nb\n", "2 lines"),
        ("a\nb\n", "a\nb", "+1 −1 lines"),
        ("", "a", "1 line"),
        ("", "", "0 lines"),
        ("a\nb\n", "a\nc\nd\n", "+2 −1 lines"),
        ("a\nb\n", "b\na\n", "+0 −0 lines"),
        ("a\n" * 200_000, "a\n" * 199_999 + "b\n", "+1 −1 lines"),
    ],
    ids=range(7),
)
def test_lines_that_come_and_go_are_counted(old: str, new: str, said: str) -> None:
    assert counts(old, new) == said


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        ("a\nb\nc\n", "d\ne\nf\ng\n", "Replace 3 lines of `q.md` with 4?"),
        ("a\nb\n", "c\n", "Replace 2 lines of `q.md` with 1?"),
        ("a\n", "b\nc\n", "Replace 1 line of `q.md` with 2?"),
        ("a\nb\nc\n", "a\nd\ne\n", "Change 2 lines of `q.md`?"),
        ("a\nb\n", "a\nc\n", "Change 1 line of `q.md`?"),
        ("a\nb\n", "a\nc\nb\nd\n", "Add 2 lines to `q.md`?"),
        ("", "a\n", "Add 1 line to `q.md`?"),
        ("a\nb\nc\n", "b\n", "Remove 2 lines from `q.md`?"),
        ("a\n", "", "Remove 1 line from `q.md`?"),
        ("a\nb\n", "b\nc\na\n", "Add 1 line to `q.md`, and move others?"),
        ("a\nb\nc\n", "c\na\n", "Remove 1 line from `q.md`, and move others?"),
        ("a\nb\n", "b\na\n", "Move lines of `q.md`?"),
    ],
)
async def test_a_person_is_asked_by_how_many_lines_come_and_go(
    context: ToolContext, old: str, new: str, asked: str
) -> None:
    (context.project / "q.md").write_text(old)

    plan = await planned(WRITE, context, path="q.md", text=new, version=version_of(old.encode()))

    assert plan.preview is not None
    assert plan.preview().sentence == asked


def test_only_who_can_make_a_file_is_told_what_to_say_of_a_new_one() -> None:
    described: dict[str, str] = {}
    for tool in (WRITE, EDIT, TRASH):
        properties: Any = tool.spec.parameters["properties"]
        described[tool.meta.name] = properties["version"]["description"]

    assert described == {
        "write_file": "The file's version, as read_file told it; empty for a new file.",
        "edit_file": "The file's version, as read_file told it.",
        "trash_file": "The file's version, as read_file told it.",
    }


# --- the trash -----------------------------------------------------------------------------------------------


async def test_a_file_goes_to_the_trash_of_the_project_and_is_there_whole(context: ToolContext) -> None:
    done = await carried_out(
        TRASH, {"path": "data/sales.csv", "version": await version(context, "data/sales.csv")}, context
    )

    data: Any = done.data
    assert not (context.project / "data/sales.csv").exists()
    assert (context.project / data["trash"]).read_text() == "a,b\n1,2\n"
    assert data["trash"].startswith(".ozzie/trash/task-1-0/")
    assert done.summary == "in the trash"


async def test_what_is_not_there_or_no_file_is_not_moved(context: ToolContext) -> None:
    for path in ("nonesuch.md", "data"):
        with pytest.raises(ToolFailed):
            await carried_out(TRASH, {"path": path, "version": "0123"}, context)
    with pytest.raises(ToolFailed, match="has changed since it was read"):
        await carried_out(TRASH, {"path": "readme.md", "version": "0123"}, context)
    assert (context.project / "readme.md").exists()


# --- after a crash -------------------------------------------------------------------------------------------


async def test_a_write_that_was_not_done_is_told_from_one_that_was(context: ToolContext) -> None:
    named = await version(context, "readme.md")
    plan = await planned(WRITE, context, path="readme.md", text="new\n", version=named)
    assert plan.effect is not None

    assert await WRITE.happened(plan.effect, context) is False
    await WRITE.run(plan, context)
    assert await WRITE.happened(plan.effect, context) is True
    (context.project / "readme.md").write_text("somebody else's\n")
    assert await WRITE.happened(plan.effect, context) is None, "whatever it was before, nobody knows now"


async def test_a_file_that_was_trashed_is_told_from_one_that_was_not(context: ToolContext) -> None:
    plan = await planned(TRASH, context, path="readme.md", version=await version(context, "readme.md"))
    assert plan.effect is not None

    assert await TRASH.happened(plan.effect, context) is False
    await TRASH.run(plan, context)
    assert await TRASH.happened(plan.effect, context) is True


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(alphabet="ab\n", max_size=12), min_size=1, max_size=5))
def test_a_file_holds_what_was_written_last_however_often_it_is(context: ToolContext, texts: list[str]) -> None:
    async def go() -> None:
        (context.project / "p.txt").unlink(missing_ok=True)
        named = ""
        for text in texts:
            result: ToolResult = await carried_out(WRITE, {"path": "p.txt", "text": text, "version": named}, context)
            data: Any = result.data
            named = data["version"]
            assert (context.project / "p.txt").read_text() == text

    asyncio.run(go())
