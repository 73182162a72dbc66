"""Search in what was said and done: in all sessions, one project, or one session with what it was forked from."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.events import ArtifactCreated, Event
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.terms import Kind, Phrase, found_at, phrases
from ozzie_server_ext.store.documents import (
    MOST_RANKED,
    Document,
    Hit,
    Part,
    TextOf,
    Wanted,
    document_of,
    no_text,
)
from ozzie_server_ext.store.lineage import Stretch, lineage_of
from ozzie_server_ext.store.log import EventLog

MOST_PHRASES = 16
"""Words of one query. FTS4 reads a document's statistics for each."""
SNIPPET = 200
"""Characters of a snippet."""
_LEAD = 60
"""Characters before the first word that was found."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a person searches for. Without `session_id` and `project`, in everything; see `Wanted` for the others."""

    text: str
    kinds: tuple[Kind, ...] = ()
    session_id: SessionId | None = None
    project: Path | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 10
    explain: bool = False


class Snippet(msgspec.Struct, frozen=True):
    """A part of a text on one line, and where in it the words stand that were searched for, as start and end."""

    text: str
    marks: tuple[tuple[int, int], ...]


class Share(msgspec.Struct, frozen=True):
    """What a word or phrase of the query adds to a score."""

    words: str
    score: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A document that was found, with its event, the title of its session, and why it ranks as it does."""

    event: Event
    kind: Kind
    title: str
    snippet: Snippet
    score: float
    shares: tuple[Share, ...]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The best documents of `count` that match. With `is_capped`, these are only the newest, and older ones may match
    too. `words` are the words and phrases that were searched for: none, if the query only has words of every text."""

    words: tuple[str, ...]
    items: tuple[Result, ...]
    count: int
    is_capped: bool


class Search:
    """Answers questions about the log. `own` is the gateway's own folder; `text_of` returns the texts of artifacts."""

    def __init__(self, log: EventLog, own: Path, text_of: TextOf = no_text) -> None:
        self._log = log
        self._own = own
        self._text_of = text_of

    async def find(self, question: Question) -> Results:
        """Return what fits a question. Raises NotFound for an unknown session."""
        wanted = await self._wanted(question)
        hits = await self._log.search(wanted)
        found = [each for hit in hits.best if (each := await self._result(hit, wanted.phrases)) is not None]
        return Results(
            words=tuple(phrase.words for phrase in wanted.phrases),
            items=tuple(found),
            count=hits.count,
            is_capped=hits.count >= MOST_RANKED,
        )

    async def _wanted(self, question: Question) -> Wanted:
        parts: tuple[Part, ...] | None = None
        lineage: list[Stretch] = []
        if question.session_id is not None:
            lineage, now = await self._lineage(question.session_id), (await self._log.head()).position
            parts = tuple(Part(each.session_id, now if each.until is None else each.until) for each in lineage)
        return Wanted(
            phrases=tuple(phrases(question.text)[:MOST_PHRASES]),
            kinds=question.kinds,
            parts=parts,
            without=lineage[0].without if lineage else frozenset(),
            projects=None if question.project is None else self._recorded(question.project),
            since=question.since,
            until=question.until,
            limit=question.limit,
            explain=question.explain,
        )

    async def _lineage(self, session_id: SessionId) -> list[Stretch]:
        if await self._log.row("sessions", session_id) is None:
            raise NotFound(f"There is no session {session_id}.", hint="List them with ozzie sessions list.")
        return await lineage_of(self._log, session_id)

    def _recorded(self, project: Path) -> tuple[str, ...]:
        """Return how sessions of the project may name it: in logs from before they did, the own one has no name."""
        return (str(project), "") if project == self._own else (str(project),)

    async def _result(self, hit: Hit, words: Sequence[Phrase]) -> Result | None:
        """Return what was found; None if it was erased meanwhile."""
        found = await self._log.read(after=hit.position - 1, before=hit.position + 1, limit=1)
        document = await self._document(found[0]) if found else None
        if document is None:
            return None
        session = None if found[0].session_id is None else await self._log.row("sessions", found[0].session_id)
        shares = zip(words, hit.shares, strict=False)
        return Result(
            event=found[0],
            kind=document.kind,
            title="" if session is None else str(session["title"]),
            snippet=snippet(document, words),
            score=hit.score,
            shares=tuple(Share(phrase.words, score) for phrase, score in shares),
        )

    async def _document(self, event: Event) -> Document | None:
        if not isinstance(event.body, ArtifactCreated):
            return document_of(event)
        row = await self._log.row("artifacts", event.body.artifact_id)
        if row is None or row["erased_at"]:
            return document_of(event)
        return await asyncio.to_thread(document_of, event, self._text_of)


def snippet(document: Document, words: Sequence[Phrase]) -> Snippet:
    """Return the part of a document in which most of the words stand close together."""
    text = " ".join(document.text.split())
    marks = found_at(text, words)
    start = max(_densest(marks) - _LEAD, 0)
    if start:  # not in the middle of a word, if there is a space
        start = max(start, text.find(" ", start, start + _LEAD // 2) + 1)
    end = min(start + SNIPPET, len(text))
    if end < len(text):
        end = max(text.rfind(" ", end - _LEAD // 2, end), 0) or end
    before, behind = "…" if start else "", "…" if end < len(text) else ""
    shift = len(before) - start
    inside = ((a + shift, b + shift) for a, b in marks if start <= a and b <= end)
    return Snippet(f"{before}{text[start:end]}{behind}", tuple(inside))


def _densest(marks: Sequence[tuple[int, int]]) -> int:
    """Return where the window begins that has the most marks, of equal ones the first."""
    best, most, last = 0, 0, 0
    for first, (begin, _) in enumerate(marks):
        last = max(last, first)
        while last < len(marks) and marks[last][1] <= begin + SNIPPET - _LEAD:
            last += 1
        if last - first > most:
            best, most = begin, last - first
    return best
