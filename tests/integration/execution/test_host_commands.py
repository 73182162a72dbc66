"""Commands on the machine itself, as real processes: how they run, what they see, and that nothing of them stays."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from ozzie_server_ext.execution.host_commands import (
    HostCommand,
    HostSpec,
    NoProgram,
    NotStarted,
    files_named,
    open_program,
)
from ozzie_server_ext.execution.runner import JobState, JobStatus
from ozzie_server_ext.planes.child import host_environment
from ozzie_server_ext.planes.identity import ProcessMark
from ozzie_server_ext.tools.safe_open import closing
from tests.loop_holds import longest_hold

LONG = 60.0
PATH = os.environ["PATH"]
DEAF = "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
"""The begin of a program that does not listen when it is asked to end."""


@dataclass
class Known:
    """Which processes were told of."""

    started_: list[ProcessMark] = field(default_factory=list)
    lost_: list[tuple[int, str]] = field(default_factory=list)

    async def started(self, mark: ProcessMark) -> None:
        self.started_.append(mark)

    def lost(self, pid: int, reason: str) -> None:
        self.lost_.append((pid, reason))


@dataclass
class Ran:
    status: JobStatus
    printed: str

    @property
    def pids(self) -> list[int]:
        """The numbers that it printed, each on a line of its own."""
        return [int(line) for line in self.printed.split() if line.isdigit()]


class Bench:
    def __init__(self, folder: Path, held: ExitStack) -> None:
        self.folder = folder
        self.children = Known()
        self.place = held.enter_context(closing(os.open(folder, os.O_RDONLY)))
        self._held = held

    def command(self, *argv: str, env: dict[str, str] | None = None, wall_s: float = LONG, **more: Any) -> HostCommand:
        descriptor, program = open_program(argv[0], self.place, PATH)
        self._held.enter_context(closing(descriptor))
        given = host_environment(os.environ) if env is None else env
        spec = HostSpec(
            argv=argv, program=program, descriptor=descriptor, folder=self.place, env=given, wall_s=wall_s, **more
        )
        self.printing = Printing()
        return HostCommand(spec, self.children, self.printing.add)

    async def ran(self, *argv: str, **more: Any) -> Ran:
        command = self.command(*argv, **more)
        status = await command.run()
        return Ran(status, command.printed.decode(errors="replace"))

    def script(self, name: str, text: str, mode: int = 0o755) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return path


class Printing:
    """What a command has printed so far."""

    def __init__(self) -> None:
        self.data = b""
        self._news = asyncio.Event()

    def add(self, data: bytes) -> None:
        self.data += data
        self._news.set()

    async def until(self, fits: Callable[[bytes], bool]) -> None:
        async with asyncio.timeout(LONG):
            while not fits(self.data):
                self._news.clear()
                await self._news.wait()


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    with ExitStack() as held:
        yield Bench(tmp_path, held)


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def ends(pid: int) -> bool:
    """Whether it is gone, or goes. Who is killed still needs a moment to die on a busy machine."""
    with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
        psutil.Process(pid).wait(timeout=10)
    return is_gone(pid)


# --- how it runs ------------------------------------------------------------------------------------------------


async def test_it_gets_its_words_as_they_are_and_starts_in_its_folder(bench: Bench) -> None:
    words = ["*", "a  b", "$HOME", "", "-x", "ä\n", ";"]

    ran = await bench.ran(
        sys.executable, "-c", "import json, os, sys; print(json.dumps([os.getcwd(), *sys.argv]))", *words
    )

    assert json.loads(ran.printed) == [str(bench.folder), "-c", *words]
    assert (ran.status.state, ran.status.exit_code) == (JobState.SUCCEEDED, 0)


async def test_errors_come_between_what_it_prints_and_how_it_ended_is_told(bench: Bench) -> None:
    ran = await bench.ran("sh", "-c", "echo one; echo two >&2; exit 7")

    assert (ran.printed, ran.status.state, ran.status.exit_code) == ("one\ntwo\n", JobState.FAILED, 7)


async def test_one_that_a_signal_ends_says_which(bench: Bench) -> None:
    ran = await bench.ran("sh", "-c", "kill -SEGV $$")

    assert ran.status.exit_code == 128 + signal.SIGSEGV


async def test_nobody_can_type_anything_into_it_and_no_terminal_is_there(bench: Bench) -> None:
    ran = await bench.ran("sh", "-c", "cat; (: < /dev/tty) 2>/dev/null || echo no terminal")

    assert ran.printed == "no terminal\n"


async def test_it_holds_nothing_that_the_gateway_has_open(bench: Bench) -> None:
    with closing(os.open(bench.folder, os.O_RDONLY)) as ours:
        os.set_inheritable(ours, True)
        ran = await bench.ran(
            sys.executable, "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:4])"
        )

    assert ran.printed == "[0, 1, 2, 3]\n", "3 is the list that it reads itself"


async def test_it_sees_no_key_and_no_token_but_who_the_user_is(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "JUPYTER_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "OZZIE_PATH"):
        monkeypatch.setenv(name, "hunter2-hunter2")
    monkeypatch.setenv("USER", "ana")

    ran = await bench.ran("env")

    seen = dict(line.split("=", 1) for line in ran.printed.splitlines())
    assert (seen["USER"], seen["TERM"], seen["PATH"]) == ("ana", "dumb", PATH)
    assert "hunter2" not in ran.printed


async def test_names_and_values_that_are_no_text_are_passed_on_as_they_are(bench: Bench) -> None:
    env = {**host_environment(os.environ), "USER": os.fsdecode(b"\xff\xfe")}

    ran = await bench.ran(sys.executable, "-c", "import os; print(os.environb[b'USER'])", env=env)

    assert ran.printed == "b'\\xff\\xfe'\n"


async def test_what_it_prints_is_told_as_it_comes(bench: Bench) -> None:
    os.mkfifo(bench.folder / "go")
    command = bench.command("sh", "-c", "echo first; read line < go; echo $line")

    running = asyncio.create_task(command.run())
    await bench.printing.until(lambda data: data == b"first\n")
    (bench.folder / "go").write_text("second\n")

    assert (await running).exit_code == 0
    assert bench.printing.data == bytes(command.printed) == b"first\nsecond\n"


async def test_a_script_is_run_under_its_own_name(bench: Bench) -> None:
    bench.script("say.sh", '#!/bin/sh\necho "$0" "$@"\n')

    assert (await bench.ran("./say.sh", "a b")).printed == "./say.sh a b\n"


async def test_it_is_known_before_it_begins_and_when_it_has_ended(bench: Bench) -> None:
    ran = await bench.ran("sh", "-c", "echo $PPID")

    (mark,) = bench.children.started_
    assert ran.pids == [mark.pid]
    assert bench.children.lost_ == [(mark.pid, "It ended by itself.")]


# --- what can't be run ------------------------------------------------------------------------------------------


def test_a_program_that_is_not_there_is_named(bench: Bench) -> None:
    with pytest.raises(NoProgram, match=r'^There is no program "nonesuch-\\u202e" in the folders of PATH'):
        bench.command("nonesuch-\u202e")


@pytest.mark.parametrize(
    ("name", "why"), [("./gone", "No such file"), ("./", "not a plain file"), ("./plain", "may not run")]
)
def test_what_is_no_program_is_refused_with_the_reason(bench: Bench, name: str, why: str) -> None:
    bench.script("plain", "text\n", 0o644)

    with pytest.raises(NoProgram, match=why):
        bench.command(name)


def test_a_program_of_the_project_is_not_found_by_a_common_name(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.script("ls", "#!/bin/sh\necho owned\n")
    monkeypatch.chdir(bench.folder)

    descriptor, program = open_program("ls", bench.place, f":.:{PATH}")

    os.close(descriptor)
    assert Path(program.file.path).parent != bench.folder
    assert program.file.path.startswith("/")


@pytest.mark.parametrize(
    ("text", "why"),
    [("echo x\n", "neither a binary .* nor a script"), ("#!/nonesuch\n", "the interpreter .* is not there")],
)
async def test_what_the_system_can_not_run_is_refused_in_words(bench: Bench, text: str, why: str) -> None:
    bench.script("odd", text)

    with pytest.raises(NotStarted, match=rf"^It could not be started, and nothing was done: .*{why}"):
        await bench.ran("./odd")


# --- what was looked at -----------------------------------------------------------------------------------------


async def test_a_binary_runs_as_it_was_looked_at_whatever_has_its_name_by_then(bench: Bench) -> None:
    echo = bench.folder / "echo"
    shutil.copy("/bin/echo", echo)
    echo.chmod(0o755)
    command = bench.command("./echo", "ours")
    other = bench.script("other", "#!/bin/sh\necho theirs\n")
    other.rename(echo)

    await command.run()

    assert command.printed == b"ours\n"


async def test_a_script_that_is_another_one_by_then_is_not_run(bench: Bench) -> None:
    bench.script("do.sh", "#!/bin/sh\necho ours\n")
    command = bench.command("./do.sh")
    bench.script("other", "#!/bin/sh\necho theirs\n").rename(bench.folder / "do.sh")

    with pytest.raises(NotStarted, match="another program has just taken its place"):
        await command.run()

    assert command.printed == b""


def test_files_that_words_name_are_known_by_their_content(bench: Bench) -> None:
    bench.script("a.py", "1\n")
    (bench.folder / "sub").mkdir()
    words = ["a.py", "sub", "nonesuch", "-m", "", "x" * 5000, "\0", "/proc/self/stat", f"{bench.folder}/a.py"]

    first = files_named(words, bench.place)
    again = files_named(words, bench.place)
    info = os.stat(bench.folder / "a.py")
    (bench.folder / "a.py").write_text("2\n")
    os.utime(bench.folder / "a.py", ns=(info.st_atime_ns, info.st_mtime_ns))
    changed = files_named(words, bench.place)

    assert [file.path for file in first] == ["a.py", f"{bench.folder}/a.py"]
    assert first == again
    assert [file.sha256 for file in changed] != [file.sha256 for file in first]


# --- the end ----------------------------------------------------------------------------------------------------


async def test_one_that_takes_too_long_is_ended(bench: Bench) -> None:
    ran = await bench.ran("sleep", "600", wall_s=0.5)

    assert (ran.status.state, ran.status.exit_code) == (JobState.TIMED_OUT, None)
    assert ran.status.reason == "It was ended after 0.5 s."


async def test_one_that_is_asked_to_end_may_say_something_and_that_is_kept(bench: Bench) -> None:
    source = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit('bye'))\n"
    command = bench.command(sys.executable, "-c", source + "print('up', flush=True); time.sleep(600)")
    running = asyncio.create_task(command.run())
    await bench.printing.until(lambda data: data == b"up\n")

    command.end(JobState.TIMED_OUT, "It took too long.")

    assert (await running).state is JobState.TIMED_OUT
    assert command.printed == b"up\nbye\n"


async def test_nothing_of_its_group_outlives_its_end_also_what_does_not_listen(bench: Bench) -> None:
    source = DEAF + "os.fork(); os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)"
    command = bench.command(sys.executable, "-c", source)
    running = asyncio.create_task(command.run())
    await bench.printing.until(lambda data: data.count(b"\n") == 4)

    command.end(JobState.TIMED_OUT, "It took too long.")
    await running

    assert all(ends(int(pid)) for pid in bench.printing.data.split())


@pytest.mark.soak
async def test_what_it_leaves_behind_in_its_group_ends_with_it(bench: Bench) -> None:
    source = DEAF + "if os.fork(): os._exit(0)\nprint(os.getpid(), flush=True); time.sleep(600)"

    ran = await bench.ran(sys.executable, "-c", source)

    assert ran.status.state in (JobState.SUCCEEDED, JobState.FAILED)
    assert all(ends(pid) for pid in ran.pids)


async def test_one_that_sleeps_is_ended_too(bench: Bench) -> None:
    ran = await bench.ran("sh", "-c", "echo $$; kill -STOP $$", wall_s=0.5)

    assert ran.status.state is JobState.TIMED_OUT
    assert all(map(is_gone, ran.pids))


async def test_a_flood_is_ended_its_beginning_kept_and_the_loop_not_held(bench: Bench) -> None:
    running = asyncio.create_task(bench.ran("sh", "-c", "echo $$; yes", printed=1 << 20))
    longest = await longest_hold(running)
    ran = await running

    assert ran.status.state is JobState.CUT
    assert ran.status.reason == "It was ended: it printed more than 1 MiB."
    assert len(ran.printed) == ran.status.printed == 1 << 20
    assert is_gone(int(ran.printed.split("\n", 1)[0]))
    assert longest < 0.5


async def test_a_caller_that_is_stopped_still_hears_how_it_ended(bench: Bench) -> None:
    command = bench.command(sys.executable, "-c", DEAF + "print(os.getpid(), flush=True); time.sleep(600)")
    running = asyncio.create_task(command.run())
    await bench.printing.until(lambda data: data.endswith(b"\n"))

    running.cancel()
    running.cancel()
    status = await running

    assert (status.state, status.reason) == (JobState.CANCELLED, "It was ended because the turn was stopped.")
    assert ends(int(command.printed))


async def test_one_that_is_stopped_before_it_began_did_nothing(bench: Bench) -> None:
    command = bench.command("sh", "-c", "touch owned")
    command.end(JobState.CANCELLED, "It was stopped.")

    with pytest.raises(NotStarted):
        await command.run()

    assert not (bench.folder / "owned").exists()


async def test_one_that_ends_its_whole_group_is_told_as_it_is(bench: Bench) -> None:
    ran = await bench.ran("sh", "-c", "echo up; kill -9 0")

    assert (ran.status.state, ran.status.exit_code, ran.printed) == (JobState.FAILED, None, "up\n")
    assert ran.status.reason == "It ended everything in its process group, including its supervisor."


async def test_what_makes_itself_independent_goes_on_and_holds_up_nothing(bench: Bench) -> None:
    os.mkfifo(bench.folder / "up")
    source = "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nprint(os.getpid(), flush=True)\n"
    source += "open('up', 'w').close()\ntime.sleep(600)"

    ran = await bench.ran("sh", "-c", '"$0" -c "$1"; cat up', sys.executable, source)

    (pid,) = ran.pids
    try:
        assert (ran.status.state, is_gone(pid)) == (JobState.SUCCEEDED, False)
    finally:
        os.kill(pid, signal.SIGKILL)


GATEWAY = """
import asyncio, os, sys
from ozzie_server_ext.execution.host_commands import HostCommand, HostSpec, NoChildren
from ozzie_server_ext.execution.host_commands import open_program

def show(data):
    sys.stdout.buffer.write(data)
    sys.stdout.flush()

async def main():
    place = os.open(".", os.O_RDONLY)
    descriptor, program = open_program(sys.argv[1], place, os.environ["PATH"])
    spec = HostSpec(argv=sys.argv[1:], program=program, descriptor=descriptor, folder=place, env={}, wall_s=600.0)
    await HostCommand(spec, NoChildren(), show).run()

asyncio.run(main())
"""


def test_all_of_it_dies_with_the_gateway_grandchildren_that_do_not_listen_too(bench: Bench) -> None:
    source = DEAF + "os.fork(); os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)"
    argv = [sys.executable, "-c", GATEWAY, sys.executable, "-c", source]
    root = str(Path(__file__).resolve().parents[3])
    env = {**os.environ, "PYTHONPATH": root}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=bench.folder, env=env) as gateway:
        assert gateway.stdout is not None
        pids = [int(gateway.stdout.readline()) for _ in range(4)]
        watcher = os.getpgid(pids[0])
        gateway.kill()
        gateway.wait()

    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in (*pids, watcher) if not is_gone(pid)], timeout=10)
    assert [each for each in alive if not is_gone(each.pid)] == []
