"""A turn whose command changes files: in a copy, then, after a yes, in the project; as it was shown, or not at all (ADR
33). The real sandbox, real files, the offline script."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.events import (
    ArtifactCreated,
    Origin,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
)
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.observability.clock import CountingIds
from ozzie_server_ext.tasks.service import NewTurn
from tests.integration.tasks.test_approvals import ANA, Bench, nobody_acts

RULES = {
    "rules": [
        {
            "id": "private",
            "decision": "deny",
            "reason": "Those files are private.",
            "when": {"paths": ["secrets/**"]},
            "examples": {"match": [{"tool": "read_file", "args": {"path": "secrets/a"}}]},
        }
    ]
}
COMMAND = "sed -i s/one/two/ notes/a.md; rm notes/old.md; echo new > notes/deep/b.md"
ASKED = "Change 1 file, add 1 and remove 1 in `notes/`: +2 −2 lines?"


async def expect_sandbox() -> None:
    """Skips where there is none, unless there has to be one."""
    runner = BubblewrapRunner(CountingIds())
    try:
        await runner.ready()
    except Unavailable as error:
        if os.environ.get("OZZIE_REQUIRE_SANDBOX"):
            raise
        pytest.skip(f"{error} {error.hint}")
    finally:
        await runner.close()


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    await expect_sandbox()
    bench = Bench(tmp_path)
    (bench.project / "notes" / "a.md").write_text("one\n")
    (bench.project / "notes" / "old.md").write_text("old\n")
    (bench.home.root / "policy.jsonc").write_text(json.dumps(RULES))
    await bench.start()
    yield bench
    if bench.is_running:
        assert (await bench.ozzie.log.verify()).ok
        assert await bench.ozzie.log.dump() == await bench.ozzie.log.rebuild()
    await bench.stop()


async def turn(bench: Bench, command: str = COMMAND, folder: str = "notes") -> TaskId:
    """A turn that runs that command and wants to apply what it changed, once it rests."""
    origin = Origin(channel="notebook", sender_id="ana")
    asked = f"Run `{command}` changing `{folder}`."
    task_id = (await bench.ozzie.submit(NewTurn(await bench.session(), asked, origin))).task_id
    await bench.rests(task_id)
    return task_id


async def approved(bench: Bench) -> None:
    asked = await bench.pending()
    await bench.ozzie.approvals.approve(asked.approval_id, ANA, binds=asked.asked.binds)


def files(bench: Bench) -> dict[str, str]:
    return {
        str(path.relative_to(bench.project)): path.read_text()
        for path in sorted(bench.project.rglob("*"))
        if path.is_file() and ".ozzie" not in path.parts
    }


BEFORE = {"notes/a.md": "one\n", "notes/old.md": "old\n"}
AFTER = {"notes/a.md": "two\n", "notes/deep/b.md": "new\n"}


async def test_what_a_command_changed_is_shown_and_in_the_project_after_a_yes(bench: Bench) -> None:
    task_id = await turn(bench)
    asked = (await bench.pending()).asked
    assert (asked.name, asked.sentence) == ("apply_changes", ASKED)
    assert asked.proof == (
        "=== notes/a.md (changed, +1 −1 lines)\n@@ -1,1 +1,1 @@\n-one\n+two\n"
        "=== notes/deep/b.md (new, 1 line)\n@@ -0,0 +1,1 @@\n+new\n"
        "=== notes/old.md (to the trash, +0 −1 lines)\n@@ -1,1 +0,0 @@\n-old"
    )
    assert files(bench) == BEFORE

    await approved(bench)

    assert await bench.rests(task_id, 2) == "task.succeeded"
    assert files(bench) == AFTER
    started = (await bench.facts(task_id, ToolCallStarted))[-1]
    made = {fact.artifact_id: fact for fact in await bench.facts(task_id, ArtifactCreated)}
    assert started.before is not None
    assert made[started.before].meta == {"replaced_by": "fs.apply"}
    assert next(fact.name for fact in made.values()).startswith("changes/")


async def test_after_a_no_the_project_is_as_it_was(bench: Bench) -> None:
    task_id = await turn(bench)

    await bench.ozzie.approvals.reject((await bench.pending()).approval_id, ANA)

    assert await bench.rests(task_id, 2) == "task.succeeded"
    assert files(bench) == BEFORE


async def test_a_rule_that_denies_a_path_holds_for_what_a_command_changed(bench: Bench) -> None:
    (bench.project / "secrets").mkdir()

    task_id = await turn(bench, "echo x > secrets/a; echo y > notes/b.md", ".")

    assert await bench.rests(task_id) == "task.succeeded"
    assert await bench.ozzie.approvals.list() == []
    failed = (await bench.facts(task_id, ToolCallFailed))[-1]
    assert failed.message.startswith("Not allowed: those files are private.")
    assert files(bench) == BEFORE


async def test_a_file_that_changes_between_the_question_and_the_yes_is_kept_and_nothing_is_applied(
    bench: Bench,
) -> None:
    task_id = await turn(bench)
    asked = await bench.pending()
    await bench.stop()
    async with nobody_acts(bench.home) as approvals:
        await approvals.approve(asked.approval_id, ANA)
    (bench.project / "notes" / "old.md").write_text("theirs\n")

    await bench.start()

    assert await bench.rests(task_id, 2) == "task.succeeded"
    failed = (await bench.facts(task_id, ToolCallFailed))[-1]
    assert "notes/old.md was changed since the command began" in failed.message
    assert files(bench) == {**BEFORE, "notes/old.md": "theirs\n"}


async def test_the_same_changes_a_second_time_are_nothing_to_ask_about(bench: Bench) -> None:
    first = await turn(bench)
    await approved(bench)
    assert await bench.rests(first, 2) == "task.succeeded"
    for name, text in BEFORE.items():
        (bench.project / name).write_text(text)
    (bench.project / "notes" / "deep" / "b.md").unlink()
    second = await turn(bench)  # the same artifact, in its next version
    for name, text in AFTER.items():
        (bench.project / name).write_text(text)
    (bench.project / "notes" / "old.md").unlink()

    await approved(bench)

    assert await bench.rests(second, 2) == "task.succeeded"
    done = (await bench.facts(second, ToolCallCompleted))[-1]
    assert done.summary == "nothing to change"
    assert files(bench) == AFTER
