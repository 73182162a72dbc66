"""The Jupyter surface: execute, complete, interrupt, shut down. Everything else is the gateway's."""

import asyncio
import os
import signal
import threading
import uuid
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, ClassVar, TypeVar

from ipykernel.ipkernel import IPythonKernel

from ozzie_kernel.cells import Magic, Mistake, Python, Turn, parse
from ozzie_kernel.connect import Link, connect
from ozzie_kernel.display import ConsoleDisplay, StaticDisplay, TurnDisplay, WidgetDisplay
from ozzie_kernel.magics import MAGICS, run_magic
from ozzie_kernel.turn import CellTurn
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.render.markdown import inert_html
from ozzie_server_ext.render.problem import problem_bundle
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.render.turn import TurnView, new_turn

T = TypeVar("T")


class OzzieKernel(IPythonKernel):
    """Cells are agent turns; `%%python` cells run in the IPython that this kernel also is."""

    implementation = "ozzie"
    implementation_version = version("jupyter-ozzie")
    # Markdown, or Lab would colour the words of a sentence as code (UX §4).
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
        self._connecting: asyncio.Task[Link] | None = None

    def start(self) -> None:
        super().start()
        # The first cell should find the gateway connected and the widgets imported.
        self.io_loop.add_callback(self._prepare)

    async def _prepare(self) -> None:
        self._begin_to_connect()
        await asyncio.to_thread(_load_what_the_first_cell_needs)

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
        if isinstance(cell, Python) or silent or not code.strip():
            source = cell.code if isinstance(cell, Python) else ""
            return await super().do_execute(
                source, silent, store_history, user_expressions, allow_stdin, cell_meta=cell_meta, cell_id=cell_id
            )
        shell: Any = self.shell
        count = shell.execution_count
        if store_history:
            shell.history_manager.store_inputs(count, code)
            shell.execution_count += 1
        failure = await self._run_cell(cell, cell_id or "", allow_stdin)
        if failure is None:
            return {"status": "ok", "execution_count": count, "payload": [], "user_expressions": {}}
        # A front end or a terminal prints both as they are; they may quote what a provider or a user wrote.
        name, sentence = map(visible_label, failure)
        return {"status": "error", "execution_count": count, "ename": name, "evalue": sentence, "traceback": []}

    async def _run_cell(
        self, cell: Turn | Mistake | tuple[Magic, ...], cell_id: str, allow_stdin: bool
    ) -> tuple[str, str] | None:
        """Do what the cell says and show it; what went wrong as (kind, sentence), None where nothing did."""
        display = self._display(cell_id, allow_stdin)
        try:
            if isinstance(cell, Mistake):
                display.problem(problem_bundle(cell.sentence, ""))
                return "InputError", cell.sentence
            if isinstance(cell, Turn):
                return _failure(await self._interruptible(self._turn(cell.text, cell_id, display)))
            for magic in cell:
                self._show_markdown(await self._interruptible(run_magic(magic.name, magic.argument, self._link)))
        except OzzieError as error:
            display.problem(problem_bundle(str(error), error.hint))
            return type(error).__name__, str(error)
        except asyncio.CancelledError:
            display.problem(problem_bundle("Stopped here by you.", ""))
            return "KeyboardInterrupt", "Stopped by you."
        except Exception as error:
            # Never a traceback in a cell; the kernel's own log has it.
            self.log.exception("a cell broke")
            sentence = f"Ozzie made a mistake of its own ({type(error).__name__})."
            hint = "Run the cell again. The terminal of the server has the details."
            display.problem(problem_bundle(sentence, hint))
            return "Bug", sentence
        return None

    async def _turn(self, text: str, cell_id: str, display: TurnDisplay) -> TurnView:
        if not self._begin_to_connect().done():
            # The gateway is still starting, which takes seconds: a cell that shows nothing looks broken.
            display.show(new_turn(), datetime.now(UTC))
        return await CellTurn(await self._link(), self._link, display).run(text, cell_id)

    def _display(self, cell_id: str, allow_stdin: bool) -> TurnDisplay:
        """Lab and Notebook say which cell runs; a console does not but has a keyboard; nbclient has neither."""
        if cell_id:
            return WidgetDisplay(self, str(uuid.uuid4()))
        return ConsoleDisplay(self) if allow_stdin else StaticDisplay(self)

    async def _interruptible(self, work: Awaitable[T]) -> T:
        """Await `work`, which the kernel's interrupt cancels."""
        task = asyncio.ensure_future(work)
        with _on_interrupt(task.cancel):
            return await task

    # --- the gateway --------------------------------------------------------------------------------------

    def _begin_to_connect(self) -> "asyncio.Task[Link]":
        task = self._connecting
        broken = task is not None and task.done() and (task.cancelled() or task.exception() is not None)
        if task is None or broken or (task.done() and task.result().client.closed):
            name = os.environ.get("JPY_SESSION_NAME", "")
            task = self._connecting = asyncio.ensure_future(connect(self.ident, name))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # asked for when it is needed
        return task

    async def _link(self) -> Link:
        """The connected gateway. Raises Unavailable."""
        return await asyncio.shield(self._begin_to_connect())

    # --- output -------------------------------------------------------------------------------------------

    def publish(self, msg_type: str, content: dict[str, Any]) -> None:
        """Send an output message of the running cell."""
        self.send_response(self.iopub_socket, msg_type, content)

    def _show_markdown(self, markdown: str) -> None:
        data = {"text/markdown": markdown, "text/plain": markdown}
        self.publish("display_data", {"data": data, "metadata": {}, "transient": {}})

    # --- help while typing --------------------------------------------------------------------------------

    def do_complete(self, code: str, cursor_pos: int | None) -> dict[str, Any]:
        if code.lstrip().startswith("%%python"):
            return super().do_complete(code, cursor_pos)
        cursor = len(code) if cursor_pos is None else cursor_pos
        start = code.rfind("\n", 0, cursor) + 1
        typed = code[start:cursor]
        names = [f"%{name}" for name in MAGICS] + ["%%python"]
        matches = [name for name in names if name.startswith(typed)] if typed.startswith("%") else []
        return {
            "status": "ok",
            "matches": matches,
            "cursor_start": start if matches else cursor,
            "cursor_end": cursor,
            "metadata": {},
        }

    def do_inspect(self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()) -> dict[str, Any]:
        if code.lstrip().startswith("%%python"):
            return super().do_inspect(code, cursor_pos, detail_level, omit_sections)
        word = code.strip().split()[0].lstrip("%") if code.strip().startswith("%") else ""
        magic = MAGICS.get(word)
        data = {"text/plain": f"{magic.usage}\n{magic.does}"} if magic else {}
        return {"status": "ok", "found": magic is not None, "data": data, "metadata": {}}

    def do_is_complete(self, code: str) -> dict[str, Any]:
        """A message is complete at its first line's end; a `%%` cell ends with an empty line."""
        if code.startswith("%%") and not code.endswith("\n\n"):
            return {"status": "incomplete", "indent": ""}
        return {"status": "complete"}


def _load_what_the_first_cell_needs() -> None:
    """What is imported late, so that the kernel is ready early: widgets and the Markdown parser, 0.2 s in all."""
    import ipywidgets  # noqa: F401

    inert_html("")


def _failure(view: TurnView) -> tuple[str, str] | None:
    if view.status == "Stopped":
        return "KeyboardInterrupt", "Stopped by you."
    if view.error is not None:
        return view.error.code, view.error.message
    return None


@contextmanager
def _on_interrupt(stop: Any) -> Iterator[None]:
    """Call `stop` on the loop at SIGINT: ipykernel's own handler does not wake a loop that waits (FACTS "Kernel")."""
    if threading.current_thread() is not threading.main_thread():
        yield  # a subshell: signals reach the main thread only
        return
    loop = asyncio.get_running_loop()
    before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(stop))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
