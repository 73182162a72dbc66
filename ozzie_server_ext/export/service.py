"""Exports of sessions, with their proofs."""

import asyncio
import json
import re
from collections.abc import Callable
from datetime import datetime
from importlib.metadata import version
from typing import Any, assert_never

import msgspec

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import Erased, Event
from ozzie_server_ext.domain.exports import Form
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.export import texts
from ozzie_server_ext.export.documents import html_of, markdown_of
from ozzie_server_ext.export.notebook import fork_notebook_of, notebook_of
from ozzie_server_ext.export.proof import PROOF, Item, Kind, Proof, shown_line
from ozzie_server_ext.export.session import ExportedSession, Extent, extent_of, read_session
from ozzie_server_ext.export.signing import sign, signing_key
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import dumps, loads_object
from ozzie_server_ext.render.forks import about_fork
from ozzie_server_ext.render.page import paragraph
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.lineage import read_part
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.forks import Forked
from ozzie_server_ext.tasks.sessions import Sessions

_NAME_LENGTH = 60
_NOT_IN_NAMES = re.compile(r"[^\w]+")


class Exports:
    """Exports sessions. `anchor_key` returns the key that signs the log's anchor, None if there is none."""

    def __init__(
        self,
        log: EventLog,
        blobs: BlobStore,
        sessions: Sessions,
        clock: Clock,
        anchor_key: Callable[[], bytes | None],
    ) -> None:
        self._log = log
        self._blobs = blobs
        self._sessions = sessions
        self._clock = clock
        self._anchor_key = anchor_key

    async def export(self, session_id: SessionId, form: Form) -> tuple[str, str]:
        """Return a name for the file, and its text. A notebook and lines have a proof in them, signed unless there is
        no key. Raises NotFound; Gone if the session was erased; Unavailable if the key can't be read."""
        row, at = await self._sessions.row(session_id), self._clock.now()
        extent = await extent_of(self._log, row)
        name = f"{_NOT_IN_NAMES.sub('-', texts.title_of(extent))[:_NAME_LENGTH].strip('-') or 'session'}.{form}"
        if form == "jsonl":
            lines = await self._lines_of(extent)
            return name, await asyncio.to_thread(self._lines, extent, at, lines)
        session = await read_session(self._log, self._blobs, extent)
        match form:
            case "md":
                return name, await asyncio.to_thread(markdown_of, session, at)
            case "html":
                return name, await asyncio.to_thread(html_of, session, at)
            case "ipynb":
                return name, await asyncio.to_thread(self._notebook, session, at)
            case _:
                assert_never(form)

    async def notebook_of_fork(self, forked: Forked) -> str:
        """Return the text of a new fork's notebook."""
        extent = await extent_of(self._log, await self._sessions.row(forked.info.session_id))
        about = [paragraph(texts.forked_from(extent)), *about_fork(_as_object(forked), names=False)]
        session = await read_session(self._log, self._blobs, extent)
        return await asyncio.to_thread(lambda: _as_text(fork_notebook_of(session, about)))

    def _notebook(self, session: ExportedSession, at: datetime) -> str:
        notebook, items = notebook_of(session, at)
        proof = self._proof("notebook", session.extent, at, items)
        notebook["metadata"][PROOF] = proof
        return _as_text(notebook)

    async def _lines_of(self, extent: Extent) -> list[dict[str, Any]]:
        """Return all events of a session, with those of delegated tasks, in order."""
        return [_line(event) for part in extent.parts for event in await read_part(self._log, part, erased=True)]

    def _lines(self, extent: Extent, at: datetime, lines: list[dict[str, Any]]) -> str:
        proof = self._proof("lines", extent, at, tuple(Item(shown_line(line)) for line in lines))
        return "".join(f"{dumps(line)}\n" for line in [*lines, {PROOF: proof}])

    def _proof(self, kind: Kind, extent: Extent, at: datetime, items: tuple[Item, ...]) -> Any:
        proof = Proof(
            kind=kind,
            session=extent.session_id,
            log=extent.log,
            head=extent.head.position,
            at=time_text(at),
            version=version("jupyter-ozzie"),
            items=items,
        )
        key = self._anchor_key()
        return msgspec.to_builtins(proof if key is None else sign(proof, signing_key(key)))


def _as_object(forked: Forked) -> JsonObject:
    """Return a fork as clients get it, with lists."""
    return loads_object(dumps(encode(forked)))


def _as_text(notebook: dict[str, Any]) -> str:
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _line(event: Event) -> dict[str, Any]:
    """Return an event as a line of JSON; an erased one has no payload."""
    return {
        "position": event.position,
        "id": event.event_id,
        "type": event.type,
        "ts": time_text(event.ts),
        "actor": event.actor,
        "source": event.source,
        "session_id": event.session_id,
        "task_id": event.task_id,
        "labels": [*event.labels],
        "payload": None if isinstance(event.body, Erased) else encode(event.body),
        "hash": event.hash,
    }
