"""What a job sees, what it leaves, and how it ends."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Conflict, NotFound, Unavailable
from ozzie_server_ext.execution.box import MAX_TOP
from ozzie_server_ext.execution.bubblewrap import AT_ONCE, BubblewrapRunner
from ozzie_server_ext.execution.runner import MIB, JobFile, JobLimits, JobSpec, JobState
from ozzie_server_ext.execution.sandbox_files import MAX_COPIED_FILES
from tests.integration.execution.rig import Ran, ran

WAIT_S = 30.0


async def test_a_command_sees_the_project_and_says_what_it_found(runner: BubblewrapRunner, project: Path) -> None:
    job = await ran(runner, project, "pwd; cat notes/a.md; echo oops >&2; exit 3")

    assert job.printed == "/project\none\noops\n"
    assert (job.state, job.status.exit_code, job.status.reason) == (JobState.FAILED, 3, "")


async def test_it_starts_in_the_folder_that_was_named(runner: BubblewrapRunner, project: Path) -> None:
    job = await ran(runner, project, "cat a.md", folder="notes")

    assert (job.state, job.printed) == (JobState.SUCCEEDED, "one\n")


async def test_a_folder_that_is_not_there_is_told(runner: BubblewrapRunner, project: Path) -> None:
    job = await ran(runner, project, "true", folder="nowhere")

    assert job.state is JobState.FAILED
    assert "/project/nowhere" in job.status.reason


async def test_arguments_arrive_as_they_are(runner: BubblewrapRunner, project: Path) -> None:
    words = ["a b", "$HOME", "*", "", "'\"", "ü\n"]

    job = await ran(runner, project, ["printf", "[%s]", *words])

    assert job.printed == "".join(f"[{word}]" for word in words)


async def test_what_it_leaves_in_out_is_collected(runner: BubblewrapRunner, project: Path) -> None:
    job = await ran(runner, project, 'mkdir $OUT/deep; echo hi > "$OUT/deep/a b.txt"; printf "\\0\\1" > $OUT/raw')

    assert set(job.left.out) == {JobFile(path="deep/a b.txt", content=b"hi\n"), JobFile(path="raw", content=b"\0\1")}
    assert job.left.changed == ()


async def test_the_project_itself_can_not_be_changed(runner: BubblewrapRunner, project: Path) -> None:
    job = await ran(runner, project, "echo two > notes/a.md; rm data.csv; mkdir new; chmod 777 .; true")

    assert job.state is JobState.SUCCEEDED
    assert "Read-only file system" in job.printed or "Permission denied" in job.printed
    assert (project / "notes/a.md").read_text() == "one\n"
    assert sorted(os.listdir(project)) == ["data.csv", "empty", "notes"]


async def test_of_a_copy_it_is_told_what_was_changed(runner: BubblewrapRunner, project: Path) -> None:
    job = await ran(
        runner,
        project,
        "sed -i s/one/two/ notes/a.md; rm data.csv; echo n > empty/new; touch -d yesterday notes/a.md",
        copied="",
    )

    assert job.left.changed == (
        JobFile(path="empty/new", content=b"n\n"),
        JobFile(path="notes/a.md", content=b"two\n"),
    )
    assert job.left.deleted == ("data.csv",)
    assert (project / "notes/a.md").read_text() == "one\n"
    assert (project / "data.csv").exists()


async def test_only_the_named_folder_is_a_copy(runner: BubblewrapRunner, project: Path) -> None:
    job = await ran(runner, project, "echo two > notes/a.md; echo 3 > data.csv", copied="notes")

    assert job.left.changed == (JobFile(path="a.md", content=b"two\n"),)
    assert job.left.deleted == ()


async def test_what_a_copy_leaves_as_it_was_is_not_told(runner: BubblewrapRunner, project: Path) -> None:
    job = await ran(runner, project, "echo one > notes/a.md; cp data.csv x; rm x", copied="")

    assert (job.left.changed, job.left.deleted, job.left.left_out) == ((), (), ())


async def test_links_and_pipes_of_a_job_are_left_behind(runner: BubblewrapRunner, project: Path) -> None:
    job = await ran(
        runner,
        project,
        "ln -s /etc/passwd notes/p; mkfifo notes/f; ln notes/a.md notes/b; ln -s / $OUT/root",
        copied="",
    )

    assert job.left.changed == (JobFile(path="notes/b", content=b"one\n"),)
    assert job.left.deleted == ()
    assert sorted(job.left.left_out) == [
        "notes/f (no plain file)",
        "notes/p (no plain file)",
        "root (no plain file)",
    ]


async def test_what_is_hidden_is_not_there(runner: BubblewrapRunner, project: Path) -> None:
    (project / ".env").write_text("KEY=1\n")
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("token\n")
    (project / ".link").symlink_to("/etc")
    (project / "notes" / ".deep").write_text("deep\n")

    job = await ran(runner, project, "cat .env .git/config; ls .link/; true")
    copy = await ran(runner, project, "ls -A . notes", copied="")

    assert not any(word in job.printed for word in ("KEY", "token", "shadow"))
    assert copy.printed == ".:\ndata.csv\nempty\nnotes\n\nnotes:\na.md\n"


async def test_a_link_in_the_project_leads_nowhere_outside(
    runner: BubblewrapRunner, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside.txt").write_text("secret\n")
    (project / "link").symlink_to(tmp_path / "outside.txt")
    (project / "up").symlink_to("../outside.txt")

    job = await ran(runner, project, "cat link up ../outside.txt")
    copy = await ran(runner, project, "cat link up", copied="")

    assert "secret" not in job.printed + copy.printed
    assert job.state is copy.state is JobState.FAILED


async def test_the_folder_to_copy_is_reached_through_no_link(
    runner: BubblewrapRunner, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (project / "link").symlink_to(tmp_path / "outside")

    for folder in ("link", "..", "notes/../..", str(tmp_path / "outside"), "nowhere", "data.csv"):
        job = await ran(runner, project, "true", copied=folder)
        assert job.state is JobState.FAILED
        assert "can't be opened" in job.status.reason


@pytest.mark.soak  # it makes ten thousand files
async def test_a_folder_with_too_much_is_not_copied(runner: BubblewrapRunner, project: Path) -> None:
    for index in range(MAX_COPIED_FILES):
        (project / "empty" / str(index)).touch()

    copy = await ran(runner, project, "true", copied="")
    assert copy.state is JobState.FAILED
    assert "Name a smaller folder" in copy.status.reason
    job = await ran(runner, project, "ls empty | wc -l")
    assert job.printed.strip() == str(MAX_COPIED_FILES)


async def test_the_interpreter_of_the_notebooks_runs_with_its_packages(runner: BubblewrapRunner, project: Path) -> None:
    source = b"import pydantic, sys\nprint(sys.prefix)\nprint(open('data.csv').read())\n"

    job = await ran(runner, project, [sys.executable, "/job/main.py"], files={"main.py": source})

    assert job.printed == f"{sys.prefix}\nx,y\n1,2\n\n"


async def test_what_it_prints_can_be_followed_from_anywhere(runner: BubblewrapRunner, project: Path) -> None:
    job_id = await runner.start(JobSpec(argv=["sh", "-c", "echo one; read x < /dev/null; echo two"], project=project))

    pieces = [piece async for piece in runner.stream_logs(job_id)]
    again = [piece async for piece in runner.stream_logs(job_id, pieces[-1].cursor - 4)]

    assert b"".join(piece.data for piece in pieces) == b"one\ntwo\n"
    assert b"".join(piece.data for piece in again) == b"two\n"


async def test_it_prints_while_it_runs(runner: BubblewrapRunner, project: Path) -> None:
    job_id = await runner.start(JobSpec(argv=["sh", "-c", "echo ready; sleep 60"], project=project))

    async with asyncio.timeout(WAIT_S):
        first = await anext(runner.stream_logs(job_id))
    status = await runner.status(job_id)
    with pytest.raises(Conflict, match="running"):
        await runner.collect_artifacts(job_id)
    await runner.cancel(job_id)

    assert (first.data, status.state) == (b"ready\n", JobState.RUNNING)


async def test_a_stop_ends_it_and_all_that_it_started(runner: BubblewrapRunner, project: Path) -> None:
    mark = f"sleep 4{os.getpid()}"
    script = f"trap '' TERM INT HUP; setsid {mark} & nohup {mark} >/dev/null 2>&1 & ({mark} &) ; echo up; {mark}"
    job_id = await runner.start(JobSpec(argv=["sh", "-c", script], project=project))
    async with asyncio.timeout(WAIT_S):
        await anext(runner.stream_logs(job_id))
        while len(_running(mark)) < 4:  # noqa: ASYNC110 - other processes tell nobody
            await asyncio.sleep(0.01)

    await runner.cancel(job_id)

    assert _running(mark) == []
    status = await runner.status(job_id)
    assert (status.state, status.exit_code, status.reason) == (JobState.CANCELLED, None, "It was stopped.")


async def test_one_that_ended_stays_as_it_was(runner: BubblewrapRunner, project: Path) -> None:
    job_id = await runner.start(JobSpec(argv=["true"], project=project))
    async for _ in runner.stream_logs(job_id):
        pass

    await runner.cancel(job_id)

    assert (await runner.status(job_id)).state is JobState.SUCCEEDED


async def test_of_many_some_wait_for_their_turn_and_can_be_stopped_there(
    runner: BubblewrapRunner, project: Path
) -> None:
    sleepers = [await runner.start(JobSpec(argv=["sleep", "60"], project=project)) for _ in range(AT_ONCE)]
    waiting = await runner.start(JobSpec(argv=["echo", "ran"], project=project))
    dropped = await runner.start(JobSpec(argv=["echo", "ran"], project=project))
    await asyncio.sleep(0)
    before = await runner.status(waiting)

    stopping = asyncio.create_task(runner.cancel(dropped))
    for job_id in sleepers:
        await runner.cancel(job_id)
    printed = b"".join([piece.data async for piece in runner.stream_logs(waiting)])
    await stopping

    assert before.state is JobState.QUEUED
    assert printed == b"ran\n"
    assert (await runner.status(dropped)).state is JobState.CANCELLED
    assert b"".join([piece.data async for piece in runner.stream_logs(dropped)]) == b""


async def test_what_waits_for_its_turn_is_stopped_at_once(runner: BubblewrapRunner, project: Path) -> None:
    sleepers = [await runner.start(JobSpec(argv=["sleep", "60"], project=project)) for _ in range(AT_ONCE)]
    waiting = await runner.start(JobSpec(argv=["true"], project=project))

    async with asyncio.timeout(WAIT_S):
        await runner.cancel(waiting)

    assert (await runner.status(waiting)).state is JobState.CANCELLED
    for job_id in sleepers:
        assert not (await runner.status(job_id)).state.is_final


async def test_a_stop_at_any_moment_leaves_one_end_and_nothing_open(runner: BubblewrapRunner, project: Path) -> None:
    await ran(runner, project, "true")
    open_before = len(os.listdir("/proc/self/fd"))
    for index in range(40):
        job_id = await runner.start(JobSpec(argv=["sh", "-c", "head -c 2M /dev/zero > $OUT/x"], project=project))
        await asyncio.sleep(index * 0.001)
        await runner.cancel(job_id)
        assert (await runner.status(job_id)).state in (JobState.CANCELLED, JobState.SUCCEEDED)

    assert len(os.listdir("/proc/self/fd")) <= open_before + 1


async def test_a_closed_runner_begins_nothing(project: Path, runner: BubblewrapRunner) -> None:
    waiting = [asyncio.create_task(ran(runner, project, "sleep 60")) for _ in range(AT_ONCE + 2)]
    await asyncio.sleep(0)
    await runner.close()

    states = {job.state for job in await asyncio.gather(*waiting, return_exceptions=True) if isinstance(job, Ran)}
    assert states <= {JobState.CANCELLED}
    with pytest.raises(Unavailable, match="stops"):
        await runner.start(JobSpec(argv=["true"], project=project))


async def test_what_appears_or_is_replaced_at_the_top_meanwhile_is_not_seen(
    runner: BubblewrapRunner, project: Path
) -> None:
    (project / ".env").write_text("KEY=old\n")
    wait = "echo ready; while [ ! -e notes/go ]; do :; done; cat .env .late data.csv; ls -A"
    job_id = await runner.start(JobSpec(argv=["sh", "-c", wait], project=project))
    logs = runner.stream_logs(job_id)
    async with asyncio.timeout(WAIT_S):
        assert (await anext(logs)).data == b"ready\n"
        (project / ".late").write_text("KEY=late\n")
        (project / "new").write_text("KEY=new\n")
        os.replace(project / "new", project / ".env")
        (project / "notes" / "go").touch()
        printed = b"".join([piece.data async for piece in logs]).decode()

    assert "KEY" not in printed
    assert printed.endswith("x,y\n1,2\ndata.csv\nempty\nnotes\n")


async def test_very_many_things_at_the_top_are_told_and_not_shown_in_part(
    runner: BubblewrapRunner, project: Path
) -> None:
    for index in range(MAX_TOP + 1):
        (project / f"{index}").touch()
    for index in range(100):
        (project / f".{index}").touch()

    job = await ran(runner, project, "ls")
    (project / "0").unlink()
    for name in ("1", "2", "3"):
        (project / name).unlink()
    fewer = await ran(runner, project, "ls | wc -l")

    assert job.state is JobState.FAILED
    assert "Put them into folders" in job.status.reason
    assert fewer.printed.strip() == str(MAX_TOP)


FORGE = """
import glob, os
pages = [path for path in glob.glob("/proc/self/fd/*") if "ozzie-told" in os.readlink(path)]
for path in pages:
    with open(path, "r+b") as page:
        if os.fstat(page.fileno()).st_size < 100:
            page.write({status!r})
        else:
            page.write({archive!r})
os.kill(os.getppid(), 9)
"""


@pytest.mark.parametrize(
    ("status", "archive"),
    [
        (b"begun 0 0\n", b"garbage" * 1000),
        (b"begun \xc2\xb2 0\n", b""),
        (b"begun " + b"9" * 50, b""),
        (b"\xff" * 64, b"\0" * 1024),
        (b"begun 999 0\n", b""),
    ],
)
async def test_what_a_job_forges_is_told_as_what_it_is(
    runner: BubblewrapRunner, project: Path, status: bytes, archive: bytes
) -> None:
    source = FORGE.format(status=status, archive=archive).encode()

    job = await ran(runner, project, ["python3", "/job/main.py"], files={"main.py": source})

    assert job.state.is_final
    assert job.left.out == ()
    assert "mistake" not in job.status.reason


async def test_one_that_nobody_knows(runner: BubblewrapRunner) -> None:
    with pytest.raises(NotFound):
        await runner.status("nobody")
    with pytest.raises(NotFound):
        await runner.cancel("nobody")
    with pytest.raises(NotFound):
        await anext(runner.stream_logs("nobody"))


class TestLimits:
    async def test_time(self, runner: BubblewrapRunner, project: Path) -> None:
        job = await ran(
            runner, project, "echo kept > $OUT/a; echo up; sleep 60", limits=JobLimits(wall_s=0.5), copied="notes"
        )

        assert (job.state, job.status.reason) == (JobState.TIMED_OUT, "It was ended after 0.5 s.")
        assert job.left.out == (JobFile(path="a", content=b"kept\n"),)

    async def test_time_of_one_that_ignores_the_signal(self, runner: BubblewrapRunner, project: Path) -> None:
        job = await ran(runner, project, "trap '' TERM; while true; do :; done", limits=JobLimits(wall_s=0.5))

        assert job.state is JobState.TIMED_OUT

    async def test_its_own_status_is_not_taken_for_that(self, runner: BubblewrapRunner, project: Path) -> None:
        job = await ran(runner, project, "exit 124")

        assert (job.state, job.status.exit_code) == (JobState.FAILED, 124)

    async def test_what_it_prints(self, runner: BubblewrapRunner, project: Path) -> None:
        job = await ran(runner, project, "yes", limits=JobLimits(output=MIB))

        assert (job.state, job.status.reason) == (JobState.CUT, "It was ended: it printed more than 1 MiB.")
        assert len(job.printed) == job.status.printed == MIB

    async def test_memory_of_one_process(self, runner: BubblewrapRunner, project: Path) -> None:
        source = b"held = bytearray(300 * 2**20)\n"

        job = await ran(
            runner,
            project,
            [sys.executable, "/job/main.py"],
            files={"main.py": source},
            limits=JobLimits(memory=200 * MIB),
        )

        assert job.state is JobState.FAILED
        assert "MemoryError" in job.printed

    async def test_memory_of_many_processes(self, runner: BubblewrapRunner, project: Path) -> None:
        source = (
            b"import os, time\n"
            b"for _ in range(4):\n"
            b"    if not os.fork():\n"
            b"        break\n"
            b"held = bytearray(os.urandom(2**20) * 100)\n"
            b"time.sleep(60)\n"
        )

        job = await ran(
            runner,
            project,
            [sys.executable, "/job/main.py"],
            files={"main.py": source},
            limits=JobLimits(memory=300 * MIB),
        )

        assert (job.state, job.status.reason) == (JobState.CUT, "It was ended: it took more than 300 MiB of memory.")

    async def test_memory_that_processes_share_counts_once(self, runner: BubblewrapRunner, project: Path) -> None:
        source = (
            b"import os, time\n"
            b"held = bytearray(os.urandom(2**20) * 100)\n"
            b"children = [os.fork() for _ in range(1)]\n"
            b"if children[0] and (second := os.fork()) and (third := os.fork()):\n"
            b"    time.sleep(0.5)\n"
            b"    print('done')\n"
            b"else:\n"
            b"    time.sleep(0.6)\n"
        )

        job = await ran(
            runner,
            project,
            [sys.executable, "/job/main.py"],
            files={"main.py": source},
            limits=JobLimits(memory=250 * MIB),
        )

        assert (job.state, job.printed) == (JobState.SUCCEEDED, "done\n")

    async def test_processes(self, runner: BubblewrapRunner, project: Path) -> None:
        job = await ran(
            runner,
            project,
            ["bash", "-c", "bomb() { bomb | bomb & }; bomb; sleep 60"],
            limits=JobLimits(wall_s=1, processes=50),
        )

        assert job.state is JobState.TIMED_OUT
        assert "Resource temporarily unavailable" in job.printed

    async def test_disk(self, runner: BubblewrapRunner, project: Path) -> None:
        places = "/tmp/a $OUT/b /dev/shm/c notes/d"
        job = await ran(
            runner,
            project,
            f"for f in {places}; do head -c 3M /dev/zero > $f && echo fit; done; true",
            limits=JobLimits(disk=2 * MIB),
            copied="notes",
        )

        assert "fit" not in job.printed
        assert job.printed.count("No space left on device") == 4

    async def test_files(self, runner: BubblewrapRunner, project: Path) -> None:
        job = await ran(
            runner, project, "cd /tmp; while true; do mktemp -d >/dev/null; done", limits=JobLimits(files=200)
        )

        assert (job.state, job.status.reason) == (JobState.CUT, "It was ended: it made more than 200 files.")

    async def test_one_that_ends_its_whole_sandbox(self, runner: BubblewrapRunner, project: Path) -> None:
        job = await ran(runner, project, "kill -KILL -1; sleep 5")

        assert job.state is JobState.FAILED
        assert "ended everything" in job.status.reason


def _running(mark: str) -> list[int]:
    """The processes with that command line, of everybody."""
    wanted = mark.replace(" ", "\0").encode() + b"\0"
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                line = Path("/proc", entry, "cmdline").read_bytes()
            except OSError:
                continue
            if line.endswith(wanted) and not line.startswith((b"sh", b"/usr/bin")):
                found.append(int(entry))
    return found
