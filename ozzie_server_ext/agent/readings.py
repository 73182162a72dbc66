"""What a session has read, folded from its events: whence, and which addresses came with it (TL-8, ADR 31)."""

import re
from collections.abc import Iterator

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.events import Event, LabelsCleared, MessageReceived, ToolCallCompleted
from ozzie_server_ext.policy.hosts import Host, host_of
from ozzie_server_ext.policy.reading import MAX_ADDRESS, Reading, plain_address

MOST_ADDRESSES = 20_000
"""As many are remembered; who reads on is asked for those behind them."""

_TYPED = re.compile(r"\bhttps?://[^\s<>\"'`]+", re.IGNORECASE)
_BARE = re.compile(
    r"(?<![\w@/.:-])(?:[\w-]{1,63}\.){1,8}[a-z]{2,24}(?::[0-9]{1,5})?(?:/[^\s<>\"'`]*)?(?![\w@])", re.IGNORECASE
)
"""As people write one: without a protocol. That may be a file's name as well, so it gives no host: nothing but the very
address, with which nothing can be carried away."""
_CLOSING = ".,;:!?)]}*_"
"""What ends a sentence, a bracket or a word in bold, and is seldom the end of an address. Both are taken."""
_MOST_TYPED = 200
"""In one message."""


class Readings:
    """The fold. What a person says has no label, so their words are their own; a message that bears one came in by a
    channel, from another task or from a schedule, and gives no address (THREATS 9)."""

    def __init__(self) -> None:
        self.now = Reading()

    def apply(self, event: Event) -> None:
        """Take in one event."""
        now = self.now
        content = now.content | Content(labels=event.labels, sources=event.sources) if event.labels else now.content
        has_read, addresses, hosts = now.has_read, now.addresses, now.hosts
        match event.body:
            case MessageReceived(text=text) if not event.labels:
                typed = tuple(_typed(text))
                addresses = _with(addresses, filter(None, map(plain_address, (*typed, *_bare(text)))))
                hosts = hosts | _hosts(typed)
            case ToolCallCompleted(links=links):
                has_read = True
                addresses = _with(addresses, filter(None, map(plain_address, links)))
            case LabelsCleared():
                content = CLEAN
            case _:
                pass
        self.now = Reading(content=content, has_read=has_read, addresses=addresses, hosts=hosts)


def _with(known: frozenset[str], more: Iterator[str]) -> frozenset[str]:
    fresh = frozenset(more) - known
    return known | fresh if fresh and len(known) + len(fresh) <= MOST_ADDRESSES else known


def _typed(text: str) -> Iterator[str]:
    """The addresses in what a person wrote."""
    for match, _ in zip(_TYPED.finditer(text), range(_MOST_TYPED), strict=False):
        yield from _ends(match[0])


def _bare(text: str) -> Iterator[str]:
    for match, _ in zip(_BARE.finditer(text), range(_MOST_TYPED), strict=False):
        yield from (f"{scheme}://{end}" for scheme in ("https", "http") for end in _ends(match[0]))


def _ends(found: str) -> Iterator[str]:
    whole = found[: MAX_ADDRESS + 1]
    yield whole
    yield whole.rstrip(_CLOSING)


def _hosts(urls: tuple[str, ...]) -> frozenset[Host]:
    return frozenset(host for url in urls if (host := host_of(url)) is not None)
