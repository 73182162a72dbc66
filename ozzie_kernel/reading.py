"""Answers completions, inspections and other requests that only read while a cell runs."""

import inspect
from typing import Any

from ipykernel.ipkernel import IPythonKernel

READ_REQUESTS = frozenset(
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
    """An IPython kernel that answers these requests while a cell runs, as it answers those of widgets."""

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
        # With the request as the parent, because the kernel's own parent is the running cell.
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
                # A page takes the last status for the kernel's state, whatever it was about, and would show an idle
                # kernel beside a running cell. The cell's own idle is still to come.
                self._publish_status("busy", "shell")

    def _reading_request(self, msg: Any) -> tuple[list[bytes], dict[str, Any]] | None:
        """Return identities and message if it is a request that only reads."""
        session: Any = self.session
        try:
            idents, frames = session.feed_identities(msg, copy=False)
            header = session.deserialize(frames, content=False, copy=False)["header"]
            if header["msg_type"] not in READ_REQUESTS:
                return None
            return idents, session.deserialize(frames, content=True, copy=False)
        except Exception:  # the base class reports the error
            return None
