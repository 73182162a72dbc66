"""The Jupyter surface: execute, complete, inspect, interrupt. Everything else is the gateway's."""

import asyncio
import contextlib
import os
import signal
import threading
import uuid
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, ClassVar, TypeVar

from traitlets import Type

from ozzie_kernel import completion, inspection
from ozzie_kernel.announcements import announcements
from ozzie_kernel.cells import Magic, Mistake, Python, Turn, parse
from ozzie_kernel.connect import Link, SessionChoice, connect
from ozzie_kernel.display import CellDisplay, ConsoleDisplay, StaticDisplay, WidgetDisplay
from ozzie_kernel.gateway import Gateway
from ozzie_kernel.history import OzzieHistory, OzzieShell, remembered
from ozzie_kernel.magics import run_magic
from ozzie_kernel.parameters import Parameters
from ozzie_kernel.reading import ReadingKernel
from ozzie_kernel.turn import CellTurn
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.markdown import inert_html
from ozzie_server_ext.render.page import page_bundle
from ozzie_server_ext.render.problem import problem_bundle
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.render.turn import TurnView, new_turn

T = TypeVar("T")

PREPARE_AFTER_S = 0.1
TYPING_WAIT_S = 2.0
"""How long a completion or an inspection may take; then it is only what the kernel knows itself."""

LEAVE_S = 1.0
"""How long a kernel that is told to end waits until its cell is left in order."""

_LEAVE = frozenset({"exit", "quit"})


class OzzieKernel(ReadingKernel):
    """Cells are agent turns; `%%python` cells run in the IPython that this kernel also is."""

    shell_class = Type(OzzieShell)
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
        self._gateway = Gateway(self._connect)
        self._announced = False
        self._typing: set[asyncio.Task[JsonObject]] = set()
        self._running: CellTurn | None = None
        shell: Any = self.shell
        self.parameters = Parameters(shell.user_ns)

    def start(self) -> None:
        super().start()
        # The first cell should find the gateway connected and the widgets imported; but who waits for the kernel is
        # told first that it is ready, and a cell that comes sooner begins with this by itself.
        self.io_loop.call_later(PREPARE_AFTER_S, self._prepare)

    async def _prepare(self) -> None:
        self._gateway.begin()
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
        shell: Any = self.shell
        history: OzzieHistory = shell.history_manager
        if isinstance(cell, Python) or silent or not code.strip():
            source = cell.code if isinstance(cell, Python) else ""
            with history.typed(code):
                return await super().do_execute(
                    source, silent, store_history, user_expressions, allow_stdin, cell_meta=cell_meta, cell_id=cell_id
                )
        count = shell.execution_count
        if store_history:
            history.store_inputs(count, remembered(code))
            shell.execution_count += 1
        done = {"status": "ok", "execution_count": count, "payload": [], "user_expressions": {}}
        if code.strip() in _LEAVE and _is_console(cell_id, allow_stdin):
            return {**done, "payload": [{"source": "ask_exit", "keepkernel": False}]}
        failure = await self._run_cell(cell, cell_id or "", allow_stdin)
        if failure is None:
            return done
        # A front end or a terminal prints both as they are; they may quote what a provider or a user wrote.
        name, sentence = map(visible_label, failure)
        # nbclient quotes nothing but the traceback: the sentence takes its place, and a real one never does.
        error = {"ename": name, "evalue": sentence, "traceback": [sentence]}
        if _is_unattended(cell_id, allow_stdin):
            # papermill and its like look for what went wrong among a cell's outputs, and nowhere else.
            self.publish("error", error)
        return {"status": "error", "execution_count": count, **error}

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
                return _failure(
                    await self._interruptible(
                        self._turn(
                            self.parameters.fill(cell.text),
                            cell_id,
                            display,
                            attended=not _is_unattended(cell_id, allow_stdin),
                        )
                    )
                )
            for magic in cell:
                page = await self._interruptible(run_magic(magic.name, magic.argument, self))
                self.publish("display_data", {"data": page_bundle(page), "metadata": {}, "transient": {}})
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

    async def _turn(self, text: str, cell_id: str, display: CellDisplay, *, attended: bool) -> TurnView:
        if not self._gateway.begin().done():
            # The gateway is still starting, which takes seconds: a cell that shows nothing looks broken.
            display.show(new_turn(), datetime.now(UTC))
        link = await self.link()
        await self._announce(link, cell_id, display)
        self._running = CellTurn(link, self._gateway, display, attended=attended)
        try:
            return await self._running.run(text, cell_id)
        finally:
            self._running = None

    # The base class has it as a plain method, and awaits what it gives where it can be awaited.
    async def do_shutdown(self, restart: bool) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The turn that runs goes on in the gateway; its cell says so, instead of looking alive for ever."""
        if (turn := self._running) is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(turn.leave()), LEAVE_S)
        return super().do_shutdown(restart)

    async def _announce(self, link: Link, cell_id: str, display: CellDisplay) -> None:
        """Before the first message of this kernel: what its notebook's cells did before it was started."""
        if self._announced:
            return
        self._announced = True
        for said in await announcements(link, cell_id):
            display.note(said)

    def _display(self, cell_id: str, allow_stdin: bool) -> CellDisplay:
        """Lab and Notebook say which cell runs; a console does not but has a keyboard; nbclient has neither."""
        if cell_id:
            return WidgetDisplay(self, str(uuid.uuid4()))
        return StaticDisplay(self) if _is_unattended(cell_id, allow_stdin) else ConsoleDisplay(self)

    async def _interruptible(self, work: Awaitable[T]) -> T:
        """Await `work`, which the kernel's interrupt cancels."""
        task = asyncio.ensure_future(work)
        with _on_interrupt(task.cancel):
            return await task

    # --- the gateway --------------------------------------------------------------------------------------

    async def _connect(self, choice: SessionChoice) -> Link:
        return await connect(self.ident, _session_name(), choice=choice)

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, *, as_user: bool = False) -> JsonObject:
        """See `magic.Host`."""
        return await self._gateway.ask(method, params, as_user=as_user)

    async def link(self) -> Link:
        """See `magic.Host`."""
        return await self._gateway.link()

    async def switch(self, choice: SessionChoice) -> Link:
        """See `magic.Host`."""
        return await self._gateway.switch(choice)

    # --- output -------------------------------------------------------------------------------------------

    def publish(self, msg_type: str, content: dict[str, Any]) -> None:
        """Send an output message of the running cell."""
        self.send_response(self.iopub_socket, msg_type, content)

    # --- help while typing --------------------------------------------------------------------------------

    # The base class has these two as plain methods, and awaits what they give where it can be awaited.
    async def do_complete(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, code: str, cursor_pos: int | None
    ) -> dict[str, Any]:
        cursor = len(code) if cursor_pos is None else cursor_pos
        start, line, at = completion.line_at(code, cursor)
        is_first = not code[:start].strip()
        if code.lstrip().startswith("%%python") and not is_first:
            return super().do_complete(code, cursor_pos)
        own = completion.own_matches(line[:at], is_first=is_first)
        if own is not None:
            matches = [{"text": text, "kind": "magic"} for text in own[1]]
            return completion.completion_reply(start + own[0], cursor, matches)
        if completion.asks_gateway(line[:at]):
            found = await self._ask_while_typing("complete", line, at)
            if found.get("matches"):
                return completion.shifted(found, start)
        return completion.completion_reply(cursor, cursor, [])

    async def do_inspect(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()
    ) -> dict[str, Any]:
        start, line, at = completion.line_at(code, cursor_pos)
        if code.lstrip().startswith("%%python") and code[:start].strip():
            return super().do_inspect(code, cursor_pos, detail_level, omit_sections)
        own = inspection.own_page(line)
        if own is None or not inspection.is_on_name(line, at):
            card = (await self._ask_while_typing("inspect", line, at)).get("card")
            if isinstance(card, dict):
                return inspection.inspection_reply(inspection.card_page(card))
        return inspection.inspection_reply(own)

    async def _ask_while_typing(self, method: str, line: str, at: int) -> JsonObject:
        """The gateway's answer about a line; empty where none comes in time. Nothing is started for it."""
        asked: JsonObject = {"text": line, "cursor": at}
        work = self._gateway.ask_in_passing(method, asked, as_user=completion.names_sessions(line))
        asking = asyncio.create_task(work)
        self._typing.add(asking)
        asking.add_done_callback(self._typing.discard)
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait({asking}, timeout=TYPING_WAIT_S)
        if not done:
            asking.cancel()  # and not awaited: to let go of a silent gateway takes seconds
        return asking.result() if done and asking.exception() is None else {}

    def do_history(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """IPython calls the session that goes on 0 in a range and by its number in all else: here it has its number."""
        reply = super().do_history(*args, **kwargs)
        shell: Any = self.shell
        number = shell.history_manager.session_number
        reply["history"] = [(session or number, line, typed) for session, line, typed in reply["history"]]
        return reply

    def do_is_complete(self, code: str) -> dict[str, Any]:
        """A message is complete at its first line's end, unless that ends with a backslash; a `%%` cell ends with an
        empty line."""
        if (code.startswith("%%") and not code.endswith("\n\n")) or code.endswith("\\"):
            return {"status": "incomplete", "indent": ""}
        return {"status": "complete"}


def _session_name() -> str:
    return os.environ.get("JPY_SESSION_NAME", "")


def _is_console(cell_id: str | None, allow_stdin: bool) -> bool:
    return not cell_id and allow_stdin


def _is_unattended(cell_id: str | None, allow_stdin: bool) -> bool:
    """nbclient and what is built on it: nobody is there to watch, or to be asked."""
    return not cell_id and not allow_stdin


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
