"""Plugins that are programs: each call starts one in the sandbox of commands (docs/plugins.md, Programs).

The program gets the tool's name as its argument and the arguments as JSON, and answers with JSON. Its files are those
that were granted, byte for byte: they are read once, and given to each sandbox from memory. It writes nothing outside:
the files that it leaves are written after it has answered, each checked like those of a plugin in WebAssembly.
"""

import asyncio
import contextlib
import functools
import json
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner, Job
from ozzie_server_ext.execution.runner import MIB, Collected, JobLimits, JobSpec, JobState, ProgramInput
from ozzie_server_ext.plugins.program_files import ProgramFile, digest_of_files, program_files
from ozzie_server_ext.programs.mcp_network import Network
from ozzie_server_ext.programs.plane_child import note
from ozzie_server_ext.programs.plugin_calls import (
    MAX_FILE,
    MAX_LOGGED,
    MAX_LOGGED_CHARS,
    MAX_TOLD,
    expect_folder,
    health_at,
    output_of,
    read_answer,
    without_secrets,
    write_file,
)
from ozzie_server_ext.programs.tool_output import Failure, text_of
from ozzie_server_ext.programs.wasm_http import Failed, Refused
from ozzie_server_ext.protocol import tool_host as wire
from ozzie_server_ext.protocol.jsontext import InvalidJson, canonical_bytes, repair_text
from ozzie_server_ext.protocol.tool_host import (
    HEALTH,
    MAX_OUTPUT_CHARS,
    Connect,
    Connected,
    HostEvent,
    Invoke,
    Output,
    Program,
)
from ozzie_server_ext.tools.base import ToolFailed

MEMORY = 1024 * MIB
PROCESSES = 64
DISK = 64 * MIB
MAX_FILES = 100
"""Files that a call may leave for the project."""
CONFIG = "OZZIE_CONFIG"
MAX_VARIABLES = 120 * 1024
"""Bytes of all variables that are given to a program: the system takes 128 KiB for one."""
_MAX_WORDS = 500
_MAX_REFUSED = 20
_ALL_OF_IT = "."


class _Ids:
    def new(self) -> str:
        return uuid4().hex


@functools.cache
def _runner(private: tuple[str, ...]) -> BubblewrapRunner:
    """Return the runner of this process: it runs four programs at once, and others wait."""
    return BubblewrapRunner(_Ids(), tuple(map(Path, private)))


class LoadedProgram:
    """A program whose files were read: `run` reads and keeps them, and meanwhile `invoke` may be called."""

    def __init__(self, connect: Connect, send: Callable[[HostEvent], None]) -> None:
        assert isinstance(connect.server, Program)
        self._program = connect.server
        self._connect = connect
        self._send = send
        self._runner = _runner(self._program.private)
        self._files: dict[str, ProgramFile] = {}

    async def run(self) -> None:
        """Read it, see that there is a sandbox, and keep it until cancelled. Raises Failure."""
        try:
            async with asyncio.timeout(self._connect.within_s):
                self._files = await asyncio.to_thread(self._read)
                await self._runner.ready()
        except TimeoutError:
            words = f"Its sandbox was not ready within {self._connect.within_s:g} s."
            raise Failure("sandbox.unavailable", words) from None
        except OzzieError as error:
            words = " ".join(filter(None, [str(error), error.hint]))
            is_sandbox = error.code == "sandbox.unavailable"
            raise Failure("sandbox.unavailable" if is_sandbox else "plugin.start", words) from None
        name = self._program.name
        self._send(Connected(id=self._connect.id, name=name, version="", era="", instructions="", tools=()))
        await asyncio.Event().wait()

    def _read(self) -> dict[str, ProgramFile]:
        """Return its files, if they are those that were granted. Raises ConfigError, Failure."""
        files = program_files(Path(self._program.folder))
        if digest_of_files(files) != self._program.digest:
            raise Failure("plugin.start", "Its files are others than those that were granted.")
        size = sum(len(f"{name}={value}".encode(errors="surrogateescape")) for name, value in self._variables.items())
        if size > MAX_VARIABLES:
            words = f"Its configuration, secrets and variables have more than {MAX_VARIABLES >> 10} KiB together."
            raise Failure("plugin.start", words)
        return files

    async def invoke(self, invoke: Invoke) -> str:
        """Start the program for one call; return the JSON of its `Output`. Raises Failure."""
        program = self._program
        if invoke.tool == HEALTH and program.health_url:
            return text_of(await health_at(program.health_url))
        call = _Call(program, invoke, self._send)
        async with _network(program, call.tell_host) as network:
            job = Job(self._spec(invoke, network))
            try:
                await self._run(job, invoke, call)
            finally:
                call.log(job.errors)
        output = await asyncio.to_thread(call.output, job)
        if not output.failed:
            output = await self._written(call, job, output)
        return text_of(output)

    async def _written(self, call: "_Call", job: Job, output: Output) -> Output:
        """Write what it left; if the call is stopped meanwhile, not after its end."""
        writing = asyncio.ensure_future(asyncio.to_thread(call.written, job.collected, output))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            call.was_stopped = True
            await asyncio.wait({writing})
            raise

    async def _run(self, job: Job, invoke: Invoke, call: "_Call") -> None:
        """Run the program to its end. Raises Failure."""
        try:
            async with asyncio.timeout(invoke.within_s):
                await self._runner.run(job)
        except TimeoutError:
            if not job.was_started:
                words = f"Other programs run: its turn did not come within {invoke.within_s:g} s."
                raise Failure("plugin.failed", words) from None
            words = f"It did not answer within {invoke.within_s:g} s."
            raise Failure("plugin.timeout", words, was_sent=call.may_have_acted) from None
        except OzzieError as error:
            raise Failure("sandbox.unavailable", " ".join(filter(None, [str(error), error.hint]))) from None

    def _spec(self, invoke: Invoke, network: int | None) -> JobSpec:
        program = self._program
        shown = [wish.removeprefix("fs_read:") for wish in program.granted if wish.startswith("fs_read:")]
        return JobSpec(
            argv=(f"/job/{program.program}", invoke.tool),
            project=Path(program.project),
            files={path: file.content for path, file in self._files.items()},
            limits=JobLimits(
                wall_s=invoke.within_s + 10,  # the call's own time is over before
                cpu_s=invoke.within_s * 2,
                memory=MEMORY,
                processes=PROCESSES,
                disk=DISK,
                files=10_000,
                output=MAX_OUTPUT_CHARS,
            ),
            program=ProgramInput(
                stdin=json.dumps(invoke.arguments, ensure_ascii=False).encode(),
                executable=frozenset({program.program, *(p for p, file in self._files.items() if file.executable)}),
                env=self._variables,
                shown=(_ALL_OF_IT,) if _ALL_OF_IT in shown else tuple(shown),
                network=network,
            ),
        )

    @property
    def _variables(self) -> dict[str, str]:
        program = self._program
        return {CONFIG: canonical_bytes(program.config).decode(), **program.env, **program.secrets}


@asynccontextmanager
async def _network(program: Program, refused: Callable[[str], None]) -> AsyncGenerator[int | None, None]:
    """Yield the descriptor for the program's network, or None if it has none."""
    hosts = [wish.partition(" ")[2] for wish in program.granted if wish.startswith("http:")]
    if not hosts or program.offline:
        yield None
        return
    network = Network(hosts, refused)
    inside = os.dup(network.inside)  # it may close its own before the sandbox has got it
    serving = asyncio.create_task(network.serve())
    try:
        yield inside
    finally:
        os.close(inside)
        serving.cancel()
        await asyncio.wait({serving})
        network.close()


class _Call:
    """What one call comes to."""

    def __init__(self, program: Program, invoke: Invoke, send: Callable[[HostEvent], None]) -> None:
        self._program = program
        self._invoke = invoke
        self._loop = asyncio.get_running_loop()
        self._send = send
        self._told: set[str] = set()
        self.was_stopped = False

    @property
    def may_have_acted(self) -> bool:
        """Whether it may have had an effect before it has answered: it can only send."""
        return not self._program.offline and any(wish.startswith("http:") for wish in self._program.granted)

    def tell_host(self, host: str) -> None:
        """Tell of a host that nobody granted, in the loop's thread."""
        name = host.removesuffix(":443").removesuffix(":80")
        self._tell(Refused(f"http:ANY {name}", f"Nobody granted this plugin requests to {name}."))

    def _tell(self, refused: Refused) -> None:
        if refused.wish in self._told or len(self._told) == _MAX_REFUSED:
            return
        self._told.add(refused.wish)
        wish, words = (repair_text(self._clean(text))[:MAX_TOLD] for text in (refused.wish, str(refused)))
        self._send(wire.Refused(id=self._invoke.id, wish=wish, words=words))

    def _clean(self, text: str) -> str:
        return without_secrets(text, self._program.secrets)

    def log(self, errors: bytes | bytearray) -> None:
        """Write the end of its standard error to Ozzie's log, if that was granted."""
        if "log" in self._program.granted:
            for line in self._clean(errors.decode(errors="replace")).splitlines()[-MAX_LOGGED:]:
                note(f"plugin {self._program.name}: {line[:MAX_LOGGED_CHARS]!r}")

    def output(self, job: Job) -> Output:
        """Return what it answered. Raises Failure."""
        status, printed = job.status, bytes(job.printed)
        if status.exit_code != 0:
            return self._without_success(job, printed)
        try:
            return self._output(printed)
        except InvalidJson as error:
            words = f"Its answer is no JSON: {self._clean(str(error))}{self._last_words(job)}"
            raise Failure("plugin.garbage", words, was_sent=self.may_have_acted) from None
        except Failure as failure:
            raise Failure(failure.code, str(failure), was_sent=self.may_have_acted) from None

    def _output(self, printed: bytes) -> Output:
        """Raises InvalidJson, Failure."""
        return output_of(_cleaned(read_answer(printed), self._clean))

    def _without_success(self, job: Job, printed: bytes) -> Output:
        """Return the words of a program that failed and says why. Raises Failure for any other."""
        status = job.status
        if status.exit_code is not None:
            with contextlib.suppress(InvalidJson, Failure):
                if (output := self._output(printed)).failed:
                    return output
        if status.state is JobState.FAILED and not job.has_begun:
            code = "sandbox.unavailable" if job.was_started else "plugin.failed"  # such as a folder that is missing
            raise Failure(code, self._clean(status.reason))
        words = f"{self._clean(status.reason) or _end(status.exit_code or 0)}{self._last_words(job)}"
        raise Failure("plugin.broke", words, was_sent=self.may_have_acted)

    def _last_words(self, job: Job) -> str:
        lines = self._clean(job.errors.decode(errors="replace")).split("\n")
        said = "\n".join(filter(str.strip, lines))[-_MAX_WORDS:].strip()
        return f" It wrote: {said}" if said else ""

    def written(self, left: Collected, output: Output) -> Output:
        """Write the files that it left into the project, none if one may not be written; return its output, or why that
        failed. In a thread."""
        try:
            checked = self._checked(left)
            for parts, content in checked:
                if self.was_stopped:
                    raise Failed("The call was stopped.")
                path = "/".join(parts)
                self._in_loop(lambda path=path: self._send(wire.Wrote(id=self._invoke.id, path=repair_text(path))))
                write_file(self._program, parts, content)
        except Refused as refused:
            error = refused
            self._in_loop(lambda: self._tell(error))
            return Output(texts=("It left a file that can't be written.",), failed=True)
        except (Failed, ToolFailed, OSError) as error:
            return Output(texts=(f"A file that it left can't be written. {self._clean(str(error))}",), failed=True)
        return output

    def _checked(self, left: Collected) -> list[tuple[tuple[str, ...], bytes]]:
        """Return the paths and contents of files that it may write. Raises Refused, Failed, ToolFailed."""
        files = left.out
        if left.left_out:
            raise Failed(f"{', '.join(left.left_out)}.")
        if len(files) > MAX_FILES:
            raise Failed(f"It left more than {MAX_FILES} files.")
        for file in files:
            if len(file.content) > MAX_FILE:
                raise Failed(f"{file.path} has more than {MAX_FILE >> 20} MiB.")
        return [(expect_folder(self._program, "fs_write", file.path), file.content) for file in files]

    def _in_loop(self, work: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(work)


def _cleaned(value: Json, clean: Callable[[str], str]) -> Json:
    """Return an answer with each of its texts cleaned."""
    match value:
        case str():
            return clean(value)
        case list():
            return [_cleaned(each, clean) for each in value]
        case dict():
            return {clean(name): _cleaned(each, clean) for name, each in value.items()}
        case _:
            return value


def _end(code: int) -> str:
    if code <= 128:
        return f"It ended with the exit code {code}."
    with contextlib.suppress(ValueError):
        return f"It was ended by the signal {signal.Signals(code - 128).name}."
    return f"It ended with the exit code {code}."
