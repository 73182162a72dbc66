"""The call to decide on, and the decisions: ALLOW < CHECK < ASK < DENY, the strictest wins."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.paths import path_parts
from ozzie_server_ext.domain.toolmeta import Said, TargetKind, ToolMeta
from ozzie_server_ext.policy.patterns import Host, folded, host_of
from ozzie_server_ext.policy.targets import Named, Values, named_by
from ozzie_server_ext.protocol.jsontext import texts_in
from ozzie_server_ext.render.text import inside

MAX_ADDRESS = 2000
"""Characters. A longer address counts as given by nobody."""
MOST_FOLLOWED = 10
"""Links of web pages followed in a row without asking, once more than the web was read: the choice among a page's links
can spell out what was read, and more of it with each link."""
_PORTS = {"http": 80, "https": 443}

Given: TypeAlias = Literal["address", "unread", ""]
"""Who gave an address literally: the user, a page or a search; nobody, but nothing that could leak was read; nobody."""


class Words(msgspec.Struct, frozen=True):
    """A person's own words: what they name, and the messages of which they typed all."""

    named: frozenset[Said] = frozenset()
    texts: tuple[str, ...] = ()


NO_WORDS = Words()


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What the conversation before a call contains. `content`: what came from outside. `has_read`: tools told the model
    anything; `has_own`: some of it was not from the web. Addresses, as by `plain_address`: `typed` by the user or
    fetched before, `linked` by the web; `followed` counts linked ones requested since the user's last message. `words`:
    what is known to be a person's own, `message`: what of it is the message that led to the call. `made`: the tools
    that were called for that message, each by the name or id that was used; `reads` yields the calls that told the
    model something, each with what it names; None for one of which nobody can tell."""

    content: Content = CLEAN
    has_read: bool = False
    has_own: bool = False
    typed: frozenset[str] = frozenset()
    linked: frozenset[str] = frozenset()
    followed: int = 0
    words: Words = NO_WORDS
    message: Words = NO_WORDS
    made: frozenset[str] = frozenset()
    reads: "Callable[[], Iterable[Action | None]]" = tuple

    def gave(self, url: str) -> Given:
        """Return where the address comes from."""
        address = plain_address(url)
        if address is not None and address in self.typed:
            return "address"
        if address is not None and address in self.linked and not (self.has_own and self.followed >= MOST_FOLLOWED):
            return "address"
        return self._unless_read()

    def said(self, text: str) -> Given:
        """Return whether the message that led to the call has this text in words that a person typed."""
        is_typed = Said(TargetKind.URL, text) in self.message.named or any(text in each for each in self.message.texts)
        return "address" if is_typed else self._unless_read()

    def _unless_read(self) -> Given:
        return "" if self.has_read or self.content else "unread"


UNREAD = Reading()


def plain_address(url: str) -> str | None:
    """Normalize a web address for comparison: scheme and host, literal path and query, no fragment. None if invalid."""
    host = host_of(url) if len(url) <= MAX_ADDRESS else None
    if host is None:
        return None
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        return None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        return None
    name = str(host) if isinstance(host, str) or host.version == 4 else f"[{host}]"
    place = name if port in (None, _PORTS[scheme]) else f"{name}:{port}"
    return urlunsplit((scheme, place, parts.path or "/", parts.query, ""))


T = TypeVar("T")

MAX_WORDS = 256
MAX_WORD_CHARACTERS = 8192


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who a call is made for, and where: the project folder (without links in its path), the channel, the Jupyter user,
    and whether anybody is there to be asked."""

    project: str = ""
    channel: str = ""
    user: str = ""
    attended: bool = True


Spent: TypeAlias = Mapping[str, Decimal]
"""How much of each currency (ISO 4217)."""
_NOTHING: Spent = {}


class Paths(msgspec.Struct, frozen=True):
    """The files and folders that a call names, for comparing them with patterns: each once, by the name that it begins
    with ("" for the project itself). `text` has each name on these paths once: what is not in it is on none of them."""

    by_first: Mapping[str, tuple[tuple[str, ...], ...]] = {}
    text: str = ""
    has_unread: bool = False

    @classmethod
    def of(cls, paths: Iterable[tuple[str, ...] | None]) -> "Paths":
        by_first: dict[str, list[tuple[str, ...]]] = {}
        read = dict.fromkeys(paths)
        has_unread = None in read
        for parts in read:
            if parts is not None:
                by_first.setdefault(parts[0] if parts else "", []).append(parts)
        text = "\n".join({part for parts in read if parts for part in parts})
        return cls({first: tuple(group) for first, group in by_first.items()}, text, has_unread)


_NO_PATHS = Paths()


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A call to decide on, with everything its arguments name: paths by components, hosts, commands by words, None for
    an unreadable one; all else is `named`, by kind in `values`. Rules that ask or deny compare the folded forms, which
    are computed once here. `reading` is what the call is made from, `given` where each of its addresses comes from, and
    each text that a person should have typed, `spent` what the calls of the day before it spent."""

    meta: ToolMeta
    caller: Caller
    named: tuple[Named, ...] = ()
    paths: tuple[tuple[str, ...] | None, ...] = ()
    hosts: tuple[Host | None, ...] = ()
    commands: tuple[tuple[str, ...] | None, ...] = ()
    reading: Reading = UNREAD
    spent: Spent = field(default_factory=dict[str, Decimal])
    given: tuple[Given, ...] = ()
    args: Mapping[str, Json] = field(default_factory=dict[str, Json])
    exact_paths: Paths = field(init=False, default=_NO_PATHS)
    folded_paths: Paths = field(init=False, default=_NO_PATHS)
    folded_commands: tuple[tuple[str, ...] | None, ...] = field(init=False)
    values: Mapping[TargetKind, Values] = field(init=False)

    def __post_init__(self) -> None:
        if self.paths:
            exact = Paths.of(self.paths)
            is_folded = exact.text.isascii() and exact.text == exact.text.lower()
            object.__setattr__(self, "exact_paths", exact)
            object.__setattr__(self, "folded_paths", exact if is_folded else Paths.of(map(_folded, self.paths)))
        object.__setattr__(self, "folded_commands", tuple(map(_folded, self.commands)))
        object.__setattr__(self, "values", Values.by_kind(self.named))

    @classmethod
    def of(
        cls,
        meta: ToolMeta,
        args: Mapping[str, Json],
        caller: Caller,
        reading: Reading = UNREAD,
        spent: Spent = _NOTHING,
    ) -> "Action":
        """Return the call of a tool with checked arguments."""
        given = [(target.kind, args.get(target.argument)) for target in meta.targets]
        urls = [value for kind, value in given if kind is TargetKind.URL]
        said = (text for name in meta.typed for text in texts_in(args.get(name)))
        return cls(
            meta=meta,
            caller=caller,
            named=tuple(named_by(meta, args)),
            paths=tuple(_each(path_parts, [value for kind, value in given if kind is TargetKind.PATH])),
            hosts=tuple(_each(host_of, urls)),
            commands=tuple(_words(value) for kind, value in given if kind is TargetKind.COMMAND and value is not None),
            reading=reading,
            spent=spent,
            given=tuple(_given(reading, urls, said)),
            args=args,
        )

    def texts(self) -> Iterator[str]:
        """Yield all texts of the call that name nothing by its contract."""
        named = {target.argument for target in self.meta.targets}
        for name, value in self.args.items():
            if name not in named:
                yield from texts_in(value)


def _folded(parts: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if parts is None else tuple(map(folded, parts))


def _each(read: Callable[[str], T | None], values: Iterable[Json]) -> Iterator[T | None]:
    for value in values:
        for text in value if isinstance(value, list) else () if value is None else (value,):
            yield read(text) if isinstance(text, str) else None


def _given(reading: Reading, urls: Iterable[Json], texts: Iterable[str]) -> Iterator[Given]:
    for gave in _each(reading.gave, urls):
        yield gave or ""
    yield from map(reading.said, texts)


def _words(value: Json) -> tuple[str, ...] | None:
    """Return the words of a command. A shell line is not parsed: only the shell knows what it does."""
    if not isinstance(value, list) or not 0 < len(value) <= MAX_WORDS:
        return None
    words = tuple(word for word in value if isinstance(word, str) and len(word) <= MAX_WORD_CHARACTERS)
    return words if len(words) == len(value) else None


class Decision(StrEnum):
    """CHECK: a second model may approve; if it does not, it is an ASK."""

    ALLOW = "ALLOW"
    CHECK = "CHECK"
    ASK = "ASK"
    DENY = "DENY"

    @property
    def rank(self) -> int:
        """The strictness; more is stricter."""
        return _RANKS[self]


_RANKS = {decision: rank for rank, decision in enumerate(Decision)}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The decision, its rule, and the reason as a sentence for people. `place` is the file and line of the rule, empty
    for a built-in one. `needs` is the weakest way to approve, if the rule wants a stronger one than the contract."""

    decision: Decision
    rule: str
    reason: str
    place: str = ""
    needs: AuthStrength = AuthStrength.MODEL

    @property
    def strictness(self) -> tuple[int, int]:
        """The sort key: the strictest verdict counts."""
        return self.decision.rank, self.needs.strength

    @property
    def refusal(self) -> str:
        where = f" Rule {self.rule} in {self.place}." if self.place else ""
        return f"Not allowed: {inside(self.reason)}.{where}"
