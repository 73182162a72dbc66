"""Secrets in what tools give back, taken out before anything else sees it (TL-5; docs/adr/0025).

Found are keys by their shape, values by the name that they stand under, and secrets that are known. Ordinary data is
left alone: hashes, ids, numbers, pictures, code that only speaks of tokens. To redact a text again changes nothing.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.secret_shapes import ASSIGNED, AUTHORIZATION, BEARER, KEYS, REACH, URL_PASSWORD, kind_of

MIN_KNOWN = 8
"""A known secret that is shorter is not looked for: it would be found in ordinary words."""

Naming: TypeAlias = Literal["", "password", "secret", "token"]
"""What a name says of its value: nothing, a password, another secret, or something that may be one."""

_PASSWORDS = ("password", "passwords", "passwd", "passphrase", "pwd")
"""The ends of words, for names are written together: PGPASSWORD."""
_SECRETS = frozenset({"secret", "secrets", "apikey", "authorization", "credential", "credentials"})
_PAIRS = frozenset({"api key", "access key", "private key", "secret key", "auth key", "account key"}) | {
    f"{of} token" for of in ("access", "refresh", "id", "auth", "session", "bearer", "api", "bot", "security")
}
_ABOUT = re.compile(
    "ids?|names?|types?|counts?|hash|sha|md|digest|checksum|file|path|ur[li]|at|in|expir(?:es|y|ation)|length|limit|policy|"
    "version|field|header|env|var|ref|arn|budget|usage|used|status|hint|index|age|date|time|created|changed|updated"
)
"""Last words of names that tell something about a secret, and not the secret."""
_OF_LISTS = re.compile(
    "next|page|prev(?:ious)?|continuation|sync|cursor|max|min|total|input|output|prompt|completion|cached"
)
"""Words beside "token" where it is a place in a list, or a piece of text that models count."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NAME_BEFORE = 40
_NAME_END = re.compile(r"[A-Za-z0-9_-]*\Z")
_NAME_PART = re.compile(r"[A-Za-z]+[0-9]{0,2}")
_BETWEEN = re.compile(r"[._/:-]+")
_LETTER, _DIGIT = re.compile(r"[A-Za-z]"), re.compile(r"[0-9]")
_PLACEHOLDER = re.compile(r"^.{0,7}$|[<>{}$*]|^[A-Z][A-Z0-9]*_[A-Z0-9_]*$| ")
"""What stands in the place of a secret where there is none: something short, a variable, words."""
_EXAMPLE = re.compile(r"(?:pass(?:word|wd|phrase)?|pwd)[0-9]?|\*+|x+", re.IGNORECASE)
"""What documents write for a password, and code calls one."""

_STEP = 1 << 16


def redact(value: Json, known: Sequence[str] = ()) -> Json:
    """`value` without the secrets that are in its strings. Keys stay, unless they are secrets themselves."""
    match value:
        case str():
            return redact_text(value, known)
        case list():
            return [redact(item, known) for item in value]
        case dict():
            return _object(value, known)
        case _:
            return value


def redact_text(text: str, known: Sequence[str] = ()) -> str:
    """`text` with `[redacted: kind]` in the place of every secret; `known` are some to look for as they are."""
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= MIN_KNOWN:
            text = text.replace(secret, _mask("known secret"))
    for pattern, replaced in _RULES:
        text = _substituted(pattern, replaced, text)
    return text


def naming(name: str) -> Naming:
    """What a name, as of a field or a variable, says of its value."""
    words = [word.lower() for word in _WORDS.findall(name[-200:])]
    if not words or _ABOUT.fullmatch(words[-1]):
        return ""
    if any(word.endswith(_PASSWORDS) for word in words):
        return "password"
    if any(_OF_LISTS.fullmatch(word) for word in words):
        return ""
    if _SECRETS & set(words) or _PAIRS & {f"{one} {two}" for one, two in pairwise(words)}:
        return "secret"
    return "token" if "token" in words else ""


def _object(value: JsonObject, known: Sequence[str]) -> JsonObject:
    found: JsonObject = {}
    for key, item in value.items():
        name = redact_text(key, known)
        if name != key and (name in found or name in value):
            others = (f"{name} {at}" for at in range(2, 2 * len(value) + 2))
            name = next(other for other in others if other not in found and other not in value)
        found[name] = _field(key, item, known)
    return found


def _field(key: str, item: Json, known: Sequence[str]) -> Json:
    if isinstance(item, list):
        return [_field(key, each, known) for each in item]
    if not isinstance(item, str) or not item:
        return redact(item, known)
    match naming(key):
        case "password":
            return _mask("password")
        case "secret" if not _PLACEHOLDER.search(item):
            return _mask("secret")
        case "token" if _looks_secret(item, "token"):
            return _mask("token")
        case _:
            return redact_text(item, known)


def _substituted(pattern: re.Pattern[str], replaced: Callable[[re.Match[str]], str], text: str) -> str:
    """As `pattern.sub`, in steps: no other thread runs, and so nobody is served, during one call of `re`."""
    pieces: list[str] = []
    copied = at = 0
    while at < len(text):
        seen = pattern.search(text, at, at + _STEP + REACH)
        if seen is None:
            at += _STEP
            continue
        found = pattern.match(text, seen.start())  # as far as it goes, also behind what was looked at
        if found is None:
            at = seen.start() + 1
            continue
        pieces += [text[copied : found.start()], replaced(found)]
        copied = at = found.end()
    return "".join([*pieces, text[copied:]])


def _key(found: re.Match[str]) -> str:
    return _mask(kind_of(found))


def _url_password(found: re.Match[str]) -> str:
    return found[0] if _EXAMPLE.fullmatch(found["value"]) else _with_mask(found, "password")


def _authorization(found: re.Match[str]) -> str:
    return _with_mask(found, "token") if _is_mixed(found["value"]) else found[0]


def _bearer(found: re.Match[str]) -> str:
    """It may also be a word, as may what follows it."""
    return _with_mask(found, "token") if _LETTER.search(found["value"]) and _DIGIT.search(found["value"]) else found[0]


def _assigned(found: re.Match[str]) -> str:
    before = found.string[max(found.start() - _NAME_BEFORE, 0) : found.start()]
    name = _NAME_END.findall(before)[0] + re.split(r"[^A-Za-z0-9_-]", found[0], maxsplit=1)[0]
    kind = naming(name)
    return _with_mask(found, kind) if kind and _looks_secret(found["value"], kind) else found[0]


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (KEYS, _key),
    (URL_PASSWORD, _url_password),
    (AUTHORIZATION, _authorization),
    (BEARER, _bearer),
    (ASSIGNED, _assigned),
)


def _looks_secret(value: str, kind: Naming) -> bool:
    """Whether the value is none that a person would read: long enough, letters and digits, no name, path or address."""
    least, distinct = (8, 5) if kind == "password" else (16, 8)
    if len(value) < least or len(set(value)) < distinct or not (_LETTER.search(value) and _DIGIT.search(value)):
        return False
    if _EXAMPLE.fullmatch(value) or "://" in value or value.startswith(("/", "./", "../", "~", "%")) or " " in value:
        return False
    parts = [part for part in _BETWEEN.split(value) if part]
    is_name = all(_NAME_PART.fullmatch(part) for part in parts) and (len(parts) > 1 or kind != "password")
    return not is_name


def _is_mixed(value: str) -> bool:
    """Letters and digits, or letters of both cases behind the first: no plain word, and no number."""
    rest = value[1:]
    has_both = any(letter.islower() for letter in rest) and any(letter.isupper() for letter in rest)
    return _LETTER.search(value) is not None and (has_both or _DIGIT.search(value) is not None)


def _with_mask(found: re.Match[str], kind: str) -> str:
    begin, end = found.start("value") - found.start(), found.end("value") - found.start()
    return found[0][:begin] + _mask(kind) + found[0][end:]


def _mask(kind: str) -> str:
    return f"[redacted: {kind}]"
