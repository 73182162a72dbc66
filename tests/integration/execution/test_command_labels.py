"""What a command in the sandbox says bears the labels of the files that it opened, however it ends."""

import asyncio
import gzip
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.events import Event, ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.execution import opened_files
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.execution.opened_files import OpenedFiles
from ozzie_server_ext.execution.runner import Opened
from ozzie_server_ext.tools.broker import CallPosition
from tests.integration.execution.test_commands import SESSION, Bench
from tests.unit.tools.notebook.test_outputs import PRINTED, notebook

_FILE_CLOCK = 5  # CLOCK_REALTIME_COARSE
WEB = Content.of(Label.WEB, ["site.example"])
MCP = Content.of(Label.MCP, ["tickets"])
OUTPUT = Content.of(Label.OUTPUT, ["notes/n.ipynb.bak"])
ALL = WEB | MCP | Content.of(Label.OUTPUT, ["U.IPYNB", "notes/n.ipynb.bak"])
"""What counts as read where it can't be watched what is opened: `saved.json` is not named like a notebook."""


WORST = WEB | MCP | Content.of(Label.OUTPUT)
"""What counts as read where something was missed."""


class Marked:
    """`notes/a.md` was made from the web, `data.csv` from a server of tools."""

    async def all(self) -> Mapping[str, Content]:
        return {"notes/a.md": WEB, "data.csv": MCP}

    async def below(self, path: str = "") -> Content:
        marked = (await self.all()).items()
        return Content.of_all(content for name, content in marked if not path or f"{name}/".startswith(f"{path}/"))


@pytest.fixture
def bench(runner: BubblewrapRunner, project: Path) -> Bench:
    ran = json.dumps(notebook(PRINTED), indent=1)
    (project / "deep").mkdir()
    for path, text in {
        "notes/n.ipynb.bak": ran,
        "U.IPYNB": ran,
        "deep/saved.json": json.dumps({"content": ran}),
        "deep/clean.ipynb": json.dumps(notebook()),
        "deep/b.txt": "two\n",
    }.items():
        (project / path).write_text(text)
    _let_a_tick_pass(project / "deep" / "b.txt")
    bench = Bench(runner, project)
    bench.context = msgspec.structs.replace(bench.context, marks=Marked())
    return bench


def _let_a_tick_pass(file: Path) -> None:
    """Until what is written next is younger than the file. One of the same tick would count as changed meanwhile."""
    for _ in range(1_000_000):
        if time.clock_gettime_ns(_FILE_CLOCK) > file.stat().st_ctime_ns:
            return
    raise AssertionError("the file system's clock stands still")


async def last(bench: Bench) -> Event:
    return (await bench.log.read(session_id=SESSION))[-1]


async def content_of(bench: Bench, name: str = "shell", **args: Any) -> Content:
    """What the outcome of a call bears."""
    await bench.call(name, **args)
    event = await last(bench)
    return Content(labels=event.labels, sources=event.sources)


async def meanwhile(bench: Bench, change: Callable[[], object], **args: Any) -> Content:
    """The same of a call during which something is done, once it has printed a line."""
    running = asyncio.ensure_future(content_of(bench, timeout_s=20, **args))
    await printed_a_line(bench)
    change()
    return await running


async def printed_a_line(bench: Bench) -> None:
    async with asyncio.timeout(30):
        while not any(each.payload.get("lines") for each in bench.shown):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


def decoding(path: str) -> str:
    """A command that prints what a notebook printed, and not as it is saved, and waits until `deep/wait` has gone."""
    code = f"import json; print(json.load(open('/project/{path}'))['cells'][0]['outputs'][0]['text'], flush=True)"
    return f'python3 -I -c "{code}"; while test -e deep/wait; do sleep 0.05; done'


@pytest.mark.parametrize(
    ("command", "content"),
    [
        pytest.param("echo x", CLEAN, id="nothing is read"),
        pytest.param("cat deep/b.txt", CLEAN, id="another file"),
        pytest.param("cat deep/clean.ipynb", CLEAN, id="a notebook without outputs"),
        pytest.param("cat notes/a.md", WEB, id="a marked file"),
        pytest.param("cat data.csv", MCP, id="another marked file"),
        pytest.param("cat notes/n.ipynb.bak", OUTPUT, id="a copy of a notebook"),
        pytest.param("cat U.IPYNB", Content.of(Label.OUTPUT, ["U.IPYNB"]), id="a notebook in capital letters"),
        pytest.param("wc -c < deep/saved.json", Content.of(Label.OUTPUT, ["deep/saved.json"]), id="within other JSON"),
        pytest.param("ls notes", WEB, id="the name of a marked file"),
        pytest.param("ls", WEB | MCP, id="the names at the top"),
        pytest.param("cat /proc/self/mountinfo", WEB | MCP, id="the names at the top, in the table of mounts"),
        pytest.param("tr '\\0' ' ' </proc/1/cmdline", WEB | MCP, id="the names at the top, in the table of processes"),
        pytest.param("cat notes/*", WEB | OUTPUT, id="all of a folder"),
        pytest.param("exit 3 < notes/a.md", WEB, id="a command that fails"),
    ],
)
async def test_what_a_command_opened_labels_it(bench: Bench, command: str, content: Content) -> None:
    assert await content_of(bench, command=command) == content


async def test_a_program_is_labelled_the_same(bench: Bench) -> None:
    code = "import json; print(json.load(open('notes/n.ipynb.bak'))['cells'][0]['outputs'][0]['text'])"

    assert await content_of(bench, "python", code=code) == OUTPUT


async def test_a_name_with_a_space_is_known_in_the_table_of_mounts(bench: Bench) -> None:
    class Spaced(Marked):
        async def all(self) -> Mapping[str, Content]:
            return {"two words.md": WEB, "two": MCP}

    (bench.project / "two words.md").touch()
    bench.context = msgspec.structs.replace(bench.context, marks=Spaced())

    assert await content_of(bench, command="cat /proc/self/mountinfo") == WEB


async def test_the_folder_in_which_it_starts_is_not_read_by_that(bench: Bench) -> None:
    assert await content_of(bench, command="echo x", folder="notes") == CLEAN
    assert await content_of(bench, command="cat a.md", folder="notes") == WEB


async def test_a_folder_that_is_copied_is_read_as_a_whole(bench: Bench) -> None:
    assert await content_of(bench, command="echo x", editable_folder="notes") == WEB | OUTPUT
    assert await content_of(bench, command="cat data.csv", editable_folder="deep") == MCP | Content.of(
        Label.OUTPUT, ["deep/saved.json"]
    )


@pytest.mark.parametrize("goes_to", [None, "deep/later.json"])
async def test_of_a_folder_that_is_copied_a_file_that_goes_meanwhile_leaves_it_unknown(
    bench: Bench, goes_to: str | None
) -> None:
    (bench.project / "deep" / "wait").touch()

    def change() -> None:
        file = bench.project / "notes" / "n.ipynb.bak"
        file.rename(bench.project / goes_to) if goes_to else file.unlink()
        (bench.project / "deep" / "wait").unlink()

    assert await meanwhile(bench, change, command=decoding("notes/n.ipynb.bak"), editable_folder="notes") == WORST


async def test_a_folder_that_is_copied_is_read_by_content_where_nothing_is_watched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_files, "MAX_FOLDERS", 1)

    found = await content_of(bench, command="echo x", editable_folder="deep")

    assert found == ALL | Content.of(Label.OUTPUT, ["deep/saved.json"])


async def test_a_hard_link_bears_the_mark_of_its_file(bench: Bench) -> None:
    (bench.project / "deep" / "other.md").hardlink_to(bench.project / "notes" / "a.md")
    _let_a_tick_pass(bench.project / "notes" / "a.md")

    assert await content_of(bench, command="cat deep/other.md") == WEB


async def test_one_that_runs_out_of_time_is_labelled(bench: Bench) -> None:
    assert await content_of(bench, command="cat notes/a.md; sleep 60", timeout_s=1) == WEB


async def test_one_that_is_stopped_is_labelled(bench: Bench) -> None:
    use = ToolUse(call_id=CallId("u"), name="shell", arguments=json.dumps({"command": "cat notes/a.md; sleep 60"}))
    running = asyncio.ensure_future(bench.broker.call(use, CallPosition(1, 0), bench.context, bench.recorder))
    await printed_a_line(bench)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    event = await last(bench)
    assert (event.body.type, event.sources) == ("tool.call.cancelled", WEB.sources)


async def test_one_that_is_stopped_while_it_is_labelled_bears_the_worst(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_asked = asyncio.Event()

    async def opened(job_id: str) -> Opened | None:
        is_asked.set()
        await asyncio.Event().wait()
        return None

    monkeypatch.setattr(bench.runner, "opened", opened)
    use = ToolUse(call_id=CallId("u"), name="shell", arguments=json.dumps({"command": "echo x"}))
    running = asyncio.ensure_future(bench.broker.call(use, CallPosition(1, 0), bench.context, bench.recorder))
    await asyncio.wait_for(is_asked.wait(), 30)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    event = await last(bench)
    assert (event.body.type, Content(labels=event.labels, sources=event.sources)) == ("tool.call.cancelled", WORST)


async def test_a_break_while_it_is_labelled_leaves_the_worst(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def opened(job_id: str) -> Opened | None:
        raise RuntimeError

    monkeypatch.setattr(bench.runner, "opened", opened)

    assert await content_of(bench, command="echo x") == WORST


async def test_events_that_can_not_be_taken_leave_it_unknown(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    take = OpenedFiles._take

    def break_at_one(self: OpenedFiles, watch: int, mask: int, name: str) -> None:
        if name == "a.md":
            raise MemoryError
        take(self, watch, mask, name)

    monkeypatch.setattr(OpenedFiles, "_take", break_at_one)

    assert await content_of(bench, command="cat notes/a.md; sleep 0.2") == WORST


async def test_a_marked_file_that_is_moved_and_then_read_leaves_it_unknown(bench: Bench) -> None:
    (bench.project / "deep" / "wait").touch()

    def change() -> None:
        (bench.project / "notes" / "a.md").rename(bench.project / "deep" / "moved.md")
        (bench.project / "deep" / "wait").unlink()

    command = "echo ready; while test -e deep/wait; do sleep 0.05; done; cat deep/moved.md"

    assert await meanwhile(bench, change, command=command) == WORST


async def test_a_file_that_changes_meanwhile_leaves_it_unknown(bench: Bench) -> None:
    path = bench.project / "deep" / "clean.ipynb"
    (bench.project / "deep" / "wait").touch()
    _let_a_tick_pass(bench.project / "deep" / "wait")

    def change() -> None:
        path.write_text(json.dumps(notebook(), indent=2))
        (bench.project / "deep" / "wait").unlink()

    command = "cat deep/clean.ipynb; echo; while test -e deep/wait; do sleep 0.05; done"

    assert await meanwhile(bench, change, command=command) == WORST


async def test_everything_counts_as_read_where_it_is_not_known(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_files, "MAX_FOLDERS", 1)

    assert await content_of(bench, command="echo x") == ALL
    # By what it prints, it is seen to have read a notebook that is not named like one: unless a label says so already.
    assert (await content_of(bench, command="cat deep/saved.json")).labels == ALL.labels


async def test_a_file_that_is_gone_afterwards_leaves_it_unknown(bench: Bench) -> None:
    command = "cat deep/b.txt; while test -e deep/b.txt; do sleep 0.05; done"

    assert await meanwhile(bench, (bench.project / "deep" / "b.txt").unlink, command=command) == WORST


async def test_a_packed_notebook_that_is_printed_is_seen_by_what_it_prints(bench: Bench) -> None:
    (bench.project / "deep" / "saved.gz").write_bytes(gzip.compress((bench.project / "U.IPYNB").read_bytes()))
    _let_a_tick_pass(bench.project / "deep" / "saved.gz")

    assert await content_of(bench, command="zcat deep/saved.gz") == Content.of(Label.OUTPUT)


async def test_an_artifact_with_outputs_is_labelled_where_it_is_read(bench: Bench) -> None:
    content = (bench.project / "U.IPYNB").read_bytes()
    kept = await bench.artifacts.keep(content, kind="file", name="U.IPYNB", mime="text/plain")
    await bench.artifacts.record(bench.recorder, kept)

    assert await content_of(bench, "read_artifact", artifact_id=kept.artifact_id) == Content.of(Label.OUTPUT)


async def test_a_pipe_may_bring_anything(bench: Bench) -> None:
    os.mkfifo(bench.project / "deep" / "pipe", 0o644)
    (bench.project / "deep" / "pipe").chmod(0o666)
    _let_a_tick_pass(bench.project / "deep" / "pipe")

    assert await content_of(bench, command="echo two 1<>deep/pipe") == WORST


async def test_a_command_that_opens_without_end_counts_as_having_read_outputs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_files, "MAX_EVENTS", 100)
    command = "for i in $(seq 100); do : <notes/a.md; : <deep/b.txt; done; wc -c <deep/saved.json"

    assert await content_of(bench, command=command) == WORST
