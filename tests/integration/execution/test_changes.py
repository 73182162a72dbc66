"""What a command changes in its copy of a folder: kept apart, whole and without secrets, and told; the project stays as
it is until somebody applies it (ADR 33)."""

import hashlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.events import ToolCallFailed
from ozzie_server_ext.execution import sandbox_files
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.execution.runner import Collected, FileState, JobFile
from ozzie_server_ext.tools.builtin.proposing import proposal
from tests.integration.execution.test_commands import KNOWN, SESSION, Bench

TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.fixture
async def bench(runner: BubblewrapRunner, project: Path) -> AsyncIterator[Bench]:
    bench = Bench(runner, project)
    yield bench
    await bench.log.close()


async def changed(bench: Bench, command: str, editable: str = ".", **args: Any) -> dict[str, Any]:
    """What is told of the changes; and the project is as it was."""
    before = tree(bench.project)
    outcome = await bench.done("shell", command=command, editable_folder=editable, **args)
    assert tree(bench.project) == before
    assert isinstance(outcome.data, dict)
    changes: Any = outcome.data["changes"]
    return {**changes, "left_out": outcome.data.get("left_out", []), "ok": outcome.ok, "summary": outcome.summary}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def kept(bench: Bench, name: str) -> dict[str, Any]:
    artifact = (await bench.kept())[name]
    assert (artifact.kind, artifact.mime) == ("json", "application/json")
    _, content = await bench.artifacts.of(SESSION).open(artifact.artifact_id)
    return json.loads(content)


async def test_what_a_command_changes_is_kept_and_told_and_the_project_stays_as_it_is(bench: Bench) -> None:
    command = (
        "sed -i s/one/two/ notes/a.md; rm data.csv; echo new > empty/b.txt; chmod +x empty/b.txt; printf '\\0\\1' > raw"
    )

    told = await changed(bench, command)

    assert (told["ok"], told["summary"], told["left_out"]) == (True, "no output · 4 files to apply", [])
    assert told["files"] == [
        {"path": "data.csv", "is": "removed", "lines": "+0 −2 lines"},
        {"path": "empty/b.txt", "is": "new", "lines": "1 line", "executable": True},
        {"path": "notes/a.md", "is": "changed", "lines": "+1 −1 lines"},
        {"path": "raw", "is": "new", "size": "2 bytes"},
    ]
    held = await kept(bench, told["artifact"])
    assert [(file["path"], file.get("text"), file.get("base64"), file["executable"]) for file in held["files"]] == [
        ("data.csv", None, None, None),
        ("empty/b.txt", "new\n", None, True),
        ("notes/a.md", "two\n", None, None),
        ("raw", None, "AAE=", None),
    ]


async def test_a_program_may_change_a_folder_too_and_paths_are_the_projects(bench: Bench) -> None:
    outcome = await bench.done("python", code="open('notes/a.md', 'a').write('x\\n')", editable_folder="notes/")

    assert isinstance(outcome.data, dict)
    changes: Any = outcome.data["changes"]
    assert changes["files"] == [{"path": "notes/a.md", "is": "changed", "lines": "+1 −0 lines"}]


async def test_a_command_that_fails_has_changed_what_it_changed(bench: Bench) -> None:
    told = await changed(bench, "echo two > a.md; exit 1", "notes", folder="notes")

    assert ([file["path"] for file in told["files"]], told["ok"]) == (["notes/a.md"], False)


async def test_where_nothing_was_changed_nothing_is_kept(bench: Bench) -> None:
    told = await changed(bench, "touch notes/a.md")

    assert (told["files"], "artifact" in told, await bench.kept()) == ([], False, {})
    assert told["summary"] == "no output · 0 files to apply"


async def test_the_same_changes_have_the_same_name(bench: Bench) -> None:
    first, second = [await changed(bench, "echo x > notes/b") for _ in range(2)]

    assert first["artifact"] == second["artifact"]
    assert (await bench.kept())[first["artifact"]].version == 2


async def test_without_a_folder_to_edit_all_is_as_before(bench: Bench) -> None:
    outcome = await bench.done("shell", command="echo x > notes/a.md", editable_folder="")

    assert isinstance(outcome.data, dict)
    assert "changes" not in outcome.data
    assert "Read-only file system" in str(outcome.data["output"]) or "Permission denied" in str(outcome.data["output"])


async def test_one_that_was_cut_off_changes_nothing(bench: Bench) -> None:
    told = await changed(bench, "echo x > notes/a.md; sleep 60", timeout_s=1)

    assert told["refused"] == "Nothing of what it changed was kept. The command did not finish."
    assert (told["summary"], await bench.kept()) == ("took too long · changes not kept", {})


@pytest.mark.parametrize("folder", ["..", "/etc", "notes/../..", ".git", "~", "link"])
async def test_what_it_may_edit_lies_below_the_project_and_nowhere_else(bench: Bench, folder: str) -> None:
    (bench.project / "link").symlink_to("/etc")

    outcome = await bench.call("shell", command="true", editable_folder=folder)

    assert isinstance(outcome, ToolCallFailed)
    assert outcome.code == "tool.outside_project"


async def test_a_folder_that_is_too_large_is_refused_before_the_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_files, "MAX_COPIED_FILES", 20)
    for index in range(20):
        (bench.project / "empty" / str(index)).touch()

    outcome = await bench.call("shell", command="echo ran", editable_folder=".")

    assert isinstance(outcome, ToolCallFailed)
    assert "Name a smaller folder" in outcome.message


# --- hostile jobs ----------------------------------------------------------------------------------------------


async def test_links_pipes_and_hidden_names_are_left_out_and_told(bench: Bench) -> None:
    told = await changed(
        bench,
        "ln -s /etc/passwd notes/p; mkfifo notes/f; ln notes/a.md notes/b; ln -s / root; mkdir .c; echo 1 > .c/1; "
        "echo 2 > .c/2; rm data.csv; ln -s notes/a.md data.csv",
    )

    assert [(file["path"], file["is"]) for file in told["files"]] == [("notes/b", "new")]
    assert sorted(told["left_out"]) == [
        ".c (hidden)",
        "data.csv (no plain file)",
        "notes/f (no plain file)",
        "notes/p (no plain file)",
        "root (no plain file)",
    ]


async def test_names_that_nobody_can_read_are_left_out_and_told(bench: Bench) -> None:
    code = (
        "import os\n"
        "os.chdir(b'/project/notes')\n"
        "for name in (b'bad\\xff', 'a\\u202eb'.encode(), b'a\\nb', b'  two  spaces', b'x' * 255):\n"
        "    open(name, 'w').write('1')\n"
        "os.makedirs('/'.join(['d' * 200] * 6))\n"
        "open('/'.join(['d' * 200] * 6) + '/far', 'w').write('1')\n"
    )
    (bench.project / "notes" / os.fsdecode(b"old\xfe")).write_text("stays")

    outcome = await bench.done("python", code=code, editable_folder=".")

    assert isinstance(outcome.data, dict)
    changes: Any = outcome.data["changes"]
    left_out: Any = outcome.data["left_out"]
    assert [file["path"] for file in changes["files"]] == ["notes/" + "x" * 255]
    assert len(left_out) == 5
    assert all(name.endswith("(its name can't be used)") for name in left_out)
    assert all(name.isprintable() for name in left_out)


@pytest.mark.parametrize("command", ["rm data.csv; mkdir data.csv; echo 1 > data.csv/x", "rm -r notes; echo 1 > notes"])
async def test_a_file_in_the_place_of_a_folder_is_refused_as_is_the_other_way(bench: Bench, command: str) -> None:
    told = await changed(bench, command)

    assert "use a new name" in told["refused"]
    assert (told["ok"], await bench.kept()) == (False, {})


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("head -c 1G /dev/zero > notes/big; true", "More than 200 files or 8 MiB"),
        ("head -c 20M /dev/zero > notes/big", "More than 200 files or 8 MiB"),
        ("head -c 3M /dev/zero > notes/big", "notes/big would be larger than 2,097,152 bytes"),
        ("seq 1 50000 | (cd notes && xargs touch)", "More than 200 files or 8 MiB"),
        ("echo x > notes/a.md; chmod 000 notes/a.md", "files that can't be read"),
    ],
    ids=["1 GB", "20 MB", "3 MB", "50,000 files", "closed"],
)
async def test_too_much_is_told_and_nothing_is_kept(bench: Bench, command: str, said: str) -> None:
    told = await changed(bench, command)

    assert said in told["refused"]
    assert (told["files"], told["ok"], await bench.kept()) == ([], False, {})


@pytest.mark.timeout(120)
async def test_a_hundred_thousand_files_end_it(bench: Bench) -> None:
    told = await changed(bench, "seq 1 100000 | (cd notes && xargs touch); sleep 60", timeout_s=100)

    assert told["refused"] == "Nothing of what it changed was kept. The command did not finish."
    assert await bench.kept() == {}


@pytest.mark.parametrize("content", [f"token = {TOKEN}", f"password={KNOWN}xyz1"])
async def test_a_file_with_a_secret_is_refused_and_named_and_nothing_of_it_is_kept(bench: Bench, content: str) -> None:
    told = await changed(bench, f"echo '{content}' > notes/b.env.txt; echo fine > notes/c; rm notes/a.md")

    assert told["refused"].startswith(
        "Nothing of what it changed was kept. notes/b.env.txt has what looks like a secret"
    )
    assert (told["ok"], await bench.kept()) == (False, {})


async def test_a_value_that_only_the_gateway_knows_is_taken_out_and_then_nothing_is_applied(bench: Bench) -> None:
    told = await changed(bench, f"echo 'say {KNOWN}' > notes/b; echo fine > notes/c")

    assert KNOWN not in json.dumps(await kept(bench, told["artifact"]))
    outcome = await bench.call("apply_changes", artifact=told["artifact"], paths=["notes/b", "notes/c"])
    assert isinstance(outcome, ToolCallFailed)
    assert outcome.message.startswith(f"notes/b is in {told['artifact']} not as the command left it: a secret may have")
    assert not (bench.project / "notes" / "c").exists()


async def test_what_a_model_read_without_its_secrets_is_not_written_back_over_them(bench: Bench) -> None:
    (bench.project / "notes" / "a.md").write_text(f"token = {TOKEN}\n")

    told = await changed(bench, "echo 'token = [redacted: token]' > notes/a.md")

    assert "notes/a.md has [redacted: …] where a secret was taken out" in told["refused"]


def test_a_file_that_changed_in_the_project_meanwhile_is_told_at_once(project: Path) -> None:
    was = FileState(sha256=hashlib.sha256(b"one\n").hexdigest(), executable=False)
    left = Collected(changed=(JobFile(path="a.md", content=b"ours\n"),), before={"a.md": was})
    assert proposal(project, "notes", left).count == 1

    (project / "notes" / "a.md").write_text("theirs\n")

    found = proposal(project, "notes", left)
    assert found.made is None
    assert "notes/a.md was changed in the project meanwhile; run the command again." in str(found.data["refused"])
