"""Plugins that are programs, and attack: a real tool host and a real sandbox. Each ends in words or in a bounded
result, a good program of the same host never notices, nothing of it is left, and nothing leaves its grant."""

import asyncio
import base64
import json
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from ozzie_server_ext.plugins.tool_host import Connection, ServerFailed, ToolHost
from ozzie_server_ext.protocol.tool_host import Output, Program, Refused
from tests.fakes.web_server import FakeWeb, answer
from tests.mcp_rig import expect_sandbox, tool_host
from tests.native_rig import native_folder, program, python, shell
from tests.tiers import rows

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

GOOD = Output(structured={"ok": True})
WORKS_S = 30.0
SHORT_S = 2.0
SECRET = "fern-secret-9f31"


class Bench:
    """A tool host with a good program in it, which has to stay, and a project."""

    def __init__(self, host: ToolHost, folder: Path, web: FakeWeb) -> None:
        self.host = host
        self.folder = folder
        self.web = web
        self.project = folder / "project"
        self.log = folder / "tool-host.log"
        self.refused: list[str] = []
        self.wrote: list[str] = []
        self.good: Connection
        self.pid = 0

    def program(self, script: str, files: dict[str, str] | None = None, **given: Any) -> Program:
        folder = native_folder(self.folder / uuid4().hex, script, files, name="bad")
        return program(folder, **({"project": str(self.project)} | given))

    async def go(self, script: str, *, within_s: float = WORKS_S, **given: Any) -> Output:
        """Return what a call of a program returns. Raises ServerFailed."""
        self.refused.clear()
        self.wrote.clear()

        def refused(each: Refused) -> None:
            self.refused.append(each.wish)

        connection = await self.host.open(self.program(script, **given), within_s=WORKS_S)
        try:
            return await connection.call(
                "go", {"n": 1}, within_s=within_s, on_refused=refused, on_wrote=self.wrote.append
            )
        finally:
            connection.close()

    async def found(self, script: str, **given: Any) -> Any:
        """Return what a script in Python answers."""
        return (await self.go(python(script), **given)).structured

    async def told(self, script: str, **given: Any) -> str:
        """Return in what words a program fails, or what it answers."""
        try:
            output = await self.go(script, **given)
        except ServerFailed as error:
            return str(error)
        return output.texts[0] if output.failed else json.dumps(output.structured)

    async def expect_unharmed(self) -> None:
        """The same host has the same good program, which answers."""
        assert await self.good.call("go", {}, within_s=WORKS_S) == GOOD
        assert _host_pid() == self.pid


def _host_pid() -> int:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return next(int(pid) for pid in children if b"programs.tool_host" in Path(f"/proc/{pid}/cmdline").read_bytes())


def _alive(token: str) -> list[int]:
    """Return the processes that have this word among their arguments."""
    found: list[int] = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and int(each.name) != os.getpid():
            try:
                if token.encode() in (each / "cmdline").read_bytes():
                    found.append(int(each.name))
            except OSError:
                pass
    return found


@asynccontextmanager
async def leaves_nothing(token: str) -> AsyncIterator[None]:
    """Check that no process with this word among its arguments is left, bubblewrap's included."""
    yield
    for _ in range(100):
        if not _alive(token):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"left: {_alive(token)}")


@pytest.fixture(scope="module")
def web() -> Iterator[FakeWeb]:
    with FakeWeb() as web:
        yield web


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory, web: FakeWeb) -> AsyncIterator[Bench]:
    expect_sandbox()
    folder = tmp_path_factory.mktemp("host")
    folder.chmod(0o755)
    async with tool_host(folder) as host:
        bench = Bench(host, folder, web)
        for name in ("data", "results", "other"):
            (bench.project / name).mkdir(parents=True)
            (bench.project / name / "a.txt").write_text(f"{name}!")
        (bench.project / ".env").write_text("hidden!")
        good = bench.program(shell("""echo '{"ok": true}'"""), name="good")
        bench.good = await host.open(good, within_s=WORKS_S)
        bench.pid = _host_pid()
        yield bench


# --- the contract -----------------------------------------------------------------------------------------------------


async def test_a_call_gets_its_tool_and_its_arguments_and_answers_with_json(bench: Bench) -> None:
    script = python("import words\nanswer([tool, given, words.HERE, os.getcwd()])")

    output = await bench.go(script, files={"words.py": "HERE = 'größe'"})

    assert output == Output(structured=["go", {"n": 1}, "größe", "/project"])


async def test_what_it_says_of_a_failure_is_told_whatever_its_exit_code_is(bench: Bench) -> None:
    said = python("answer({'error': 'There is no such city.'}); sys.exit(3)")

    assert await bench.go(said) == Output(texts=("There is no such city.",), failed=True)


async def test_it_gets_granted_values_as_variables_and_its_configuration(bench: Bench) -> None:
    script = "answer([os.environ['LANG'], os.environ['KEY'] == 'k-1', json.loads(os.environ['OZZIE_CONFIG'])])"
    given: dict[str, Any] = {"env": {"LANG": "fr_FR", "TZ": "x"}, "secrets": {"KEY": "k-1"}, "config": {"units": "m"}}

    assert await bench.found(script, **given) == ["C.UTF-8", True, {"units": "m"}]  # what each program has, stays


async def test_nobody_elses_variables_are_there(bench: Bench) -> None:
    found = await bench.found("answer(sorted(os.environ))")

    assert set(found) <= {
        "HOME", "LANG", "LC_CTYPE", "MPLBACKEND", "OLDPWD", "OUT", "OZZIE_CONFIG", "PATH", "PWD", "PYTHONUSERBASE",
        "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "SHLVL", "TMPDIR", "TZ", "USER", "_",
    }  # fmt: skip


async def test_files_that_it_leaves_are_written_into_the_project(bench: Bench) -> None:
    script = "os.makedirs(os.environ['OUT'] + '/results')\nopen(os.environ['OUT'] + '/results/b.txt', 'w').write('new')"

    await bench.found(f"{script}\nanswer(1)", granted=("fs_write:results",))

    assert (bench.project / "results/b.txt").read_text() == "new"
    assert bench.wrote == ["results/b.txt"]


async def test_of_a_program_that_fails_nothing_is_written(bench: Bench) -> None:
    script = "os.makedirs(os.environ['OUT'] + '/results')\nopen(os.environ['OUT'] + '/results/c.txt', 'w').write('new')"

    await bench.told(python(f"{script}\nanswer({{'error': 'no'}})"), granted=("fs_write:results",))
    await bench.told(python(f"{script}\nsys.exit(1)"), granted=("fs_write:results",))

    assert not (bench.project / "results/c.txt").exists()
    assert bench.wrote == []


# --- limits -----------------------------------------------------------------------------------------------------------

LATE = f"It did not answer within {SHORT_S:g} s."
HARMS: dict[str, tuple[str, str]] = {
    "endless": (shell("while :; do :; done"), LATE),
    "endless, and deaf to signals": (shell("trap '' TERM INT HUP; while :; do :; done"), LATE),
    "a fork bomb": (python("while True:\n try: os.fork()\n except OSError: pass"), LATE),
    "a daemon": (
        python(
            "if os.fork() == 0:\n os.setsid()\n if os.fork(): os._exit(0)\n os.execlp('sleep', 'x', '600')\nanswer(1)"
        ),
        "1",
    ),
    "a daemon that closes all": (shell("setsid sleep 600 >/dev/null 2>&1 </dev/null & echo 1"), "1"),
    "a flood": (shell("yes"), "It was ended: it printed more than 8 MiB."),
    "a flood of errors": (shell("yes >&2"), "It was ended: it wrote more than 8 MiB of errors. It wrote: y"),
    "never reads": (shell("echo 7"), "7"),
    "much memory": (python("x = bytearray(3 << 30)"), "It ended with the exit code 1. It wrote: Traceback"),
    "memory bit by bit": (python("x = []\nwhile True: x.append(b'x' * (1 << 24))"), "MemoryError"),
    "a full disk": (shell("cat /dev/zero >/tmp/x; echo 1"), "1"),
    "many files": (
        shell("mkdir /tmp/f; cd /tmp/f; i=0; while :; do : >$i; i=$((i+1)); done"),
        "It was ended: it made more than 10,000 files.",
    ),
    "a signal": (shell("kill -SEGV $$"), "It was ended by the signal SIGSEGV."),
    "an exit code": (shell("echo oops >&2; exit 3"), "It ended with the exit code 3. It wrote: oops"),
    "an interpreter that is not there": ("#!/nowhere/python\n", "It ended with the exit code 127."),
    "no machine code": ("\x7fELF none", "It ended with the exit code 126."),
    "ends everything": (shell("kill -KILL -1"), "It ended everything in its sandbox"),
    "nothing": (shell(":"), "Its answer is no JSON"),
    "no JSON": (shell("echo sure!; echo why >&2"), "Its answer is no JSON"),
    "two answers": (shell("echo 1; echo 2"), "Its answer is no JSON"),
    "NaN": (shell("echo NaN"), "Its answer is no JSON"),
    "bytes that are no text": (shell("printf '\"\\377\\376\"'"), "Its answer is no JSON"),
    "a thousand levels": (python("print('[' * 1000 + ']' * 1000)"), "Its answer is no JSON"),
    "many values": (python("answer([1] * 110_000)"), "more than 100,000 values"),
    "a long answer": (python("answer('x' * (9 << 20))"), "It was ended: it printed more than 8 MiB."),
    "an exec of Ozzie's report": (
        shell("echo 'begun 0 0' 1<>/proc/self/fd/5; exit 3"),
        "It ended with the exit code 3",
    ),
}


@pytest.mark.parametrize(
    "name",
    rows(
        HARMS,
        "endless, and deaf to signals", "a fork bomb", "a daemon", "a flood", "a flood of errors", "never reads",
        "much memory", "a signal", "an exit code", "no JSON", "many values", "a full disk",
    ),
)  # fmt: skip
async def test_a_program_that_harms_ends_in_words_and_leaves_nothing(bench: Bench, name: str) -> None:
    script, words = HARMS[name]
    token = f"t{uuid4().hex}"  # its own name, so that what it leaves is found
    folder = native_folder(bench.folder / uuid4().hex, script, name="bad", program=token)
    (folder / "main").rename(folder / token)
    given = program(folder, program=token, project=str(bench.project))
    within_s = SHORT_S if words == LATE else WORKS_S
    async with leaves_nothing(token):
        connection = await bench.host.open(given, within_s=WORKS_S)
        try:
            output = await connection.call("go", {}, within_s=within_s)
            told = output.texts[0] if output.failed else json.dumps(output.structured)
        except ServerFailed as error:
            told = str(error)
        finally:
            connection.close()

    assert words in told
    await bench.expect_unharmed()


async def test_a_stopped_call_ends_all_that_it_started(bench: Bench) -> None:
    token = f"t{uuid4().hex}"
    script = shell(f"sh -c 'sleep 600; : {token}' & sleep 600")
    connection = await bench.host.open(bench.program(script), within_s=WORKS_S)
    call = asyncio.create_task(connection.call("go", {}, within_s=WORKS_S))
    while not _alive(token):  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)
    async with leaves_nothing(token):
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        connection.close()
    await bench.expect_unharmed()


async def test_the_death_of_the_host_leaves_no_orphan(tmp_path: Path) -> None:
    expect_sandbox()
    token = f"t{uuid4().hex}"
    folder = native_folder(tmp_path / "p", shell(f"setsid sh -c 'sleep 600; : {token}' & sleep 600"), name="bad")
    (tmp_path / "project").mkdir()
    async with tool_host(tmp_path) as host:
        known = _hosts()
        connection = await host.open(program(folder, project=str(tmp_path / "project")), within_s=WORKS_S)
        call = asyncio.create_task(connection.call("go", {}, within_s=WORKS_S))
        while not _alive(token):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)
        async with leaves_nothing(token):
            (pid,) = _hosts() - known
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(ServerFailed) as failed:
                await call

    assert failed.value.code == "mcp.lost"


def _hosts() -> set[int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {int(pid) for pid in children if b"programs.tool_host" in Path(f"/proc/{pid}/cmdline").read_bytes()}


# --- what it sees -----------------------------------------------------------------------------------------------------

TRIES = """
def tries(*paths):
    found = {}
    for path in paths:
        try: found[path] = os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(20).decode('latin-1')
        except OSError as error: pass
    return found
"""


async def test_it_reads_nothing_that_it_was_not_granted(bench: Bench) -> None:
    other = bench.program(shell("echo 1"), files={"words": "private"})
    paths = [
        str(path)
        for path in (
            Path.home() / ".ssh", Path.home() / ".config", "/etc/shadow", "/etc/ssh", "/var/lib", "/run", "/sys",
            bench.folder, bench.project, bench.log, other.folder, f"{other.folder}/words",
            f"/proc/{os.getpid()}/environ", f"/proc/{bench.pid}/environ", "/proc/1/root/etc/shadow",
            "/job/../project/.env", "/project/.env", "/project/other/a.txt", "/project/data/../other/a.txt",
        )
    ]  # fmt: skip
    found = await bench.found(
        f"{TRIES}\nanswer([tries(*{paths!r}), tries('/project', 'data/a.txt'), os.listdir('/job')])",
        granted=("fs_read:data",),
    )
    whole = await bench.found(
        f"{TRIES}\nanswer(tries('/project', '/project/.env', 'other/a.txt'))", granted=("fs_read:.",)
    )

    assert all(not seen for seen in found[0].values()), found[0]
    assert found[1] == {"/project": ["data"], "data/a.txt": "data!"}
    assert sorted(found[2]) == ["main", "manifest.jsonc"]
    assert sorted(whole["/project"]) == ["data", "other", "results"]
    assert whole["other/a.txt"] == "other!"
    assert "/project/.env" not in whole


async def test_it_changes_nothing_outside(bench: Bench) -> None:
    script = """
done = []
for path in ('/job/main', '/job/new', 'data/a.txt', 'data/new', '/project/new', '/usr/bin/new', '/etc/passwd', '/new',
             '/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern', '/dev/new'):
    try: open(path, 'w').write('x'); done.append(path)
    except OSError: pass
answer(done)
"""
    before = {path: path.read_bytes() for path in bench.project.rglob("*.txt")}

    assert await bench.found(script, granted=("fs_read:data", "fs_write:results")) == []
    assert {path: path.read_bytes() for path in bench.project.rglob("*.txt")} == before


@pytest.mark.parametrize("to", ["data", "data/inner"])
async def test_a_granted_folder_that_became_a_link_stops_it(bench: Bench, tmp_path: Path, to: str) -> None:
    project = tmp_path / "project"
    (tmp_path / "private/inner").mkdir(parents=True)
    project.mkdir()
    (project / "data").symlink_to(tmp_path / "private")

    told = await bench.told(shell("cat data/* ; echo 1"), granted=(f"fs_read:{to}",), project=str(project))

    assert told.startswith(f"The folder {to} of the project can't be opened")


async def test_what_is_private_stays_so_in_a_granted_folder(bench: Bench) -> None:
    (private := bench.project / "data/run").mkdir(exist_ok=True)
    (private / "token").write_text("token!")
    given: dict[str, Any] = {"private": (str(private),)}
    seen = f"{TRIES}\nanswer(tries('data/run'))"
    found = [await bench.found(seen, granted=(f"fs_read:{folder}",), **given) for folder in ("data", ".")]

    assert found == [{"data/run": []}] * 2
    for folder in ("data/run", "data/run/inner", ".git"):
        told = await bench.told(shell("echo 1"), granted=(f"fs_read:{folder}",), **given)
        assert told == f"The folder {folder} of the project is hidden from programs."
    (private / "token").unlink()
    private.rmdir()


async def test_it_gains_no_rights_and_sees_no_other_process(bench: Bench) -> None:
    found = await bench.found(
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
answer({'unshare': libc.unshare(0x10000000), 'mount': libc.mount(b'x', b'/tmp', b'tmpfs', 0, None),
        'setuid': libc.setuid(0) if os.getuid() else -1, 'ptrace': libc.ptrace(16, 1, 0, 0),
        'processes': len([each for each in os.listdir('/proc') if each.isdigit()]),
        'caps': [line for line in open('/proc/self/status') if line.startswith('CapEff')][0].split()[1]})
"""
    )

    assert found.pop("processes") <= 4
    assert int(found.pop("caps"), 16) == 0
    assert set(found.values()) == {-1}


async def test_a_file_that_was_changed_after_the_grant_is_not_run(bench: Bench) -> None:
    given = bench.program(shell("echo 1"), files={"words": "a"})
    connection = await bench.host.open(given, within_s=WORKS_S)
    (Path(given.folder) / "main").write_text(shell("echo 2"))
    (Path(given.folder) / "link").symlink_to("/etc/passwd")
    kept = await connection.call("go", {}, within_s=WORKS_S)
    connection.close()

    with pytest.raises(ServerFailed, match="is a link"):
        await bench.host.open(given, within_s=WORKS_S)
    (Path(given.folder) / "link").unlink()
    with pytest.raises(ServerFailed, match="Its files are others than those that were granted"):
        await bench.host.open(given, within_s=WORKS_S)
    assert kept.structured == 1  # those that were granted


# --- what it leaves ---------------------------------------------------------------------------------------------------

LEFT: dict[str, tuple[str, str]] = {
    "another folder": ("mkdir -p $OUT/other; echo x >$OUT/other/a.txt", "Nobody granted"),
    "the top": ("echo x >$OUT/a.txt", "Nobody granted"),
    "a hidden file": ("mkdir -p $OUT/results; echo x >$OUT/results/.env", "is hidden"),
    "a new folder": ("mkdir -p $OUT/results/new; echo x >$OUT/results/new/a", "can't be written"),
    "a link": ("mkdir -p $OUT/results; ln -s /etc/passwd $OUT/results/l", "no plain file"),
    "a linked folder": ("ln -s /etc $OUT/results", "no plain file"),
    "a pipe": ("mkdir -p $OUT/results; mkfifo $OUT/results/p", "no plain file"),
    "a large file": ("mkdir -p $OUT/results; head -c 1100000 /dev/zero >$OUT/results/l", "has more than 1 MiB"),
    "many files": (
        "mkdir -p $OUT/results; cd $OUT/results; for i in $(seq 101); do : >$i; done",
        "more than 100 files",
    ),
    "a folder's place": ("mkdir -p $OUT/results; echo x >$OUT/results/linked", "can't be written"),
}


@pytest.mark.parametrize("name", rows(LEFT, "another folder", "a hidden file", "a link", "a folder's place"))
async def test_what_it_may_not_write_is_not_written(bench: Bench, name: str) -> None:
    script, words = LEFT[name]
    link = bench.project / "results/linked"
    if not link.is_symlink():
        link.symlink_to("/etc/hostname")
    before = {path: path.read_bytes() for path in bench.project.rglob("*") if path.is_file()}

    told = await bench.told(shell(f"{script}\necho 1"), granted=("fs_write:results",))

    assert words in f"{told} {' '.join(f'Nobody granted {wish}' for wish in bench.refused)}"
    assert told != "1"
    assert {path: path.read_bytes() for path in bench.project.rglob("*") if path.is_file()} == before
    assert bench.refused == (
        [f"fs_write:{'other/a.txt' if 'folder' in name else 'a.txt'}"] if "Nobody" in words else []
    )


# --- secrets ----------------------------------------------------------------------------------------------------------


async def test_a_secret_is_in_nothing_that_comes_back(bench: Bench) -> None:
    given: dict[str, Any] = {"granted": ("secret:KEY", "log", "fs_write:results"), "secrets": {"KEY": SECRET}}
    encoded = base64.b64encode(SECRET.encode()).decode()
    escaped = "".join(f"\\\\u{ord(letter):04x}" for letter in SECRET)
    told = [
        await bench.told(shell(f'echo "{{\\"$KEY\\": [\\"$KEY {encoded} {escaped}\\"]}}"'), **given),
        await bench.told(shell('echo "{\\"error\\": \\"no: $KEY\\"}"'), **given),
        await bench.told(shell('echo "$KEY"; echo "key: $KEY" >&2'), **given),
        await bench.told(shell('echo "key: $KEY" >&2; exit 1'), **given),
        await bench.told(shell('mkdir -p "$OUT/$KEY"; echo 1 >"$OUT/$KEY/a"; echo 1'), **given),
    ]

    everything = f"{told} {bench.refused} {bench.log.read_text()}"
    assert SECRET not in everything
    assert encoded not in everything
    assert told[0] == '{"***": ["*** *** ***"]}'
    assert "plugin bad: 'key: ***'" in bench.log.read_text()


async def test_a_secret_is_on_no_command_line_and_in_no_file(bench: Bench) -> None:
    token = f"t{uuid4().hex}"
    given: dict[str, Any] = {"granted": ("secret:KEY",), "secrets": {"KEY": SECRET}}
    program = bench.program(shell(f"sh -c 'sleep 600; : {token}'"), **given)
    connection = await bench.host.open(program, within_s=WORKS_S)
    call = asyncio.create_task(connection.call("go", {}, within_s=WORKS_S))
    while not _alive(token):  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)
    mine = _alive(SECRET)
    call.cancel()
    await asyncio.wait({call})
    connection.close()

    assert mine == []


async def test_a_secret_that_would_be_an_argument_of_the_sandbox_is_refused(bench: Bench) -> None:
    given: dict[str, Any] = {"secrets": {"KEY": "x\0--bind\0/\0/mnt"}}

    assert await bench.told(shell("ls /mnt"), **given) == "A variable or secret has a zero byte in it."


async def test_its_errors_are_in_the_log_only_if_that_was_granted(bench: Bench) -> None:
    word = uuid4().hex
    await bench.go(shell(f"echo {word} >&2; echo 1"))

    assert word not in bench.log.read_text()


# --- the network ------------------------------------------------------------------------------------------------------

FETCH = """
import urllib.request
def fetch(url):
    try: return urllib.request.urlopen(url, timeout=5).read().decode()
    except Exception as error: return type(error).__name__
"""


async def test_without_a_grant_it_reaches_nothing(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        rung: list[int] = []
        threading.Thread(target=lambda: (door.accept(), rung.append(1)), daemon=True).start()
        port = door.getsockname()[1]
        found = await bench.found(f"{FETCH}\nanswer([fetch('http://127.0.0.1:{port}/'), fetch('http://example.org/')])")

        assert rung == []
    assert found == ["URLError", "URLError"]


async def test_a_granted_host_is_reached_through_the_proxy_alone_and_others_are_told(bench: Bench) -> None:
    bench.web.pages["/ok"] = answer("größe", "text/plain")
    port = bench.web.port
    urls = [f"http://localhost:{port}/ok", f"http://127.0.0.1:{port}/ok", "http://other.example/"]
    found = await bench.found(
        f"{FETCH}\nimport socket\nfound = [fetch(url) for url in {urls!r}]\n"
        f"try: socket.create_connection(('127.0.0.1', {port}), 2); found.append('reached')\n"
        "except OSError as error: found.append('refused')\nanswer(found)",
        granted=(f"http:ANY localhost:{port}",),
    )

    assert found == ["größe", "HTTPError", "HTTPError", "refused"]
    assert sorted(bench.refused) == [f"http:ANY 127.0.0.1:{port}", "http:ANY other.example"]
    await bench.expect_unharmed()


async def test_a_host_that_stays_silent_does_not_hold_up_the_end_of_a_call(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        script = f"""
import socket
there = socket.create_connection(('127.0.0.1', 3128), 5)
there.sendall(b'CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\n')
answer(there.recv(12).decode())
"""
        found = await bench.found(script, granted=(f"http:ANY localhost:{port}",), within_s=10.0)
        served, _ = silent.accept()
        served.settimeout(WORKS_S)
        ended = await asyncio.to_thread(served.recv, 1)
        served.close()

    assert (found, ended) == ("HTTP/1.1 200", b"")
    await bench.expect_unharmed()


async def test_a_call_that_could_send_may_have_had_an_effect(bench: Bench) -> None:
    fails = shell("exit 1")
    with pytest.raises(ServerFailed) as sending:
        await bench.go(fails, granted=("http:ANY a.example",))
    with pytest.raises(ServerFailed) as writing:
        await bench.go(fails, granted=("fs_write:results",))

    assert (sending.value.was_sent, writing.value.was_sent) == (True, False)
    assert (sending.value.code, writing.value.code) == ("plugin.broke", "plugin.broke")


# --- callers ----------------------------------------------------------------------------------------------------------


async def test_callers_share_nothing(bench: Bench) -> None:
    script = python("old = os.path.exists('/tmp/mine')\nopen('/tmp/mine', 'w').write('x')\nanswer([given, old])")
    connection = await bench.host.open(bench.program(script), within_s=WORKS_S)
    found = await asyncio.gather(*(connection.call("go", {"caller": number}, within_s=WORKS_S) for number in range(8)))
    connection.close()

    assert [each.structured for each in found] == [[{"caller": number}, False] for number in range(8)]
