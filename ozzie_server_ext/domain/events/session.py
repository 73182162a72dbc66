"""Facts about a session: a context of its own."""

from dataclasses import dataclass
from typing import ClassVar

from ozzie_server_ext.domain.approvals import Way
from ozzie_server_ext.domain.events.fact import Fact
from ozzie_server_ext.domain.ids import SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated(Fact):
    """A context of its own began. `key` is what finds it again: a notebook's name, a thread, a terminal. One without
    a title is called after its first message."""

    type: ClassVar[str] = "session.created"
    key: str
    title: str
    channel: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRenamed(Fact):
    """The session has another title."""

    type: ClassVar[str] = "session.renamed"
    title: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed(Fact):
    """From here on `key` opens this session, and no other; a closed or archived session is active again."""

    type: ClassVar[str] = "session.resumed"
    key: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMoved(Fact):
    """What is opened by `key` was opened by `before`, which opens nothing any more; `key` is empty where the notebook
    was deleted."""

    type: ClassVar[str] = "session.moved"
    before: str
    key: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionForked(Fact):
    """The session begins with what stood in the log of `parent` up to `position`, and goes its own way from there."""

    type: ClassVar[str] = "session.forked"
    parent: SessionId
    position: int
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArchived(Fact):
    """The session is put away: lists leave it out until somebody goes on in it."""

    type: ClassVar[str] = "session.archived"
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClosed(Fact):
    """The session takes no more messages until it is resumed."""

    type: ClassVar[str] = "session.closed"
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsCleared(Fact):
    """A person takes the labels off: of what the session has read so far, or, where there is a `path`, of that file.
    They looked at it, and answer for it (DESIGN §2.9)."""

    type: ClassVar[str] = "labels.cleared"
    by: str
    way: Way
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionModelChosen(Fact):
    """The user chose what answers in this session: an alias, a provider, or `driver/model`."""

    type: ClassVar[str] = "session.model_chosen"
    model: str
    base_url: str = ""
    by: str = ""
