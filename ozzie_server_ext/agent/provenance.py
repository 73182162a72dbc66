"""What a session has read, folded from its events: whence, and which addresses came with it (ADR 31)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ozzie_server_ext.domain.content import CLEAN, Label
from ozzie_server_ext.domain.events import (
    Brief,
    Event,
    LabelsCleared,
    MessageReceived,
    PromptAnswered,
    TaskCreated,
    TaskUpdated,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.messages import DELEGATED
from ozzie_server_ext.policy.decision import MAX_ADDRESS, Reading, plain_address

MOST_LINKED = 20_000
"""As many addresses of pages are remembered; who reads on is asked for those behind them."""

_TYPED = re.compile(r"\bhttps?://[^\s<>\"'`]+", re.IGNORECASE)
_BARE = re.compile(
    r"(?<![\w@/.:-])(?:[\w-]{1,63}\.){1,8}[a-z]{2,24}(?::[0-9]{1,5})?(?:/[^\s<>\"'`]*)?(?![\w@])", re.IGNORECASE
)
"""As people write one: without a protocol. That may be a file's name as well; but with the very address that somebody
typed, nothing can be carried away."""
_CLOSING = ".,;:!?)]}*_。，、"
"""What ends a sentence, a bracket or a word in bold, and is seldom the end of an address: with and without it, both are
taken."""
_MOST_CLOSING = 6
_MOST_TYPED = 200
"""In one message."""
_WEB = f"{Label.WEB}:"


class Readings:
    """The fold. What a person says has no label, so their words are their own; a message that bears one came in by a
    channel, from another task or from a schedule, and gives no address. Nor does one that was handed over:
    what a person gave for it stands in its brief."""

    def __init__(self) -> None:
        self.now = Reading()
        self._asked: dict[CallId, str] = {}

    def apply(self, event: Event) -> None:
        """Take in one event."""
        now = self.now
        if event.labels:
            now = replace(now, content=now.content | event.content)
        match event.body:
            case TaskCreated(brief=Brief(given=given)):
                now = replace(now, typed=now.typed | frozenset(given))
            case MessageReceived(text=text, pictures=pictures, origin=origin):
                is_handed = origin.channel == DELEGATED
                seen = bool(pictures) or is_handed  # it may be made from anything that was read there
                now = replace(now, followed=0, has_read=now.has_read or seen, has_own=now.has_own or seen)
                now = now if event.labels or is_handed else _typing(now, text)
            case PromptAnswered(text=text) | TaskUpdated(text=text):
                now = _typing(now, text)
            case ToolCallRequested(call_id=call_id, args={"url": str(url)}) if address := plain_address(url):
                self._asked[call_id] = address
            case ToolCallStarted(call_id=call_id) if address := self._asked.pop(call_id, None):
                # It is asked for now. To ask for it once more carries nothing further.
                followed = now.followed + (address not in now.typed)
                now = replace(now, followed=followed, typed=now.typed | {address})
            case ToolCallCompleted(links=links, brought=brought):
                now = _told(replace(now, linked=_linked(now.linked, links)), brought)
            case ToolCallFailed(brought=brought) | ToolCallUncertain(brought=brought):
                now = _told(now, brought)  # what a tool says in failing may quote what it read
            case ToolCallCancelled():
                now = _told(now, ())
            case LabelsCleared():
                now = replace(now, content=CLEAN)
            case _:
                pass
        self.now = now


def addresses_in(text: str) -> frozenset[str]:
    """Those that somebody gives who says that, as `plain_address` writes them."""
    return frozenset(filter(None, map(plain_address, (*_typed(text), *_bare(text)))))


def _told(now: Reading, brought: tuple[str, ...]) -> Reading:
    """A tool told the model something, from these sources; from none, it is of the project or of the user's."""
    own = now.has_own or not brought or any(not source.startswith(_WEB) for source in brought)
    return replace(now, has_read=True, has_own=own)


def _typing(now: Reading, text: str) -> Reading:
    found = addresses_in(text)
    return replace(now, typed=now.typed | found) if found else now


def _linked(known: frozenset[str], links: Iterable[str]) -> frozenset[str]:
    fresh = frozenset(filter(None, map(plain_address, links))) - known
    return known | fresh if fresh and len(known) + len(fresh) <= MOST_LINKED else known


def _typed(text: str) -> Iterator[str]:
    """The addresses in what a person wrote."""
    for match, _ in zip(_TYPED.finditer(text), range(_MOST_TYPED), strict=False):
        for part in match[0].split("]("):  # as in Markdown
            yield from _ends(part)


def _bare(text: str) -> Iterator[str]:
    for match, _ in zip(_BARE.finditer(text), range(_MOST_TYPED), strict=False):
        yield from (f"{scheme}://{end}" for scheme in ("https", "http") for end in _ends(match[0]))


def _ends(found: str) -> Iterator[str]:
    """All that may be meant, from the longest."""
    found = found[: MAX_ADDRESS + 1]
    yield found
    for _ in range(_MOST_CLOSING):
        if not found or found[-1] not in _CLOSING:
            return
        found = found[:-1]
        yield found
