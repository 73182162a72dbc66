"""Snapshots of a conversation, so that a long one is not folded from its beginning after a restart
(docs/adr/0061-snapshots.md).

One is taken while no task of the session is open. So it has no open ends, such as calls or questions that a later event
is about: if an event is about a task from before it, the snapshot no longer serves, and the log is read.
"""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from ozzie_server_ext.agent.entries import UserMessage
from ozzie_server_ext.agent.rounds import Round
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.events import Event, Finish, MessageReceived, SessionPinned, TaskCreated, ToolUse
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.messages import Picture
from ozzie_server_ext.domain.toolmeta import Reached, Said
from ozzie_server_ext.policy.decision import UNREAD, Reading


class SavedMessage(msgspec.Struct, frozen=True, omit_defaults=True, tag="message"):
    """A `UserMessage`."""

    task_id: TaskId | None
    text: str
    pictures: tuple[Picture, ...] = ()
    is_update: bool = False
    note: str = ""
    sources: tuple[str, ...] = ()

    def restored(self) -> UserMessage:
        return UserMessage(self.task_id, self.text, self.pictures, self.is_update, self.note, self.sources)


class SavedRound(msgspec.Struct, frozen=True, omit_defaults=True, tag="round"):
    """What later turns read of a `Round`."""

    task_id: TaskId | None
    number: int
    text: str = ""
    uses: tuple[ToolUse, ...] = ()
    outcomes: dict[str, str] = {}
    brought: dict[str, tuple[str, ...]] = {}
    reached: dict[str, tuple[Reached, ...]] = {}
    to_repeat: dict[str, str] = {}
    finish: Finish = "stop"
    whole: bool = False
    problem: str = ""
    is_left: bool = False

    def restored(self) -> Round:
        return Round(
            self.task_id,
            self.number,
            text=self.text,
            uses=self.uses,
            outcomes=self.outcomes,
            brought=self.brought,
            reached=self.reached,
            to_repeat=self.to_repeat,
            finish=self.finish,
            whole=self.whole,
            problem=self.problem,
            is_left=self.is_left,
            placed=True,
        )


SavedEntry: TypeAlias = SavedMessage | SavedRound


def saved(entry: UserMessage | Round) -> SavedEntry:
    """Return what a snapshot keeps of an entry."""
    if isinstance(entry, UserMessage):
        return SavedMessage(entry.task_id, entry.text, entry.pictures, entry.is_update, entry.note, entry.sources)
    return SavedRound(
        entry.task_id,
        entry.number,
        text=entry.text,
        uses=entry.uses,
        outcomes=entry.outcomes,
        brought=entry.brought,
        reached=entry.reached,
        to_repeat=entry.to_repeat,
        finish=entry.finish,
        whole=entry.whole,
        problem=entry.problem,
        is_left=entry.is_left,
    )


class SavedReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A `Reading`, whose addresses are those that were not in the snapshot before."""

    content: Content = CLEAN
    has_read: bool = False
    has_own: bool = False
    typed: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    followed: int = 0

    @classmethod
    def of(cls, now: Reading, before: Reading) -> "SavedReading":
        return cls(
            content=now.content,
            has_read=now.has_read,
            has_own=now.has_own,
            typed=tuple(sorted(now.typed - before.typed)),
            linked=tuple(sorted(now.linked - before.linked)),
            followed=now.followed,
        )


def restored_reading(series: Iterable[SavedReading]) -> Reading:
    """Return the reading at the end of a series."""
    last = SavedReading()
    typed: set[str] = set()
    linked: set[str] = set()
    for last in series:
        typed.update(last.typed)
        linked.update(last.linked)
    return Reading(
        content=last.content,
        has_read=last.has_read,
        has_own=last.has_own,
        typed=frozenset(typed),
        linked=frozenset(linked),
        followed=last.followed,
    )


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of a series: `entries` and addresses are those since the snapshot `after`, which is a position; 0 begins a
    series. All else is as of `position`: how many turns began, the summary of what came before the entries, pinned
    facts, what was read, what the next message begins with, the latest turn with the tools that it used, and
    what the user's own words name and say."""

    position: int
    after: int
    entries: tuple[SavedEntry, ...]
    turns: int
    reading: SavedReading
    summary: str = ""
    note: str = ""
    pins: tuple[SessionPinned, ...] = ()
    latest: TaskId | None = None
    used: tuple[str, ...] = ()
    said: tuple[Said, ...] = ()
    texts: tuple[str, ...] = ()


class Progress(msgspec.Struct):
    """How much of a conversation is in snapshots: up to `position`, so many `entries`, and what was read then. Since
    then there were so many `fresh` events, and the tasks `begun`. Without a position, the next begins a series."""

    position: int = 0
    entries: int = 0
    reading: Reading = UNREAD
    fresh: int = 0
    begun: set[TaskId] = msgspec.field(default_factory=set[TaskId])

    def is_new(self, event: Event) -> bool:
        """Count an event; return whether it belongs to a task that began since, or to none."""
        self.fresh += 1
        if event.task_id is not None and isinstance(event.body, MessageReceived | TaskCreated):
            self.begun.add(event.task_id)
        return event.task_id is None or event.task_id in self.begun

    def begin_again(self) -> None:
        """Begin a new series with the next snapshot, since entries in this one have changed."""
        self.position, self.entries, self.reading = 0, 0, UNREAD
