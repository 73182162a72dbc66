"""`search`: full-text search in what was said and done."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.events import ArtifactCreated
from ozzie_server_ext.domain.terms import Kind
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.events import moment
from ozzie_server_ext.gateway.rest.shapes import Moment, ProjectFolder, SessionId
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.tasks.search import Question, Result

Query = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        title="words to search for, of 1 to 500 characters",
        description='All must be there. "Two words" stand side by side; beg* is the beginning of a word.',
    ),
]
Few = Annotated[int, Meta(ge=1, le=100, description="How many results at most.")]


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` may be repeated. `session_id`: in that session, with what it was forked from; `project`: in the sessions
    of that folder. `since` is the first moment included, `until` the first one excluded. `explain`: tell for each
    result what each word adds to its score."""

    text: Query
    kind: tuple[Kind, ...] = ()
    session_id: SessionId | None = None
    project: Annotated[ProjectFolder, Meta(description="Only in the sessions of this folder.")] | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Few = 10
    explain: bool = False


class WordShare(msgspec.Struct, frozen=True, kw_only=True):
    words: str
    score: float


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """`snippet` is one line of the text, `marks` where in it the words stand, as start and end in characters. `labels`
    are those of its content. The higher the `score`, the better. `artifact_id` is that of an artifact."""

    position: int
    ts: str
    kind: Kind
    session_id: str | None
    title: str
    task_id: str | None
    artifact_id: str | None
    snippet: str
    marks: list[tuple[int, int]]
    labels: list[str]
    score: float
    why: list[WordShare]


class SearchResults(msgspec.Struct, frozen=True, kw_only=True):
    """The best of `count` texts that match. With `capped`, these are only the newest, and older ones may match too.
    `words` are the words and phrases that were searched for; words of every text are left out."""

    words: list[str]
    items: list[SearchResult]
    count: int
    capped: bool


async def search(call: Call, request: SearchQuery) -> SearchResults:
    """Find messages, answers, tool calls, artifacts and titles by their words, the best first."""
    question = Question(
        text=request.text,
        kinds=request.kind,
        session_id=None if request.session_id is None else ids.SessionId(request.session_id),
        project=None if request.project is None else Path(request.project),
        since=moment("since", request.since),
        until=moment("until", request.until),
        limit=request.limit,
        explain=request.explain,
    )
    found = await call.ozzie.search.find(question)
    return SearchResults(
        words=[*found.words],
        items=[_shown(result) for result in found.items],
        count=found.count,
        capped=found.is_capped,
    )


def _shown(result: Result) -> SearchResult:
    event = result.event
    return SearchResult(
        position=event.position,
        ts=time_text(event.ts),
        kind=result.kind,
        session_id=event.session_id,
        title=result.title,
        task_id=event.task_id,
        artifact_id=event.body.artifact_id if isinstance(event.body, ArtifactCreated) else None,
        snippet=result.snippet.text,
        marks=[*result.snippet.marks],
        labels=[*event.labels],
        score=round(result.score, 4),
        why=[WordShare(words=share.words, score=round(share.score, 4)) for share in result.shares],
    )
