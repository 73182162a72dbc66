"""What the kernel does with its cells: turns and commands run, and the help while they are typed."""

import asyncio
import os
import uuid
from collections.abc import Mapping, MutableMapping
from concurrent.futures import Future
from datetime import UTC, datetime
from logging import Logger
from typing import Any, Protocol

from ozzie_kernel import completion
from ozzie_kernel.cards import Answer
from ozzie_kernel.cells import Magic, Mistake, Run, Turn
from ozzie_kernel.connect import Link, SessionChoice, connect
from ozzie_kernel.display import CellDisplay, ConsoleDisplay, Publisher, StaticDisplay, WidgetDisplay
from ozzie_kernel.gateway import Gateway
from ozzie_kernel.interrupt import interruptible
from ozzie_kernel.keyboard import Keyboard
from ozzie_kernel.magics import run_magic
from ozzie_kernel.parameters import Parameters
from ozzie_kernel.turn import CellTurn
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.markdown_source import inert_html
from ozzie_server_ext.render.page import Command, Inline, Paragraph, Strong, page_bundle, paragraph, problem_bundle
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.render.turn import new_turn
from ozzie_server_ext.render.turnview import TurnView

ANSWER_S = 5.0
"""How long the message waits for it. Nothing is worth more than that the cell runs."""


async def announcements(link: Link, cell_id: str) -> list[Paragraph]:
    """Sentences to show above the cell's turn; none where there is nothing to say."""
    said: list[Paragraph] = []
    if link.copy_of:
        said.append(
            paragraph(
                "This notebook is a copy. It goes on in a session of its own, which knows what was said in ",
                Strong(link.copy_of),
                " up to now.",
            )
        )
    if cell_id:
        try:
            found = await link.client.request("session.earlier", {"cell_id": cell_id}, timeout_s=ANSWER_S)
        except OzzieError:
            found = {}  # the message itself will say what is wrong
        earlier = found.get("earlier")
        if isinstance(earlier, dict):
            said.append(_ran_before(earlier))
    return said


def _ran_before(earlier: Mapping[str, Any]) -> Paragraph:
    turns = int(earlier["turns"])
    last = datetime.fromisoformat(str(earlier["last_at"])).astimezone()
    times = "once" if turns == 1 else f"{turns:,} times"
    return paragraph(
        f"Cells of this notebook ran {times} before, last on {last:%Y-%m-%d} at {last:%H:%M}. ",
        "Running one again asks anew, as a further turn",
        *_repeated(earlier["effects"]),
    )


def _repeated(effects: Mapping[str, int]) -> list[Inline]:
    if not effects:
        return ["; none of them changed anything, so nothing is changed twice."]
    named: list[Inline] = ["; what may be done a second time: "]
    for index, (name, count) in enumerate(effects.items()):
        named += [*([", "] if index else []), Command(name), *([f" ({count} times)"] if count > 1 else [])]
    return [*named, "."]


TYPING_WAIT_S = 2.0
"""How long a completion or an inspection may take; then it is only what the kernel knows itself."""


class FrontEnd(Publisher, Keyboard, Protocol):
    """What shows the cells of a kernel."""


class Runner:
    """One for each kernel, whose `ident` names it to the gateway. `variables` are those of its Python.

    It is the `magic.Host` of its commands.
    """

    def __init__(self, front_end: FrontEnd, ident: str, variables: MutableMapping[str, Any], log: Logger) -> None:
        self.parameters = Parameters(variables)
        self._publisher: Publisher = front_end
        self._keyboard: Keyboard = front_end
        self._ident = ident
        self._log = log
        self._gateway = Gateway(self._connect)
        self._announced = False
        self._typing: set[asyncio.Task[JsonObject]] = set()
        self._running: CellTurn | None = None

    async def prepare(self) -> None:
        """Begin to connect, and load what only the first cell needs."""
        self._gateway.begin()
        await asyncio.to_thread(_load_what_the_first_cell_needs)

    # --- cells --------------------------------------------------------------------------------------------

    async def run(
        self, cell: Turn | Run | Mistake | tuple[Magic, ...], cell_id: str, allow_stdin: bool
    ) -> dict[str, Any] | None:
        """Do what a cell says and show it; what went wrong as Jupyter's `error`, None where nothing did.

        `cell_id` is empty where the front end names none, as a console and nbclient do.
        """
        failure = await self._show(cell, cell_id, allow_stdin)
        if failure is None:
            return None
        # A front end or a terminal prints both as they are; they may quote what a provider or a user wrote.
        name, sentence = map(visible_label, failure)
        # nbclient quotes nothing but the traceback: the sentence takes its place, and a real one never does.
        error = {"ename": name, "evalue": sentence, "traceback": [sentence]}
        if _is_unattended(cell_id, allow_stdin):
            # papermill and its like look for what went wrong among a cell's outputs, and nowhere else.
            self._publisher.publish("error", error)
        return error

    def leave(self) -> "Future[None] | None":
        """Leave the running turn's cell in order, as the kernel ends; None where none runs."""
        return None if self._running is None else self._running.leave()

    async def _show(
        self, cell: Turn | Run | Mistake | tuple[Magic, ...], cell_id: str, allow_stdin: bool
    ) -> tuple[str, str] | None:
        """What went wrong as (kind, sentence)."""
        display = self._display(cell_id, allow_stdin)
        try:
            if isinstance(cell, Mistake):
                display.problem(problem_bundle(cell.sentence, ""))
                return "InputError", cell.sentence
            if isinstance(cell, Turn | Run):
                attended = not _is_unattended(cell_id, allow_stdin)
                turn = self._turn(cell, cell_id, display, attended=attended)
                return _failure(await interruptible(turn))
            for magic in cell:
                page = await interruptible(run_magic(magic.name, magic.argument, self))
                self._publisher.publish("display_data", {"data": page_bundle(page), "metadata": {}, "transient": {}})
        except OzzieError as error:
            display.problem(problem_bundle(str(error), error.hint))
            return type(error).__name__, str(error)
        except asyncio.CancelledError:
            display.problem(problem_bundle("Stopped here by you.", ""))
            return "KeyboardInterrupt", "Stopped by you."
        except Exception as error:
            # Never a traceback in a cell; the kernel's own log has it.
            self._log.exception("a cell broke")
            sentence = f"Ozzie made a mistake of its own ({type(error).__name__})."
            hint = "Run the cell again. The terminal of the server has the details."
            display.problem(problem_bundle(sentence, hint))
            return "Bug", sentence
        return None

    async def _turn(self, cell: Turn | Run, cell_id: str, display: CellDisplay, *, attended: bool) -> TurnView:
        if not self._gateway.begin().done():
            # The gateway is still starting, which takes seconds: a cell that shows nothing looks broken.
            display.show(new_turn(), datetime.now(UTC))
        link = await self.link()
        await self._announce(link, cell_id, display)
        self._running = CellTurn(link, self._gateway, display, attended=attended)
        try:
            fill = self.parameters.fill
            skill: JsonObject | None = None
            if isinstance(cell, Run):
                skill = {"name": cell.name, "words": [fill(word) for word in cell.words]}
            return await self._running.run(fill(cell.text), cell_id, skill)
        finally:
            self._running = None

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
            return WidgetDisplay(self._publisher, str(uuid.uuid4()), self._answers())
        if _is_unattended(cell_id, allow_stdin):
            return StaticDisplay(self._publisher)
        return ConsoleDisplay(self._publisher, self._keyboard, self._gateway.ask)

    def _answers(self) -> Answer:
        """Passes on, from any thread, what a person answered. What the gateway has against it, its log has too."""
        loop = asyncio.get_running_loop()

        def send(method: str, params: JsonObject) -> None:
            asyncio.run_coroutine_threadsafe(self._gateway.ask(method, params), loop).add_done_callback(self._told)

        return send

    def _told(self, done: "Future[JsonObject]") -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._log.warning("an answer did not count: %s", error)

    # --- the gateway --------------------------------------------------------------------------------------

    async def _connect(self, choice: SessionChoice) -> Link:
        return await connect(self._ident, _session_name(), choice=choice)

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, *, as_user: bool = False) -> JsonObject:
        """See `magic.Host`."""
        return await self._gateway.ask(method, params, as_user=as_user)

    async def link(self) -> Link:
        """See `magic.Host`."""
        return await self._gateway.link()

    async def switch(self, choice: SessionChoice) -> Link:
        """See `magic.Host`."""
        return await self._gateway.switch(choice)

    # --- help while typing --------------------------------------------------------------------------------

    async def complete(self, code: str, cursor: int) -> JsonObject | None:
        """Jupyter's `complete_reply`; None where the place belongs to Python."""
        start, line, at = completion.line_at(code, cursor)
        is_first = not code[:start].strip()
        if code.lstrip().startswith("%%python") and not is_first:
            return None
        own = completion.own_matches(line[:at], is_first=is_first)
        if own is not None:
            matches = [{"text": text, "kind": "magic"} for text in own[1]]
            return completion.completion_reply(start + own[0], cursor, matches)
        if completion.asks_gateway(line[:at]):
            found = await self._ask_while_typing("complete", line, at)
            if found.get("matches"):
                return completion.shifted(found, start)
        return completion.completion_reply(cursor, cursor, [])

    async def inspect(self, code: str, cursor: int) -> JsonObject | None:
        """Jupyter's `inspect_reply`; None where the place belongs to Python."""
        start, line, at = completion.line_at(code, cursor)
        if code.lstrip().startswith("%%python") and code[:start].strip():
            return None
        own = completion.own_page(line)
        if own is None or not completion.is_on_name(line, at):
            card = (await self._ask_while_typing("inspect", line, at)).get("card")
            if isinstance(card, dict):
                return completion.inspection_reply(completion.card_page(card))
        return completion.inspection_reply(own)

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


def _session_name() -> str:
    return os.environ.get("JPY_SESSION_NAME", "")


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
