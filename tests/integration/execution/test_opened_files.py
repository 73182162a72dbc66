"""What is seen of the files that a job opens, in the real sandbox, whatever way it takes to them."""

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ozzie_server_ext.execution import opened_files
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.execution.opened_files import OpenedFiles
from ozzie_server_ext.execution.runner import JobLimits, JobSpec, JobState, Opened
from ozzie_server_ext.observability.clock import CountingIds


@pytest.fixture
def tree(project: Path) -> Path:
    (project / "notes" / ".kept").mkdir()
    (project / "notes" / ".kept" / "b.md").write_text('["two"]\n')
    (project / "link").symlink_to("notes/a.md")
    os.link(project / "notes" / "a.md", project / "second.md")
    script = project / "notes" / "run.sh"
    script.write_text("#!/bin/cat\nthree\n")
    script.chmod(0o755)
    return project


async def opened_by(
    runner: BubblewrapRunner, project: Path, argv: list[str] | str, *, wall_s: float = 20, copied: str | None = None
) -> Opened | None:
    words = ["sh", "-c", argv] if isinstance(argv, str) else argv
    spec = JobSpec(argv=words, project=project, copied=copied, limits=JobLimits(wall_s=wall_s))
    job_id = await runner.start(spec)
    async for _ in runner.stream_logs(job_id):
        pass
    return await runner.opened(job_id)


def of(*files: str, folders: tuple[str, ...] = ()) -> Opened:
    return Opened(files=frozenset(files), folders=frozenset(folders))


def program(code: str) -> list[str]:
    return ["python3", "-c", f"import os, mmap, json\nos.chdir('/project/notes')\n{code}"]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        pytest.param("cat notes/a.md", of("notes/a.md"), id="cat"),
        pytest.param("cat data.csv", of("data.csv"), id="a file at the top"),
        pytest.param("cat link", of("notes/a.md"), id="a symbolic link"),
        pytest.param("cat second.md", of("second.md"), id="a hard link"),
        pytest.param("cp notes/a.md /tmp/x; cat /tmp/x", of("notes/a.md"), id="a copy"),
        pytest.param("exec 3<notes/a.md; sh -c 'cat <&3'", of("notes/a.md"), id="a descriptor handed on"),
        pytest.param("(sleep 0.3; cat notes/a.md) & :", of(), id="a child that is killed before it reads"),
        pytest.param("(sleep 0.3; cat notes/a.md) & wait", of("notes/a.md"), id="a child"),
        pytest.param("setsid -w cat notes/a.md", of("notes/a.md"), id="a session of its own"),
        pytest.param("notes/run.sh", of("notes/run.sh"), id="a script that is run"),
        pytest.param("tar -cf - notes/a.md | wc -c", of("notes/a.md"), id="packing"),
        pytest.param("cat notes/.kept/b.md", of("notes/.kept/b.md"), id="a hidden folder below the top"),
        pytest.param("cat notes/missing; test -s notes/a.md", of(), id="no content"),
        pytest.param("echo x", of(), id="nothing"),
        pytest.param("cat /proc/self/cwd/notes/a.md", of("notes/a.md"), id="through proc"),
        pytest.param("ls", of(folders=("",)), id="the names at the top"),
        pytest.param("echo *", of(folders=("",)), id="a pattern at the top"),
        pytest.param("ls notes", of(folders=("notes",)), id="the names in a folder"),
        pytest.param("find notes -name '*.md'", of(folders=("", "notes", "notes/.kept")), id="find by name"),
        pytest.param("cd notes && ls", of(folders=("notes",)), id="the names of where it stands"),
        pytest.param(
            "grep -r e notes",
            of("notes/a.md", "notes/.kept/b.md", "notes/run.sh", folders=("notes", "notes/.kept")),
            id="grep -r",
        ),
    ],
)
async def test_a_command(runner: BubblewrapRunner, tree: Path, command: str, found: Opened) -> None:
    assert await opened_by(runner, tree, command) == found


@pytest.mark.parametrize(
    ("code", "file"),
    [
        pytest.param("print(open('a.md').read())", "notes/a.md", id="open"),
        pytest.param("print(json.load(open('.kept/b.md')))", "notes/.kept/b.md", id="decoding"),
        pytest.param(
            "f = os.open('a.md', os.O_RDONLY); print(mmap.mmap(f, 0, prot=mmap.PROT_READ)[:])", "notes/a.md", id="mmap"
        ),
        pytest.param(
            "f = os.open('a.md', os.O_PATH); print(open(f'/proc/self/fd/{f}').read())", "notes/a.md", id="O_PATH"
        ),
        pytest.param(
            "f = os.open('/project', os.O_PATH); print(os.read(os.open('data.csv', 0, dir_fd=f), 9))",
            "data.csv",
            id="from a folder's O_PATH",
        ),
    ],
)
async def test_a_program(runner: BubblewrapRunner, tree: Path, code: str, file: str) -> None:
    found = await opened_by(runner, tree, program(code))

    assert found is not None
    assert found.files == {file}


async def test_names_that_are_listed_through_an_o_path_descriptor(runner: BubblewrapRunner, tree: Path) -> None:
    code = "f = os.open('/project', os.O_PATH); os.chdir('/'); print(os.listdir(f'/proc/self/fd/{f}'))"

    assert await opened_by(runner, tree, ["python3", "-I", "-c", f"import os; {code}"]) == of(folders=("",))


async def test_a_job_that_is_ended_by_the_clock(runner: BubblewrapRunner, tree: Path) -> None:
    assert await opened_by(runner, tree, "cat notes/a.md; sleep 60", wall_s=0.5) == of("notes/a.md")


async def test_a_job_that_is_stopped(runner: BubblewrapRunner, tree: Path) -> None:
    job_id = await runner.start(JobSpec(argv=["sh", "-c", "cat notes/a.md; sleep 60"], project=tree))
    async for _ in runner.stream_logs(job_id):
        break

    await runner.cancel(job_id)

    assert (await runner.status(job_id)).state is JobState.CANCELLED
    assert await runner.opened(job_id) == of("notes/a.md")


async def test_jobs_side_by_side_see_no_less(runner: BubblewrapRunner, tree: Path) -> None:
    found = await asyncio.gather(*(opened_by(runner, tree, f"cat {name}") for name in ("data.csv", "notes/a.md")))

    for name, opened in zip(("data.csv", "notes/a.md"), found, strict=True):
        assert opened is not None
        assert name in opened.files


async def test_a_file_that_is_replaced_meanwhile_is_seen_by_its_name(runner: BubblewrapRunner, tree: Path) -> None:
    waits = "echo ready; while ! test -e notes/go; do sleep 0.05; done; cat data.csv"
    job_id = await runner.start(JobSpec(argv=["sh", "-c", waits], project=tree, limits=JobLimits(wall_s=20)))
    printed = b""
    async for piece in runner.stream_logs(job_id):
        if not printed:
            (tree / "new.csv").write_text("new\n")
            (tree / "new.csv").rename(tree / "data.csv")
            (tree / "notes" / "go").touch()
        printed += piece.data

    assert printed == b"ready\nx,y\n1,2\n"  # what was there when it began
    found = await runner.opened(job_id)
    assert found is not None
    assert "data.csv" in found.files


async def test_the_copy_of_a_folder_is_not_told(runner: BubblewrapRunner, tree: Path) -> None:
    assert await opened_by(runner, tree, "cat notes/a.md data.csv", copied="notes") == of("data.csv")


# --- where it can't be known ----------------------------------------------------------------------------


async def test_too_many_folders(runner: BubblewrapRunner, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_files, "MAX_FOLDERS", 3)

    assert await opened_by(runner, tree, "echo x") is None


async def test_too_many_events(runner: BubblewrapRunner, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_files, "MAX_EVENTS", 100)

    found = await opened_by(runner, tree, "for i in $(seq 100); do : <data.csv; : <notes/a.md; done")

    assert found is not None
    assert not found.is_whole


async def test_a_file_system_that_does_not_tell(
    runner: BubblewrapRunner, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_files, "_FILE_SYSTEMS", frozenset[int]())

    assert await opened_by(runner, tree, "echo x") is None


async def test_a_first_job_that_is_not_seen(tree: Path, monkeypatch: pytest.MonkeyPatch, runner: object) -> None:
    monkeypatch.setattr("ozzie_server_ext.execution.bubblewrap._PROBE", "true")
    other = BubblewrapRunner(CountingIds())

    assert await opened_by(other, tree, "echo x") is None
    await other.close()


@pytest.mark.parametrize("change", ["mkdir", "rename", "rmdir"])
async def test_folders_that_change_meanwhile(runner: BubblewrapRunner, tree: Path, change: str) -> None:
    job_id = await runner.start(JobSpec(argv=["sh", "-c", "echo ready; sleep 0.2"], project=tree))
    async for _ in runner.stream_logs(job_id):
        match change:
            case "mkdir":
                (tree / "notes" / "new").mkdir(exist_ok=True)
            case "rename":
                (tree / "notes" / ".kept").rename(tree / "notes" / ".else")
            case _:
                (tree / "empty").rmdir()

    found = await runner.opened(job_id)
    assert found is not None
    assert not found.is_whole


async def test_what_is_mounted_meanwhile(runner: BubblewrapRunner, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, True])
    monkeypatch.setattr(opened_files, "_has_mounts", lambda root: next(answers))

    found = await opened_by(runner, tree, "echo x")

    assert found is not None
    assert not found.is_whole


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The temporary folders that are made."""
    made: list[str] = []
    make = opened_files.tempfile.mkdtemp
    monkeypatch.setattr(opened_files.tempfile, "mkdtemp", lambda **given: made.append(make(**given)) or made[-1])
    return made


async def test_nothing_is_left_behind(runner: BubblewrapRunner, tree: Path, places: list[str]) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))

    for _ in range(3):
        await opened_by(runner, tree, "cat data.csv")
    await runner.close()  # which waits for all work to end

    assert len(places) == 3
    assert not any(map(os.path.exists, places))
    assert len(os.listdir("/proc/self/fd")) == descriptors


async def test_nothing_is_left_behind_by_one_that_is_stopped_twice_while_it_is_made(
    runner: BubblewrapRunner, tree: Path, places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    begins, go_on = threading.Event(), threading.Event()
    watch = OpenedFiles.watch

    def wait_and_watch(self: OpenedFiles, project: Path, shown: Sequence[Path]) -> None:
        begins.set()
        assert go_on.wait(30)
        watch(self, project, shown)

    monkeypatch.setattr(OpenedFiles, "watch", wait_and_watch)
    job_id = await runner.start(JobSpec(argv=["true"], project=tree))
    assert await asyncio.to_thread(begins.wait, 30)

    stops: list[asyncio.Future[None]] = []
    for _ in range(2):
        stops.append(asyncio.ensure_future(runner.cancel(job_id)))
        for _ in range(10):  # rounds of the loop, until it waits
            await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*stops)

    assert len(places) == 1
    assert not any(map(os.path.exists, places))
    assert len(os.listdir("/proc/self/fd")) == descriptors


async def test_nothing_is_left_behind_where_the_loop_ends_meanwhile(
    runner: BubblewrapRunner, tree: Path, places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unfollow = OpenedFiles.unfollow

    def unfollow_and_stop(self: OpenedFiles) -> None:
        """What comes behind this is told to stop, as the end of a loop tells all that still goes on in it."""
        unfollow(self)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    monkeypatch.setattr(OpenedFiles, "unfollow", unfollow_and_stop)
    await opened_by(runner, tree, "cat data.csv")

    assert len(places) == 1
    async with asyncio.timeout(10):
        while os.path.exists(places[0]):  # noqa: ASYNC110, ASYNC240 - nobody tells
            await asyncio.sleep(0.01)
