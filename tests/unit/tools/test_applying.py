"""`apply_changes`: what a command changed is written into the project as it was shown, and nothing is lost (ADR 33)."""

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.artifacts import REPLACED_BY
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.ids import ArtifactId, SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import Plan, Preview, ToolContext, ToolFailed, Unsettled
from ozzie_server_ext.tools.builtin import applying
from ozzie_server_ext.tools.changes import several
from ozzie_server_ext.tools.changes.changeset import ChangeSet, FileChange, read_changes
from ozzie_server_ext.tools.changes.replace import replace as replace_file
from ozzie_server_ext.tools.changes.seen import MAX_BYTES
from ozzie_server_ext.tools.changes.trash import all_notes

(APPLY,) = applying.TOOLS
SESSION = SessionId("sess_1")


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def change(path: str, before: bytes | None, after: bytes | None, executable: bool | None = None) -> FileChange:
    return FileChange(path=path, before=None if before is None else sha(before), content=after, executable=executable)


FILES = (
    change("data/sales.csv", b"a,b\n1,2\n", b"a,b\n1,3\n2,4\n"),
    change("new/deep/a.txt", None, b"a\n"),
    change("new/deep/b.bin", None, b"\0\1"),
    change("new/run.sh", None, b"#!/bin/sh\n", True),
    change("readme.md", b"hello\n", None),
)


@dataclass
class Bench:
    """A session with its artifacts, and the tool on a project."""

    context: ToolContext
    store: ArtifactStore
    recorder: Recorder

    @property
    def root(self) -> Path:
        return self.context.project

    async def keep(
        self, *files: FileChange, content: bytes | None = None, name: str = "", tool: str = "shell.run"
    ) -> str:
        """The name of an artifact of the session's with these changes."""
        changes = ChangeSet(files)
        kept = await self.store.keep(
            changes.text().encode() if content is None else content,
            kind="json",
            name=name or changes.name(),
            mime="application/json",
            meta={"tool_id": tool},
        )
        await self.store.record(self.recorder, kept)
        return kept.name

    async def plan(self, artifact: str, *paths: str) -> Plan:
        return await APPLY.plan(APPLY.check({"artifact": artifact, "paths": [*paths]}), self.context)

    async def planned(self, *files: FileChange) -> Plan:
        files = tuple(sorted(files, key=lambda file: file.path))
        return await self.plan(await self.keep(*files), *(file.path for file in files))

    async def applied(self, *files: FileChange) -> ToolResult:
        return await APPLY.run(await self.planned(*files), self.context)

    def tree(self) -> dict[str, bytes]:
        """The files, but for the trash."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and ".ozzie" not in path.parts
        }


@pytest.fixture
async def bench(project: Path) -> AsyncIterator[Bench]:
    ids, clock = CountingIds(), FakeClock()
    log = InMemoryEventLog(clock, ids)
    store = ArtifactStore(log, InMemoryBlobs(), ids)
    recorder = Recorder(log=log, session_id=SESSION, task_id=TaskId(ids.new()))
    yield Bench(ToolContext(project, clock, artifacts=store.of(SESSION), key="task-1-0"), store, recorder)
    await log.close()


def shown(plan: Plan) -> Preview:
    assert plan.preview is not None
    return plan.preview()


async def test_all_changes_are_shown_and_then_made(bench: Bench) -> None:
    before = bench.tree()
    plan = await bench.planned(*FILES)

    assert bench.tree() == before, "a plan changes nothing"
    said = shown(plan)
    assert (
        said.sentence
        == "Change 1 file, add 3 and remove 1 of the project: +4 −2 lines, 1 without text, 1 made executable?"
    )
    assert said.shown == "diff"
    assert said.proof == (
        "=== data/sales.csv (changed, +2 −1 lines)\n@@ -1,2 +1,3 @@\n a,b\n-1,2\n+1,3\n+2,4\n"
        "=== new/deep/a.txt (new, 1 line)\n@@ -0,0 +1,1 @@\n+a\n"
        f"=== new/deep/b.bin (new, no text, 2 bytes, SHA-256 {sha(bytes([0, 1]))[:16]}…)\n"
        "=== new/run.sh (new, becomes executable, 1 line)\n@@ -0,0 +1,1 @@\n+#!/bin/sh\n"
        "=== readme.md (to the trash, +0 −1 lines)\n@@ -1,1 +0,0 @@\n-hello"
    )

    done = await APPLY.run(plan, bench.context)

    assert (done.ok, done.summary) == (True, "5 files · +4 −2 lines, 1 without text, 1 made executable")
    assert bench.tree() == {
        "data/sales.csv": b"a,b\n1,3\n2,4\n",
        "new/deep/a.txt": b"a\n",
        "new/deep/b.bin": b"\0\1",
        "new/run.sh": b"#!/bin/sh\n",
    }
    assert os.access(bench.root / "new/run.sh", os.X_OK)
    assert (
        not os.access(bench.root / "new/deep/a.txt", os.X_OK)
        or not (bench.root / "new/deep/a.txt").stat().st_mode & 0o111
    )
    assert [note.path for note in all_notes(bench.root)] == ["readme.md"]
    assert plan.effect is not None
    assert await APPLY.happened(plan.effect, bench.context) is True


async def test_made_twice_it_is_done_once(bench: Bench) -> None:
    await bench.applied(*FILES)
    inode = (bench.root / "data/sales.csv").stat().st_ino

    plan = await bench.planned(*FILES)

    assert plan.nothing is not None
    assert (plan.nothing.ok, plan.nothing.summary) == (True, "nothing to change")
    assert (bench.root / "data/sales.csv").stat().st_ino == inode


async def test_what_was_kept_before_takes_all_of_it_back(bench: Bench) -> None:
    (bench.root / "readme.md").chmod(0o755)
    before = bench.tree()
    plan = await bench.planned(*FILES)
    assert plan.before is not None
    done = await APPLY.run(plan, bench.context)
    assert bench.tree() != before
    data: Any = done.data
    kept = await bench.store.keep(
        plan.before.content, kind="file", name=plan.before.name, mime=plan.before.mime, meta={REPLACED_BY: "fs.apply"}
    )
    await bench.store.record(bench.recorder, kept)
    assert data["undo"] == {"artifact": kept.name, "paths": [file.path for file in FILES]}

    back = await bench.plan(data["undo"]["artifact"], *data["undo"]["paths"])
    await APPLY.run(back, msgspec.structs.replace(bench.context, key="task-2-0"))

    assert bench.tree() == before
    assert stat.S_IMODE((bench.root / "readme.md").stat().st_mode) & 0o111 != 0


async def test_a_file_is_only_made_executable(bench: Bench) -> None:
    plan = await bench.planned(change("readme.md", b"hello\n", b"hello\n", True))
    assert shown(plan).sentence == "Change `readme.md`: 1 made executable?"

    await APPLY.run(plan, bench.context)

    assert os.access(bench.root / "readme.md", os.X_OK)
    assert (bench.root / "readme.md").read_text() == "hello\n"
    assert plan.effect is not None
    assert await APPLY.happened(plan.effect, bench.context) is True


async def test_many_files_are_told_by_their_folder(bench: Bench) -> None:
    for name in ("x", "y"):
        (bench.root / "data" / name).write_text("1\n")
    files = [change(f"data/{name}", b"1\n", b"2\n") for name in ("x", "y")]

    assert shown(await bench.planned(*files)).sentence == "Change 2 files in `data/`: +2 −2 lines?"


async def test_text_that_looks_like_the_heading_of_another_file_stays_a_line_of_its_own(bench: Bench) -> None:
    text = b"=== readme.md (changed, +1 \xe2\x88\x921 lines)\n@@ -1,1 +1,1 @@\n-- x\n++ y\n"

    proof = shown(await bench.planned(change("new.txt", None, text))).proof

    assert [line for line in proof.splitlines() if line[0] not in "+@"] == ["=== new.txt (new, 4 lines)"]


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "paths",
    [["readme.md"], [file.path for file in FILES[:-1]], [*(file.path for file in FILES), "x"], ["./readme.md"] * 5],
)
async def test_it_has_to_name_all_that_it_changes_and_no_more(bench: Bench, paths: list[str]) -> None:
    """Rules look at what a call names."""
    before = bench.tree()

    with pytest.raises(ToolFailed, match=r"changes exactly these paths; name them all, and no other: \[\"data/sales"):
        await bench.plan(await bench.keep(*FILES), *paths)

    assert bench.tree() == before


async def test_a_long_list_of_paths_is_left_to_the_artifact(bench: Bench) -> None:
    name = await bench.keep(*(change(f"{'d' * 90}/{index:03}", None, b"x") for index in range(200)))

    with pytest.raises(ToolFailed, match="no other: read the artifact for them"):
        await bench.plan(name, "x")


async def test_a_file_that_is_another_one_by_now_stops_all_of_it_and_is_named(bench: Bench) -> None:
    (bench.root / "data/sales.csv").write_text("theirs\n")
    (bench.root / "readme.md").unlink()
    (bench.root / "new").mkdir()
    (bench.root / "new/run.sh").write_text("theirs\n")
    before = bench.tree()

    with pytest.raises(ToolFailed) as refused:
        await bench.planned(*FILES[:4], change("gone.txt", b"1", b"2"))

    assert str(refused.value) == (
        "Nothing was applied. data/sales.csv was changed since the command began. gone.txt is gone since the command "
        "began. new/run.sh appeared since the command began. Run the command again, on the files as they are now."
    )
    assert bench.tree() == before


@pytest.mark.parametrize(
    "in_the_way", ["a link", "a link on the way", "a folder", "a second name", "read-only", "large"]
)
async def test_what_tools_do_not_change_stops_it(bench: Bench, tmp_path: Path, in_the_way: str) -> None:
    sales = bench.root / "data" / "sales.csv"
    match in_the_way:
        case "a link":
            sales.rename(tmp_path / "elsewhere")
            sales.symlink_to(tmp_path / "elsewhere")
        case "a link on the way":
            (bench.root / "data").rename(tmp_path / "elsewhere")
            (bench.root / "data").symlink_to(tmp_path / "elsewhere")
        case "a folder":
            sales.unlink()
            sales.mkdir()
        case "a second name":
            os.link(sales, tmp_path / "second")
        case "read-only":
            sales.chmod(0o444)
        case _:
            sales.write_bytes(b"\0" * (MAX_BYTES + 1))

    with pytest.raises(ToolFailed, match=r"^Nothing was applied\. .*\bdata\b"):
        await bench.planned(*FILES)

    assert (bench.root / "readme.md").read_text() == "hello\n"
    assert not (bench.root / "new").exists()


@pytest.mark.parametrize(
    "path",
    ["../out.txt", "/etc/x", ".env", "a/.git/config", ".ozzie/policy.jsonc", "~/x", "a//b", "./a", "a\u202eb", ""],
)
async def test_a_forged_artifact_leads_nowhere_else(bench: Bench, path: str) -> None:
    name = await bench.keep(change(path, None, b"x"))

    with pytest.raises(ToolFailed):
        await bench.plan(name, path or "x")

    assert not (bench.root.parent / "out.txt").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"format": 1}',
        b'{"format": 2, "files": []}',
        b'{"format": 1, "files": []}',
        b'{"format": 1, "files": [1]}',
        b'{"format": 1, "files": [{"path": "a"}]}',
        b'{"format": 1, "files": [{"path": "a", "before": null, "after": null, "executable": null}]}',
        b'{"format": 1, "files": [{"path": "a", "before": null, "after": "0", "executable": null, "base64": "?"}]}',
        b'{"format": 1, "files": [{"path": "a", "before": null, "after": "0", "executable": 1, "text": ""}]}',
        b"[" * 100_000,
    ],
)
async def test_what_can_not_be_read_as_changes_is_refused_in_words(bench: Bench, content: bytes) -> None:
    name = await bench.keep(name="changes/forged.json", content=content)

    with pytest.raises(ToolFailed, match=r"^changes/forged\.json can't be read as changes of files"):
        await bench.plan(name, "a")


async def test_a_file_below_another_one_is_no_change_that_can_be_made(bench: Bench) -> None:
    with pytest.raises(ToolFailed, match="can't be read as changes"):
        await bench.planned(change("a", None, b"1"), change("a/b", None, b"2"))


async def test_where_a_secret_was_taken_out_of_it_nothing_is_written(bench: Bench) -> None:
    """Of values that only the gateway knows, nobody else sees that they are secrets."""
    text = ChangeSet((change("conf.txt", None, b"say hunter2-hunter2 now\n"),)).text()
    name = await bench.keep(
        name="changes/0.json", content=text.replace("hunter2-hunter2", "[redacted: known]").encode()
    )

    with pytest.raises(ToolFailed, match=r"^conf\.txt is in changes/0\.json not as the command left it: a secret may"):
        await bench.plan(name, "conf.txt")

    assert not (bench.root / "conf.txt").exists()


@pytest.mark.parametrize(("name", "tool"), [("out/changes/x.json", "shell.run"), ("changes/x.json", "note.write")])
async def test_only_what_a_command_changed_is_applied(bench: Bench, name: str, tool: str) -> None:
    await bench.keep(*FILES, name=name, tool=tool)
    (found,) = await bench.context.artifacts.under(name, "json")

    with pytest.raises(ToolFailed, match="holds no changes that a command made"):
        await bench.plan(found.artifact_id, *(file.path for file in FILES))


async def test_another_sessions_changes_are_not_there(bench: Bench) -> None:
    name = await bench.keep(*FILES)
    (found,) = await bench.context.artifacts.under(name, "json")
    elsewhere = replace(
        bench, context=msgspec.structs.replace(bench.context, artifacts=bench.store.of(SessionId("sess_2")))
    )
    paths = [file.path for file in FILES]

    with pytest.raises(NotFound):
        await elsewhere.plan(found.artifact_id, *paths)
    with pytest.raises(ToolFailed, match="There are no changes"):
        await elsewhere.plan(name, *paths)
    with pytest.raises(NotFound):
        await bench.plan(ArtifactId("nonesuch"), *paths)


# --- where others change the project meanwhile -----------------------------------------------------------------


async def test_where_the_first_file_changed_since_the_plan_nothing_is_done(bench: Bench) -> None:
    plan = await bench.planned(*FILES)
    (bench.root / "data/sales.csv").write_text("theirs\n")
    before = bench.tree()

    with pytest.raises(ToolFailed, match=r"data/sales\.csv changed since it was looked at"):
        await APPLY.run(plan, bench.context)

    assert bench.tree() == before
    assert not (bench.root / "new").exists(), "folders that were made for it are gone again"


async def test_where_a_later_file_changed_it_is_told_what_was_done_and_the_rest_can_be(bench: Bench) -> None:
    plan = await bench.planned(*FILES)
    (bench.root / "readme.md").write_text("theirs\n")

    done = await APPLY.run(plan, bench.context)

    data: Any = done.data
    assert (done.ok, done.summary) == (False, "4 of 5 files")
    assert data["applied"] == ["data/sales.csv", "new/deep/a.txt", "new/deep/b.bin", "new/run.sh"]
    assert data["not_applied"] == ["readme.md"]
    assert data["why"].startswith("readme.md changed since it was looked at")
    assert (bench.root / "readme.md").read_text() == "theirs\n"
    assert plan.effect is not None
    assert await APPLY.happened(plan.effect, bench.context) is None

    (bench.root / "readme.md").write_text("hello\n")
    rest = await bench.planned(*FILES)
    assert shown(rest).sentence == "Remove `readme.md`: +0 −1 lines?"
    assert (await APPLY.run(rest, bench.context)).ok
    assert not (bench.root / "readme.md").exists()


async def test_a_folder_that_appears_since_the_plan_is_left_alone(bench: Bench) -> None:
    plan = await bench.planned(*FILES)
    (bench.root / "new").mkdir()

    with pytest.raises(ToolFailed, match=r"look at it again\.$"):
        await APPLY.run(plan, bench.context)

    assert os.listdir(bench.root / "new") == []


async def test_one_that_is_stopped_ends_between_two_files_and_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = await bench.planned(*FILES)
    loop = asyncio.get_running_loop()

    def and_stop(*args: Any, **how: Any) -> Any:
        loop.call_soon_threadsafe(running.cancel)
        return replace_file(*args, **how)

    monkeypatch.setattr(several, "replace", and_stop)
    running = asyncio.ensure_future(APPLY.run(plan, bench.context))
    done = await running

    data: Any = done.data
    assert (done.ok, data["applied"], data["why"]) == (False, ["data/sales.csv"], "It was stopped.")
    assert not (bench.root / "new").exists()


async def test_where_one_file_is_in_doubt_it_says_which_and_what_was_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = await bench.planned(*FILES)

    def doubt(root: Path, seen: Any, content: bytes, **how: Any) -> Any:
        if seen.path == "new/deep/b.bin":
            raise Unsettled("Another program changed new/deep/b.bin.", hint="Look at it.")
        return replace_file(root, seen, content, **how)

    monkeypatch.setattr(several, "replace", doubt)
    with pytest.raises(Unsettled) as unsettled:
        await APPLY.run(plan, bench.context)

    assert str(unsettled.value) == (
        "Another program changed new/deep/b.bin. Applied before it: data/sales.csv, new/deep/a.txt. Not applied: "
        "new/run.sh, readme.md."
    )
    assert unsettled.value.hint == "Look at it."


# --- after a crash ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash_before", range(6))
async def test_after_a_crash_it_is_known_whether_all_of_it_was_done_and_the_rest_can_be(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, crash_before: int
) -> None:
    plan = await bench.planned(*FILES)
    began = 0

    class Crash(BaseException):
        pass

    real = applying.carry_out

    def dying(*args: Any) -> Any:
        nonlocal began
        if began == crash_before:
            raise Crash
        began += 1
        return real(*args)

    monkeypatch.setattr(applying, "carry_out", dying)
    if crash_before < 5:
        with pytest.raises(Crash):
            await APPLY.run(plan, bench.context)
    else:
        await APPLY.run(plan, bench.context)
    monkeypatch.undo()

    effect: JsonObject = plan.effect or {}
    expected = False if crash_before == 0 else True if crash_before == 5 else None
    assert await APPLY.happened(effect, bench.context) is expected
    again = await bench.planned(*FILES)
    if again.nothing is None:
        assert (await APPLY.run(again, bench.context)).ok
    assert (bench.root / "data/sales.csv").read_bytes() == b"a,b\n1,3\n2,4\n"
    assert not (bench.root / "readme.md").exists()


async def test_of_another_project_nobody_knows(bench: Bench, tmp_path: Path) -> None:
    plan = await bench.planned(*FILES)
    (tmp_path / "another").mkdir()

    assert (
        await APPLY.happened(plan.effect or {}, msgspec.structs.replace(bench.context, project=tmp_path / "another"))
        is None
    )


def test_changes_come_back_as_they_were_kept() -> None:
    changes = ChangeSet((*FILES, change("z", None, b"\xef\xbb\xbf\r\n\x01\xe2\x80\xa8", False)))

    assert read_changes(changes.text().encode(), "n") == changes
    assert changes.name() == ChangeSet(changes.files).name()
