"""What is decided upon, and the decisions: ALLOW < CHECK < ASK < DENY, the strictest wins."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit, urlunsplit

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.paths import path_parts
from ozzie_server_ext.domain.toolmeta import TargetKind, ToolMeta
from ozzie_server_ext.policy.patterns import Host, folded, host_of
from ozzie_server_ext.render.text import inside

MAX_ADDRESS = 2000
"""In characters. A longer one is taken for none that anybody gave."""
MOST_FOLLOWED = 10
"""How many links go unasked behind each other where more was read than the web: which of a page's links are taken can
spell what was read, and with each one more of it."""
_PORTS = {"http": 80, "https": 443}

Given: TypeAlias = Literal["address", "unread", ""]
"""Whether somebody gave an address: the user, a page or a search, to the letter; nobody, but nothing has been read that
it could carry away; or nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What stands in the conversation behind a call. `content`: what of it came from outside. `has_read`: whether tools
    told the model anything at all, `has_own`: whether anything of that was not from the web. `typed` are the addresses,
    as `plain_address` writes them, that the user gave or that were fetched before, `linked` those that the web gave;
    `followed` is how many of these were asked for since the user spoke last."""

    content: Content = CLEAN
    has_read: bool = False
    has_own: bool = False
    typed: frozenset[str] = frozenset()
    linked: frozenset[str] = frozenset()
    followed: int = 0

    def gave(self, url: str) -> Given:
        """Who gave that address."""
        address = plain_address(url)
        if address is not None and address in self.typed:
            return "address"
        if address is not None and address in self.linked and not (self.has_own and self.followed >= MOST_FOLLOWED):
            return "address"
        return "" if self.has_read or self.content else "unread"


UNREAD = Reading()


def plain_address(url: str) -> str | None:
    """An address of the web as it is compared: scheme and host in one form, without the fragment, which nobody sends;
    path and query to the letter. None for what leads nowhere on the web."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whom a call is made for, and where: the project's folder without links in its path, the channel, the user as
    Jupyter knows them, and whether anybody is there to be asked."""

    project: str = ""
    channel: str = ""
    user: str = ""
    attended: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A call to be decided upon, with all that its arguments name: paths by their components, hosts, commands by their
    words. None stands for what can't be read as such. Rules that ask or deny compare the folded ones, which are made
    once here and not again by each rule. `reading` is what it is made from, `given` who gave each address that it
    names."""

    meta: ToolMeta
    caller: Caller
    paths: tuple[tuple[str, ...] | None, ...] = ()
    hosts: tuple[Host | None, ...] = ()
    commands: tuple[tuple[str, ...] | None, ...] = ()
    reading: Reading = UNREAD
    given: tuple[Given, ...] = ()
    args: Mapping[str, Json] = field(default_factory=dict[str, Json])
    folded_paths: tuple[tuple[str, ...] | None, ...] = field(init=False)
    folded_commands: tuple[tuple[str, ...] | None, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folded_paths", tuple(map(_folded, self.paths)))
        object.__setattr__(self, "folded_commands", tuple(map(_folded, self.commands)))

    @classmethod
    def of(cls, meta: ToolMeta, args: Mapping[str, Json], caller: Caller, reading: Reading = UNREAD) -> "Action":
        """The call of that tool with those arguments, which `Tool.check` accepted."""
        given = [(target.kind, args.get(target.argument)) for target in meta.targets]
        urls = [value for kind, value in given if kind is TargetKind.URL]
        return cls(
            meta=meta,
            caller=caller,
            paths=tuple(_each(path_parts, [value for kind, value in given if kind is TargetKind.PATH])),
            hosts=tuple(_each(host_of, urls)),
            commands=tuple(_words(value) for kind, value in given if kind is TargetKind.COMMAND and value is not None),
            reading=reading,
            given=tuple(gave or "" for gave in _each(reading.gave, urls)),
            args=args,
        )


def _folded(parts: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if parts is None else tuple(map(folded, parts))


def _each(read: Callable[[str], T | None], values: Iterable[Json]) -> Iterator[T | None]:
    for value in values:
        for text in value if isinstance(value, list) else () if value is None else (value,):
            yield read(text) if isinstance(text, str) else None


def _words(value: Json) -> tuple[str, ...] | None:
    """The words of a command. A line for a shell is not read: what it does is for the shell alone to say."""
    if not isinstance(value, list) or not 0 < len(value) <= MAX_WORDS:
        return None
    words = tuple(word for word in value if isinstance(word, str) and len(word) <= MAX_WORD_CHARACTERS)
    return words if len(words) == len(value) else None


class Decision(StrEnum):
    """CHECK: a second model may say yes; where it does not, it is an ASK."""

    ALLOW = "ALLOW"
    CHECK = "CHECK"
    ASK = "ASK"
    DENY = "DENY"

    @property
    def rank(self) -> int:
        """How strict it is; more is stricter."""
        return _RANKS[self]


_RANKS = {decision: rank for rank, decision in enumerate(Decision)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision, the rule that made it, and its reason, a sentence for people. `place` names file and line of a rule
    that stands in a file; it is empty for one of Ozzie's own. `needs`: the weakest way that a yes may come by, where a
    rule wants one that the tool's contract does not."""

    decision: Decision
    rule: str
    reason: str
    place: str = ""
    needs: AuthStrength = AuthStrength.MODEL

    @property
    def strictness(self) -> tuple[int, int]:
        """Of two verdicts, the one that counts has more."""
        return self.decision.rank, self.needs.strength

    @property
    def refusal(self) -> str:
        """Why the call does not run, where it is refused."""
        where = f" Rule {self.rule} in {self.place}." if self.place else ""
        return f"Not allowed: {inside(self.reason)}.{where}"
