"""The normal form of what a call's arguments name beside paths, addresses of the web and commands: the form in which
rules compare it, a card shows it and a yes binds it (docs/policy.md, What a call names).

A value that could be read in two ways is not read: None, which rules that deny or ask take for a match and rules that
allow do not.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.toolmeta import Said, TargetKind, ToolMeta
from ozzie_server_ext.policy.patterns import canonical_host, folded
from ozzie_server_ext.render.text import without_hidden

MAX_CHARACTERS = 320
"""Of one name: an address of mail has at most 64 + 1 + 255 (RFC 5321, section 4.5.3.1)."""
MAX_NAMED = 200
"""Of one argument. Nobody reads a longer list, and rules are compared with each of them."""

_LOCAL = re.compile(r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
"""A local part that needs no quotes (RFC 5322, section 3.2.3)."""
_DISPLAYED = re.compile(r'(?:"(?:[^"\\<>]|\\.)*"|[^"<>@,;:]*)\s*<([^<>\s]+)>')
"""A name with an address behind it (RFC 5322, section 3.4). A name with an @ of its own has to stand in quotes."""
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
_LIKE_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}.*")
_ACCOUNT = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._-]{1,63}")
_AMOUNT = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,8})?")
_CODES = (
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF "
    "CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD "
    "HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD "
    "MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN "
    "PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY "
    "TTD TWD TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG "
)
CODES = frozenset(_CODES.split())
"""The currencies in use (ISO 4217)."""


class Amount(msgspec.Struct, frozen=True):
    """An amount of money; `currency` is a code of ISO 4217."""

    currency: str
    value: Decimal

    def __str__(self) -> str:
        places = max(2, -int(self.value.as_tuple().exponent))
        return f"{self.value:.{places}f} {self.currency}"


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an argument names: its normal form, None if it can't be read, and the text as given. `known_as`:
    other names of it, as its service has them."""

    kind: TargetKind
    argument: str
    given: str
    value: str | None
    amount: Amount | None = None
    known_as: tuple[Said, ...] = ()

    @property
    def written(self) -> str:
        """The address as given if its domain is not in ASCII: it may look like another one. Otherwise empty. The name
        before an address is never a part: anybody may write any name there."""
        if self.kind is not TargetKind.RECIPIENT or self.value is None:
            return ""
        address = address_in(self.given)
        return "" if address.isascii() else address


class Values(msgspec.Struct, frozen=True):
    """All that a call names of one kind: the normal forms, these without regard to case, whether something else could
    not be read, and recipients by their domain. Sets, so that hundreds of rules are compared with a hundred recipients
    within a millisecond."""

    read: frozenset[str]
    folded: frozenset[str]
    has_unread: bool
    by_domain: dict[str, set[str]]

    @classmethod
    def by_kind(cls, named: Iterable[Named]) -> "dict[TargetKind, Values]":
        found: dict[TargetKind, list[str | None]] = {}
        for each in named:
            found.setdefault(each.kind, []).append(each.value)
        return {kind: cls._of(kind, values) for kind, values in found.items()}

    @classmethod
    def _of(cls, kind: TargetKind, values: list[str | None]) -> "Values":
        read = frozenset(value for value in values if value is not None)
        by_domain: dict[str, set[str]] = {}
        for address in read if kind is TargetKind.RECIPIENT else ():
            by_domain.setdefault(address.rpartition("@")[2], set()).add(address)
        return cls(read, frozenset(map(folded, read)), None in values, by_domain)


Read: TypeAlias = Callable[[str], str | None]


def _is_plain(text: str) -> bool:
    """Whether a person can see every character of a text, and it is no longer than a name."""
    return len(text) <= MAX_CHARACTERS and text.isprintable() and (text.isascii() or without_hidden(text) == text)


def recipient(text: str) -> str | None:
    """Return an address of mail in lower case, its domain as in DNS, without the name before it. Mail servers may tell
    capitals in the local part apart (RFC 5321, section 2.4), and none that people use does."""
    return _recipient(text) if len(text) <= MAX_CHARACTERS else None


@lru_cache(maxsize=1024)
def _recipient(text: str) -> str | None:
    """Cached, since a call is decided twice and more, and a hundred addresses take a millisecond."""
    text = text.strip(" ")
    if not _is_plain(text):
        return None
    address = address_in(text)
    local, at, domain = address.rpartition("@")
    if not at or len(local) > 64 or not _LOCAL.fullmatch(local.lower()):
        return None
    host = canonical_host(domain)
    return f"{local.lower()}@{host}" if isinstance(host, str) and "." in host else None


def address_in(text: str) -> str:
    """Return an address without the name before it, as given."""
    shown = _DISPLAYED.fullmatch(text.strip(" "))
    return shown[1] if shown else text


def account(text: str) -> str | None:
    """Return the number of an account without blanks: an IBAN whose check digits fit (ISO 13616), or a plain name as it
    is. What looks like an IBAN and is none is not read."""
    text = text.replace("\u00a0", " ").strip(" ")
    if not _is_plain(text):
        return None
    plain = re.sub("[ -]", "", text).upper()
    if _IBAN.fullmatch(plain):
        return plain if _checks(plain) else None
    if _LIKE_IBAN.fullmatch(plain) and len(plain) > 14:
        return None
    return text if _ACCOUNT.fullmatch(text) else None


def _checks(iban: str) -> bool:
    digits = "".join(str(int(letter, 36)) for letter in iban[4:] + iban[:4])
    return int(digits) % 97 == 1


def name(text: str) -> str | None:
    """Return the name of a calendar or an object with single blanks. Its case stays: to a service, aB3 and ab3 may be
    two things."""
    if not _is_plain(text):
        return None
    return " ".join(unicodedata.normalize("NFC", text).split()) or None


def person(text: str) -> str | None:
    """Return the name of a person, without the sign before it."""
    plain = name(text)
    return (plain.removeprefix("@").strip() or None) if plain else None


def channel(text: str) -> str | None:
    """Return the name of a channel, without the sign before it."""
    plain = name(text)
    return (plain.removeprefix("#").strip() or None) if plain else None


def amount_in(text: str) -> Amount:
    """Read the limit of a rule, such as "50 EUR". Raises ValueError with a message for its author."""
    number, _, currency = text.strip().partition(" ")
    found = amount(number, currency)
    if found is None:
        raise ValueError(f'"{text}" is no amount: write a number and the code of a currency, as in "50 EUR"')
    return found


def amount(value: Json, currency: str) -> Amount | None:
    """Return an amount; None for anything but a plain number that is not below zero, with a code of a currency."""
    text = _digits(value).strip()
    currency = currency.strip().upper()
    if not _AMOUNT.fullmatch(text) or currency not in CODES:
        return None
    return Amount(currency, Decimal(text).normalize())


def _digits(value: Json) -> str:
    """Return how a number is written; "" for what is none, or is longer than any amount."""
    match value:
        case bool():
            return ""
        case str():
            return value
        case int() if abs(value) < 10**15:
            return str(value)
        case float():
            return repr(value)
        case _:
            return ""


_READ: Mapping[TargetKind, Read] = {
    TargetKind.RECIPIENT: recipient,
    TargetKind.ACCOUNT: account,
    TargetKind.PERSON: person,
    TargetKind.CALENDAR: name,
    TargetKind.CHANNEL: channel,
    TargetKind.OBJECT: name,
}
NAMED_KINDS = frozenset({*_READ, TargetKind.AMOUNT})
"""Kinds of targets that are read here."""
NEED_NO_QUOTES = frozenset({TargetKind.RECIPIENT, TargetKind.ACCOUNT, TargetKind.AMOUNT})
"""Kinds whose normal form has no character that could pass for the end of a name."""


def normal_form(kind: TargetKind, text: str) -> str | None:
    """Return the normal form of a name of that kind; None if it can't be read. Not for amounts."""
    return _READ[kind](text)


def named_by(meta: ToolMeta, args: Mapping[str, Json]) -> Iterator[Named]:
    """Yield everything that a call's arguments name, in the order of its contract, and what it reaches beside."""
    others: dict[str, list[Said]] = {}
    for reached in meta.reaches:
        if reached.of and reached.kind in _READ and (value := normal_form(reached.kind, reached.text)) is not None:
            others.setdefault(reached.of, []).append(Said(reached.kind, value))
    for target in meta.targets:
        if target.kind in NAMED_KINDS:
            currency = str(args.get(target.currency, target.currency))
            for named in named_in(target.kind, args.get(target.argument), currency, argument=target.argument):
                yield replace(named, known_as=tuple(others[named.given])) if named.given in others else named
    for reached in meta.reaches:
        if reached.of:
            continue
        if reached.kind in _READ:
            yield from named_in(reached.kind, reached.text)
        else:  # a path or the like, which no rule would find here
            yield Named(kind=reached.kind, argument="", given=reached.text, value=None)


def named_in(kind: TargetKind, value: Json, currency: str = "", *, argument: str = "") -> tuple[Named, ...]:
    """Return everything that an argument of a kind names; nothing if it is not given. A text with several recipients is
    split at its commas and semicolons. More than MAX_NAMED are one name that can't be read."""
    if value is None or value == "" or value == []:
        return ()
    if kind is TargetKind.AMOUNT:
        found = amount(value, currency)
        given = f"{_as_text(value)} {currency}".strip()
        text = None if found is None else str(found)
        return (Named(kind=kind, argument=argument, given=given, value=text, amount=found),)
    texts: list[tuple[str, bool]] = []
    for each in value if isinstance(value, list) else [value]:
        text = each if isinstance(each, str) else _digits(each)
        if text and kind is TargetKind.RECIPIENT:
            texts += ((part, True) for part in split(text))
        else:
            texts.append((text or _as_text(each), bool(text)))
        if len(texts) > MAX_NAMED:
            return (Named(kind=kind, argument=argument, given=_as_text(value), value=None),)
    return tuple(
        Named(kind=kind, argument=argument, given=text, value=normal_form(kind, text) if is_text else None)
        for text, is_text in texts
    )


def _as_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):  # a number of more than 4,300 digits, or lists within lists
        return "something that can't be written"


def split(text: str) -> list[str]:
    """Split a list of recipients at commas and semicolons that stand in no quotes and no angle brackets. A list whose
    quotes or brackets do not close is one text, which can't be read."""
    if "," not in text and ";" not in text:
        return [text]
    found = [""]
    quoted = angled = escaped = False
    for letter in text:
        if letter in ",;" and not quoted and not angled:
            found.append("")
            continue
        found[-1] += letter
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = letter == "\\", letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "<>":
            angled = letter == "<"
    if quoted or angled:
        return [text]
    return [each for each in found if each.strip()] or [text]
