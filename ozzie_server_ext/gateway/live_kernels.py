"""The kernels of the Jupyter Server around the gateway, by its own managers of kernels and sessions (NB-9)."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.kernel_line import KernelLine, Message
from ozzie_server_ext.gateway.kernel_run import KernelRun
from ozzie_server_ext.jupyter.inspection import expression, told
from ozzie_server_ext.jupyter.kernels import KernelBusy, KernelChanged, KernelInfo, KernelUnfit, NoSuchKernel, Ran
from ozzie_server_ext.observability.logs import logger

log = logger(__name__)

ANSWER_S = 1.0
"""A kernel that does nothing answers sooner."""
START_S = 20.0
"""How long one that was just started may take."""
INSPECT_S = 15.0
_LOOK_S = 0.02
_LOOKS = 25
"""Half a second in all."""
_STARTING = ("starting", "restarting", "unknown")
_IPYTHON = "ipython"
_AGENT = "ozzie_kernel"
_OUR_IMPLEMENTATION = "ozzie"
"""What that kernel calls itself."""


class LiveKernels:
    """`kernels` and `sessions` are the server's `kernel_manager` and `session_manager`."""

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
                raise KernelChanged(f"{_begun(info.said)} was restarted meanwhile. Nothing was run in it.")
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
                raise KernelChanged(f"{_begun(info.said)} ended meanwhile. Nothing was run in it.") from None

    async def inspect(self, kernel_id: str, name: str = "") -> JsonObject:
        async with self._looking[kernel_id]:
            info, kernel = await self._usable(kernel_id)
            if info.language.lower() != "python":
                raise KernelUnfit(f"{_begun(info.said)} is no Python kernel: its variables can't be looked at.")
            with KernelLine(kernel) as line:
                greeting = await self._greeted(line, info, kernel)
                if greeting.content.get("implementation") != _IPYTHON:
                    raise KernelUnfit(f"{_begun(info.said)} is not IPython's: its variables can't be looked at.")
                return told(await self._asked(line, info, name), name)

    async def _asked(self, line: KernelLine, info: KernelInfo, name: str) -> Any:
        """What a silent request without any code gave that has the kernel evaluate one expression of ours."""
        content = {
            "code": "",
            "silent": True,
            "store_history": False,
            "user_expressions": {"told": expression(name)},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        loop = asyncio.get_running_loop()
        end = loop.time() + INSPECT_S
        try:
            request = await line.send("execute_request", content, INSPECT_S)
        except TimeoutError:
            raise KernelChanged(f"{_begun(info.said)} ended meanwhile.") from None
        while (left := end - loop.time()) > 0:
            for message in await line.read(left):
                if message.is_reply and message.parent == request:
                    return (message.content.get("user_expressions") or {}).get("told")
        raise self._busy(info)

    async def _usable(self, kernel_id: str) -> tuple[KernelInfo, Any]:
        """Raises as `Kernels.process`."""
        info = next((each for each in await self.list() if each.kernel_id == kernel_id), None)
        if info is None:
            raise NoSuchKernel("No kernel of that id runs here, or not any more.")
        if info.is_agent:
            raise _our_own(info)
        kernel = self._kernels.get_kernel(kernel_id)
        if not await kernel.is_alive():
            raise NoSuchKernel(f"{_begun(info.said)} has died. Restart it in Jupyter to go on.")
        if kernel_id in self._running:
            raise self._busy(info)
        return info, kernel

    async def _seems_busy(self, kernel: Any) -> bool:
        """Whether Jupyter takes it to be busy, and not only with what just ended."""
        for _ in range(_LOOKS):
            if getattr(kernel, "execution_state", "") != "busy":
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    async def _greeted(self, line: KernelLine, info: KernelInfo, kernel: Any) -> Message:
        """Raises KernelBusy."""
        seems_busy = await self._seems_busy(kernel)
        greeting = await line.greet(START_S if info.state in _STARTING else ANSWER_S)
        # IPython answers one after the other, and Jupyter does not hear that a restart ended a cell. Of another kernel
        # nobody knows whether it answers while it is busy.
        if greeting is None or (seems_busy and greeting.content.get("implementation") != _IPYTHON):
            raise self._busy(info)
        # The specification need not say so, where a script starts it. Code that was run in it would be a message of the
        # user's, without the labels of the call.
        if greeting.content.get("implementation") == _OUR_IMPLEMENTATION:
            raise _our_own(info)
        return greeting

    async def _is_there(self, kernel_id: str, kernel: Any, pid: Any) -> bool:
        if kernel_id not in self._kernels or kernel.shutting_down:
            return False
        return _pid(kernel) == pid and bool(await kernel.is_alive())

    async def _interrupt(self, kernel_id: str) -> None:
        try:
            await self._kernels.interrupt_kernel(kernel_id)
        except Exception as error:  # it may be gone by now, which is noticed otherwise
            log.warning("a kernel can't be interrupted: %s", error)

    def _info(self, kernel_id: str, notebook: str) -> KernelInfo:
        kernel = self._kernels.get_kernel(kernel_id)
        active = getattr(kernel, "last_activity", None)
        try:
            spec = kernel.kernel_spec
        except Exception:  # what was uninstalled while it runs
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
        return KernelBusy(f"{_begun(info.said)} is busy with a cell; try again when it is done.")


def _our_own(info: KernelInfo) -> KernelUnfit:
    return KernelUnfit(
        f"{_begun(info.said)} is Ozzie's own: its cells are turns of an agent, and a call from a turn would "
        "wait for the cell that waits for it."
    )


def _path(path: str) -> str:
    """Of a notebook that is shared between pages, the drive stands before it."""
    return path.removeprefix("RTC:").strip("/")


def _pid(kernel: Any) -> Any:
    return getattr(kernel.provisioner, "pid", None)


def _begun(said: str) -> str:
    """At the beginning of a sentence."""
    return said[:1].upper() + said[1:]
