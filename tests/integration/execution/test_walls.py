"""What a job tries in order to get out of its sandbox, and that it does not."""

import asyncio
import json
import os
import shutil
import socket
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.execution.runner import JobLimits, JobState
from ozzie_server_ext.observability.clock import CountingIds
from tests.integration.execution.rig import ran
from tests.other_account import ROOT, OtherAccount

SYSTEM_PYTHON = "/usr/bin/python3"
DRIVE = Path(__file__).with_name("drive.py")

Attack = Callable[[str], Awaitable[str]]
AsNobody = Callable[..., Awaitable[str]]


@pytest.fixture(params=["self", "nobody"])
def attack(request: pytest.FixtureRequest, runner: BubblewrapRunner, project: Path) -> Attack:
    """Runs a Python program in the sandbox; what it prints. Where the tests run as root, also as another account."""
    as_nobody: AsNobody | None = request.getfixturevalue("as_nobody") if request.param == "nobody" else None

    async def run(source: str) -> str:
        program = ["python3", "-c", textwrap.dedent(source)]
        if as_nobody is not None:
            return await as_nobody(program)
        return (await ran(runner, project, program)).printed

    return run


@pytest.fixture
def as_nobody(nobody: OtherAccount, project: Path) -> AsNobody:
    """Runs a command in the sandbox as an account without rights; what it prints."""
    if not os.path.exists(SYSTEM_PYTHON) or not shutil.which("setpriv"):
        pytest.skip("the system has no Python of its own, or no setpriv")

    async def run(command: list[str], *, key: str = "printed", program: str = "", **limits: Any) -> str:
        process = await asyncio.create_subprocess_exec(
            "setpriv", f"--reuid={nobody.uid}", f"--regid={nobody.gid}", "--clear-groups", "--",
            SYSTEM_PYTHON, "-B", "-c", DRIVE.read_text(),
            str(nobody.packages), str(project), json.dumps(command), json.dumps(limits), *filter(None, [program]),
            stdout=asyncio.subprocess.PIPE,
            cwd=project,
            env={"PATH": os.environ["PATH"], "OZZIE_TEST_KEY": "sk-secret"},
        )  # fmt: skip
        printed, _ = await process.communicate()
        return str(json.loads(printed)[key]) if key else printed.decode()

    return run


SCRIPT = """#!/bin/sh
cat; echo " $KEY"; ls /project; cat data/a.txt
mkdir -p $OUT/results; echo made >$OUT/results/b.txt
touch /job/new data/new /project/new
"""


async def test_a_plugins_program_sees_what_it_was_given_and_writes_nothing_outside(
    nobody: OtherAccount, as_nobody: AsNobody, project: Path
) -> None:
    """As an account without rights; a tool host's own account is in the tests of plugins."""
    (project / "data").mkdir(mode=0o755)
    (project / "data" / "a.txt").write_text("a")
    found = await as_nobody([], key="", program=SCRIPT)

    told = json.loads(found)
    assert told["printed"] == "given k 1\ndata\na"
    assert told["left"] == {"results/b.txt": "made\n"}
    assert told["errors"].count("Read-only file system") == 3


async def test_nobody_listens_to_it(attack: Attack) -> None:
    """Its loopback is its own: the gateway's port, and every other one of this machine, is not there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        printed = await attack(
            f"""
            import socket
            for family, address in ((2, ("127.0.0.1", {port})), (10, ("::1", {port})), (2, ("192.0.2.1", 80))):
                try:
                    with socket.socket(family) as s:
                        s.settimeout(2)
                        s.connect(address)
                    print("connected")
                except OSError as error:
                    print(type(error).__name__)
            """
        )
        with pytest.raises(TimeoutError):
            server.accept()

    assert "connected" not in printed
    assert printed.count("\n") == 3


async def test_it_has_no_other_network(attack: Attack) -> None:
    printed = await attack(
        """
        import socket
        print([line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]])
        for family, kind in ((socket.AF_PACKET, 3), (socket.AF_NETLINK, 3), (40, 1), (38, 5), (2, 3), (16, 2)):
            try:
                socket.socket(family, kind)
                print("opened", family)
            except OSError as error:
                print("refused")
        """
    )

    assert printed.splitlines() == ["['lo']", *["refused"] * 6]


async def test_no_socket_in_the_project_is_connected_to(attack: Attack, project: Path) -> None:
    path = project / "gateway.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        server.settimeout(0.2)
        printed = await attack(
            """
            import socket
            try:
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect("/project/gateway.sock")
                print("connected")
            except OSError:
                print("refused")
            left, right = socket.socketpair()
            left.send(b"x")
            print(right.recv(1))
            """
        )
        with pytest.raises(TimeoutError):
            server.accept()

    assert printed == "refused\nb'x'\n"


async def test_it_sees_nobody_elses_processes(attack: Attack) -> None:
    printed = await attack(
        """
        import os
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
        print(len(pids) <= 8, max(pids) < 100)
        """
    )

    assert printed == "True True\n"


async def test_no_key_of_the_gateway_is_anywhere_in_proc(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OZZIE_TEST_KEY", "sk-secret")

    printed = await attack(
        """
        import glob, os
        seen = [str(os.environ)]
        for pattern in ("environ", "cmdline", "maps"):
            for path in glob.glob("/proc/*/" + pattern) + glob.glob("/proc/*/task/*/" + pattern):
                try:
                    seen.append(open(path, "rb").read().decode("latin-1"))
                except OSError:
                    pass
        print("sk-" + "secret" in "".join(seen), len(seen) > 3)
        """
    )

    assert printed == "False True\n"


async def test_no_descriptor_leads_out(attack: Attack) -> None:
    printed = await attack(
        """
        import os
        for name in sorted(os.listdir("/proc/self/fd"), key=int):
            try:
                target = os.readlink("/proc/self/fd/" + name)
            except OSError:
                continue
            if not target.startswith(("pipe:", "/dev/null", "/memfd:ozzie-told", "/proc/")):
                print(name, target)
        """
    )

    assert printed == ""


async def test_nothing_of_the_machine_can_be_written(attack: Attack) -> None:
    printed = await attack(
        """
        import os
        for path in ("/", "/usr", "/usr/bin", "/etc", "/bin", "/lib", "/dev", "/proc", "/proc/sys/kernel", "/project",
                     "/project/notes", "/job", "/root", "/home", "/var", "/sys", "/run", "/opt"):
            try:
                with open(path + "/ozzie-was-here", "w"):
                    print("wrote", path)
            except OSError:
                pass
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/etc/passwd",
                     "/proc/sys/vm/drop_caches", "/proc/kcore", "/proc/kmsg"):
            try:
                with open(path, "r+"):
                    print("opened", path)
            except OSError:
                pass
        """
    )

    assert printed == ""


async def test_what_is_not_the_projects_is_not_there(attack: Attack, open_folder: Path) -> None:
    secret = open_folder / "secret.txt"
    secret.write_text("secret")

    printed = await attack(
        f"""
        import os
        for path in ("/root/.ssh", "/root/.bashrc", "/home", "/var", "/run", "/sys", "/etc/shadow", "/boot",
                     "/etc/ssl/private", {str(open_folder)!r}, {str(secret)!r}, "/project/../secret.txt",
                     "/proc/1/root/secret.txt", "/dev/sda", "/dev/mem", "/dev/kvm", "/dev/fuse", "/dev/net"):
            if os.path.exists(path):
                print(path)
        print(sorted(os.listdir("/dev")))
        """
    )

    devices = "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
    assert printed.strip() == str(devices.split())


async def test_it_holds_no_privilege_and_wins_none(attack: Attack) -> None:
    printed = await attack(
        """
        import os, shutil, subprocess
        status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
        print(*(status["Cap" + kind].strip().strip("0") for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")), end="|")
        print(status["NoNewPrivs"].strip(), status["Seccomp"].strip(), os.getuid() != 0, end="|")
        shutil.copy("/usr/bin/id", "/tmp/id")
        os.chmod("/tmp/id", 0o6755)
        print(subprocess.run(["/tmp/id", "-u"], capture_output=True, text=True).stdout.strip() == str(os.getuid()))
        for call in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]), lambda: os.chroot("/tmp"),
                     lambda: os.nice(-1), lambda: os.mknod("/tmp/dev", 0o60666, os.makedev(8, 0))):
            try:
                call()
                print("could")
            except OSError:
                pass
        for program in ("su", "mount", "sudo", "newgrp", "passwd"):
            path = shutil.which(program)
            if path and not subprocess.run([path, "-c", "id"], capture_output=True, stdin=-3).returncode:
                print("ran", program)
        """
    )

    assert printed == "    |1 2 True|True\n"


CALLS = """
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
def call(name, number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(value) for value in arguments])
    print(name, errno.errorcode.get(ctypes.get_errno(), "did it") if result == -1 else "did it")
"""


async def test_the_sandboxes_first_process_can_do_no_more(attack: Attack) -> None:
    """For an ordinary user it is that user's, too, and its memory open to the job."""
    printed = await attack(
        """
        status = dict(line.split(":", 1) for line in open("/proc/1/status").read().splitlines())
        print(*(status["Cap" + kind].strip().strip("0") for kind in ("Inh", "Prm", "Eff", "Amb")), end="|")
        print(status["NoNewPrivs"].strip(), status["Seccomp"].strip())
        """
    )

    assert printed == "   |1 2\n"


async def test_system_calls_that_reach_around_walls_are_refused(attack: Attack) -> None:
    printed = await attack(
        textwrap.dedent(CALLS)
        + textwrap.dedent(
            """
            call("ptrace", 101 if x86 else 117, 0, 0, 0, 0)
            call("process_vm_readv", 310 if x86 else 270, os.getpid(), 0, 0, 0, 0, 0)
            call("keyctl", 250 if x86 else 219, 0, -4, 1)
            call("add_key", 248 if x86 else 217, 0, 0, 0, 0, -4)
            call("unshare user", 272 if x86 else 97, 0x10000000)
            call("unshare mount", 272 if x86 else 97, 0x20000)
            call("clone user", 56 if x86 else 220, 0x10000011, 0, 0, 0, 0)
            call("setns", 308 if x86 else 268, 0, 0)
            call("mount", 165 if x86 else 40, 0, 0, 0, 0, 0)
            call("open_by_handle_at", 304 if x86 else 265, 0, 0, 0)
            call("bpf", 321 if x86 else 280, 0, 0, 0)
            call("perf_event_open", 298 if x86 else 241, 0, 0, -1, -1, 0)
            call("userfaultfd", 323 if x86 else 282, 0)
            call("memfd_create", 319 if x86 else 279, 0, 0)
            call("shmget", 29 if x86 else 194, 0, 4096, 0o1666)
            call("io_uring_setup", 425, 1, 0)
            call("clone3", 435, 0, 0)
            call("landlock or later", 451, 0, 0)
            call("tiocsti", 16 if x86 else 29, 0, 0x5412, 0)
            call("lease", 72 if x86 else 25, 0, 1024, 1)
            call("personality", 135 if x86 else 92, 0x0040000)
            """
        )
    )

    answers = dict(line.rsplit(" ", 1) for line in printed.splitlines())
    assert len(answers) == 21
    absent = {"io_uring_setup", "clone3", "landlock or later"}
    assert answers == {name: "ENOSYS" if name in absent else "EPERM" for name in answers}


async def test_calls_by_other_numbers_do_not_get_through(attack: Attack) -> None:
    printed = await attack(
        textwrap.dedent(CALLS)
        + textwrap.dedent(
            """
            call("x32 ptrace", 0x40000000 + 521, 0, 0, 0, 0)
            call("x32 getpid", 0x40000000 + 39)
            call("high bits", (1 << 32) + (101 if x86 else 117), 0, 0, 0, 0)
            """
        )
    )

    assert "did it" not in printed


async def test_it_can_not_type_into_the_users_terminal(attack: Attack) -> None:
    printed = await attack(
        """
        import os
        try:
            os.open("/dev/tty", os.O_RDWR)
            print("has a terminal")
        except OSError:
            print("none")
        print(os.getsid(0) != 0 and os.getpgid(0) != 1)
        """
    )

    assert printed.splitlines()[0] == "none"


async def test_it_signals_nobody_outside(attack: Attack) -> None:
    printed = await attack(
        f"""
        import os, signal
        for pid in ({os.getpid()}, {os.getppid()}, 1):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError as error:
                print(type(error).__name__)
            else:
                print("sent", pid)
        print("alive")
        """
    )

    lines = printed.splitlines()
    assert lines[-1] == "alive"
    assert f"sent {os.getpid()}" not in lines


async def test_what_one_job_leaves_the_next_does_not_see(attack: Attack) -> None:
    await attack("open('/tmp/left', 'w').write('x'); open('/dev/shm/left', 'w').write('x')")

    printed = await attack("import os; print(os.listdir('/tmp'), os.listdir('/dev/shm'))")

    assert "left" not in printed


async def test_limits_hold_for_an_ordinary_user_too(as_nobody: AsNobody) -> None:
    printed = await as_nobody(["bash", "-c", "bomb() { bomb | bomb & }; bomb; sleep 60"], wall_s=1, processes=50)

    assert "Resource temporarily unavailable" in printed


async def test_what_it_opens_is_seen_by_an_ordinary_user_too(as_nobody: AsNobody) -> None:
    assert await as_nobody(["sh", "-c", "cat notes/a.md; ls notes"], key="files") == "['notes/a.md']"


async def test_a_job_is_gone_with_its_gateway(project: Path) -> None:
    mark = f"sleep 5{os.getpid()}"
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(DRIVE), str(ROOT), str(project), json.dumps(["sh", "-c", f"setsid {mark} & {mark}"]), "{}"
    )
    async with asyncio.timeout(30):
        while len(_processes(mark)) < 2:  # noqa: ASYNC110 - other processes tell nobody
            await asyncio.sleep(0.01)

        process.kill()
        await process.wait()
        while _processes(mark):  # noqa: ASYNC110 - nor of their end
            await asyncio.sleep(0.01)
    assert not _processes(mark)


def _processes(mark: str) -> list[str]:
    wanted = mark.replace(" ", "\0").encode() + b"\0"
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path("/proc", entry, "cmdline").read_bytes() == wanted:
                found.append(entry)
        except OSError:
            continue
    return found


async def test_what_it_writes_where_the_sandbox_tells_of_itself_ends_nobody_else(
    runner: BubblewrapRunner, project: Path
) -> None:
    """A command has the pages open on which its own end is told. It names another process as its first, and waits."""
    other = await asyncio.create_subprocess_exec("sleep", "60")
    told = f'{{"child-pid": {other.pid}}}'
    forge = (
        f"for fd in 3 4 5 6 7 8 9 $(seq 10 60); do printf %s '{told}' 1<>/proc/self/fd/$fd; done 2>/dev/null; sleep 60"
    )

    done = await ran(runner, project, ["sh", "-c", forge], limits=JobLimits(wall_s=1.0))

    assert done.state is JobState.TIMED_OUT
    assert other.returncode is None
    other.kill()
    await other.wait()


async def test_the_files_of_running_servers_are_not_there_though_they_lie_in_the_project(project: Path) -> None:
    runtime = project / "notes" / "runtime"
    runtime.mkdir()
    (runtime / "ozzie-1.json").write_text('{"token": "it opens the gateway"}')
    runner = BubblewrapRunner(CountingIds(), (runtime,))
    try:
        found = await ran(runner, project, "cat notes/a.md; ls -a notes/runtime; cat notes/runtime/*")
        refused = await ran(runner, project, "true", copied="notes")
    finally:
        await runner.close()
    assert found.printed == "one\n.\n..\ncat: 'notes/runtime/*': No such file or directory\n"
    assert refused.state is JobState.FAILED
    assert "is a folder of running servers" in refused.status.reason
