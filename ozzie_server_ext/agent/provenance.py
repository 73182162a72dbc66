"""Provenance of a session, folded from its events: what it has read, and which addresses are known (ADR 31)."""

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ozzie_server_ext.domain.content import CLEAN, Label
from ozzie_server_ext.domain.events import (
    Brief,
    Erased,
    Event,
    LabelsCleared,
    MessageConfirmed,
    MessageReceived,
    PromptAnswered,
    SessionForked,
    TaskCreated,
    TaskUpdated,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import CallId, MessageId, TaskId
from ozzie_server_ext.domain.messages import DELEGATED
from ozzie_server_ext.domain.toolmeta import Said
from ozzie_server_ext.policy.decision import MAX_ADDRESS, Reading, plain_address

MOST_LINKED = 20_000
"""The number of links that are remembered. Later ones need an approval."""

_TYPED = re.compile(r"\bhttps?://[^\s<>\"'`]+", re.IGNORECASE)
_BARE = re.compile(
    r"(?<![\w@/.:-])(?:[\w-]{1,63}\.){1,8}[a-z]{2,24}(?::[0-9]{1,5})?(?:/[^\s<>\"'`]*)?(?![\w@])", re.IGNORECASE
)
"""An address without a protocol, as people type it. It may be a file's name, which does no harm: an address that
somebody typed can't leak anything."""
_CLOSING = ".,;:!?)]}*_。，、"
"""Ends of sentences, brackets or bold words, seldom of addresses. The address is taken with and without them."""
_MOST_CLOSING = 6
_MOST_TYPED = 200
"""Addresses per message."""
_WEB = f"{Label.WEB}:"


class Words:
    """The fold of what a person's own words name (docs/policy.md, Your own words). A task has those of its own messages
    and, if all of them are confirmed, those that held before it. A message says what to do with what was named
    earlier, so one that may be anybody's takes all of that away."""

    def __init__(self) -> None:
        self.said: frozenset[Said] = frozenset()
        """What holds for the next task."""
        self._of: dict[TaskId | None, frozenset[Said]] = {}
        self._unconfirmed: dict[MessageId, tuple[TaskId | None, frozenset[Said]]] = {}
        """Its task, and what it adds to."""
        self._last: MessageId | None = None

    def of(self, task_id: TaskId | None) -> frozenset[Said]:
        return self._of.get(task_id, frozenset())

    def apply(self, event: Event) -> None:
        match event.body:
            case MessageReceived(message_id=message_id, origin=origin):
                may_be_own = not event.labels and origin.channel != DELEGATED
                self._hear(event.task_id, message_id if may_be_own else None, self.said)
            case TaskUpdated(message_id=message_id):
                self._hear(event.task_id, None if event.labels else message_id, self.of(event.task_id))
            case PromptAnswered(message_id=message_id, text=text) if text:
                self._hear(event.task_id, None if event.labels else message_id, self.of(event.task_id))
            case MessageConfirmed(message_id=message_id, names=names) if message_id in self._unconfirmed:
                task_id, before = self._unconfirmed.pop(message_id)
                self._of[task_id] = before | frozenset(names)
                if message_id == self._last:
                    self.said = self._of[task_id]
            case SessionForked() | Erased():  # an erased message may have been anybody's
                self.forget()
            case _:
                pass

    def forget(self) -> None:
        """Begin anew: nothing of what was said is known any more."""
        self.said, self._last = frozenset(), None
        self._of.clear()
        self._unconfirmed.clear()

    def _hear(self, task_id: TaskId | None, message_id: MessageId | None, before: frozenset[Said]) -> None:
        self.said = self._of[task_id] = frozenset()
        self._last = message_id
        if message_id is not None:
            self._unconfirmed[message_id] = task_id, before


class SessionReading:
    """The fold. Addresses that a person types are known addresses. Messages with labels (from a channel, a schedule or
    another task) and delegated messages give none; a delegated task has those of a person in its brief."""

    def __init__(self) -> None:
        self.now = Reading()
        self._requested: dict[CallId, str] = {}

    def apply(self, event: Event) -> None:
        now = self.now
        if event.labels:
            now = replace(now, content=now.content | event.content)
        match event.body:
            case TaskCreated(brief=Brief(given=given)):
                now = replace(now, typed=now.typed | frozenset(given))
            case MessageReceived(text=text, pictures=pictures, origin=origin):
                is_delegated = origin.channel == DELEGATED
                seen = bool(pictures) or is_delegated  # a delegated message may quote anything read in its session
                now = replace(now, followed=0, has_read=now.has_read or seen, has_own=now.has_own or seen)
                now = now if event.labels or is_delegated else _with_typed(now, text)
            case PromptAnswered(text=text) | TaskUpdated(text=text):
                now = _with_typed(now, text)
            case ToolCallRequested(call_id=call_id, args={"url": str(url)}) if address := plain_address(url):
                self._requested[call_id] = address
            case ToolCallStarted(call_id=call_id) if address := self._requested.pop(call_id, None):
                # Requesting the same address again leaks nothing more.
                followed = now.followed + (address not in now.typed)
                now = replace(now, followed=followed, typed=now.typed | {address})
            case ToolCallCompleted(links=links, brought=brought):
                now = _with_result(replace(now, linked=_linked(now.linked, links)), brought)
            case ToolCallFailed(brought=brought) | ToolCallUncertain(brought=brought):
                now = _with_result(now, brought)  # the message of a failure may quote what the tool read
            case ToolCallCancelled():
                now = _with_result(now, ())
            case LabelsCleared():
                now = replace(now, content=CLEAN)
            case SessionForked(without=without) if without:
                now = _with_result(now, ())  # a turn that was left out may be quoted by those that were not
            case Erased():
                now = _with_result(now, ())  # what it said may be quoted by what follows
            case _:
                pass
        self.now = now

    def add_report(self) -> None:
        """Add what a run of a skill came to, which may quote anything that its steps read."""
        self.now = _with_result(self.now, ())


def addresses_in(text: str) -> frozenset[str]:
    """Return the addresses in a text, normalised by `plain_address`."""
    return frozenset(filter(None, map(plain_address, (*_typed(text), *_bare(text)))))


def _with_result(now: Reading, brought: tuple[str, ...]) -> Reading:
    """Add a tool's result from these sources; without sources, it is from the project or the user."""
    own = now.has_own or not brought or any(not source.startswith(_WEB) for source in brought)
    return replace(now, has_read=True, has_own=own)


def _with_typed(now: Reading, text: str) -> Reading:
    found = addresses_in(text)
    return replace(now, typed=now.typed | found) if found else now


def _linked(known: frozenset[str], links: Iterable[str]) -> frozenset[str]:
    fresh = frozenset(filter(None, map(plain_address, links))) - known
    return known | fresh if fresh and len(known) + len(fresh) <= MOST_LINKED else known


def _typed(text: str) -> Iterator[str]:
    for match, _ in zip(_TYPED.finditer(text), range(_MOST_TYPED), strict=False):
        for part in match[0].split("]("):  # a Markdown link
            yield from _ends(part)


def _bare(text: str) -> Iterator[str]:
    for match, _ in zip(_BARE.finditer(text), range(_MOST_TYPED), strict=False):
        yield from (f"{scheme}://{end}" for scheme in ("https", "http") for end in _ends(match[0]))


def _ends(found: str) -> Iterator[str]:
    """Yield the possible addresses, the longest first."""
    found = found[: MAX_ADDRESS + 1]
    yield found
    for _ in range(_MOST_CLOSING):
        if not found or found[-1] not in _CLOSING:
            return
        found = found[:-1]
        yield found
