"""What may follow on what is being typed: files behind `@`, models and sessions behind their commands (NB-7)."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.domain.mentions import Mention, typed_mention, write_mention
from ozzie_server_ext.render.models import tag_words
from ozzie_server_ext.render.text import cut_end, visible_label
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.model_service import ModelService
from ozzie_server_ext.tasks.project_files import ProjectFiles
from ozzie_server_ext.tasks.sessions import MOST_SEARCHED, Sessions

WAIT_S = 1.5
"""How long a completion may take, whatever hangs below it; a kernel waits 2 s in all."""
MOST_MATCHES = 200
DETAIL_CHARS = 60
"""So much is told of a model beside its name: a list of matches has room for a line."""

_MODEL = re.compile(r"[ \t]*%model[ \t]+(\S*)\Z")
_SESSION = re.compile(r"[ \t]*%session[ \t]+(?:resume|archive|close)[ \t]+(.*)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """`text` takes the place of what was typed. `kind`: file, folder, model or session; `detail` is for people."""

    text: str
    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completions:
    """What may stand between `start` and `end`, in characters of the text, as Jupyter counts them."""

    start: int
    end: int
    matches: tuple[Match, ...] = ()


class Completion:
    """Completes text. Whatever can't be found in time is left out: nobody wants an error while typing."""

    def __init__(self, sessions: Sessions, models: ModelService, files: ProjectFiles) -> None:
        self._sessions = sessions
        self._models = models
        self._files = files

    async def complete(self, text: str, cursor: int, *, own: SessionId | None, sees_all: bool) -> Completions:
        """`own` is the caller's session; others are named to it only where it `sees_all`."""
        cursor = min(max(cursor, 0), len(text))
        try:
            async with asyncio.timeout(WAIT_S):
                return await self._find(text, cursor, own, sees_all)
        except (TimeoutError, OzzieError):
            return Completions(start=cursor, end=cursor)

    async def _find(self, text: str, cursor: int, own: SessionId | None, sees_all: bool) -> Completions:
        line = text[text.rfind("\n", 0, cursor) + 1 : cursor]
        if found := _MODEL.fullmatch(line):
            matches = fitting_models(await self._models.listing(), found[1])
        elif found := _SESSION.fullmatch(line):
            matches = fitting_sessions(await self._rows(), found[1], own) if sees_all else []
        elif mention := typed_mention(text, cursor):
            return Completions(start=mention.start, end=mention.end, matches=await self._paths(mention))
        else:
            return Completions(start=cursor, end=cursor)
        return Completions(start=cursor - len(found[1]), end=cursor, matches=tuple(matches[:MOST_MATCHES]))

    async def _paths(self, mention: Mention) -> tuple[Match, ...]:
        entries = await self._files.completions(mention.path)
        written = ((entry, write_mention(entry.path)) for entry in entries)
        return tuple(
            Match(text=text, kind=entry.kind) for entry, text in written if text is not None and _is_plain(text)
        )

    async def _rows(self) -> list[Row]:
        open_ones = await self._sessions.list(limit=MOST_SEARCHED)
        return open_ones + await self._sessions.list(limit=MOST_SEARCHED, status="archived")


def fitting_models(listing: JsonObject, typed: str) -> list[Match]:
    """The models of `ModelService.listing` whose names begin with what was typed: those with a name here, then what
    is only offered."""
    named = [
        Match(text=str(model["name"]), kind="model", detail=_told_of(model)) for model in objects(listing.get("models"))
    ]
    offered = [
        Match(text=str(offer["choose"]), kind="model", detail=str(offer["found"]))
        for offer in objects(listing.get("offers"))
    ]
    wanted = typed.casefold()
    unique: dict[str, Match] = {}
    for match in (*named, *offered):
        unique.setdefault(match.text, match)
    return [
        match
        for match in unique.values()
        if match.text.casefold().startswith(wanted) and _is_plain(match.text) and " " not in match.text
    ]


def _told_of(model: JsonObject) -> str:
    """ "openai/gpt-4o-mini, fast, jurisdiction us"; of an alias, the name that it stands for."""
    tags = model.get("tags")
    stands_for = f"= {model['model']}" if model["driver"] == "alias" else f"{model['driver']}/{model['model']}"
    told = ", ".join(filter(None, [stands_for, tag_words(tags) if isinstance(tags, dict) else ""]))
    return cut_end(visible_label(told), DETAIL_CHARS)


def fitting_sessions(rows: Iterable[Row], typed: str, own: SessionId | None) -> list[Match]:
    """Sessions by what resolves to them (`Sessions.find`): their title where no other has it, else their id."""
    rows = list(rows)
    titles = Counter(str(row["title"]).casefold() for row in rows)
    wanted = typed.strip().casefold()
    found: list[Match] = []
    for row in rows:
        title, session_id = str(row["title"]), str(row["session_id"])
        if session_id == own or not (wanted in title.casefold() or wanted in session_id.casefold()):
            continue
        by_title = wanted in title.casefold() and titles[title.casefold()] == 1 and _resolves(title)
        found.append(
            Match(text=title if by_title else session_id, kind="session", detail=session_id if by_title else title)
        )
    return found


def _resolves(title: str) -> bool:
    """Whether the title finds its session: one that looks like an id would find another."""
    return _is_plain(title) and not title.startswith("sess_")


def _is_plain(text: str) -> bool:
    """Whether `text` can stand in a list as it is. What could draw on a terminal or hide its end is not offered:
    escaped, it would name something else."""
    return bool(text) and visible_label(text) == text
