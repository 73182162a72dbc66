"""Runs a cell's message, skill, replay or magics, and helps while typing."""

import asyncio
import os
import uuid
from collections.abc import Mapping, MutableMapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from logging import Logger
from typing import Any, Protocol

from ozzie_kernel import completion, replay
from ozzie_kernel.cards import SendAnswer
from ozzie_kernel.cells import Message, Mistake, OwnCell, Replay, Run
from ozzie_kernel.cellturn import CellTurn
from ozzie_kernel.connect import Link, SessionChoice, connect
from ozzie_kernel.display import CellDisplay, ConsoleDisplay, Publisher, StaticDisplay, WidgetDisplay
from ozzie_kernel.gateway import GatewayConnection
from ozzie_kernel.interrupt import interruptible
from ozzie_kernel.keyboard import Keyboard
from ozzie_kernel.magics import run_magic
from ozzie_kernel.parameters import Parameters
from ozzie_kernel.player import Players
from ozzie_kernel.stepping import Stepping
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.markdown_source import inert_html
from ozzie_server_ext.render.page import (
    Block,
    Command,
    Inline,
    Paragraph,
    Strong,
    page_bundle,
    paragraph,
    problem_bundle,
)
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.render.turnfold import new_turn
from ozzie_server_ext.render.turnview import TurnView

EARLIER_S = 5.0
"""How long a cell waits to hear of its earlier runs: running it matters more."""


async def announcements(link: Link, cell_id: str) -> list[Paragraph]:
    """Return notes to show above the cell's turn."""
    notes: list[Paragraph] = []
    if link.copy_of:
        notes.append(
            paragraph(
                "This notebook is a copy. It has its own session, with all messages of ",
                Strong(link.copy_of),
                " up to now.",
            )
        )
    if cell_id:
        try:
            found = await link.client.request("session.earlier", {"cell_id": cell_id}, timeout_s=EARLIER_S)
        except OzzieError:
            found = {}  # sending the message will report the error
        earlier = found.get("earlier")
        if isinstance(earlier, dict):
            notes.append(_ran_before(earlier))
    return notes


def _ran_before(earlier: Mapping[str, Any]) -> Paragraph:
    turns = int(earlier["turns"])
    last = datetime.fromisoformat(str(earlier["last_at"])).astimezone()
    times = "once" if turns == 1 else f"{turns:,} times"
    return paragraph(
        f"Cells of this notebook ran {times} before, last on {last:%Y-%m-%d} at {last:%H:%M}. ",
        "Running one again makes a new turn",
        *_repeated(earlier["effects"]),
    )


def _repeated(effects: Mapping[str, int]) -> list[Inline]:
    if not effects:
        return ["; none of them changed anything."]
    named: list[Inline] = ["; these actions may be repeated: "]
    for index, (name, count) in enumerate(effects.items()):
        named += [*([", "] if index else []), Command(name), *([f" ({count} times)"] if count > 1 else [])]
    return [*named, "."]


TYPING_WAIT_S = 2.0
"""How long the gateway may take for a completion or inspection; then the kernel's own must do."""


class FrontEnd(Publisher, Keyboard, Protocol):
    """The front end that shows a kernel's cells."""


STOPPED = "KeyboardInterrupt"
"""The failure of a cell that a person stopped."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a cell ended: with a kind of `failure` and a sentence, visible in any terminal, or without; `view` is its
    turn, if it had one."""

    failure: str = ""
    sentence: str = ""
    view: TurnView | None = None

    @classmethod
    def of(cls, view: TurnView) -> "Ended":
        """Return how a turn ended."""
        if view.status == "Stopped":
            return cls(STOPPED, "Stopped by you.", view)
        if view.error is None:
            return cls(view=view)
        return cls(visible_label(view.error.code), visible_label(view.error.message), view)


class CellRunner:
    """Runs a kernel's cells. `ident` names the kernel to the gateway; `variables` are those of its Python.

    It is the `magic.Host` of its commands.
    """

    def __init__(self, front_end: FrontEnd, ident: str, variables: MutableMapping[str, Any], log: Logger) -> None:
        self.parameters = Parameters(variables)
        self._publisher: Publisher = front_end
        self._keyboard: Keyboard = front_end
        self._ident = ident
        self._log = log
        self._gateway = GatewayConnection(self._connect)
        self.link, self.ask, self.switch = self._gateway.link, self._gateway.ask, self._gateway.switch
        self._announced = False
        self._typing: set[asyncio.Task[JsonObject]] = set()
        self._running: CellTurn | None = None
        self._players = Players(front_end, log)

    async def prepare(self) -> None:
        """Start connecting, and load what only the first cell needs."""
        self._gateway.begin()
        await asyncio.to_thread(_load_what_the_first_cell_needs)

    # --- cells --------------------------------------------------------------------------------------------

    async def run(self, cell: OwnCell, cell_id: str, allow_stdin: bool) -> dict[str, Any] | None:
        """Run a cell, with the values of its parameters, and show its output; return the failure as Jupyter's `error`,
        or None.

        `cell_id` is empty if the front end sends none, as a console and nbclient do.
        """
        ended = await self.show(self._filled(cell), cell_id, allow_stdin)
        if not ended.failure:
            return None
        # nbclient shows only the traceback: put the sentence there, and never a real traceback.
        error = {"ename": ended.failure, "evalue": ended.sentence, "traceback": [ended.sentence]}
        if _is_unattended(cell_id, allow_stdin):
            # papermill and the like look for errors among a cell's outputs only.
            self._publisher.publish("error", error)
        return error

    def _filled(self, cell: OwnCell) -> OwnCell:
        fill = self.parameters.fill
        if isinstance(cell, Message):
            return replace(cell, text=fill(cell.text))
        if isinstance(cell, Run):
            return replace(cell, text=fill(cell.text), words=tuple(map(fill, cell.words)))
        return cell

    def leave(self) -> "Future[None] | None":
        """Finish the running turn's cell, as the kernel stops; None if no turn runs."""
        return None if self._running is None else self._running.leave()

    async def show(self, cell: OwnCell, cell_id: str, allow_stdin: bool) -> Ended:
        """Run a cell and show its output; return how it ended."""
        display = self._display(cell_id, allow_stdin)
        try:
            if isinstance(cell, Mistake):
                display.problem(problem_bundle(cell.sentence, ""))
                return Ended("InputError", cell.sentence)
            if isinstance(cell, Message | Run):
                attended = not _is_unattended(cell_id, allow_stdin)
                turn = self._turn(cell, cell_id, display, attended=attended)
                return Ended.of(await interruptible(turn))
            if isinstance(cell, Replay):
                await interruptible(self._replay(cell.argument, cell_id, allow_stdin))
                return Ended()
            for magic in cell:
                page = await interruptible(run_magic(magic.name, magic.argument, self))
                self._put(page)
        except OzzieError as error:
            display.problem(problem_bundle(str(error), error.hint))
            return Ended(type(error).__name__, visible_label(str(error)))
        except asyncio.CancelledError:
            display.problem(problem_bundle("Stopped here by you.", ""))
            return Ended(STOPPED, "Stopped by you.")
        except Exception as error:
            # Never show a traceback in a cell; the kernel's own log has it.
            self._log.exception("a cell broke")
            sentence = f"Ozzie made a mistake of its own ({type(error).__name__})."
            hint = "Run the cell again. The terminal of the server has the details."
            display.problem(problem_bundle(sentence, hint))
            return Ended("Bug", sentence)
        return Ended()

    async def _turn(self, cell: Message | Run, cell_id: str, display: CellDisplay, *, attended: bool) -> TurnView:
        if not self._gateway.begin().done():
            # The gateway is still starting, which takes seconds: an empty cell would look broken.
            display.show(new_turn(), datetime.now(UTC))
        link = await self.link()
        await self._announce(link, cell_id, display)
        self._running = CellTurn(link, self._gateway, display, attended=attended)
        try:
            if isinstance(cell, Message):
                return await self._running.run(cell.text, cell_id, cell.more)
            skill: JsonObject = {"name": cell.name, "words": [*cell.words]}
            return await self._running.run(cell.text, cell_id, {**cell.more, "skill": skill})
        finally:
            self._running = None

    async def _replay(self, argument: str, cell_id: str, allow_stdin: bool) -> None:
        """Step through a recorded session where somebody watches; else tell of it, or of a check."""
        wanted = replay.parse(argument)
        if wanted.is_check:
            self._put(await replay.check(wanted, self))
            return
        recording = await replay.recording(wanted, self)
        if _is_unattended(cell_id, allow_stdin):
            self._put(replay.overview(recording))
        elif cell_id:
            await self._players.play(recording, wanted.turn or 1, cell_id)
        else:
            await Stepping(recording, self._keyboard, self._say).run(wanted.turn or 1)

    def _put(self, page: Sequence[Block]) -> None:
        self._publisher.publish("display_data", {"data": page_bundle(page), "metadata": {}, "transient": {}})

    def _say(self, text: str) -> None:
        self._publisher.publish("stream", {"name": "stdout", "text": text})

    async def _announce(self, link: Link, cell_id: str, display: CellDisplay) -> None:
        """Before this kernel's first message, say what the notebook's cells did earlier."""
        if self._announced:
            return
        self._announced = True
        for note in await announcements(link, cell_id):
            display.note(note)

    def _display(self, cell_id: str, allow_stdin: bool) -> CellDisplay:
        """Choose the display: Lab sends a cell id, a console has a keyboard, nbclient has neither."""
        if cell_id:
            return WidgetDisplay(self._publisher, str(uuid.uuid4()), self._answers())
        if _is_unattended(cell_id, allow_stdin):
            return StaticDisplay(self._publisher)
        return ConsoleDisplay(self._publisher, self._keyboard, self._gateway.ask)

    def _answers(self) -> SendAnswer:
        """Return a function that passes a person's answer on, from any thread, and logs the gateway's objection."""
        loop = asyncio.get_running_loop()

        def send(method: str, params: JsonObject) -> None:
            asyncio.run_coroutine_threadsafe(self._gateway.ask(method, params), loop).add_done_callback(
                self._log_refusal
            )

        return send

    def _log_refusal(self, done: "Future[JsonObject]") -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._log.warning("an answer was refused: %s", error)

    # --- the gateway --------------------------------------------------------------------------------------

    async def _connect(self, choice: SessionChoice) -> Link:
        return await connect(self._ident, os.environ.get("JPY_SESSION_NAME", ""), choice=choice)

    # --- help while typing --------------------------------------------------------------------------------

    async def complete(self, code: str, cursor: int) -> JsonObject | None:
        """Return Jupyter's `complete_reply`, or None if Python should complete."""
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
        """Return Jupyter's `inspect_reply`, or None if Python should answer."""
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
        """Return the gateway's answer about a line, or {} if none comes in time. Starts no gateway."""
        params: JsonObject = {"text": line, "cursor": at}
        work = self._gateway.ask_in_passing(method, params, as_user=completion.names_sessions(line))
        asking = asyncio.create_task(work)
        self._typing.add(asking)
        asking.add_done_callback(self._typing.discard)
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait({asking}, timeout=TYPING_WAIT_S)
        if not done:
            asking.cancel()  # not awaited: cancelling a request to a silent gateway takes seconds
        return asking.result() if done and asking.exception() is None else {}


def _is_unattended(cell_id: str | None, allow_stdin: bool) -> bool:
    """Return whether nobody is there to watch or answer, as with nbclient and tools built on it."""
    return not cell_id and not allow_stdin


def _load_what_the_first_cell_needs() -> None:
    """Import what is imported late for a fast start: widgets and the Markdown parser, 0.2 s in all."""
    import ipywidgets  # noqa: F401

    inert_html("")
