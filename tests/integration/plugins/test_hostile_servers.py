"""MCP servers that attack: a real tool host, real sandboxes, real servers (`tests/fakes/hostile_mcp.py`). Each ends in
words or in a bounded result; a good server of the same host never notices, and nothing of a server is left."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.plugins.connections import Values
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.settling import Proposal, proposed
from ozzie_server_ext.plugins.tool_host import Connection, ServerFailed, ToolHost
from ozzie_server_ext.protocol.tool_host import Output, OutputFile, Remote, ServerAccess, Started
from tests.fakes import hostile_mcp
from tests.mcp_rig import expect_sandbox, tool_host
from tests.tiers import some

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

SCRIPT = Path(hostile_mcp.__file__)
PYTHON = (sys.executable, "-S", "-E")
OPENS_S = 20.0
SILENT_S = 0.3
"""How long is waited for what never comes."""
WORKS_S = 20.0
MOST_MIB = 400
"""What the tool host may take at its peak: twice the longest message, decoded, and itself."""
GOOD = Output(texts=("ok",))


class Bench:
    """A tool host, and a connection to a good server in it, which has to stay."""

    def __init__(self, host: ToolHost, good: Connection, port: int) -> None:
        self.host = host
        self.good = good
        self.pid = _host_pid()
        self._port = port

    def at(self, path: str) -> Remote:
        """A server at an address, over the older transport if the path begins with "sse:"."""
        where = path.removeprefix("sse:")
        return Remote(url=f"http://127.0.0.1:{self._port}/{where}", is_sse=where != path, headers={"x-key": "fern"})

    @asynccontextmanager
    async def connected(self, server: Started | Remote) -> AsyncIterator[Connection]:
        connection = await self.host.open(server, within_s=OPENS_S)
        try:
            yield connection
        finally:
            connection.close()

    async def outcome(self, server: Started | Remote, args: JsonObject | None = None, *, within_s: float) -> Output:
        async with self.connected(server) as connection:
            return await connection.call("go", args or {}, within_s=within_s)

    async def expect_unharmed(self) -> None:
        """The same host, within its bounds, has the same connection to the good server, which answers."""
        assert await self.good.call("go", {}, within_s=WORKS_S) == GOOD
        assert _host_pid() == self.pid
        assert _peak_mib(self.pid) < MOST_MIB


def started(behaviour: str, *more: str, token: str = "", access: ServerAccess | None = None) -> Started:
    access = access or ServerAccess()
    argv = (*PYTHON, str(SCRIPT), behaviour, *more, token)
    return Started(argv=argv, access=ServerAccess(reads=(*access.reads, str(SCRIPT)), writes=access.writes))


def _processes() -> Iterator[tuple[int, bytes]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                yield int(name), Path("/proc", name, "cmdline").read_bytes()
            except OSError:
                continue


def _with(token: str) -> list[int]:
    return [pid for pid, line in _processes() if token.encode() in line and pid != os.getpid()]


def _host_pid() -> int:
    """The tool host that this process started."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return next(pid for pid, line in _processes() if b"programs.tool_host" in line and str(pid) in children)


def _peak_mib(pid: int) -> int:
    return int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]) // 1024


@asynccontextmanager
async def leaves_nothing(behaviour: str) -> AsyncIterator[str]:
    """Yield a mark for the command of a server, of which no process may be there in the end."""
    token = f"hostile-{uuid.uuid4().hex}"
    yield token
    for _ in range(600):
        if not _with(token):
            return
        await asyncio.sleep(0.01)
    left = _with(token)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    raise AssertionError(f"{behaviour} left {left}")


@contextmanager
def http_server() -> Iterator[int]:
    command = [*PYTHON, str(SCRIPT), "--http"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:  # it ends with its input
        assert server.stdout is not None
        yield int(server.stdout.readline())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    expect_sandbox()
    with http_server() as port:
        async with tool_host(tmp_path_factory.mktemp("host")) as host:
            good = await host.open(started("good"), within_s=OPENS_S)
            yield Bench(host, good, port)


class Doorbell:
    """A listener on this machine that counts who comes."""

    def __init__(self) -> None:
        self.rung = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        def ring(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.rung += 1
            writer.close()

        async with await asyncio.start_server(ring, "127.0.0.1", 0) as server:
            yield server.sockets[0].getsockname()[1]


def expect_words(failure: ServerFailed, code: str, says: str) -> None:
    """The failure has this code, and its sentence matches, if there is one; in any case it is short, and no trace."""
    words = str(failure)
    assert failure.code == code
    assert re.fullmatch(says, words, re.DOTALL), words
    assert 0 < len(words) < 2500
    assert "Traceback" not in words
    words.encode()


# --- it does not come to a connection ---------------------------------------------------------------------------------

DIED = r"It has ended\. It wrote: I am dying"
SILENT = r"It did not answer within 0\.5 s\."
TOO_MANY = r"It lists more than 500 tools, with 512 kB of descriptions\."
NOT_OPENED = {
    "dies_at_start": DIED,
    "dies_on_the_probe": DIED,
    "dies_on_initialize": DIED,
    "dies_once_initialized": DIED,
    "dies_on_list": DIED,
    "dies_in_a_list": DIED,
    "silent_at_start": SILENT,
    "silent_on_the_probe": SILENT,
    "silent_on_initialize": SILENT,
    "silent_on_list": SILENT,
    "never_reads": SILENT,
    "a_long_cursor": SILENT,
    "tools_501": TOO_MANY,
    "descriptions_600_kb": TOO_MANY,
    "schema_of_1_mb": TOO_MANY,
    "the_same_page_forever": r"Its list of tools has more than 50 pages\.",
    "another_page_forever": r"Its list of tools has more than 50 pages\.",
    "tools_are_nonsense": r"tools\.0: Input should be a valid dictionary.*",
    "schema_is_text": r"tools\.0\.inputSchema: Input should be a valid dictionary.*",
    "schema_is_missing": r"tools\.0\.inputSchema: Field required\.",
    "schema_of_another_type": r"tools\.0\.inputSchema\.type: Input should be 'object'\.",
    "version_of_1999": r"Unsupported protocol version from the server: 1999-01-01",
    "version_is_a_number": r"protocolVersion: Input should be a valid string\.",
    "capabilities_are_text": r"capabilities: Input should be a valid dictionary.*",
    "no_server_info": r"serverInfo: Input should be a valid dictionary.*",
    "error_to_initialize": r"No\..*evil.*",
}
"""What a server does, and what is said of it."""


@pytest.mark.parametrize("behaviour", some([*NOT_OPENED], 12))
async def test_a_server_that_does_not_come_to_a_connection(bench: Bench, behaviour: str) -> None:
    says = NOT_OPENED[behaviour]
    async with leaves_nothing(behaviour) as token:
        with pytest.raises(ServerFailed) as failed:
            await bench.host.open(started(behaviour, token=token), within_s=0.5 if says is SILENT else OPENS_S)

        expect_words(failed.value, failed.value.code, says)
        assert failed.value.code == {SILENT: "mcp.timeout"}.get(
            says, "mcp.too_long" if "more than" in says else "mcp.start"
        )
        assert not failed.value.was_sent
        await bench.expect_unharmed()


async def test_a_program_that_is_not_there(bench: Bench) -> None:
    with pytest.raises(ServerFailed) as failed:
        await bench.host.open(Started(argv=("/nowhere/server",)), within_s=OPENS_S)

    expect_words(failed.value, "mcp.start", r"It has ended\. It wrote: .*/nowhere/server: not found")
    await bench.expect_unharmed()


# --- a call fails -----------------------------------------------------------------------------------------------------

SILENT_CALL = ("mcp.timeout", r"It did not answer within 0\.3 s\.")
LONG_LINE = ("mcp.lost", r"It sent a message of more than 16 MiB\.")
GARBAGE = "Its answer does not have the form of a result: "
FAILED = {
    "dies_of_a_signal": ("mcp.lost", r"It has ended\."),
    "dies_in_an_answer": ("mcp.lost", DIED),
    "dies_while_a_child_holds_its_output": ("mcp.lost", DIED),
    "dies_with_escapes_as_last_words": ("mcp.lost", r"It has ended\. It wrote: .{1,500}"),
    "silent_on_call": SILENT_CALL,
    "closes_its_output": SILENT_CALL,
    "closes_its_input": SILENT_CALL,
    "stops_reading": SILENT_CALL,
    "stops_itself": SILENT_CALL,
    "spins": SILENT_CALL,
    "endless_progress": SILENT_CALL,
    "half_a_line": SILENT_CALL,
    "invalid_utf8": SILENT_CALL,
    "nan": SILENT_CALL,
    "infinite_number": SILENT_CALL,
    "duplicate_keys": SILENT_CALL,
    "depth_10000": SILENT_CALL,
    "depth_10000_open": SILENT_CALL,
    "digits_10000": SILENT_CALL,
    "no_jsonrpc": SILENT_CALL,
    "batch": SILENT_CALL,
    "result_is_a_list": SILENT_CALL,
    "result_is_null": SILENT_CALL,
    "line_of_17_mib": LONG_LINE,
    "result_of_100_mb": LONG_LINE,
    "no_newline_in_100_mb": LONG_LINE,
    "result_of_9_mib": ("mcp.too_long", r"It returned more than 8 MiB, which is too much for one result\."),
    "content_is_text": ("mcp.garbage", rf"{GARBAGE}content: Input should be a valid list\."),
    "unknown_block": ("mcp.garbage", rf"{GARBAGE}content\.0\..*: Field required\."),
    "newer_era_without_truth": ("mcp.garbage", rf"{GARBAGE}CallToolResult\.resultType: Field required\."),
    "forks_400_children": ("mcp.lost", r"It was ended: it had more than 200 processes\."),
    "takes_memory_in_children": ("mcp.lost", r"It was ended: it took more than 2048 MiB of memory\."),
    "takes_memory": ("mcp.lost", r"It was ended: it took more than 2048 MiB of memory\."),
    "error_that_claims_a_loss": ("mcp.lost", r".+"),
    "floods_and_never_reads": ("mcp.lost", r"It asks for more and more, and does not read the answers\."),
    "messages_that_take_long_to_read": ("mcp.lost", r"It sent a message of more than 1,000,000 values\."),
    "a_million_numbers": ("mcp.lost", r"It sent a message of more than 1,000,000 values\."),
    "wants_input_forever": ("mcp.garbage", r"It asks for more input without end\."),
    "claims_an_unknown_kind_of_result": ("mcp.garbage", r"It answers with something else than a result\."),
}
"""What a server does, the code of what comes of it, and what is said."""


@pytest.mark.parametrize("behaviour", some([*FAILED], 12))
async def test_a_call_that_comes_to_nothing(bench: Bench, behaviour: str) -> None:
    code, says = FAILED[behaviour]
    async with leaves_nothing(behaviour) as token:
        within_s = SILENT_S if (code, says) == SILENT_CALL else WORKS_S
        with pytest.raises(ServerFailed) as failed:
            await bench.outcome(started(behaviour, token=token), within_s=within_s)

        expect_words(failed.value, code, says)
        assert failed.value.was_sent
        await bench.expect_unharmed()


@pytest.mark.parametrize("behaviour", ["escapes_in_an_error", "long_error"])
async def test_an_error_that_a_server_answers_is_told_in_its_words(bench: Bench, behaviour: str) -> None:
    async with leaves_nothing(behaviour) as token:
        with pytest.raises(ServerFailed) as failed:
            await bench.outcome(started(behaviour, token=token), within_s=WORKS_S)

        expect_words(failed.value, "mcp.refused", r".{1,500}")
        assert not failed.value.was_sent
        await bench.expect_unharmed()


async def test_twenty_calls_of_a_server_that_dies_fail_and_none_is_lost(bench: Bench) -> None:
    async with leaves_nothing("dies_in_twenty_calls") as token:
        async with bench.connected(started("dies_in_twenty_calls", token=token)) as connection:
            calls = [connection.call("go", {}, within_s=WORKS_S) for _ in range(20)]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            later = await asyncio.gather(connection.call("go", {}, within_s=WORKS_S), return_exceptions=True)

        assert all(isinstance(end, ServerFailed) and end.was_sent and end.code == "mcp.lost" for end in ends)
        assert {str(end) for end in ends} == {"It has ended. It wrote: I am dying"}
        assert isinstance(later[0], ServerFailed)
        await bench.expect_unharmed()


async def test_progress_without_end_is_passed_on_now_and_then(bench: Bench) -> None:
    told: list[str] = []
    async with leaves_nothing("endless_progress") as token:
        async with bench.connected(started("endless_progress", token=token)) as connection:
            with pytest.raises(ServerFailed):
                await connection.call("go", {}, within_s=1.0, on_progress=told.append)

        assert 0 < len(told) <= 11
        assert all(len(each) <= 500 for each in told)
        await bench.expect_unharmed()


# --- what is odd does no harm -----------------------------------------------------------------------------------------

TOLD_ROOTS = {"jsonrpc": "2.0", "id": "ours", "result": {"roots": [{"uri": f"file://{SCRIPT}"}]}}
ANSWERED: Mapping[str, Output] = {
    "good": GOOD,
    "output_regex_bomb": Output(texts=("ok",), structured={"value": "a" * 40 + "!"}),
    "output_ref_bomb": Output(texts=("ok",), structured={}),
    "output_bad_regex": Output(texts=("ok",), structured={"value": 1}),
    "output_refers_outside": Output(texts=("ok",), structured={"value": 1}),
    "output_refers_to_itself": Output(texts=("ok",), structured={"value": 1}),
    "output_that_does_not_fit": Output(texts=("ok",), structured={"value": 1}),
    "garbage_before_an_answer": GOOD,
    "nothing_but_nul": GOOD,
    "a_million_empty_lines": GOOD,
    "carriage_returns": GOOD,
    "lone_surrogates": Output(texts=("a\ufffdb\ufffd",)),
    "fraction_of_10000_digits": Output(structured={"value": 1.0}),
    "base64_that_is_none": Output(files=(OutputFile(mime="\x1b[2J", data="!!"),)),
    "many_notifications": GOOD,
    "unknown_notifications": GOOD,
    "changes_its_list_all_the_time": GOOD,
    "progress_for_others": GOOD,
    "cancels_what_we_asked": GOOD,
    "answers_that_nobody_asked": GOOD,
    "answers_twice": Output(texts=("first",)),
    "answers_with_a_text_as_id": GOOD,
    "floods_with_pings": Output(texts=("2000",)),
    "asks_for_roots": Output(texts=(json.dumps(TOLD_ROOTS),)),
    "two_answers_to_initialize": GOOD,
    "no_capabilities": GOOD,
    "no_tools_at_all": GOOD,
    "long_names": GOOD,
    "long_description": GOOD,
    "leaves_grandchildren": GOOD,
    "stays_after_the_end": GOOD,
    "stays_and_ignores_signals": GOOD,
    "writes_100_mb_of_errors": GOOD,
    "fills_its_scratch": Output(texts=("512",)),
}
"""What a server does, and what its call returns."""


@pytest.mark.parametrize("behaviour", some([*ANSWERED], 12))
async def test_what_is_odd_does_no_harm(bench: Bench, behaviour: str) -> None:
    async with leaves_nothing(behaviour) as token:
        assert await bench.outcome(started(behaviour, token=token), within_s=WORKS_S) == ANSWERED[behaviour]
        await bench.expect_unharmed()


@pytest.mark.soak
async def test_very_many_notifications_do_no_harm(bench: Bench) -> None:
    async with leaves_nothing("very_many_notifications") as token:
        server = started("very_many_notifications", token=token)
        assert await bench.outcome(server, within_s=100.0) == GOOD
        await bench.expect_unharmed()


REFUSED = {
    "asks_for_sampling": "Sampling not supported",
    "asks_what_there_is_not": "Method not found",
    "asks_with_nonsense": "Invalid request parameters",
}


@pytest.mark.parametrize("behaviour", some([*REFUSED], 6))
async def test_what_a_server_may_not_ask_is_refused(bench: Bench, behaviour: str) -> None:
    async with leaves_nothing(behaviour) as token:
        output = await bench.outcome(started(behaviour, token=token), within_s=WORKS_S)

        told = json.loads(output.texts[0])
        assert (told["id"], told["error"]["message"]) == ("ours", REFUSED[behaviour])
        await bench.expect_unharmed()


async def test_a_question_that_nobody_can_be_asked_is_declined(bench: Bench) -> None:
    async with leaves_nothing("asks_for_elicitation") as token:
        output = await bench.outcome(started("asks_for_elicitation", token=token), within_s=WORKS_S)

        told = json.loads(output.texts[0])
        assert (told["id"], told["result"]["action"]) == ("ours", "decline")
        await bench.expect_unharmed()


async def test_answers_in_another_order_reach_their_callers(bench: Bench) -> None:
    async with leaves_nothing("swaps_two_answers") as token:
        async with bench.connected(started("swaps_two_answers", token=token)) as connection:
            one, two = await asyncio.gather(
                connection.call("go", {"at": 1}, within_s=WORKS_S), connection.call("go", {"at": 2}, within_s=WORKS_S)
            )

        assert (one.texts, two.texts) == (("{'at': 1}",), ("{'at': 2}",))
        await bench.expect_unharmed()


# --- tools that can't be used -----------------------------------------------------------------------------------------


async def proposal(bench: Bench, folder: Path, behaviour: str, token: str) -> Proposal:
    """What a person would be shown."""
    how = McpText(command=sys.executable, args=started(behaviour, "http://127.0.0.1:9/schema", token=token).argv[1:])
    home, access, values = Home(folder / "home"), ServerAccess(reads=(str(SCRIPT),)), Values(os.environ.get, folder)
    return await proposed(home, bench.host, "evil", how, how, access, None, lambda _: values, now=datetime.now(UTC))


UNUSABLE = {
    "strange_names": r"A tool has the name `.*`, which no tool may have\.",
    "duplicate_names": r"Two tools have the name `go`\.",
    "schema_refers_outside": r"The arguments of `go` can't be used\. .*it may refer only to itself\.",
    "schema_refers_to_a_file": r"The arguments of `go` can't be used\. .*it may refer only to itself\.",
    "schema_with_a_bad_regex": r"The arguments of `go` can't be used\. The schema is no JSON Schema.*",
    "schema_depth_20": r"The arguments of `go` can't be used\. The schema is too large.*",
}
"""What a server lists, and why it is left out."""
STRANGE = re.compile("[\x00-\x1f\x7f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("behaviour", some([*UNUSABLE], 6))
async def test_a_tool_that_cant_be_used_is_left_out_in_words(bench: Bench, tmp_path: Path, behaviour: str) -> None:
    async with leaves_nothing(behaviour) as token:
        found = await proposal(bench, tmp_path, behaviour, token)

        assert found.unusable
        assert all(re.fullmatch(UNUSABLE[behaviour], why) and not STRANGE.search(why) for why in found.unusable)
        assert set(found.settled.tools) <= {"go", "other"}
        await bench.expect_unharmed()


BOMBS = ("schema_ref_bomb", "schema_refers_to_itself", "schema_regex_bomb", "schema_of_another_draft")


@pytest.mark.parametrize("behaviour", BOMBS)
async def test_a_bomb_in_a_schema_does_not_go_off_when_it_is_looked_at(
    bench: Bench, tmp_path: Path, behaviour: str
) -> None:
    async with leaves_nothing(behaviour) as token:
        found = await proposal(bench, tmp_path, behaviour, token)

        assert list(found.settled.tools) == ["go"]
        await bench.expect_unharmed()


async def test_descriptions_and_names_are_cut_and_kept_as_they_are(bench: Bench) -> None:
    """They are escaped where they are shown."""
    async with leaves_nothing("escapes_in_descriptions") as token:
        async with bench.connected(started("escapes_in_descriptions", token=token)) as connection:
            tool = connection.tools[0]
        async with bench.connected(started("long_names", token=token)) as connection:
            info = connection.info

        assert (tool.title, tool.description) == (hostile_mcp.ESCAPES, hostile_mcp.ESCAPES)
        assert (len(info.name), len(info.instructions)) == (128, 16_000)
        await bench.expect_unharmed()


# --- the machine ------------------------------------------------------------------------------------------------------


async def tried(
    bench: Bench, behaviour: str, args: JsonObject, *, access: ServerAccess | None = None
) -> dict[str, Any]:
    """What came of each of its tries."""
    async with leaves_nothing(behaviour) as token:
        output = await bench.outcome(started(behaviour, token=token, access=access), args, within_s=WORKS_S)
        await bench.expect_unharmed()
        return json.loads(output.texts[0])


async def test_a_server_reads_nothing_that_it_was_not_granted(bench: Bench, tmp_path: Path) -> None:
    granted, beside = tmp_path / "granted", tmp_path / "beside"
    granted.mkdir()
    beside.write_text("fern")
    (granted / "link").symlink_to(beside)
    paths = ["/etc/shadow", "/etc/ssh", Path.home() / ".ssh", Path.home() / ".config", "/proc/1/root/etc/shadow",
        beside, granted / "link", granted / ".." / "beside", f"/proc/{os.getpid()}/environ", "/proc/1/mem", "/dev/sda",
        "/dev/kmsg", "/proc/kmsg", "/sys/kernel", "/run/user", "/var/lib", "/proc/self/fd/5"]  # fmt: skip
    asked: list[Json] = [str(path) for path in paths]

    found = await tried(bench, "reads", {"paths": asked}, access=ServerAccess(reads=(str(granted),)))

    assert {path: end for path, end in found.items() if end.startswith("done")} == {}


async def test_a_server_changes_nothing_that_it_was_not_granted(bench: Bench, tmp_path: Path) -> None:
    read, write, beside = (tmp_path / name for name in ("read", "write", "beside"))
    for folder in (read, write, beside):
        folder.mkdir()
    (write / "out").symlink_to(beside)
    paths = [read / "x", beside / "x", write / "out" / "x", "/etc/passwd", "/usr/bin/x", "/x", SCRIPT,
        "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches",
        "/dev/x", f"{sys.prefix}/x", write / "x"]  # fmt: skip
    access = ServerAccess(reads=(str(read),), writes=(str(write),))

    found = await tried(bench, "writes", {"paths": [str(path) for path in paths]}, access=access)

    assert [path for path, end in found.items() if end.startswith("done")] == [str(write / "x")]
    assert sorted(os.listdir(beside)) == sorted(os.listdir(read)) == []
    assert (write / "x").stat().st_uid == os.getuid()


async def test_a_server_reaches_no_port_of_this_machine(bench: Bench) -> None:
    door = Doorbell()
    async with door.listening() as port:
        found = await tried(bench, "connects", {"paths": [str(port), "22"]})

    assert {where: end for where, end in found.items() if end.startswith("done")} == {}
    assert door.rung == 0


async def test_a_server_gains_no_rights(bench: Bench) -> None:
    found = await tried(bench, "gains_rights", {"pid": os.getpid()})

    descriptors, processes = found.pop("descriptors"), found.pop("processes")
    assert all(end.startswith("-1 ") or "Error" in end for end in found.values()), found
    assert descriptors == "['0', '1', '2', '3']"
    assert int(processes) <= 3


async def test_a_server_sees_nothing_of_the_gateways_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OZZIE_SECRET_OF_A_TEST", "fern")
    found = await tried(bench, "tells_its_environment", {})

    assert found.keys() <= {"PATH", "HOME", "LANG", "TMPDIR", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "TZ",
        "PWD", "LC_CTYPE", "OLDPWD", "SHLVL", "_"}  # fmt: skip


@pytest.mark.parametrize("which", ["folder", "above", "file"])
async def test_a_granted_path_that_became_a_link_stops_the_server(bench: Bench, tmp_path: Path, which: str) -> None:
    above, private = tmp_path / "above", tmp_path / "private"
    granted = above / "granted"
    granted.mkdir(parents=True)
    (private / "granted").mkdir(parents=True)
    (file := granted / "file").write_text("plain")
    access = ServerAccess(writes=(str(granted),), reads=(str(file),) if which == "file" else ())
    async with leaves_nothing("good") as token:
        server = started("good", token=token, access=access)
        assert await bench.outcome(server, within_s=WORKS_S) == GOOD
        gone = {"folder": granted, "above": above, "file": file}[which]
        shutil.move(gone, tmp_path / "moved")
        gone.symlink_to(private / gone.relative_to(above) if which != "above" else private)

        with pytest.raises(ServerFailed) as failed:
            await bench.host.open(server, within_s=OPENS_S)

        says = r".* is not what it was when it was granted: it is missing, or leads through a link\. Look at it, .*"
        expect_words(failed.value, "sandbox.unavailable", says)
        await bench.expect_unharmed()


# --- at an address ----------------------------------------------------------------------------------------------------

ELSEWHERE = r"Redirect to (http|file)://127\.0\.0\.1.* not followed; .*"
NOT_REACHED = {
    "status?code=401": r"It does not accept the key that it was given \(HTTP 401\)\.",
    "status?code=403": r"It refuses you \(HTTP 403\): .*",
    "status?code=404": r"There is no MCP server at this address \(HTTP 404\)\.",
    "status?code=500": r"Server returned an error response \(HTTP 500\)\.",
    "status?code=204": r".+",
    "redirect?code=302&to=file:///etc/passwd": ELSEWHERE,
    "redirects_to_itself": ELSEWHERE,
    "html": r"Unexpected content type: text/html.*",
    "no_answer": SILENT,
    "slow_headers": SILENT,
    "endless_headers": r"Receive buffer too long",
    "closes_at_once": r"Server disconnected without sending a response\.",
    "sse:endless_first_event": r"Server-sent event exceeded the 1048576 byte limit\.",
    "sse:status?code=401": r"It does not accept the key that it was given \(HTTP 401\)\.",
    "sse:status?code=500": r"Server error '500 Internal Server Error' for url .* \(HTTP 500\)\.",
}
"""The path of an address, and what is said."""


@pytest.mark.parametrize("path", ["nan_in_a_schema", "deep_schema"])
async def test_a_schema_that_json_cant_hold(bench: Bench, path: str) -> None:
    with pytest.raises(ServerFailed) as failed:
        await bench.host.open(bench.at(path), within_s=OPENS_S)

    expect_words(failed.value, "mcp.garbage", r"The arguments of `go` can't be read\. .*")
    await bench.expect_unharmed()


@pytest.mark.parametrize("path", some([*NOT_REACHED], 8))
async def test_an_address_that_can_not_be_connected_to(bench: Bench, path: str) -> None:
    says = NOT_REACHED[path]
    with pytest.raises(ServerFailed) as failed:
        await bench.host.open(bench.at(path), within_s=0.5 if says is SILENT else OPENS_S)

    code = "mcp.key" if path.endswith("401") else "mcp.timeout" if says is SILENT else "mcp.start"
    expect_words(failed.value, code, says)
    await bench.expect_unharmed()


@pytest.mark.parametrize("path", ["redirect?code=307&to=", "redirect?code=301&to=", "sends_the_key_elsewhere?to="])
async def test_a_redirect_to_another_origin_is_not_followed(bench: Bench, path: str) -> None:
    door = Doorbell()
    async with door.listening() as port:
        with pytest.raises(ServerFailed) as failed:
            await bench.outcome(bench.at(f"{path}http://127.0.0.1:{port}/"), within_s=WORKS_S)

    assert re.fullmatch(ELSEWHERE, str(failed.value))
    assert door.rung == 0
    await bench.expect_unharmed()


async def test_messages_are_not_sent_where_another_origin_says(bench: Bench) -> None:
    door = Doorbell()
    async with door.listening() as port:
        with pytest.raises(ServerFailed):
            await bench.host.open(bench.at(f"sse:endpoint_elsewhere?to=http://127.0.0.1:{port}/"), within_s=0.5)

    assert door.rung == 0
    await bench.expect_unharmed()


CALLS_IN_VAIN = {
    "closes_in_mid_body": ("mcp.lost", r".+"),
    "json_of_100_mb": ("mcp.garbage", r"Its answer can't be read: .* more than 16 MiB\."),
    "endless_event": ("mcp.lost", r"SSE stream failed: Server-sent event exceeded the 16777216 byte limit\."),
    "gzip_bomb_in_a_stream?mib=64": ("mcp.lost", r".+"),
    "endless_events": SILENT_CALL,
    "event_stream_that_ends": ("mcp.lost", r"SSE stream ended and reconnection attempts were exhausted"),
    "json_that_claims_to_be_a_stream": ("mcp.garbage", r"Its answer can't be read: .* more than 16 MiB\."),
    "gzip_bomb?mib=256": ("mcp.garbage", r"Its answer can't be read: .*"),
    "event_that_is_garbage": ("mcp.garbage", r"Its answer can't be read: .*"),
    "status_at_call?code=500": ("mcp.garbage", r"It answered with an error of HTTP\. .*"),
    "nan_in_a_result": ("mcp.garbage", r"Its result can't be read: NaN is not JSON\."),
    "deep_result": ("mcp.garbage", r"Its result can't be read: The JSON text is nested deeper than 64 levels\."),
}
"""The path of an address, the code of what comes of a call, and what is said."""


@pytest.mark.parametrize("path", some([*CALLS_IN_VAIN], 8))
async def test_a_call_to_an_address_that_comes_to_nothing(bench: Bench, path: str) -> None:
    code, says = CALLS_IN_VAIN[path]
    within_s = SILENT_S if (code, says) == SILENT_CALL else WORKS_S
    with pytest.raises(ServerFailed) as failed:
        await bench.outcome(bench.at(path), within_s=within_s)

    expect_words(failed.value, code, says)
    assert failed.value.was_sent
    await bench.expect_unharmed()


@pytest.mark.parametrize("path", ["good", "session_that_never_ends", "session_with_escapes"])
async def test_an_odd_session_at_an_address_does_no_harm(bench: Bench, path: str) -> None:
    assert await bench.outcome(bench.at(path), within_s=WORKS_S) == GOOD
    await bench.expect_unharmed()


@pytest.mark.soak
async def test_many_servers_that_die_at_once_leave_a_host_that_serves(bench: Bench) -> None:
    kinds = ("dies_at_start", "dies_on_list", "dies_in_a_list", "silent_at_start", "tools_501")
    async with leaves_nothing("many") as token:
        opening = [bench.host.open(started(kinds[at % 5], token=token), within_s=3.0) for at in range(20)]
        ends = await asyncio.gather(*opening, return_exceptions=True)

        assert all(isinstance(end, ServerFailed) for end in ends)
        await bench.expect_unharmed()
