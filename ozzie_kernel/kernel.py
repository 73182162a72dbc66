"""Receives from Jupyter what the user runs, completes or inspects, and hands cells to the runner.

This module delays the kernel's readiness, so it imports nothing heavy that only a cell needs. The runner is loaded
after the first `kernel_info_reply`, a second after the start, or once it is needed, whichever comes first.
"""

import asyncio
import contextlib
import inspect
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from logging import Logger
from typing import TYPE_CHECKING, Any, ClassVar

from ipykernel.ipkernel import IPythonKernel
from traitlets import Type

from ozzie_kernel.cells import Message, Python, Run, parse
from ozzie_kernel.front_end import KernelFrontEnd
from ozzie_kernel.history import OzzieHistory, OzzieShell, history_text
from ozzie_kernel.interrupt import interruptible

if TYPE_CHECKING:
    from ozzie_kernel.runner import CellRunner


READ_REQUESTS = frozenset(
    {
        "complete_request",
        "inspect_request",
        "is_complete_request",
        "history_request",
        "comm_info_request",
        "kernel_info_request",
        "ozzie_expressions_request",
    }
)


class ReadingKernel(IPythonKernel):
    """An IPython kernel that answers `READ_REQUESTS` while a cell runs, as it answers those of widgets."""

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


PREPARE_AFTER_S = 1.0
MAX_REASON = 300
LEAVE_S = 1.0
"""How long a stopping kernel waits for its cell's final output."""

_LEAVE = frozenset({"exit", "quit"})


class OzzieKernel(ReadingKernel):
    """Cells are agent turns; `%%python` cells run in the IPython that this kernel also is."""

    shell_class = Type(OzzieShell)
    implementation = "ozzie"
    implementation_version = version("jupyter-ozzie")
    # Markdown, or Lab would highlight the words of a sentence as code.
    language_info: ClassVar[dict[str, Any]] = {
        "name": "markdown",
        "mimetype": "text/markdown",
        "file_extension": ".md",
        "pygments_lexer": "markdown",
        "codemirror_mode": "markdown",
    }
    help_links: ClassVar[list[dict[str, str]]] = []

    @property
    def banner(self) -> str:
        return "Ozzie: write a message and run it. %help lists the commands.\n"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._loading: Future[CellRunner] | None = None
        self._prepared = False
        self.shell_handlers["ozzie_expressions_request"] = self.expressions_request

    # --- the runner ---------------------------------------------------------------------------------------

    def start(self) -> None:
        super().start()
        # For a front end that sends no request before its first cell.
        self.io_loop.call_later(PREPARE_AFTER_S, self._prepare)

    async def kernel_info_request(self, stream: Any, ident: Any, parent: Any) -> None:
        await super().kernel_info_request(stream, ident, parent)
        # The front end has its answer. Now load everything and connect, so that the first cell need not wait; an
        # earlier cell waits only for what it needs. The control channel, which may have sent this request, has its own
        # thread and loop.
        if not self._prepared:
            self.io_loop.add_callback(self._prepare)

    async def _prepare(self) -> None:
        if not self._prepared:
            self._prepared = True
            with contextlib.suppress(Exception):  # the first cell reports it
                await (await self._loaded()).prepare()

    async def _loaded(self) -> "CellRunner":
        """Return the runner, imported in a thread. Raises whatever the import raises; the next call tries again."""
        loading = self._loading
        if loading is None:
            shell: Any = self.shell
            importer = ThreadPoolExecutor(1)
            loading = self._loading = importer.submit(_new_runner, self, self.ident, shell.user_ns, self.log)
            importer.shutdown(wait=False)
        try:
            # Shielded: one cell's interrupt does not stop the loading.
            return await asyncio.shield(asyncio.wrap_future(loading))
        except Exception:
            if self._loading is loading:
                self._loading = None
            raise

    # --- execution ----------------------------------------------------------------------------------------

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, Any] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: dict[str, Any] | None = None,
        cell_id: str | None = None,
    ) -> dict[str, Any]:
        cell = parse(code)
        shell: Any = self.shell
        history: OzzieHistory = shell.history_manager
        if isinstance(cell, Python) or silent or not code.strip():
            source = cell.code if isinstance(cell, Python) else ""  # a silent or empty cell is no message
            with history.typed(code):
                return await super().do_execute(
                    source, silent, store_history, user_expressions, allow_stdin, cell_meta=cell_meta, cell_id=cell_id
                )
        count = shell.execution_count
        if store_history:
            history.store_inputs(count, history_text(code))
            shell.execution_count += 1
        done = {"status": "ok", "execution_count": count, "payload": [], "user_expressions": {}}
        is_console = allow_stdin and not cell_id
        if code.strip() in _LEAVE and is_console:
            return {**done, "payload": [{"source": "ask_exit", "keepkernel": False}]}
        try:
            runner = await interruptible(self._loaded())
        except asyncio.CancelledError:
            error = self._publish_error("KeyboardInterrupt", "Stopped by you.")
        except Exception as failure:
            self.log.exception("what cells need could not be loaded")
            reason = " ".join(f"{type(failure).__name__}: {failure}".split())[:MAX_REASON]
            error = self._publish_error(
                "Unavailable",
                f"Ozzie could not be loaded ({reason}). The terminal of the server has the details. "
                "Fix this and run the cell again; your message is kept.",
            )
        else:
            if isinstance(cell, Message | Run):
                # By this the gateway finds what the page says of the run: whether a person typed it (confirmations.py).
                request: Any = self.get_parent("shell")
                cell = replace(cell, more={**cell.more, "execution": request["header"]["msg_id"]})
            error = await runner.run(cell, cell_id or "", allow_stdin)
        return done if error is None else {"status": "error", "execution_count": count, **error}

    # A plain method in the base class, which awaits the result if needed.
    async def do_shutdown(self, restart: bool) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Finish the running turn's cell, which must not look alive for ever; the turn goes on in the gateway."""
        if self._loading is not None and self._loading.done() and self._loading.exception() is None:
            leaving = self._loading.result().leave()
            if leaving is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.wrap_future(leaving), LEAVE_S)
        return super().do_shutdown(restart)

    def _publish_error(self, name: str, sentence: str) -> dict[str, Any]:
        """Publish an error without any renderer; return it for the reply."""
        error = {"ename": name, "evalue": sentence, "traceback": [sentence]}
        KernelFrontEnd(self).publish("error", error)
        return error

    # --- help while typing --------------------------------------------------------------------------------

    # Plain methods in the base class, which awaits their results if needed.
    async def do_complete(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, code: str, cursor_pos: int | None
    ) -> dict[str, Any]:
        cursor = len(code) if cursor_pos is None else cursor_pos
        reply = await (await self._loaded()).complete(code, cursor)
        return super().do_complete(code, cursor_pos) if reply is None else reply

    async def do_inspect(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()
    ) -> dict[str, Any]:
        reply = await (await self._loaded()).inspect(code, cursor_pos)
        return super().do_inspect(code, cursor_pos, detail_level, omit_sections) if reply is None else reply

    async def expressions_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Evaluate expressions that only read, as an `execute_request` without code does, even while a cell runs: the
        gateway looks at variables for the turn of this very cell."""
        shell: Any = self.shell
        session: Any = self.session
        values = shell.user_expressions(parent["content"].get("user_expressions") or {})
        content = {"status": "ok", "user_expressions": values}
        session.send(stream, "ozzie_expressions_reply", content, parent, ident=ident)

    def do_history(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Replace 0, IPython's number of the current session in a range, by its real number."""
        reply = super().do_history(*args, **kwargs)
        shell: Any = self.shell
        number = shell.history_manager.session_number
        reply["history"] = [(session or number, line, typed) for session, line, typed in reply["history"]]
        return reply

    def do_is_complete(self, code: str) -> dict[str, Any]:
        """A message ends with its first line, unless that ends with a backslash; a `%%` cell ends with an empty
        line."""
        if (code.startswith("%%") and not code.endswith("\n\n")) or code.endswith("\\"):
            return {"status": "incomplete", "indent": ""}
        return {"status": "complete"}


def _new_runner(kernel: OzzieKernel, ident: str, variables: dict[str, Any], log: Logger) -> "CellRunner":
    from ozzie_kernel.runner import CellRunner

    return CellRunner(KernelFrontEnd(kernel), ident, variables, log)
