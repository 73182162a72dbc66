"""Replays a session, and says whether the present code, rules and skills would record what was recorded."""

import asyncio
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import structs

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.observability.clock import UlidSource
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads
from ozzie_server_ext.replay.blobs import ReplayBlobs
from ozzie_server_ext.replay.changes import Changes
from ozzie_server_ext.replay.difference import Comparing
from ozzie_server_ext.replay.gateway import ReplayedGateway
from ozzie_server_ext.replay.ids import Ids, ids_in
from ozzie_server_ext.replay.log import StagedLog
from ozzie_server_ext.replay.loop import ReplayLoop, running
from ozzie_server_ext.replay.record import MissingFact, Record, own_threads
from ozzie_server_ext.replay.settings import Skills
from ozzie_server_ext.replay.stage import Cursor, Divergence, Stage
from ozzie_server_ext.store.blobs import is_ref
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin import builtin_tools

_MOST_TRIES = 12
"""How many replays may follow the first one."""
_MOST_BACK = 3
"""How many times back, at which something came from outside, a divergence may have its cause."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """How a replay ended: `same` of `events` came out as they were recorded; `divergence` is the first that did not,
    `missing` what the log lacks for the rest. `changes` are those that explain it, none if it differs without them."""

    events: int
    same: int
    divergence: Divergence | None = None
    missing: MissingFact | None = None
    changes: Changes = Changes()


def replay(
    record: Record,
    home: Home,
    changes: Changes | None = None,
    *,
    folder: Path,
    tools: Iterable[Tool] | None = None,
) -> Replayed:
    """Replay a record; `home` has the present skills, and `tools` (by default those that come with Ozzie) have the
    present contracts. Files of skills are written to `folder`, an empty one. Raises MissingFact if the log lacks what
    is needed to begin, ConfigError for changes that are invalid."""
    changes = changes or Changes()
    contracts = tuple(builtin_tools() if tools is None else tools)
    skills = Skills(record, home, changes, folder)
    with _without_collector():
        found = _best(record, skills, changes, contracts)
        if found.divergence is not None and changes.are_any:
            without = _best(record, Skills(record, home, Changes(), folder / "without"), Changes(), contracts)
            if without.divergence is not None and without.same <= found.same:  # what is tried does not explain it
                return without
            found = structs.replace(found, changes=changes)
    if found.divergence is None and found.missing is None and record.missing is not None:
        return structs.replace(found, missing=record.missing)
    return found


@contextmanager
def _without_collector() -> Iterator[None]:
    """Collect no garbage meanwhile: a replay lives for seconds, and makes objects that stay for as long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _best(record: Record, skills: Skills, changes: Changes, contracts: Sequence[Tool]) -> Replayed:
    """Replay, and if something differs, try whether what came from outside lately may have come a moment earlier."""
    early: frozenset[int] = frozenset()
    found, outside = _replay(record, skills, changes, contracts, early)
    tries = 0
    while found.divergence is not None and tries < _MOST_TRIES:
        # Whether the code had heard of its last append when something came from outside is not recorded.
        for group in outside[: -_MOST_BACK - 1 : -1]:
            tries += 1
            tried = early | set(group)
            again, later = _replay(record, skills, changes, contracts, tried)
            if again.same > found.same:
                found, outside, early = again, later, tried
                break
        else:
            break
    return found


def _replay(
    record: Record, skills: Skills, changes: Changes, tools: Sequence[Tool], early: Set[int]
) -> tuple[Replayed, Sequence[Sequence[int]]]:
    """Return how it ended, and the positions of what came from outside, see `Stage`."""
    if not record.events:
        return Replayed(events=0, same=0), ()
    stage: Stage | None = None
    failed: list[BaseException] = []

    def on_idle() -> None:
        if stage is None or loop.is_closing:
            loop.stop()
            return
        try:
            stage.on_idle()
        except BaseException as error:  # an event loop would go on
            failed.append(error)
            loop.stop()

    loop = ReplayLoop(record.events[0].ts, on_idle)
    with running(loop):
        asyncio.set_event_loop(loop)
        log = StagedLog(loop.clock, UlidSource(loop.clock))
        blobs = ReplayBlobs(record)
        cursor = Cursor(record.events)
        ids = Ids(_ids_of(record))
        comparing = Comparing(expand=_expand(blobs), comparable=changes.comparable)
        blobs.know(changes.texts.values())
        stage = Stage(log, loop, cursor, ids, own_threads(record.events), comparing, changes.revised, early)
        for event in record.history:
            stage.take_history(event)  # before there is a gateway, which would go on with it
        gateway = ReplayedGateway(record, stage, log, blobs, loop.clock, changes, skills, tools)
        stage.gateway = gateway
        opening = loop.create_task(gateway.open())
        loop.run_forever()
        gateway.close()
        if failed or stage.broken:
            raise stage.broken or failed[0]
        if opening.done():
            opening.result()
        found = Replayed(
            events=len(record.events), same=cursor.count, divergence=stage.divergence, missing=stage.missing
        )
        return found, stage.from_outside


def _ids_of(record: Record) -> set[str]:
    found: set[str] = set()
    for event in (*record.history, *record.events):
        found |= ids_in(msgspec.json.encode(event.body).decode()) | ids_in(event.stream)
    return found


def _expand(blobs: ReplayBlobs) -> Callable[[Json], Json]:
    def expand(value: Json) -> Json:
        if not isinstance(value, str) or not is_ref(value):
            return value
        content = blobs.find(BlobRef(value))
        if content is None:
            return value
        try:
            return loads(content, max_bytes=len(content))
        except InvalidJson:
            return value

    return expand
