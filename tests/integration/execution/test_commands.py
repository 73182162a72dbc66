"""`shell` and `python` as a model calls them: through the broker, into the sandbox, and back as a result."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.events import (
    ArtifactCreated,
    EventBody,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolUse,
    Transient,
)
from ozzie_server_ext.domain.ids import CallId, SessionId, TaskId
from ozzie_server_ext.embedding import open_gate
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.execution.runner import NoJobs
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.policy.decision import Caller
from ozzie_server_ext.policy.engine import FixedRulings
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.broker import CallPosition
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.builtin.commands import MAX_FILES
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.brokers import broker_of

SESSION = SessionId("sess_1")
KNOWN = "hunter2-hunter2"


@dataclass
class Bench:
    runner: BubblewrapRunner
    project: Path
    shown: list[Transient] = field(default_factory=list)

    def __post_init__(self) -> None:
        ids, clock = CountingIds(), FakeClock()
        self.log = InMemoryEventLog(clock, ids)
        self.artifacts = ArtifactStore(self.log, InMemoryBlobs(), ids)
        self.recorder = Recorder(log=self.log, session_id=SESSION, task_id=TaskId(ids.new()))
        self.broker = broker_of(
            ToolRegistry(builtin_tools()),
            FixedRulings(),
            self.artifacts,
            clock,
            ids,
            known_secrets=lambda: [KNOWN],
            publish=self.shown.append,
        )
        caller = Caller(project=str(self.project), channel="test", user="ann", attended=True)
        self.context = ToolContext(self.project, clock, caller, artifacts=self.artifacts.of(SESSION), jobs=self.runner)

    async def call(self, name: str, **args: Any) -> EventBody:
        """The outcome."""
        use = ToolUse(call_id=CallId("u"), name=name, arguments=json.dumps(args))
        assert await self.broker.call(use, CallPosition(1, 0), self.context, self.recorder) is None
        return [event.body for event in await self.log.read(session_id=SESSION)][-1]

    async def done(self, name: str, **args: Any) -> ToolCallCompleted:
        outcome = await self.call(name, **args)
        assert isinstance(outcome, ToolCallCompleted), outcome
        return outcome

    async def kept(self) -> dict[str, ArtifactCreated]:
        bodies = [event.body for event in await self.log.read(session_id=SESSION)]
        return {body.name: body for body in bodies if isinstance(body, ArtifactCreated)}


@pytest.fixture
async def bench(runner: BubblewrapRunner, project: Path) -> AsyncIterator[Bench]:
    bench = Bench(runner, project)
    yield bench
    await bench.log.close()


async def test_a_command_runs_and_its_words_come_back(bench: Bench) -> None:
    outcome = await bench.done("shell", command="wc -l < notes/a.md; ls")

    assert outcome.data == {"exit_code": 0, "output": "1\ndata.csv\nempty\nnotes\n"}
    assert (outcome.ok, outcome.summary) == (True, "4 lines")


async def test_a_program_runs_with_what_notebooks_can_import(bench: Bench) -> None:
    outcome = await bench.done("python", code="import csv, pydantic\nprint(list(csv.reader(open('data.csv'))))")

    assert outcome.data == {"exit_code": 0, "output": "[['x', 'y'], ['1', '2']]\n"}


async def test_one_that_fails_says_how(bench: Bench) -> None:
    outcome = await bench.done("python", code="print('before')\n1 / 0\n")

    assert not outcome.ok
    assert isinstance(outcome.data, dict)
    assert outcome.data["exit_code"] == 1
    assert str(outcome.data["output"]).startswith(
        'before\nTraceback (most recent call last):\n  File "/job/main.py", line 2'
    )
    assert str(outcome.data["output"]).endswith("ZeroDivisionError: division by zero\n")
    assert outcome.summary.startswith("exit 1 · ")


async def test_files_that_it_leaves_are_artifacts_that_the_model_can_name(bench: Bench) -> None:
    source = (
        "import os\n"
        "out = os.environ['OUT']\n"
        "open(out + '/table.csv', 'w').write('x\\n1\\n')\n"
        "open(out + '/plot.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n')\n"
        "open(out + '/page.html', 'w').write('<script>alert(1)</script>')\n"
    )

    outcome = await bench.done("python", code=source)

    kept = await bench.kept()
    assert {name: (body.kind, body.mime) for name, body in kept.items()} == {
        "out/page.html": ("file", "text/html"),
        "out/plot.png": ("image", "image/png"),
        "out/table.csv": ("file", "text/csv"),
    }
    assert isinstance(outcome.data, dict)
    assert outcome.data["kept"] == [
        {"name": name, "artifact_id": kept[name].artifact_id}
        for name in ("out/page.html", "out/plot.png", "out/table.csv")
    ]
    assert set(outcome.artifacts) == {body.artifact_id for body in kept.values()}
    assert outcome.summary == "no output · 3 files"
    page = await bench.done("read_artifact", artifact_id=kept["out/table.csv"].artifact_id)
    assert isinstance(page.data, dict)
    assert page.data["text"] == "x\n1\n"


async def test_it_can_not_pass_a_file_off_as_a_note(bench: Bench) -> None:
    await bench.done("shell", command="mkdir $OUT/notes; echo obey > $OUT/notes/plan.md; echo x > $OUT/../notes.md")

    assert list(await bench.kept()) == ["out/notes/plan.md"]
    notes = await bench.done("read_note")
    assert notes.data == {"notes": []}


async def test_of_many_files_some_are_left_out_and_named(bench: Bench) -> None:
    numbers = f"$(seq 100 {100 + MAX_FILES})"
    tab = "\"$(printf '\\t')\""

    outcome = await bench.done("shell", command=f"for i in {numbers}; do echo $i > $OUT/$i; done; echo x > $OUT/{tab}")

    assert isinstance(outcome.data, dict)
    assert len(await bench.kept()) == MAX_FILES
    assert isinstance(outcome.data["left_out"], list)
    assert len(outcome.data["left_out"]) == 2


async def test_secrets_in_what_it_prints_and_leaves_are_taken_out(bench: Bench) -> None:
    (bench.project / "keys.txt").write_text(f"password={KNOWN}\n")

    outcome = await bench.done("shell", command="cat keys.txt; cp keys.txt $OUT/copy.txt")

    assert KNOWN not in str(outcome.data)
    kept = (await bench.kept())["out/copy.txt"]
    _, content = await bench.artifacts.of(SESSION).open(kept.artifact_id)
    assert KNOWN.encode() not in content
    assert all(KNOWN not in str(transient.payload) for transient in bench.shown)


async def test_what_it_prints_is_shown_while_it_runs(bench: Bench) -> None:
    use = ToolUse(call_id=CallId("u"), name="shell", arguments=json.dumps({"command": "echo one; sleep 60"}))
    running = asyncio.ensure_future(bench.broker.call(use, CallPosition(1, 0), bench.context, bench.recorder))

    async with asyncio.timeout(30):
        while not any(each.payload.get("lines") == ["one"] for each in bench.shown):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    bodies = [event.body for event in await bench.log.read(session_id=SESSION)]
    assert isinstance(bodies[-1], ToolCallCancelled)


async def test_much_output_is_cut_and_the_whole_is_an_artifact(bench: Bench) -> None:
    outcome = await bench.done("shell", command="seq 1 20000")

    assert isinstance(outcome.data, dict)
    output, kept = outcome.data["output"], outcome.data["kept"]
    assert isinstance(output, dict)
    assert isinstance(kept, list)
    assert isinstance(kept[0], dict)
    assert (output["cut"], output["lines"]) == (True, 20_000)
    assert str(kept[0]["head"]).startswith("1\n2\n")
    assert str(kept[0]["tail"]).endswith("\n20000\n")
    (log,) = (await bench.kept()).values()
    assert (log.kind, log.mime) == ("log", "text/plain")
    page = await bench.done("read_artifact", artifact_id=log.artifact_id, first_line=19_999)
    assert isinstance(page.data, dict)
    assert page.data["text"] == "19999\n20000\n"


async def test_one_that_floods_is_ended_and_told(bench: Bench) -> None:
    outcome = await bench.done("shell", command="head -c 1G /dev/zero | tr '\\0' 'x'")

    assert not outcome.ok
    assert isinstance(outcome.data, dict)
    assert outcome.data["ended"] == "It was ended: it printed more than 4 MiB."
    assert outcome.summary == "took too much"


async def test_one_that_takes_too_long_is_ended_and_told(bench: Bench) -> None:
    outcome = await bench.done("shell", command="echo begun; sleep 60", timeout_s=1)

    assert isinstance(outcome.data, dict)
    assert (outcome.data["exit_code"], outcome.data["ended"]) == (None, "It was ended after 1 s.")
    assert str(outcome.data["output"]).startswith("begun\n")
    assert outcome.summary == "took too long"


async def test_what_is_no_text_is_told_as_far_as_it_is(bench: Bench) -> None:
    outcome = await bench.done("shell", command="printf 'a\\377b\\303\\274\\0c'; printf '\\303'")

    assert isinstance(outcome.data, dict)
    assert outcome.data["output"] == "a\ufffdbü\0c\ufffd"


@pytest.mark.parametrize("folder", ["..", "/etc", "~", ".git", "notes/../.."])
async def test_it_starts_below_the_project_and_nowhere_else(bench: Bench, folder: str) -> None:
    outcome = await bench.call("shell", command="pwd", folder=folder)

    assert isinstance(outcome, ToolCallFailed)
    assert outcome.code == "tool.outside_project"


async def test_where_it_can_not_start_is_told(bench: Bench) -> None:
    (bench.project / "link").symlink_to("/etc")

    for folder, why in (("nowhere", "nowhere does not exist."), ("data.csv", "data.csv is not a folder")):
        outcome = await bench.call("python", code="1", folder=folder)
        assert isinstance(outcome, ToolCallFailed)
        assert why in outcome.message
    outcome = await bench.call("python", code="1", folder="link")
    assert isinstance(outcome, ToolCallFailed)
    assert "symbolic link" in outcome.message


async def test_a_project_whose_folder_is_closed_to_others_is_read_all_the_same(bench: Bench) -> None:
    bench.project.chmod(0o700)
    outcome = await bench.done("shell", command="cat data.csv notes/a.md && ls")
    assert isinstance(outcome.data, dict)
    assert outcome.data["output"] == "x,y\n1,2\none\ndata.csv\nempty\nnotes\n"


async def test_a_project_of_which_another_user_may_read_nothing_is_told_where_a_command_is_one(bench: Bench) -> None:
    for path in bench.project.iterdir():
        path.chmod(0o700)
    outcome = await bench.call("shell", command="cat data.csv")
    if os.geteuid() == 0:
        assert isinstance(outcome, ToolCallFailed)
        assert outcome.message == (
            "Commands run as another user here, who may read nothing in the project. "
            f"Run chmod -R o+rX {bench.project}, or Jupyter as an ordinary user."
        )
    else:
        assert isinstance(outcome, ToolCallCompleted)
        assert outcome.ok

    (bench.project / "data.csv").chmod(0o744)
    outcome = await bench.done("shell", command="cat data.csv")
    assert isinstance(outcome.data, dict)
    assert outcome.data["output"] == "x,y\n1,2\n"


async def test_it_starts_where_it_was_told(bench: Bench) -> None:
    outcome = await bench.done("shell", command="pwd", folder="./notes/")

    assert isinstance(outcome.data, dict)
    assert outcome.data["output"] == "/project/notes\n"


async def test_a_command_may_be_long_and_begin_with_anything(bench: Bench) -> None:
    dashes = await bench.done("shell", command="-x; echo on")
    long = await bench.done("shell", command=": " + "語" * 49_000 + "\necho end")

    assert str(dashes.data).count("on") >= 1
    assert isinstance(long.data, dict)
    assert long.data["output"] == "end\n"


async def test_no_half_of_a_secret_is_left_where_much_output_is_cut(bench: Bench) -> None:
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    for before in range(5970, 6010, 7):
        outcome = await bench.done(
            "shell", command=f"head -c {before} /dev/zero | tr '\\0' 'x'; echo ' {token}'; seq 1 9000"
        )
        assert token[:12] not in str(outcome.data)
        assert token[-12:] not in str(outcome.data)


async def test_where_nothing_can_run_it_says_what_to_do(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ozzie_server_ext.execution.box._SEARCHED", str(bench.project))
    bench.context = ToolContext(bench.project, bench.context.clock, jobs=BubblewrapRunner(CountingIds()))

    outcome = await bench.call("shell", command="true")

    assert isinstance(outcome, ToolCallFailed)
    assert outcome.code == "sandbox.unavailable"
    assert "bubblewrap, is not installed" in outcome.message
    assert "apt-get install bubblewrap" in outcome.message


async def test_it_runs_behind_a_gate_of_ones_own(bench: Bench) -> None:
    async with open_gate(project=bench.project) as gate:
        gate.add(*builtin_tools())

        outcome = await gate.call("shell", {"command": "cat notes/a.md"})

        assert (outcome.status, outcome.data) == ("done", {"exit_code": 0, "output": "one\n"})


async def test_where_nobody_gave_it_a_runner_it_says_so(bench: Bench) -> None:
    bench.context = ToolContext(bench.project, bench.context.clock, jobs=NoJobs())

    outcome = await bench.call("python", code="1")

    assert isinstance(outcome, ToolCallFailed)
    assert outcome.message == "Commands can't be run here."
