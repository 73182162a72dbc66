"""Which facts can be searched for, as which text, and what a search asks and finds."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec

from ozzie_server_ext.domain.events import (
    ArtifactCreated,
    Event,
    MessageCompleted,
    MessageReceived,
    PromptAnswered,
    SessionCreated,
    SessionRenamed,
    TaskUpdated,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.terms import Kind, Phrase


class Document(msgspec.Struct, frozen=True):
    kind: Kind
    text: str


TYPES_OF: dict[Kind, frozenset[str]] = {
    "message": frozenset({MessageReceived.type, PromptAnswered.type, TaskUpdated.type}),
    "reply": frozenset({MessageCompleted.type}),
    "tool": frozenset({ToolCallRequested.type, ToolCallCompleted.type, ToolCallFailed.type}),
    "artifact": frozenset({ArtifactCreated.type}),
    "title": frozenset({SessionCreated.type, SessionRenamed.type}),
}
DOCUMENT_TYPES = frozenset[str]().union(*TYPES_OF.values())
"""The types of events that can be documents."""

MOST_CHARACTERS = 32_000
"""Of a longer text, half from its beginning and half from its end are searched."""


TextOf = Callable[[ArtifactCreated], str]
"""Returns the text of an artifact; empty if it has none."""


def no_text(artifact: ArtifactCreated) -> str:
    """Of artifacts, only the names are searched."""
    return ""


def document_of(event: Event, text_of: TextOf = no_text) -> Document | None:
    """Return the document that an event is, None if there is nothing to search for in it."""
    match event.body:
        case MessageReceived(text=text) | PromptAnswered(text=text) | TaskUpdated(text=text):
            found = Document("message", text)
        case MessageCompleted(text=text):
            found = Document("reply", text)
        case ToolCallRequested(name=name, args=args):
            found = Document("tool", " ".join((name, *_texts(args))))
        case ToolCallCompleted(data=data, summary=summary):
            found = Document("tool", " ".join((summary, *_texts(data))))
        case ToolCallFailed(message=message):
            found = Document("tool", message)
        case ArtifactCreated(name=name) as artifact:
            found = Document("artifact", f"{name}\n{text_of(artifact)}")
        case SessionCreated(title=title) | SessionRenamed(title=title):
            found = Document("title", title)
        case _:
            return None
    return found if found.text.strip() else None


def _texts(value: Json) -> Iterator[str]:
    """Yield the texts in a JSON value, with the names of its fields, in order."""
    match value:
        case str():
            yield value
        case dict():
            for name, each in value.items():
                yield name
                yield from _texts(each)
        case list():
            for each in value:
                yield from _texts(each)
        case None | bool():
            pass
        case _:
            yield str(value)


MOST_RANKED = 5000
"""Of more documents that match, only the newest are ranked: to rank a million takes a second."""


class Part(NamedTuple):
    """The documents of a session up to a position: a fork begins with a part of another session."""

    session_id: SessionId
    until: int


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to search for: documents with all the phrases, of one of the `kinds` (empty: any), recorded from `since`
    on, before `until`. `parts`: in one of them, but for those of the tasks `without`; `projects`: in sessions whose
    project is recorded as one of these."""

    phrases: tuple[Phrase, ...]
    kinds: tuple[Kind, ...] = ()
    parts: tuple[Part, ...] | None = None
    without: frozenset[TaskId] = frozenset()
    projects: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 10
    explain: bool = False


class Hit(msgspec.Struct, frozen=True):
    """A document, by the position of its event. The `shares` of the phrases in its score are in their order, and empty
    unless requested."""

    position: int
    score: float
    shares: tuple[float, ...] = ()


class Hits(msgspec.Struct, frozen=True):
    """The best documents of `count` that match. If that is `MOST_RANKED`, older ones may match too."""

    best: tuple[Hit, ...] = ()
    count: int = 0
