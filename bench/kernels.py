"""A kernel driven as a front end does it: run a cell, and note when each output message arrived."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jupyter_client.manager import KernelManager

from tests import rig

TIMEOUT_S = 120.0


@dataclass
class Run:
    """One run of a cell. Each of `messages`: seconds since the cell was sent, message type, content."""

    messages: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    total_s: float = 0.0

    def first(self, text: str) -> float:
        """Seconds until the first message with `text` in what it shows. Raises LookupError."""
        for seconds, kind, content in self.messages:
            if text in shown(kind, content):
                return seconds
        raise LookupError(f"no output contains {text!r}")


def shown(kind: str, content: dict[str, Any]) -> str:
    """What a message makes visible."""
    if kind == "stream":
        return str(content["text"])
    if kind in ("comm_open", "comm_msg"):
        return str(content.get("data", {}).get("state", {}).get("value", ""))
    return str(content.get("data", {}).get("text/plain", ""))


class Kernel(rig.Kernel):
    """A started kernel, and the times of what it sends."""

    def outputs(self, request: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Type and content of each message of that cell, to its end. Raises queue.Empty when the kernel is silent."""
        while True:
            got = self.client.get_iopub_msg(timeout=TIMEOUT_S)
            if got["parent_header"].get("msg_id") != request:
                continue
            kind, said = got["header"]["msg_type"], got["content"]
            yield kind, said
            if kind == "status" and said["execution_state"] == "idle":
                return

    def timed(self, code: str, *, cell_id: str = "cell") -> Run:
        """Run a cell to its end."""
        run, began = Run(), time.perf_counter()
        for kind, said in self.outputs(self.send(code, cell_id=cell_id)):
            run.messages.append((time.perf_counter() - began, kind, said))
        run.total_s = time.perf_counter() - began
        return run


@contextmanager
def kernel(name: str, env: dict[str, str]) -> Iterator[Kernel]:
    """A kernel of that kernelspec, shut down at the end."""
    manager = KernelManager(kernel_name=name)
    manager.start_kernel(env=env)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=TIMEOUT_S)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=False)
