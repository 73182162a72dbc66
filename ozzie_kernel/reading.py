"""Requests that only read are answered beside a running cell: completion, inspection, history, what a page restores."""

import inspect
from typing import Any

from ipykernel.ipkernel import IPythonKernel

READING = frozenset(
    {
        "complete_request",
        "inspect_request",
        "is_complete_request",
        "history_request",
        "comm_info_request",
        "kernel_info_request",
    }
)


class ReadingKernel(IPythonKernel):
    """An IPython kernel in which these requests wait for no cell, as those of widgets do not (FACTS "Kernel")."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._cells = 0

    async def execute_request(self, stream: Any, ident: Any, parent: Any) -> None:
        self._cells += 1
        try:
            await super().execute_request(stream, ident, parent)
        finally:
            self._cells -= 1

    async def shell_main(self, subshell_id: str | None, msg: Any) -> None:
        reading = self._reading_request(msg) if subshell_id is None else None
        if reading is None:
            await super().shell_main(subshell_id, msg)
            return
        idents, request = reading
        stream = self.shell_stream
        if self._supports_kernel_subshells:
            stream = self.shell_channel_thread.manager.get_subshell_to_shell_channel_socket(None)
        # The request is named as the parent, because the kernel's own belongs to the cell that runs.
        self._publish_status("busy", "shell", parent=request)
        try:
            answered = self.shell_handlers[request["header"]["msg_type"]](stream, idents, request)
            if inspect.isawaitable(answered):
                await answered
        except Exception:
            self.log.exception("a request was not answered")
        finally:
            self._publish_status_and_flush("idle", "shell", stream, parent=request)
            if self._cells:
                # A page takes the last word for the kernel's state, whatever it was about: one that was just loaded
                # would show an idle kernel beside a cell that runs. The cell's own idle is still to come.
                self._publish_status("busy", "shell")

    def _reading_request(self, msg: Any) -> tuple[list[bytes], dict[str, Any]] | None:
        """The identities and the message, where it is a request that only reads."""
        session: Any = self.session
        try:
            idents, frames = session.feed_identities(msg, copy=False)
            header = session.deserialize(frames, content=False, copy=False)["header"]
            if header["msg_type"] not in READING:
                return None
            return idents, session.deserialize(frames, content=True, copy=False)
        except Exception:  # the base class says what is wrong with it
            return None
