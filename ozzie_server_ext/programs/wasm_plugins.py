"""Plugins in WebAssembly, by Extism, which only executables may load (docs/plugins.md).

Each call gets an instance of its own: nothing of another call is in its memory. Its code runs in a thread, and can be
stopped at any moment, also while it waits for the host.
"""

import asyncio
import base64
import hashlib
import json
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import extism
from extism.extism import CompiledPlugin, Plugin
from extism_sys import ffi as _ffi
from extism_sys import lib as _lib

from ozzie_server_ext.config.files import replace_file
from ozzie_server_ext.programs.plugin_calls import health_at, output_of, read_answer, without_secrets
from ozzie_server_ext.programs.tool_output import Failure, text_of
from ozzie_server_ext.programs.wasm_code import ERROR_SET, prepared
from ozzie_server_ext.programs.wasm_host import FUNCTIONS, HostCall
from ozzie_server_ext.programs.wasm_http import CannedAnswers, Grants, Requests, WebRequests
from ozzie_server_ext.protocol import tool_host as wire
from ozzie_server_ext.protocol.jsontext import InvalidJson, repair_text
from ozzie_server_ext.protocol.tool_host import (
    HEALTH,
    Connect,
    Connected,
    HostEvent,
    Invoke,
    Module,
)

MAX_PAGES = 1024
"""Of memory, 64 KiB each: 64 MiB for one call."""
AT_ONCE = 16
"""Calls of one plugin. Others wait."""
_MAX_TEXT = 4 << 20
"""Bytes of a text that a plugin gives to a host function."""
_MOST_OFFSET = 1 << 32
_MAX_WORDS = 500
_STOP_EVERY_S = 0.1
_STOP_TRIES = 100
_TRAP = re.compile(r"wasm trap: (.+)")
_CALL = "call"
"""The export of a plugin with one tool, whatever that is called (S0: `call(input: JSON) -> JSON`)."""


class LoadedPlugin:
    """A loaded plugin: `run` loads and keeps it, and meanwhile `invoke` may be called."""

    def __init__(self, connect: Connect, send: Callable[[HostEvent], None]) -> None:
        assert isinstance(connect.server, Module)
        self._module = connect.server
        self._connect = connect
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="plugin")
        self._requests = _requests_of(self._module)
        self._instances: _Instances | None = None
        self._has_ended = False
        self._exports: dict[str, str] = {}
        self._first: tuple[str, ...] = ()

    async def run(self) -> None:
        """Load it, and keep it until cancelled. Raises Failure."""
        try:
            async with asyncio.timeout(self._connect.within_s):
                await self._loop.run_in_executor(self._threads, self._load)
        except TimeoutError:
            raise Failure("plugin.start", f"It was not compiled within {self._connect.within_s:g} s.") from None
        except (OSError, extism.Error, ValueError) as error:
            raise Failure("plugin.start", f"It can't be loaded: {_first_line(error)}") from None
        name = self._module.name
        self._send(Connected(id=self._connect.id, name=name, version="", era="", instructions="", tools=()))
        try:
            await asyncio.Event().wait()
        finally:
            await self._requests.close()
            self._has_ended = True
            self._threads.shutdown(wait=False)

    def _load(self) -> None:
        """Compile it, and find its exports. Raises OSError, ValueError, extism.Error."""
        content = Path(self._module.wasm).read_bytes()
        if hashlib.sha256(content).hexdigest() != self._module.digest:
            raise ValueError("its file is another one than was granted.")
        code, self._first = prepared(content)
        manifest: dict[str, Any] = {
            # As data: a JSON manifest in place of code would be taken, with permissions of its own.
            "wasm": [{"data": base64.b64encode(code).decode()}],
            "memory": {"max_pages": MAX_PAGES},
            "allowed_hosts": [],
        }
        _keep_compiled(Path(self._module.compiled))
        compiled = CompiledPlugin(manifest, wasi=False, functions=[*HOST_FUNCTIONS])
        with Plugin(compiled) as instance:
            only = len(self._module.exports) == 1
            for name in self._module.exports:
                there = name if instance.function_exists(name) else _CALL
                if not instance.function_exists(there) or (there == _CALL != name and not only):
                    raise ValueError(f"it has no function {name}.")
                self._exports[name] = there
        self._instances = _Instances(compiled)

    async def invoke(self, invoke: Invoke) -> str:
        """Call an export with JSON; return the JSON of its `Output`. Raises Failure."""
        if invoke.tool == HEALTH and self._module.health_url:
            return text_of(await health_at(self._module.health_url))

        def refused(wish: str, words: str) -> None:
            tell(wire.Refused(id=invoke.id, wish=repair_text(wish), words=repair_text(words)))

        def wrote(path: str) -> None:
            tell(wire.Wrote(id=invoke.id, path=repair_text(path)))

        def tell(event: HostEvent) -> None:
            self._loop.call_soon_threadsafe(self._send, event)

        assert self._instances is not None, "it is called once it has been loaded"
        call = _Call(HostCall(self._module, self._requests, self._loop, refused, wrote), self._instances)
        export = self._exports.get(invoke.tool, invoke.tool)
        work: asyncio.Future[str] = self._loop.create_future()
        self._threads.submit(self._work, call, export, invoke, work)
        try:
            async with asyncio.timeout(invoke.within_s):
                return await asyncio.shield(work)
        except TimeoutError:
            await _stopped(call, work)
            words = f"It did not answer within {invoke.within_s:g} s."
            raise Failure("plugin.timeout", words, was_sent=call.host.has_acted) from None
        finally:
            if not work.done():
                await asyncio.shield(_stopped(call, work))

    def _work(self, call: "_Call", export: str, invoke: Invoke, work: "asyncio.Future[str]") -> None:
        """Make a call in this thread. Only then, while nobody waits for it, see to its instance and the next one."""
        try:
            found = self._called(call, export, invoke)
        except BaseException as error:
            self._loop.call_soon_threadsafe(work.set_exception, error)
        else:
            self._loop.call_soon_threadsafe(work.set_result, found)
        finally:
            call.put_away()

    def _called(self, call: "_Call", export: str, invoke: Invoke) -> str:
        """Return the JSON of the `Output` of a call. Raises Failure."""
        if self._has_ended:
            raise Failure("mcp.lost", "It is not connected any more.")
        given = json.dumps(invoke.arguments, ensure_ascii=False).encode()
        try:
            raw = call.run((*self._first, export), given)
            return text_of(output_of(read_answer(raw)))
        except extism.Error as error:
            code, words = ("plugin.failed", call.host.error) if call.host.error else _why(error)
            raise Failure(code, without_secrets(words, self._module.secrets), was_sent=call.host.has_acted) from None
        except InvalidJson as error:
            raise Failure("plugin.garbage", f"Its answer is no JSON: {error}", was_sent=call.host.has_acted) from None
        except Failure as failure:
            raise Failure(failure.code, str(failure), was_sent=call.host.has_acted) from None


class _Instances:
    """Instances of a plugin, for its threads. One that no call has had yet is kept ready: to make it takes longer than
    a short call."""

    def __init__(self, compiled: CompiledPlugin) -> None:
        self._compiled = compiled
        self._ready: SimpleQueue[Plugin] = SimpleQueue()

    def take(self) -> Plugin:
        """Return an instance that is nobody else's. Raises extism.Error."""
        try:
            return self._ready.get_nowait()
        except Empty:
            return Plugin(self._compiled)

    def put_away(self, used: Plugin) -> None:
        """Drop an instance, as no other call may find what is in its memory, and have another one ready."""
        used.__exit__(None, None, None)
        if self._ready.empty():
            self._ready.put(Plugin(self._compiled))


class _Call:
    """One call in its thread, and how it is stopped."""

    def __init__(self, host: HostCall, instances: _Instances) -> None:
        self.host = host
        self._instances = instances
        self._instance: Plugin | None = None
        self._handle: Any = None

    def run(self, exports: tuple[str, ...], given: bytes) -> bytes:
        """Call these exports, and return the output of the last one. Raises extism.Error, also if it is stopped."""
        instance = self._instance = self._instances.take()
        self._handle = instance.cancel_handle()
        try:
            raw = b""
            for export in exports:
                if self.host.was_stopped:
                    raise extism.Error("stopped")
                raw = instance.call(export, given, host_context=self.host)
            return raw
        finally:
            self._handle = None

    def put_away(self) -> None:
        """Drop its instance."""
        if self._instance is not None:
            self._instances.put_away(self._instance)

    def stop(self) -> None:
        """Stop its code, and what it waits for, from the loop's thread."""
        self.host.stop()
        if (handle := self._handle) is not None:
            handle.cancel()


async def _stopped(call: _Call, work: "asyncio.Future[Any]") -> None:
    """Stop a call, and wait until it has ended. Extism forgets an order to stop that comes before the first
    instruction, so it is repeated."""
    for _ in range(_STOP_TRIES):
        call.stop()
        await asyncio.wait([work], timeout=_STOP_EVERY_S)
        if work.done():
            break
    if work.done() and not work.cancelled():
        work.exception()  # nobody waits for it any more


def _keep_compiled(folder: Path) -> None:
    """Have Extism keep what it compiles in this folder: its first load takes seconds for a large plugin. By itself it
    would use one of the user's, `~/.cache/wasmtime`."""
    folder.mkdir(mode=0o700, exist_ok=True)
    settings = folder / "cache.toml"
    content = f"[cache]\ndirectory = {json.dumps(str(folder / 'modules'))}\n".encode()
    if not settings.exists() or settings.read_bytes() != content:
        replace_file(settings, content)
    os.environ["EXTISM_CACHE_CONFIG"] = str(settings)


def _requests_of(module: Module) -> Requests:
    grants = Grants(wish.removeprefix("http:") for wish in module.granted if wish.startswith("http:"))
    return WebRequests(grants) if module.answers is None else CannedAnswers(grants, module.answers)


def _why(error: Exception) -> tuple[wire.ErrorCode, str]:
    """Return why a call failed: the plugin said so, or it broke."""
    text = str(error)
    if text == "oom":  # Extism's own word for it
        return "plugin.broke", f"It was ended: it took more than {MAX_PAGES >> 4} MiB of memory."
    if (trap := _TRAP.search(text)) is not None:
        return "plugin.broke", f"It broke: {trap[1][:_MAX_WORDS]}."
    if "wasm backtrace" in text or not text:
        return "plugin.broke", "It broke off: its code ran into a trap."
    return "plugin.failed", f"It says: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    line = (str(error).strip().splitlines() or [type(error).__name__])[0][:_MAX_WORDS]
    return repair_text(line if line.endswith(".") else f"{line}.")


# --- host functions, as Extism takes them -----------------------------------------------------------------------------


def _host_function(name: str) -> Any:
    """Return a host function that takes as many texts as the function of `wasm_host.HostCall` with this name, and
    returns JSON."""
    count = FUNCTIONS[name].__code__.co_argcount - 1
    signature = ([extism.ValType.PTR] * count, [extism.ValType.PTR])

    def call(plugin: extism.CurrentPlugin, inputs: list[Any], outputs: list[Any], *_: Any) -> None:
        host: HostCall = plugin.host_context()
        texts = [text for each in inputs if (text := _text(plugin, each.value)) is not None]
        is_whole = len(texts) == len(inputs)
        answer = host.answer(name, texts) if is_whole else {"error": "A text is too long, or is none."}
        with suppress(Exception):  # its memory is full: it reads nothing
            plugin.return_bytes(outputs[0], json.dumps(answer, ensure_ascii=False).encode(errors="replace"))

    return extism.host_fn(name=name, signature=signature)(call)


def _error_set() -> Any:
    """Return what stands for Extism's own `error_set`, which would read beyond a plugin's memory."""

    def call(plugin: extism.CurrentPlugin, inputs: list[Any], outputs: list[Any], *_: Any) -> None:
        host: HostCall = plugin.host_context()
        words = (_text(plugin, inputs[0].value) or "").replace("\0", "")[:_MAX_WORDS].strip()
        host.error = f"It says: {words}" if words else "It failed, and does not say why."

    return extism.host_fn(name=ERROR_SET, signature=([extism.ValType.PTR], []))(call)


def _text(plugin: extism.CurrentPlugin, offset: int) -> str | None:
    """Return a text of a plugin's; None for one that is too long or is none. A plugin may have forged its place and its
    length, so that reading it may lead out of its memory: the system reads it, and an error takes the place of the end
    of this process."""
    if not 0 <= offset < _MOST_OFFSET:
        return None
    length = plugin.memory_at_offset(offset).length
    if not 0 <= length <= _MAX_TEXT:
        return None
    start = int(_ffi.cast("uintptr_t", _memory_of(plugin.pointer)))
    try:
        content = os.pread(_own_memory(), length, start + offset) if length else b""
    except OSError:
        return None
    return content.decode(errors="replace") if len(content) == length else None


_memory_of: Any = getattr(_lib, "extism_current_plugin_memory")  # noqa: B009 - a function of the C library


@cache
def _own_memory() -> int:
    """Return a descriptor of this process's memory (proc(5), /proc/pid/mem)."""
    return os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)


HOST_FUNCTIONS = (*map(_host_function, FUNCTIONS), _error_set())
