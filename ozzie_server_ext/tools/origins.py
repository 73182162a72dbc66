"""Where that stands which a call names: in a person's own words, among their contacts, in what a tool or a message
said, or nowhere (docs/policy.md, Where a name comes from). A sentence for the person who is asked; no rule reads it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from typing import TypeAlias

import msgspec

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.toolmeta import Said, TargetKind
from ozzie_server_ext.policy.conditions import Contacts
from ozzie_server_ext.policy.sources import origin_text
from ozzie_server_ext.policy.targets import NEED_NO_QUOTES, Named, address_in
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
_MOST_NAMES = 2
"""In one part of the sentence."""


class Place(IntEnum):
    """Where a name stands, the most doubtful first."""

    NOWHERE = 0
    OUTSIDE = 1
    SUMMARY = 2
    MESSAGE = 3
    RESULT = 4
    CONTACTS = 5
    WORDS = 6


class Passage(msgspec.Struct, frozen=True):
    """A text that the model has read: a message, a summary of earlier turns, or what the tool `tool` returned.
    `sources` are its own from outside."""

    place: Place
    text: str
    tool: str = ""
    sources: tuple[str, ...] = ()


Passages: TypeAlias = Callable[[], Iterable[Passage]]
"""All that the model has read."""


class Origin(msgspec.Struct, frozen=True):
    """The best place in which a name stands: with the tool that returned it, or the sources from outside."""

    place: Place
    tool: str = ""
    content: Content = CLEAN


def origins_of(
    named: Iterable[Named], said: Collection[Said], contacts: Sequence[Contacts], passages: Passages | None
) -> list[tuple[str, Origin]]:
    """Return what a call names, as its card spells it, each once, with its place. Without `passages`, only what a
    person named or has as a contact is told."""
    wanted = sorted((each for each in named if each.kind in TOLD_OF), key=lambda each: TOLD_OF.index(each.kind))
    known = {(each.kind, each.value): each for each in wanted if each.value is not None}
    read = [*passages()] if passages is not None and known else []
    found: list[tuple[str, Origin]] = []
    for (kind, value), each in known.items():
        name = value if kind in NEED_NO_QUOTES else spelled(value)
        if Said(kind, value) in said:
            found.append((name, Origin(Place.WORDS)))
        elif any(one.has(each) for one in contacts):
            found.append((name, Origin(Place.CONTACTS)))
        elif passages is not None:
            found.append((name, _origin_in(read, _pattern_of(each))))
    return found


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
            return f"{be} in nothing that was said or read here"
        case Place.OUTSIDE:
            return f"{come} from {origin_text(origin.content)}"
        case Place.SUMMARY:
            return f"{be} in the summary of earlier turns"
        case Place.MESSAGE:
            return f"{be} in a message of this session"
        case Place.RESULT:
            return f"{be} in what {origin.tool} returned"
        case Place.CONTACTS:
            return f"{be} among your contacts"
        case Place.WORDS:
            return f"{be} in your own words"


def _origin_in(read: Iterable[Passage], pattern: re.Pattern[str]) -> Origin:
    """Return the best place. Of what came from outside, all sources that have the name are told."""
    outside, best = CLEAN, Origin(Place.NOWHERE)
    for passage in read:
        if not pattern.search(passage.text):
            continue
        if passage.sources:
            outside |= Content.from_sources(passage.sources)
        elif passage.place > best.place:
            best = Origin(passage.place, tool=passage.tool)
    if best.place is Place.NOWHERE and outside:
        return Origin(Place.OUTSIDE, content=outside)
    return best


def _pattern_of(named: Named) -> re.Pattern[str]:
    """Return how a name may be written in a text: any case, an account with blanks, an amount as its number alone."""
    assert named.value is not None
    match named.kind:
        case TargetKind.RECIPIENT:
            forms = "|".join(re.escape(form) for form in {named.value, address_in(named.given)})
            return re.compile(rf"(?<![\w.+-])(?:{forms})(?![\w-])", re.IGNORECASE)
        case TargetKind.ACCOUNT:
            return re.compile(rf"(?<!\w){'[ -]?'.join(map(re.escape, named.value))}(?!\w)", re.IGNORECASE)
        case TargetKind.AMOUNT:
            assert named.amount is not None
            whole, _, rest = f"{named.amount.value:f}".partition(".")
            digits = re.sub(r"\B(?=(?:[0-9]{3})+$)", "[,.'’ ]?", whole)
            decimals = rf"[.,]{rest}0*" if rest else "(?:[.,]0{1,2})?"
            return re.compile(rf"(?<![\w.,]){digits}{decimals}(?![\w]|[.,]\d)")
        case _:
            return re.compile(rf"(?<!\w){re.escape(named.value)}(?!\w)", re.IGNORECASE)
