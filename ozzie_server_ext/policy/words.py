"""What a person's own words name: the recipients, accounts, amounts and names in what they are known to have typed
(docs/policy.md, Your own words).

Only what can be read in one way is found (and `$`, as the dollar of the US), in the normal form of `policy.targets`,
in which a call's targets are compared with it. What is missed costs a question; what is found wrongly could let a call
pass. So whatever stands beside a name in a text and could be a part of it makes it no name. Each pattern is bounded or
begins at the start of a word, so that no text takes longer than its length.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Literal

import msgspec

from ozzie_server_ext.domain.events import MessageConfirmed
from ozzie_server_ext.domain.ids import MessageId
from ozzie_server_ext.domain.messages import mentions_in
from ozzie_server_ext.domain.toolmeta import Said, TargetKind
from ozzie_server_ext.policy.people import NOBODY, People
from ozzie_server_ext.policy.targets import (
    CODES,
    MAX_CHARACTERS,
    Amount,
    account,
    channel,
    name,
    person,
    recipient,
)

MOST_SAID = 200
"""Of one kind in one message. A text that names more names none: nobody can tell which of them count."""
MOST_READ = 50_000
"""Characters. A longer text names nothing: nobody has typed it, and it takes long to read."""

_TOKEN = re.compile(r"[^\s<>()\[\]{},;\"“”„«»]+")
_CLOSING = ".!?…:"
"""What may end a sentence behind a word."""
_WRAPS = ("**", "__", "*", "_", "`", "'")
"""What Markdown puts around a word, the same on both sides."""
_ADDRESS = re.compile(r"[A-Z0-9](?:[A-Z0-9._%+-]{0,62}[A-Z0-9])?@[A-Z0-9](?:[A-Z0-9.-]{0,251}[A-Z0-9])?", re.I | re.A)
_MARKED = re.compile(r"[@#][A-Z0-9](?:[A-Z0-9_-]{0,78}[A-Z0-9])?", re.I | re.A)
"""`@ana`, `#general`: a person, a channel. Not with a point or slash, as in the names of files."""
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}[0-9]{2}(?:[ \u00a0]?[A-Z0-9]){11,30}(?!\w)")
_SHORTEST_IBAN = 15
_NUMBERED = re.compile(r"[A-Z0-9](?:[A-Z0-9-]{0,62}[A-Z0-9])?", re.I | re.A)
_DIGITS_OF_ACCOUNT = 5
"""A word with fewer is no account number."""
_QUOTES = ('""', "“”", "„“", "„”", "«»", "``")
_QUOTED = re.compile("|".join(f'{first}([^"“”„«»`\n]{{1,{MAX_CHARACTERS}}}){last}' for first, last in _QUOTES))
_SAME_ON_BOTH_SIDES = '"`'
_NO_QUOTES = str.maketrans({**dict.fromkeys("".join(_QUOTES), "<"), "`": "^"})
"""Stand-ins that quote nothing: `<` separates words as a quote does, `^` does not, like the backtick."""
_GROUPS = "'’\u00a0\u2009\u202f"
"""What separates thousands and nothing else. A comma, a point or a blank may mean something else."""
_NUMBER = (
    rf"(?:[0-9]{{1,3}}(?:[{_GROUPS}][0-9]{{3}}){{1,4}}(?:[.,][0-9]{{1,2}})?"  # 1'250.50
    r"|[0-9]{1,3}(?:,[0-9]{3}){1,4}\.[0-9]{1,2}|[0-9]{1,3}(?:\.[0-9]{3}){1,4},[0-9]{1,2}"  # 1,250.50 and 1.250,50
    r"|[0-9]{1,15}(?:[.,][0-9]{1,2})?)"  # 1250.50; not 1,250, which may be one and a quarter
)
_SYMBOLS = {"€": "EUR", "£": "GBP", "$": "USD", "US$": "USD", "₹": "INR", "₺": "TRY", "₴": "UAH", "₪": "ILS"}
"""Not ¥, kr and the like, which are several currencies. `$` without a country is read as the US dollar."""
_SPELLED = {"euro": "EUR", "euros": "EUR", **{code.lower(): code for code in ("CHF", "EUR", "GBP", "USD")}}
"""Codes in small letters are often words ("all", "top", "try"); these few are not."""
_CODES = "|".join(sorted({*CODES, *_SPELLED, *map(str.capitalize, _SPELLED)}))
_CURRENCY = rf"(?:(?:{_CODES})(?!\w)|US\$|[{''.join(each for each in _SYMBOLS if len(each) == 1)}])"
_MONEY = re.compile(
    rf"(?<!\w)(?:(?P<before>{_CURRENCY})[ \u00a0]?(?P<after_it>{_NUMBER})"
    rf"|(?P<number>{_NUMBER})[ \u00a0]?(?P<after>{_CURRENCY}))(?!\w)"
)
_BEFORE_MONEY = re.compile(r"(?:^|[\s(\[\"“„«])$")
_BEFORE_BLANK = re.compile(
    r"[0-9][.,'’:;>]?$|[$€£¥₹₺₴₪+±~≈<>=/*×·‐‑‒–—−-]$|(?<!\w)(?:[A-Z]{2,3}|[xX]|twice|times|\w+ian)$"
)
"""What could be another piece of the amount before the blank: a number, a sign, a currency."""
_AFTER_MONEY = re.compile(r"([.,!?…:;)\]\"”“»]*)(?:\s|$)")
_BEHIND_BLANK = re.compile(r"[0-9$€£¥₹₺₴₪+±~≈<>=/*×·%‰‐‑‒–—−(\['’-]")
_WORD_BEHIND = re.compile(r"[^\W\d_]+")
_FOLLOWING = "to for from and or on by at in as of now if so but via an für von bis und am im zu à de du et le la"
_HARMLESS = frozenset(_FOLLOWING.split())
"""Short words that may follow an amount. Any other one may be a unit, a currency or a multiple."""
_SHORT = 4
_MULTIPLES = re.compile(
    r"thousand|tausend|hundre|hundert|dozen|million|milion|milliard|billion|trillion|mille|lakhs|crores?|cents|times|"
    r"dollar|canad|austral|aussie|singap|mexic|zealand|pesos|kong",
    re.I,
)
"""Beginnings of longer words that change how much is meant."""


class _Found(msgspec.Struct, frozen=True):
    """A text that names something, from `start` to before `end` in the message."""

    text: str
    start: int
    end: int


class Confirmation(msgspec.Struct, frozen=True):
    """That a person sent a message: who, how it is known, what it names in words that they typed, and whether they
    typed all of it."""

    by: str
    way: Literal["cell", "terminal"]
    names: tuple[Said, ...]
    all_typed: bool

    @classmethod
    def of(cls, by: str, way: Literal["cell", "terminal"], *parts: str, people: People = NOBODY) -> "Confirmation":
        """`parts` of the text, and `people`: see `said_in`."""
        return cls(by, way, tuple(sorted(said_in(*parts, people=people))), not any(map(str.strip, parts[1::2])))

    def fact(self, message_id: MessageId) -> MessageConfirmed:
        return MessageConfirmed(
            message_id=message_id, by=self.by, way=self.way, names=self.names, all_typed=self.all_typed
        )


def said_in(*parts: str, people: People = NOBODY) -> frozenset[Said]:
    """Return what a message names in words that a person typed. To name one of these `people` is to name all that
    reaches them. `parts` are in turn typed and not typed; the first is typed, and may be empty. A name counts only if
    all of it was typed, and a name in quotes only if its whole line was."""
    if not any(parts[::2]) or sum(map(len, parts)) > MOST_READ:
        return frozenset()
    is_typed = _typed_spans(parts)
    text = _without_foreign_quotes("".join(parts), is_typed)
    every: tuple[tuple[TargetKind, Callable[[str], Iterator[_Found]], Callable[[str], str | None]], ...] = (
        (TargetKind.RECIPIENT, _addresses, recipient),
        (TargetKind.ACCOUNT, _accounts, account),
        (TargetKind.AMOUNT, _amounts, str),
        (TargetKind.PERSON, _people, person),
        (TargetKind.CHANNEL, _channels, channel),
        (TargetKind.CALENDAR, _quoted, name),
        (TargetKind.OBJECT, _quoted, name),
        (TargetKind.URL, _mentioned, str),
    )
    said: set[Said] = set()
    for kind, find, read in every:
        found = [each for each in find(text) if is_typed(each.start, each.end)]
        if len(found) <= MOST_SAID:
            said |= {Said(kind, value) for each in found if (value := read(each.text))}
    spoken_of = [targets for start, end, targets in people.named_in(text) if is_typed(start, end)]
    return frozenset(said.union(*spoken_of)) if len(spoken_of) <= MOST_SAID else frozenset(said)


def _without_foreign_quotes(text: str, is_typed: Callable[[int, int], bool]) -> str:
    """Return the text without the quotes of each line of which not all was typed: what was not may have changed
    which of them belong together."""
    lines: list[str] = []
    at = 0
    for line in text.splitlines(keepends=True):
        lines.append(line if is_typed(at, at + len(line)) else line.translate(_NO_QUOTES))
        at += len(line)
    return "".join(lines)


def _typed_spans(parts: Sequence[str]) -> Callable[[int, int], bool]:
    ends = [*accumulate(map(len, parts))]
    starts = [0, *ends[:-1]]

    def is_typed(start: int, end: int) -> bool:
        part = bisect_right(starts, start) - 1
        return part % 2 == 0 and end <= ends[part]

    return is_typed


def _tokens(text: str) -> Iterator[_Found]:
    """Yield the words between blanks, brackets and quotes, without what ends a sentence and Markdown around them, which
    has to be typed as well."""
    for match in _TOKEN.finditer(text):
        word = whole = match[0].rstrip(_CLOSING)
        for wrap in _WRAPS:
            if len(word) > 2 * len(wrap) and word.startswith(wrap) and word.endswith(wrap):
                word = word[len(wrap) : -len(wrap)].rstrip(_CLOSING)
                break
        yield _Found(word, match.start(), match.start() + len(whole))


def _addresses(text: str) -> Iterator[_Found]:
    return (each for each in _tokens(text) if _ADDRESS.fullmatch(each.text))


def _marked(mark: str, text: str) -> Iterator[_Found]:
    for each in _tokens(text):
        if each.text.startswith(mark) and _MARKED.fullmatch(each.text):
            yield _Found(each.text[1:], each.start, each.end)
    yield from _quoted(text)


def _people(text: str) -> Iterator[_Found]:
    return _marked("@", text)


def _mentioned(text: str) -> Iterator[_Found]:
    """Yield the addresses of resources in mentions such as `@notes:file:///a.md`."""
    for each in mentions_in(text):
        if uri := each.path.partition(":")[2]:
            yield _Found(uri, each.start, each.end)


def _channels(text: str) -> Iterator[_Found]:
    return _marked("#", text)


def _accounts(text: str) -> Iterator[_Found]:
    """Yield IBANs whose check digits fit, other numbers of accounts, and names in quotes."""
    for match in _IBAN.finditer(text):
        found = match[0]
        while len(found) >= _SHORTEST_IBAN and account(found) is None and found.rpartition(" ")[2].isalpha():
            found = found.rpartition(" ")[0]  # words in capitals follow
        if account(found) is not None and not _is_beside_a_number(text, match.start(), match.start() + len(found)):
            yield _Found(found, match.start(), match.start() + len(found))
    for each in _tokens(text):
        digits = sum(letter.isdigit() for letter in each.text)
        is_one = digits >= _DIGITS_OF_ACCOUNT and _NUMBERED.fullmatch(each.text)
        if is_one and not _is_beside_a_number(text, each.start, each.end):
            yield each
    yield from _quoted(text)


def _is_beside_a_number(text: str, start: int, end: int) -> bool:
    """Whether another piece of a number may stand before or behind it."""
    before, behind = text[max(start - 40, 0) : start].rstrip(), text[end : end + 40].lstrip()
    word = before.rpartition(" ")[2]
    return any(letter.isdigit() for letter in word) or behind[:1].isdigit() or behind[:1] in tuple("-/+")


def _amounts(text: str) -> Iterator[_Found]:
    for match in _MONEY.finditer(text):
        if not _stands_alone(text, match.start(), match.end()):
            continue
        sign = match["before"] or match["after"]
        number = re.sub(f"[{_GROUPS}]", "", match["after_it"] or match["number"])
        whole, _, rest = number.replace(",", ".").rpartition(".")
        plain = f"{whole.replace('.', '')}.{rest}" if whole else rest
        currency = _SYMBOLS.get(sign) or _SPELLED.get(sign.lower(), sign)
        yield _Found(str(Amount(currency, Decimal(plain).normalize())), match.start(), match.end())


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether nothing beside an amount makes it another one, such as a second currency, a range or "million"."""
    before, behind = text[max(start - 40, 0) : start], text[end : end + 40]
    closed = _AFTER_MONEY.match(behind)
    if closed is None or not _BEFORE_MONEY.search(before):
        return False
    if _BEFORE_BLANK.search(before.rstrip()):
        return False
    behind = "" if closed[1] else behind.lstrip()
    if _BEHIND_BLANK.match(behind):
        return False
    word = _WORD_BEHIND.match(behind)
    if word is None:
        return True
    return word[0] in _HARMLESS if len(word[0]) <= _SHORT else not _MULTIPLES.match(word[0])


def _quoted(text: str) -> Iterator[_Found]:
    """Yield the texts in quotes. Of a line in which a quote has no partner, nobody can tell what is quoted."""
    at = 0
    for line in text.splitlines(keepends=True):
        if not any(line.count(mark) % 2 for mark in _SAME_ON_BOTH_SIDES):
            for match in _QUOTED.finditer(line):
                yield _Found(next(filter(None, match.groups())), at + match.start(), at + match.end())
        at += len(line)
