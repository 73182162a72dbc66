"""The kernel's side of its front end: sends it output, and reads lines that a person types there."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import zmq

if TYPE_CHECKING:
    from ipykernel.ipkernel import IPythonKernel

TYPED_S = 0.05
"""How often to look for typed input."""


class KernelFrontEnd:
    """The front end of an ipykernel, seen from its running cell."""

    def __init__(self, kernel: "IPythonKernel") -> None:
        self._kernel: Any = kernel

    def publish(self, msg_type: str, content: dict[str, Any]) -> None:
        """Send an output message of the running cell."""
        self._kernel.send_response(self._kernel.iopub_socket, msg_type, content)

    async def read_line(self, prompt: str) -> str:
        """Read a line typed at the front end, without blocking the loop and the turn, as the kernel's own would."""
        kernel = self._kernel
        with contextlib.suppress(zmq.ZMQError):
            while True:  # drop replies to earlier questions, which nobody awaits any more
                kernel.stdin_socket.recv_multipart(zmq.NOBLOCK)
        parent, ident = kernel.get_parent("shell"), kernel._get_shell_context_var(kernel._shell_parent_ident)
        content = {"prompt": prompt, "password": False}
        kernel.session.send(kernel.stdin_socket, "input_request", content, parent, ident=ident)
        while True:
            _, reply = kernel.session.recv(kernel.stdin_socket, zmq.NOBLOCK)
            if reply is not None:
                return str(reply["content"].get("value", ""))
            await asyncio.sleep(TYPED_S)
