"""Notebooks that are open in pages: read and edited there, alongside what a person types (ADR 36)."""

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.gateway.rest.shapes import Words
from ozzie_server_ext.jupyter.cells import CellChanged, Edit, Notebook
from ozzie_server_ext.jupyter.documents import DocumentBusy, DocumentSilent, Edited, OpenNotebook, Where
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode
from ozzie_server_ext.protocol.frames import EventFrame, encode_frame
from ozzie_server_ext.protocol.jsontext import InvalidJson, dumps, loads

ASKED = "notebook.asked"
ANSWER_S = 15.0
"""Seconds that a page has to answer. Lab may be busy with a large notebook, or show a question of its own."""


class PageError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a page refused. "changed": the cell is a different one by now; "busy": not now."""

    code: Words
    message: str


class NotebookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A page's answer."""

    request_id: Words
    ok: bool
    answer: JsonObject | None = None
    error: PageError | None = None


class PageLink:
    """The connection to one page. `send` sends a frame."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[NotebookAnswer]] = {}

    async def ask(self, path: str, ask: str, **more: Json) -> JsonObject:
        """Ask the page about the notebook that it calls `path`, and return its answer. Raises CellChanged or
        DocumentBusy if it did nothing, DocumentSilent if that is unknown."""
        request_id = str(next(self._numbers))
        answered: asyncio.Future[NotebookAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answered
        payload: JsonObject = {"request_id": request_id, "path": path, "ask": ask, **more}
        try:
            await self._send(encode_frame(EventFrame(event=ASKED, canonical=ASKED, payload=payload)))
            async with asyncio.timeout(ANSWER_S):
                said = await answered
        except TimeoutError:
            raise _silent(path) from None
        finally:
            del self._waiting[request_id]
        if said.ok:
            return said.answer or {}
        raise _refused(said.error)

    def answered(self, answer: NotebookAnswer) -> None:
        """Deliver the page's answer; drop it if nobody waits for it any more."""
        waiting = self._waiting.get(answer.request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def cut(self) -> None:
        """Fail all waiting questions: the page is gone."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_silent("the notebook"))


def _silent(path: str) -> OzzieError:
    return DocumentSilent(
        f"The page that has {path} open did not answer.",
        hint="Look at the notebook there, and read it again before anything else is changed.",
    )


def _refused(error: PageError | None) -> OzzieError:
    """Return the refusal in the page's own words; they come from our extension."""
    message = (error.message if error else "")[:500] or "The page could not do it."
    return CellChanged(message) if error is not None and error.code == "changed" else DocumentBusy(message)


log = logger(__name__)

T = TypeVar("T")

GONE_S = 60.0
"""Seconds for which a notebook is left alone after the connection of its page broke: the page comes back in this time
or not at all."""
WAIT_S = 20.0
"""Seconds that an edit waits for the page, so that nobody notices a short network failure."""
MOST_OPEN = 500
"""Notebooks per page."""
_MOST_PARTS = 500
_MOST_NOTES = 5


class PageHas(msgspec.Struct, frozen=True, kw_only=True):
    """A notebook that a page has open: its path as the page names it, and the root of the page's server."""

    path: Annotated[str, Meta(max_length=4096, title="the path of a notebook")]
    root: Annotated[str, Meta(max_length=4096, title="the root of a server")]

    def whole(self) -> Path:
        """Return the file's absolute path. Raises OSError, RuntimeError."""
        return (Path(self.root).expanduser() / self.path.lstrip("/")).resolve()


class _Open(msgspec.Struct, frozen=True):
    link: PageLink
    path: str


class _State(msgspec.Struct, frozen=True, kw_only=True):
    dirty: bool


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    cells: list[Json]
    count: int
    language: str = ""


class _Made(msgspec.Struct, frozen=True, kw_only=True):
    notes: list[str]


class PageNotebooks:
    """Tracks which pages have which notebooks open. `now`: monotonic seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._open: dict[Path, list[_Open]] = {}
        self._left: dict[Path, float] = {}
        self._news = asyncio.Condition()
        self._file: Path | None = None

    def remember_in(self, file: Path) -> None:
        """Record open notebooks in a file. Those that it lists from before count as just disconnected: turns go on
        before their pages are back."""
        try:
            noted = loads(file.read_bytes())
        except (OSError, InvalidJson):  # none yet, or not ours
            noted = []
        for path in noted if isinstance(noted, list) else ():
            if isinstance(path, str):
                self._left[Path(path)] = self._now()
        self._file = file

    async def has_opened(self, link: PageLink, has: PageHas) -> None:
        where = await _where(has)
        if where is None or sum(each.link is link for there in self._open.values() for each in there) >= MOST_OPEN:
            return
        self._left.pop(where, None)
        there = self._open.setdefault(where, [])
        if not any(each.link is link and each.path == has.path for each in there):
            there.append(_Open(link, has.path))
        self._note()
        async with self._news:
            self._news.notify_all()

    async def has_closed(self, link: PageLink, has: PageHas) -> None:
        if (where := await _where(has)) is not None:
            self._drop(where, lambda each: each.link is link and each.path == has.path)
            self._note()

    def has_gone(self, link: PageLink, *, on_purpose: bool) -> None:
        """Record that the page closed, or that its connection broke."""
        link.cut()
        for where in list(self._open):
            if self._drop(where, lambda each: each.link is link) and not on_purpose:
                self._left[where] = self._now()
        self._note()

    async def opened(self, path: Path) -> OpenNotebook | None:
        """See `LiveDocuments.opened`."""
        there = self._open.get(path, [])
        if not there and await self._may_come_back(path):
            there = self._open.get(path, [])
        if there:
            return PageNotebook(path.name, await self._the_one(path.name, there), there)
        if self._is_awaited(path):
            raise DocumentBusy(
                f"A page that has {path.name} open lost its connection a moment ago, perhaps with text that is not "
                "saved. Try again in a minute, or when the page is back."
            )
        return None

    def _note(self) -> None:
        """Write the file in place, without fsync: after a crash of the machine the pages are mostly gone as well."""
        if self._file is None:
            return
        known = {*self._open, *(path for path in self._left if self._is_awaited(path))}
        try:
            with open(self._file, "w", opener=partial(os.open, mode=0o600)) as file:
                file.write(dumps(sorted(map(str, known))))
        except (OSError, InvalidJson) as error:
            log.warning("what pages have open could not be noted: %s", error)

    async def _may_come_back(self, path: Path) -> bool:
        """Wait a little for a page whose connection broke; return whether it came back."""
        if not self._is_awaited(path):
            return False
        try:
            async with asyncio.timeout(WAIT_S), self._news:
                await self._news.wait_for(lambda: path in self._open or not self._is_awaited(path))
        except TimeoutError:
            return False
        return path in self._open

    def _is_awaited(self, path: Path) -> bool:
        since = self._left.get(path)
        return since is not None and self._now() - since < GONE_S

    async def _the_one(self, name: str, there: Sequence[_Open]) -> _Open:
        """Return the page to edit: the one with unsaved text. Raises DocumentBusy if there are two of those."""
        if len(there) == 1:
            return there[0]
        found = await asyncio.gather(*(_state(each) for each in there))
        unsaved = [each for each, state in zip(there, found, strict=True) if state.dirty]
        if len(unsaved) > 1:
            raise DocumentBusy(
                f"{name} is open in two pages, both with text that is not saved. Save one of them first."
            )
        return unsaved[0] if unsaved else there[0]

    def _drop(self, where: Path, which: Callable[[_Open], bool]) -> bool:
        before = self._open.get(where, [])
        left = [each for each in before if not which(each)]
        if left:
            self._open[where] = left
        else:
            self._open.pop(where, None)
        return len(left) < len(before) and not left


class PageNotebook:
    """An `OpenNotebook`, edited in the page `one` of all pages that have it open."""

    def __init__(self, name: str, one: _Open, there: Sequence[_Open]) -> None:
        self._name = name
        self._one = one
        self._others = [each for each in there if each is not one]

    @property
    def where(self) -> Where:
        return "page"

    async def read(self) -> Notebook:
        cells: list[Json] = []
        for _ in range(_MOST_PARTS):
            part = _read(_Part, await self._ask("read", first=len(cells)))
            cells += part.cells
            if len(cells) >= part.count:
                try:
                    return Notebook.of(cells, language=part.language)
                except ValueError as error:
                    raise DocumentBusy(f"{self._name} can't be read in the page that has it open: {error}.") from None
            if not part.cells:
                break
        raise DocumentBusy(f"{self._name} can't be read in the page that has it open: it does not come to an end.")

    async def edit(self, edit: Edit) -> Edited:
        made = _read(_Made, await self._one.link.ask(self._one.path, "edit", edit=encode(edit)))
        # The others reload the file. One with unsaved text keeps it, and Jupyter asks when it is saved.
        await asyncio.gather(*(each.link.ask(each.path, "reload") for each in self._others), return_exceptions=True)
        return Edited(notes=tuple(note[:300] for note in made.notes[:_MOST_NOTES]))

    async def _ask(self, ask: str, **more: Json) -> Json:
        """Ask something that only reads: if the page doesn't answer, nothing has happened, and it counts as busy."""
        try:
            return await self._one.link.ask(self._one.path, ask, **more)
        except DocumentSilent as error:
            raise DocumentBusy(f"{error} Try again, or close the notebook there.") from None


async def _where(has: PageHas) -> Path | None:
    try:
        return await asyncio.to_thread(has.whole)
    except (OSError, RuntimeError, ValueError):
        return None


async def _state(there: _Open) -> _State:
    """Return whether the page has unsaved text. A page that doesn't answer counts as having some."""
    try:
        return _read(_State, await there.link.ask(there.path, "state"))
    except OzzieError:
        return _State(dirty=True)


def _read(kind: type[T], said: Json) -> T:
    """Decode a page's answer. Raises DocumentSilent for an unknown one: an older page may have made the edit."""
    try:
        return decode(kind, said)
    except InvalidShape:
        raise DocumentSilent("The page answered in a way that is not understood.", hint="Reload the page.") from None
