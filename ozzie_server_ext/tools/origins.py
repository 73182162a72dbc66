"""Where the names in a call come from: in a person's own words, among their contacts, in outside content, in what a
tool or a message said, or nowhere (docs/policy.md, Where a name comes from). A sentence for the person who is asked; no
rule reads it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import TypeAlias, cast

import msgspec

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Said, TargetKind
from ozzie_server_ext.policy.conditions import Contacts
from ozzie_server_ext.policy.sources import origin_text
from ozzie_server_ext.policy.targets import NEED_NO_QUOTES, Named, address_in
from ozzie_server_ext.protocol.jsontext import MAX_DEPTH, InvalidJson, dumps, loads, texts_in
from ozzie_server_ext.render.text import spelled

TOLD_OF = (
    TargetKind.RECIPIENT,
    TargetKind.PERSON,
    TargetKind.CHANNEL,
    TargetKind.ACCOUNT,
    TargetKind.AMOUNT,
)
"""Kinds that say whom a call reaches and what it costs, the most important first. An id of an object is always in what
a tool returned, and nobody wants to read so."""
MOST_FOUND = 20
"""Names of one call; cards show as many of an argument."""
_MOST_NAMES = 2
"""In one part of the sentence."""
_TOOL = re.compile(r"[\w.-]{1,64}")


class Place(IntEnum):
    """Where a name stands, the most doubtful first. What is from outside counts as that wherever else it stands: tools
    and messages repeat what they were given."""

    NOWHERE = 0
    OUTSIDE = 1
    SUMMARY = 2
    MESSAGE = 3
    RESULT = 4
    CONTACTS = 5
    WORDS = 6


class Passage(msgspec.Struct, frozen=True):
    """A text that the model has read: a message, a summary of earlier turns, or as JSON what the call `asked` of `tool`
    returned (`agent.rounds.result_text`). `sources` are its own from outside."""

    place: Place
    text: str
    tool: str = ""
    asked: str = ""
    sources: tuple[str, ...] = ()


Passages: TypeAlias = Callable[[], Sequence[Passage]]
"""Returns all that the model has read."""


class Origin(msgspec.Struct, frozen=True):
    """The place in which a name stands: with the tool that returned it, or the sources from outside."""

    place: Place
    tool: str = ""
    content: Content = CLEAN


def names_to_find(named: Iterable[Named]) -> list[Named]:
    """Return what a call names of the kinds that are told of, each once, at most MOST_FOUND."""
    wanted = sorted((each for each in named if each.kind in TOLD_OF), key=lambda each: TOLD_OF.index(each.kind))
    known = {(each.kind, each.value): each for each in wanted if each.value is not None}
    return [*known.values()][:MOST_FOUND]


def origins_of(
    names: Sequence[Named], said: Collection[Said], contacts: Sequence[Contacts], passages: Sequence[Passage]
) -> list[tuple[str, Origin]]:
    """Return the names, as their card spells them, each with its place. A long conversation takes a second."""
    found: dict[int, Origin] = {}
    for at, each in enumerate(names):
        if Said(each.kind, str(each.value)) in said:
            found[at] = Origin(Place.WORDS)
        elif any(one.has(each) for one in contacts):
            found[at] = Origin(Place.CONTACTS)
    sought = {at: _Sought(each) for at, each in enumerate(names) if at not in found}
    for passage in passages if sought else ():
        folded = passage.text.casefold()
        hits = [each for each in sought.values() if each.may_be_in(folded)]
        if hits:
            text = "\n".join(_read(passage))
            for each in hits:
                each.look(passage, text)
    found |= {at: each.origin for at, each in sought.items()}
    return [(_spelled(each), found[at]) for at, each in enumerate(names)]


class _Sought:
    """A name that is looked for in one passage after another."""

    def __init__(self, named: Named) -> None:
        self._pattern = _pattern_of(named)
        self._parts = tuple(part.casefold() for part in _parts_of(named))
        self._best = Origin(Place.NOWHERE)
        self._outside = CLEAN

    @property
    def origin(self) -> Origin:
        return Origin(Place.OUTSIDE, content=self._outside) if self._outside else self._best

    def may_be_in(self, folded: str) -> bool:
        """Whether the pattern may match: a quick look, as most passages do not have the name."""
        return any(part in folded for part in self._parts)

    def look(self, passage: Passage, text: str) -> None:
        if not self._pattern.search(text):
            return
        if passage.sources:
            self._outside |= Content.from_sources(passage.sources)
        elif passage.place > self._best.place and not self._pattern.search(passage.asked):
            self._best = Origin(passage.place, tool=passage.tool)


def _read(passage: Passage) -> Iterator[str]:
    """Yield the texts of a passage. Of a result, those are the values that the tool returned; its errors count only if
    they are from outside, since they repeat what was asked."""
    if passage.place is not Place.RESULT:
        yield passage.text
        return
    try:
        result = cast(JsonObject, loads(passage.text, max_bytes=4 * len(passage.text), max_depth=MAX_DEPTH + 2))
    except InvalidJson:  # deeper than this; the names of fields do no harm here
        yield passage.text
        return
    yield from texts_in(result["data"])
    if passage.sources:
        yield from texts_in(result["error"])


def _spelled(named: Named) -> str:
    return str(named.value) if named.kind in NEED_NO_QUOTES else spelled(str(named.value))


def sentence(origins: Sequence[tuple[str, Origin]]) -> str:
    """Return the places as one sentence, the most doubtful first; "" if there are none."""
    by_origin: dict[Origin, list[str]] = {}
    for name, origin in sorted(origins, key=lambda each: each[1].place):
        by_origin.setdefault(origin, []).append(name)
    parts = [f"{_names(names)} {_place(origin, len(names) > 1)}" for origin, names in by_origin.items()]
    return f"{'; '.join(parts)}." if parts else ""


def _names(names: Sequence[str]) -> str:
    if len(names) <= _MOST_NAMES:
        return " and ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES:,} more"


def _place(origin: Origin, are_several: bool) -> str:
    be, come = ("are", "come") if are_several else ("is", "comes")
    match origin.place:
        case Place.NOWHERE:
            return f"{be} in no message or result of this session"
        case Place.OUTSIDE:
            return f"{come} from {origin_text(origin.content)}"
        case Place.SUMMARY:
            return f"{be} in a model's summary of earlier turns"
        case Place.MESSAGE:
            return f"{be} in a message that may be anybody's"
        case Place.RESULT:
            return f"{be} in what {origin.tool if _TOOL.fullmatch(origin.tool) else 'a tool'} returned"
        case Place.CONTACTS:
            return f"{be} among your contacts"
        case Place.WORDS:
            return f"{be} in your own words"


def _parts_of(named: Named) -> Iterator[str]:
    """Yield texts of which a text with the name has one, in plain text or in JSON."""
    value = str(named.value)
    match named.kind:
        case TargetKind.RECIPIENT:
            yield from (value, address_in(named.given))
        case TargetKind.ACCOUNT:
            yield value[:2]
        case TargetKind.AMOUNT:
            assert named.amount is not None
            whole = f"{named.amount.value:f}".partition(".")[0]
            yield whole[: len(whole) % 3 or 3]
        case _:
            yield value
            yield dumps(value)[1:-1]


def _pattern_of(named: Named) -> re.Pattern[str]:
    """Return how a name may be written in a text: any case, an account with blanks, an amount as its number alone."""
    value = str(named.value)
    match named.kind:
        case TargetKind.RECIPIENT:
            forms = "|".join(re.escape(form) for form in {value, address_in(named.given)})
            return re.compile(rf"(?<![\w.+-])(?:{forms})(?![\w-]|\.\w)", re.IGNORECASE)
        case TargetKind.ACCOUNT:
            return re.compile(rf"(?<!\w)(?<!\w[@.-]){'[ -]?'.join(map(re.escape, value))}(?![@.-]?\w)", re.IGNORECASE)
        case TargetKind.AMOUNT:
            assert named.amount is not None
            whole, _, rest = f"{named.amount.value:f}".partition(".")
            digits = re.sub(r"\B(?=(?:[0-9]{3})+$)", "[,.'’ ]?", whole)
            decimals = rf"[.,]{rest}0*" if rest else "(?:[.,]0{1,2})?"
            return re.compile(rf"(?<![\w.,]){digits}{decimals}(?![\w]|[.,]\d)")
        case _:
            return re.compile(rf"(?<!\w){re.escape(value)}(?!\w)", re.IGNORECASE)
