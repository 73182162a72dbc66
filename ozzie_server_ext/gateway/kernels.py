"""Connects to the kernels of the surrounding Jupyter Server and runs code in them."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any
from uuid import uuid4

import msgspec
import zmq
import zmq.asyncio

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.kernels import (
    Ended,
    KernelBusy,
    KernelChanged,
    KernelInfo,
    KernelUnfit,
    NoSuchKernel,
    Ran,
    expression,
    inspection_of,
)
from ozzie_server_ext.jupyter.outputs import Outputs, count_of
from ozzie_server_ext.observability.logs import logger

log = logger(__name__)

MOST_BYTES = 12 * 1024 * 1024
"""Largest part of a message, in bytes. ZeroMQ can't skip a larger one and ends the connection, so nothing that the
kernel shows arrives after it."""
_MOST_RECEIVED = 16
"""Received messages that wait to be read."""
_LIGHT = 64 * 1024
"""Bytes; larger messages are parsed in a thread, so that the server stays responsive."""
_AGAIN_S = 0.3


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel's message. `process` identifies the kernel process; `is_reply`: sent to the requester, not to all."""

    kind: str
    parent: str
    process: str
    content: Mapping[str, Any]
    is_reply: bool


class KernelLine:
    """A context manager around the connections to one kernel. `manager` is its jupyter_client manager."""

    def __init__(self, manager: Any) -> None:
        context: zmq.asyncio.Context = zmq.asyncio.Context.shadow(manager.context)
        context.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
        context.setsockopt(zmq.RCVHWM, _MOST_RECEIVED)
        # Send nothing to a kernel that is not there: a later process would run it.
        context.setsockopt(zmq.IMMEDIATE, 1)
        client = manager.client(context=context)
        self._session = client.session
        # Kernels tell clients apart by this, also two of ours.
        self._session.session = uuid4().hex
        self._shell: Any = None
        self._shown: Any = None
        self._watch: Any = None
        self._client = client
        self.is_cut_off = False
        """Whether no more output arrives: the kernel sent too much at once, or ended."""

    def __enter__(self) -> "KernelLine":
        self._shown = self._client.connect_iopub()
        self._watch = self._shown.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._shell = self._client.connect_shell(identity=self._session.bsession)
        self._poller = zmq.asyncio.Poller()
        self._poller.register(self._shown, zmq.POLLIN)
        self._poller.register(self._shell, zmq.POLLIN)
        self._poller.register(self._watch, zmq.POLLIN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._shown.disable_monitor()
        for socket in (self._watch, self._shown, self._shell):
            if socket is not None:
                socket.close(linger=0)

    async def send(self, kind: str, content: Mapping[str, Any], within_s: float) -> str:
        """Send a message and return its id. Raises TimeoutError if the kernel is not there to take it; it was not sent
        then."""
        message = self._session.msg(kind, content)
        # Not through the session: its send blocks, and the whole server with it.
        async with asyncio.timeout(within_s):
            await self._shell.send_multipart(self._session.serialize(message))
        return str(message["header"]["msg_id"])

    async def greet(self, within_s: float) -> Message | None:
        """Return the kernel's reply about itself, once its earlier output has arrived (unless that was cut off); None
        if it doesn't answer."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        asked: set[str] = set()
        answer: Message | None = None
        again = 0.0
        while (now := loop.time()) < end:
            if now >= again:
                # Output is lost until the kernel knows our subscription, so ask until an answer shows up there.
                try:
                    asked.add(await self.send("kernel_info_request", {}, end - now))
                except TimeoutError:
                    return None
                again = loop.time() + _AGAIN_S
            for message in await self.read(min(end, again) - loop.time()):
                if message.parent not in asked:
                    continue
                if message.is_reply:
                    answer = message
                    if self.is_cut_off:
                        return answer
                elif answer is not None and message.process == answer.process:
                    return answer
        return None

    async def read(self, within_s: float) -> list[Message]:
        """Return the messages that arrive within this time, at most one of each channel."""
        events = dict(await self._poller.poll(max(int(within_s * 1000), 0)))
        found: list[Message] = []
        if self._watch in events:
            await self._watch.recv_multipart(zmq.NOBLOCK)
            self.is_cut_off = True
        # Output comes first: a reply ends the wait.
        for socket in (self._shown, self._shell):
            if socket in events:
                try:
                    parts = await socket.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    continue
                if (message := await self._message(parts, is_reply=socket is self._shell)) is not None:
                    found.append(message)
        await asyncio.sleep(0)  # yield, because with messages always waiting nothing above does
        return found

    async def _message(self, parts: list[bytes], *, is_reply: bool) -> Message | None:
        if sum(map(len, parts)) > _LIGHT:
            return await asyncio.to_thread(self._parsed, parts, is_reply=is_reply)
        return self._parsed(parts, is_reply=is_reply)

    def _parsed(self, parts: list[bytes], *, is_reply: bool) -> Message | None:
        try:
            _, rest = self._session.feed_identities(parts)
            raw = self._session.deserialize(rest)
            header, parent, content = raw["header"], raw["parent_header"], raw["content"]
            return Message(
                kind=str(header["msg_type"]),
                parent=str(parent.get("msg_id", "")),
                process=str(header.get("session", "")),
                content=content if isinstance(content, dict) else {},
                is_reply=is_reply,
            )
        except Exception as error:  # kernels send anything; ZeroMQ's greeting is no Jupyter message either
            log.debug("a kernel sent what is no message: %s", error)
            return None


GRACE_S = 3.0
"""Seconds that a kernel may take to stop after an interrupt."""
_INTERRUPTS = 2
"""Interrupts before the code counts as going on. Python misses one that comes in the instant before a blocking call: it
looks for signals before the call, and the call doesn't end by a signal that was taken already."""
TICK_S = 0.5
"""Seconds between checks whether the kernel is still there."""
_SEND_S = 1.0
_ANSWER_S = 1.0
_MOST_WAITING = 32
"""Messages to read before deciding to interrupt; a flood never ends."""
_IDLE_S = 2.0
"""Seconds for which output may follow the reply. After a cut-off, none does."""


class KernelRun:
    """One run of code. `is_there` tells whether the same process still runs; `interrupt` interrupts whatever runs in
    it."""

    def __init__(
        self,
        line: KernelLine,
        process: str,
        *,
        is_there: Callable[[], Awaitable[bool]],
        interrupt: Callable[[], Awaitable[Any]],
        show: Callable[[str], None],
    ) -> None:
        self._line = line
        self._process = process
        self._is_there = is_there
        self._interrupt = interrupt
        self._show = show
        self._outputs = Outputs()
        self._request = ""
        self._has_begun = False
        self._reply: Message | None = None
        self._replied = 0.0
        self._is_idle = False
        self._is_lost = False
        self._was_interrupted = False
        self._is_free = False
        self._count: int | None = None

    async def to_its_end(self, code: str, timeout_s: float) -> Ran:
        """Run the code and return the outcome, also if the caller is cancelled after it was sent. Raises TimeoutError
        if it could not be sent."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            # Cells of the user that wait behind it must still run if it fails.
            "stop_on_error": False,
        }
        self._request = await self._line.send("execute_request", content, _SEND_S)
        why = Ended.TIMED_OUT
        try:
            await self._follow(self._now + timeout_s)
            if self._line.is_cut_off:  # a single huge output is probably almost done
                await self._follow(self._now + _IDLE_S, anyway=True)
        except asyncio.CancelledError:
            why = Ended.STOPPED
        if self._is_cut and why is not Ended.STOPPED:
            why = Ended.CUT
        if not self._is_over and not self._is_lost and self._has_begun:
            await self._stop()
        if self._has_failed and not await self._is_there():
            # Jupyter interrupts a kernel before ending it, and the reply to the interrupt can come first.
            self._is_lost = True
        return self._ran(why)

    async def _stop(self) -> None:
        """Interrupt the code if it still runs; messages that arrived meanwhile may say that it ended."""
        for _ in range(_MOST_WAITING):
            self._take_all(await self._line.read(0))
        if not await self._is_there():
            self._is_lost = self._reply is None
            return
        for _ in range(_INTERRUPTS):
            if self._reply is None:
                self._was_interrupted = True
                await self._interrupt()
            await self._follow(self._now + GRACE_S, anyway=True)
            if self._reply is not None or self._is_lost:
                return
        # An interrupt at the very end can hit the kernel while it replies.
        greeting = await self._line.greet(_ANSWER_S)
        self._is_free = greeting is not None and greeting.process == self._process

    async def _follow(self, end: float, *, anyway: bool = False) -> None:
        """Read until the code has ended or is lost, the time is up, or (unless `anyway`) it has shown too much."""
        looked = self._now
        while not self._is_over and (left := end - self._now) > 0:
            self._take_all(await self._line.read(min(left, TICK_S)))
            if self._reply is not None:
                continue
            if self._is_cut and not anyway:
                return
            if self._line.is_cut_off or self._now - looked >= TICK_S:
                looked = self._now
                if not await self._is_there():
                    self._is_lost = True
                    return

    @property
    def _has_failed(self) -> bool:
        return self._reply is not None and self._reply.content.get("status") == "error"

    @property
    def _is_cut(self) -> bool:
        return self._outputs.is_cut or self._line.is_cut_off

    @property
    def _is_over(self) -> bool:
        if self._reply is None:
            return False
        return self._is_idle or self._line.is_cut_off or self._now - self._replied > _IDLE_S

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _take_all(self, messages: list[Message]) -> None:
        for message in messages:
            if message.process != self._process:
                self._is_lost = self._reply is None
            elif message.parent == self._request:
                self._take(message)

    def _take(self, message: Message) -> None:
        if message.is_reply:
            self._reply, self._replied = message, self._now
            self._count = count_of(message.content) or self._count
            return
        match message.kind:
            case "execute_input":
                self._has_begun = True
                self._count = count_of(message.content)
            case "status":
                self._is_idle = message.content.get("execution_state") == "idle"
            case _:
                if text := self._outputs.take(message.kind, message.content):
                    self._show(text)

    def _ran(self, why: Ended) -> Ran:
        return Ran(
            ended=self._ended(why),
            outputs=self._outputs.done(),
            execution_count=self._count,
            left_out=self._outputs.left_out,
            is_cut=self._is_cut or not self._is_idle,
        )

    def _ended(self, why: Ended) -> Ended:
        if self._is_lost:
            return Ended.LOST
        if self._reply is None:
            if self._is_free:
                return why
            return Ended.RUNS_ON if self._has_begun else Ended.QUEUED
        match self._reply.content.get("status"):
            case "ok":
                return Ended.DONE
            case "error":
                return why if self._was_interrupted else Ended.FAILED
            case _:
                return Ended.NOT_BEGUN


ANSWER_S = 1.0
"""Seconds; an idle kernel answers sooner."""
START_S = 20.0
"""Seconds that a freshly started kernel may take."""
INSPECT_S = 15.0
_LOOK_S = 0.02
_LOOKS = 25
"""Half a second in total."""
_STARTING = ("starting", "restarting", "unknown")
_IPYTHON = "ipython"
_AGENT = "ozzie_kernel"
_OUR_IMPLEMENTATION = "ozzie"
"""The implementation name that our own kernel reports."""
_OUR_EXPRESSIONS = "ozzie_expressions_request"
"""See `OzzieKernel.expressions_request`."""


class LiveKernels:
    """Finds, inspects and uses kernels. `kernels` and `sessions` are the server's `kernel_manager` and
    `session_manager`."""

    def __init__(self, kernels: Any, sessions: Any) -> None:
        self._kernels = kernels
        self._sessions = sessions
        self._running: set[str] = set()
        self._looking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def list(self) -> Sequence[KernelInfo]:
        notebooks: dict[str, str] = {}
        for session in await self._sessions.list_sessions():
            # A console of the same kernel is named after the notebook, with a number.
            if session.get("type") == "notebook":
                notebooks.setdefault(str(session["kernel"]["id"]), _path(str(session.get("path", ""))))
        found = [self._info(kernel_id, notebooks.get(kernel_id, "")) for kernel_id in self._kernels.list_kernel_ids()]
        return sorted(found, key=lambda each: (not each.notebook, each.notebook, each.name, each.kernel_id))

    async def process(self, kernel_id: str) -> str:
        async with self._looking[kernel_id]:
            info, kernel = await self._usable(kernel_id)
            with KernelLine(kernel) as line:
                return (await self._greeted(line, info, kernel)).process

    async def run(
        self,
        kernel_id: str,
        code: str,
        *,
        process: str,
        timeout_s: float,
        show: Callable[[str], None] = lambda text: None,
    ) -> Ran:
        async with self._looking[kernel_id]:
            info, kernel = await self._usable(kernel_id)
            self._running.add(kernel_id)
        try:
            return await self._run(info, kernel, code, process, timeout_s, show)
        finally:
            self._running.discard(kernel_id)

    async def _run(
        self, info: KernelInfo, kernel: Any, code: str, process: str, timeout_s: float, show: Callable[[str], None]
    ) -> Ran:
        with KernelLine(kernel) as line:
            if (await self._greeted(line, info, kernel)).process != process:
                raise KernelChanged(f"{_begun(info.phrase)} was restarted meanwhile. Nothing was run in it.")
            running = KernelRun(
                line,
                process,
                is_there=partial(self._is_there, info.kernel_id, kernel, _pid(kernel)),
                interrupt=partial(self._interrupt, info.kernel_id),
                show=show,
            )
            try:
                return await running.to_its_end(code, timeout_s)
            except TimeoutError:
                raise KernelChanged(f"{_begun(info.phrase)} ended meanwhile. Nothing was run in it.") from None

    async def inspect(self, kernel_id: str, name: str = "") -> JsonObject:
        async with self._looking[kernel_id]:
            info, kernel = await self._usable(kernel_id, may_be_own=True)
            if not info.is_agent and info.language.lower() != "python":
                raise KernelUnfit(f"{_begun(info.phrase)} is no Python kernel: its variables can't be looked at.")
            with KernelLine(kernel) as line:
                greeting = await self._greeted(line, info, kernel, may_be_own=True)
                implementation = greeting.content.get("implementation")
                if implementation not in (_IPYTHON, _OUR_IMPLEMENTATION):
                    raise KernelUnfit(f"{_begun(info.phrase)} is not IPython's: its variables can't be looked at.")
                is_own = implementation == _OUR_IMPLEMENTATION
                return inspection_of(await self._evaluate(line, info, name, is_own=is_own), name)

    async def _evaluate(self, line: KernelLine, info: KernelInfo, name: str, *, is_own: bool) -> Any:
        """Evaluate one expression of ours by a silent request without code, and return the kernel's answer. Our own
        kernel has a request of its own for that, and answers it even while a cell runs: the turn that asks may be of
        that cell."""
        content: dict[str, Any] = {"user_expressions": {"inspection": expression(name)}}
        if not is_own:
            content |= {
                "code": "",
                "silent": True,
                "store_history": False,
                "allow_stdin": False,
                "stop_on_error": False,
            }
        loop = asyncio.get_running_loop()
        end = loop.time() + INSPECT_S
        try:
            request = await line.send(_OUR_EXPRESSIONS if is_own else "execute_request", content, INSPECT_S)
        except TimeoutError:
            raise KernelChanged(f"{_begun(info.phrase)} ended meanwhile.") from None
        while (left := end - loop.time()) > 0:
            for message in await line.read(left):
                if message.is_reply and message.parent == request:
                    return (message.content.get("user_expressions") or {}).get("inspection")
        raise self._busy(info)

    async def _usable(self, kernel_id: str, *, may_be_own: bool = False) -> tuple[KernelInfo, Any]:
        """Return the kernel and its state if it can be used. Raises as `Kernels.process`."""
        info = next((each for each in await self.list() if each.kernel_id == kernel_id), None)
        if info is None:
            raise NoSuchKernel("No kernel of that id runs here, or not any more.")
        if info.is_agent and not may_be_own:
            raise _our_own(info)
        kernel = self._kernels.get_kernel(kernel_id)
        if not await kernel.is_alive():
            raise NoSuchKernel(f"{_begun(info.phrase)} has died. Restart it in Jupyter to go on.")
        if kernel_id in self._running:
            raise self._busy(info)
        return info, kernel

    async def _seems_busy(self, kernel: Any) -> bool:
        """Return whether Jupyter considers the kernel busy for longer than it takes to finish a cell."""
        for _ in range(_LOOKS):
            if getattr(kernel, "execution_state", "") != "busy":
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    async def _greeted(self, line: KernelLine, info: KernelInfo, kernel: Any, *, may_be_own: bool = False) -> Message:
        """Return the kernel's reply about itself. Raises KernelBusy, KernelUnfit."""
        seems_busy = await self._seems_busy(kernel)
        greeting = await line.greet(START_S if info.state in _STARTING else ANSWER_S)
        # IPython answers in order, and Jupyter doesn't notice that a restart ended a cell. Other kernels may or may not
        # answer while they are busy.
        implementation = None if greeting is None else greeting.content.get("implementation")
        is_own = implementation == _OUR_IMPLEMENTATION
        if greeting is None or (seems_busy and implementation != _IPYTHON and not (is_own and may_be_own)):
            raise self._busy(info)
        # A script may start it under any specification. Code run in it would become a message of the user's, without
        # the call's labels.
        if is_own and not may_be_own:
            raise _our_own(info)
        return greeting

    async def _is_there(self, kernel_id: str, kernel: Any, pid: Any) -> bool:
        if kernel_id not in self._kernels or kernel.shutting_down:
            return False
        return _pid(kernel) == pid and bool(await kernel.is_alive())

    async def _interrupt(self, kernel_id: str) -> None:
        try:
            await self._kernels.interrupt_kernel(kernel_id)
        except Exception as error:  # it may be gone, which is noticed elsewhere
            log.warning("a kernel can't be interrupted: %s", error)

    def _info(self, kernel_id: str, notebook: str) -> KernelInfo:
        kernel = self._kernels.get_kernel(kernel_id)
        active = getattr(kernel, "last_activity", None)
        try:
            spec = kernel.kernel_spec
        except Exception:  # uninstalled while it runs
            spec = None
        argv = getattr(spec, "argv", None) or []
        return KernelInfo(
            kernel_id=kernel_id,
            name=str(kernel.kernel_name),
            language=str(getattr(spec, "language", "") or ""),
            state=str(getattr(kernel, "execution_state", "") or "unknown"),
            notebook=notebook,
            last_activity=active.isoformat(timespec="seconds") if active is not None else "",
            is_agent=kernel.kernel_name == "ozzie" or _AGENT in argv,
        )

    @staticmethod
    def _busy(info: KernelInfo) -> KernelBusy:
        return KernelBusy(f"{_begun(info.phrase)} is busy with a cell; try again when it is done.")


def _our_own(info: KernelInfo) -> KernelUnfit:
    return KernelUnfit(
        f"{_begun(info.phrase)} is Ozzie's own: its cells are turns of an agent, and a call from a turn would "
        "wait for the cell that waits for it."
    )


def _path(path: str) -> str:
    """Remove the drive that precedes the path of a shared notebook."""
    return path.removeprefix("RTC:").strip("/")


def _pid(kernel: Any) -> Any:
    return getattr(kernel.provisioner, "pid", None)


def _begun(text: str) -> str:
    """Return the text with a capital, for the beginning of a sentence."""
    return text[:1].upper() + text[1:]
