"""Kernels as a Jupyter Server has them, and somebody at a page who runs cells in them."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from jupyter_server.services.sessions.sessionmanager import SessionManager
from traitlets.config import Config

from ozzie_server_ext.gateway.kernels import KernelLine, LiveKernels, Message
from ozzie_server_ext.jupyter.kernels import KernelInfo, Ran

WAIT_S = 40
NOTEBOOK = KernelInfo(
    kernel_id="1f0c9a27-0000-4000-8000-000000000000",
    name="python3",
    language="python",
    state="idle",
    notebook="analysis.ipynb",
)
"""Of a kernel that there is none of."""


@contextmanager
def quiet(folder: Path) -> Iterator[None]:
    """With nothing of the user's own, and no folder in which a kernel of Ozzie's could start a gateway."""
    (folder / "no-home").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OZZIE_PATH", str(folder / "no-home"))
        patch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        yield


class Page:
    """Somebody who runs cells in a kernel, as a page does."""

    def __init__(self, client: AsyncKernelClient) -> None:
        self._client = client

    def send(self, code: str) -> str:
        return self._client.execute(code, allow_stdin=False)

    def ask(self, kind: str, content: dict[str, Any]) -> str:
        message = self._client.session.msg(kind, content)
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    async def until(self, request: str, kind: str, text: str = "") -> dict[str, Any]:
        """The first message of that kind about a request that holds a text."""
        async with asyncio.timeout(WAIT_S):
            while True:
                message: dict[str, Any] = await self._client.get_iopub_msg()
                of, is_kind = message["parent_header"].get("msg_id"), message["header"]["msg_type"] == kind
                if of == request and is_kind and text in str(message["content"]):
                    return message

    async def begin(self, code: str) -> str:
        """Run a cell up to where it prints "begun"."""
        request = self.send(f"print('begun', flush=True)\n{code}")
        await self.until(request, "stream", "begun")
        return request

    async def run(self, code: str) -> dict[str, Any]:
        """The reply, once all of the cell was shown."""
        request = self.send(code)
        await self.until(request, "status", "idle")
        return await self.reply(request)

    async def reply(self, request: str) -> dict[str, Any]:
        async with asyncio.timeout(WAIT_S):
            while True:
                reply: dict[str, Any] = await self._client.get_shell_msg()
                if reply["parent_header"].get("msg_id") == request:
                    return reply["content"]

    def leave(self) -> None:
        self._client.stop_channels()


class _Delayed(LiveKernels):
    """With room for something to happen where a kernel was looked at, and nothing was sent to it yet."""

    def __init__(self, bench: "KernelBench") -> None:
        super().__init__(bench.manager, bench.sessions)
        self._bench = bench

    async def _greeted(self, line: KernelLine, info: KernelInfo, kernel: Any, *, may_be_own: bool = False) -> Message:
        greeting = await super()._greeted(line, info, kernel, may_be_own=may_be_own)
        if self._bench.between is not None:
            await self._bench.between()
        return greeting


class KernelBench:
    """One server's kernels, sessions, and our view of both.

    A kernel that dies stays dead until a test restarts it. The server would do so by itself as well, within three
    seconds: two restarts at once start two kernels on the same ports, and one of them ends with "Address in use".
    """

    def __init__(self, folder: Path) -> None:
        by_hand = Config({"AsyncIOLoopKernelManager": {"autorestart": False}})
        self.manager: Any = AsyncMappingKernelManager(root_dir=str(folder), connection_dir=str(folder), config=by_hand)
        self.sessions: Any = SessionManager(
            kernel_manager=self.manager, contents_manager=AsyncLargeFileManager(root_dir=str(folder))
        )
        self.live = _Delayed(self)
        self.folder = folder
        self.between: Callable[..., Awaitable[None]] | None = None
        """What happens between the look at a kernel and the run in it."""
        self._started: dict[str, str] = {}

    async def kernel(self, notebook: str = "analysis.ipynb", name: str = "python3") -> str:
        """The id of the notebook's kernel, started where it is not there."""
        if notebook not in self._started or self._started[notebook] not in self.manager:
            session = await self.sessions.create_session(
                path=notebook, name=notebook, type="notebook", kernel_name=name
            )
            self._started[notebook] = session["kernel"]["id"]
        return self._started[notebook]

    async def page(self, kernel_id: str) -> Page:
        client: AsyncKernelClient = self.manager.get_kernel(kernel_id).client()
        client.start_channels(hb=False, control=False, stdin=False)
        try:
            await client.wait_for_ready(timeout=WAIT_S)
        except BaseException:  # or a later test answers for the sockets that were left open
            client.stop_channels()
            raise
        return Page(client)

    async def run(self, kernel_id: str, code: str, **how: Any) -> Ran:
        how.setdefault("timeout_s", WAIT_S)
        return await self.live.run(kernel_id, code, process=await self.live.process(kernel_id), **how)

    async def restart(self, kernel_id: str) -> None:
        await self.manager.restart_kernel(kernel_id)
        (await self.page(kernel_id)).leave()

    async def stop(self) -> None:
        await self.manager.shutdown_all(now=True)
        # The manager would do so as it is collected, unless the context is collected first, and warns of it.
        self.manager.context.destroy(linger=0)
        self.sessions.close()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
