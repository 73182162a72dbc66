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
    MessageReceived,
    PromptAnswered,
    PromptRequested,
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
from ozzie_server_ext.domain.ids import CallId, PromptId
from ozzie_server_ext.domain.messages import DELEGATED
from ozzie_server_ext.domain.toolmeta import PLUGINS, SERVERS
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


class SessionReading:
    """The fold. Addresses in the text of a message are known addresses, whoever typed it. Messages with labels (from a
    channel, a schedule or another task) and delegated messages give none; a delegated task has those of a person in its
    brief."""

    def __init__(self) -> None:
        self.now = Reading()
        self._requested: dict[CallId, str] = {}
        self._of_servers: set[PromptId] = set()

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
            case PromptRequested(kind="server", prompt_id=prompt_id):
                self._of_servers.add(prompt_id)
            case PromptAnswered(prompt_id=prompt_id) if prompt_id in self._of_servers:
                pass  # it was said to a server, which chose the question
            case PromptAnswered(text=text) | TaskUpdated(text=text):
                now = _with_typed(now, text)
            case ToolCallRequested(call_id=call_id, tool_id=tool_id, args={"url": str(url)}) if (
                address := plain_address(url)
            ) and not tool_id.startswith((SERVERS, PLUGINS)):  # to say an address to one of them is not to request it
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
