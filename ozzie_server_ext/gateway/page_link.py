"""What the gateway asks a page, and what comes back, over the page's own WebSocket."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.jupyter.documents import DocumentBusy, DocumentSilent
from ozzie_server_ext.jupyter.edits import CellChanged
from ozzie_server_ext.protocol.frames import EventFrame, encode_frame

ASKED = "notebook.asked"
ANSWER_S = 15.0
"""How long a page has. Lab may be at work on a large notebook, or show a question of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageError:
    """Why a page did not do what it was asked for. "changed": the cell is another one by now; "busy": not now."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookAnswer:
    """What a page says to an ask."""

    request_id: str
    ok: bool
    answer: JsonObject | None = None
    error: PageError | None = None


class PageLink:
    """One page that is connected. `send` puts a frame on its way."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[NotebookAnswer]] = {}

    async def ask(self, path: str, ask: str, **more: Json) -> JsonObject:
        """What the page answers about the notebook that it calls `path`. Raises CellChanged or DocumentBusy where it
        did nothing, DocumentSilent where it is not known whether it did."""
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
        """The page has answered. What nobody waits for any more is passed over."""
        waiting = self._waiting.get(answer.request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def cut(self) -> None:
        """The page is gone: nothing more comes from it."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_silent("the notebook"))


def _silent(path: str) -> OzzieError:
    return DocumentSilent(
        f"The page that has {path} open did not answer.",
        hint="Look at the notebook there, and read it again before anything else is changed.",
    )


def _refused(error: PageError | None) -> OzzieError:
    """In the page's own words, which are ours: it is our extension that says them."""
    message = (error.message if error else "")[:500] or "The page could not do it."
    return CellChanged(message) if error is not None and error.code == "changed" else DocumentBusy(message)
