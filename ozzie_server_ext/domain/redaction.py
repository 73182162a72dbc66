"""Removal of secrets from the results of tools before anything else sees them (docs/adr/0025).

It finds keys by their shape, values by their names, and known secrets. Ordinary data stays: hashes, ids, numbers,
pictures, code that only mentions tokens. Redacting a text again changes nothing.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from ozzie_server_ext.domain.json import Json, JsonObject

Span = tuple[int, int]
"""Begin and end, exclusive."""

_OF = r"(?:RSA |EC |DSA |OPENSSH |ENCRYPTED |PGP )?PRIVATE KEY(?: BLOCK)?-----"
_BEGIN = re.compile(f"-----BEGIN {_OF}")
_END = re.compile(f"-----END {_OF}")

# Behind a line: the end of a literal, an escaped line break, a comma. Before one: quotes, comments, numbers, names of
# files. Neither has many characters of the alphabet of keys.
_JOIN = r"(?:\\{1,4}+[rnt]|[^\w+/\n-]){0,16}+(?:\n[^\n]{0,24}?){0,3}?"
_HEADER = re.compile(
    _JOIN + r"(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash|MessageID):(?:[^\n\\\"']|\\(?![rn])){0,100}+"
)
_LINE = re.compile(_JOIN + r"[A-Za-z0-9+/]{40,}+={0,2}+")
_SHORT = re.compile(
    r"(?:\\{1,4}+[rnt]|[\"',\s\\]){1,16}+(?:[^\w+/\n-]{0,16}+)(?P<run>=?[A-Za-z0-9+/]{4,75}+={0,2}+)(?![A-Za-z0-9_:.=(-])"
)
_LAST = re.compile(rf"(?:{_JOIN}=?[A-Za-z0-9+/]{{1,75}}+={{0,2}}+){{0,2}}?{_JOIN}-----END [A-Z ]{{0,30}}+-----")
_MIXED = re.compile(r"(?=.*[A-Z])(?=.*[a-z])|.*=")

_LINE_BEFORE_END = re.compile(r"[^\n]{0,24}?[A-Za-z0-9+/]{64,76}={0,2}(?![A-Za-z0-9+/])[^\n]{0,16}")
_SHORT_BEFORE_END = re.compile(r"[^\w\n]{0,24}=?[A-Za-z0-9+/]{1,75}={0,2}(?:\\n)?[^\w\n]{0,16}")
_LONGEST_LINE = 128


def private_keys(text: str) -> list[Span]:
    """Return the spans of all private keys, in order and without overlaps."""
    found: list[Span] = []
    at = 0
    for begin, end in sorted([*_from_begins(text), *_from_ends(text)]):
        if begin >= at:
            found.append((begin, end))
        elif end > at:
            found[-1] = found[-1][0], end
        at = max(at, end)
    return found


def in_lines(lines: list[str]) -> list[list[Span]]:
    """Return, for each line, the spans of private keys that extend over several. A key's first part is not empty."""
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    spans: list[list[Span]] = [[] for _ in lines]
    at = 0
    for begin, end in private_keys("\n".join(lines)):
        while starts[at + 1] <= begin:
            at += 1
        for number, (start, following) in enumerate(pairwise(starts[at:]), at):
            if start >= end:
                break
            spans[number].append((max(begin - start, 0), min(end, following - 1) - start))
    return spans


def _from_begins(text: str) -> Iterator[Span]:
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        at = begin.end()
        while (header := _HEADER.match(text, at)) is not None:
            at = header.end()
        lines_from = at
        while (line := _LINE.match(text, at)) is not None:
            at = line.end()
        if at > lines_from:
            yield begin.start(), _end_of(text, at)
        at = max(at, begin.end())


def _end_of(text: str, at: int) -> int:
    """Return the end of a key behind its last, shorter line and the END marker, if it follows."""
    if (last := _LAST.match(text, at)) is not None:
        return last.end()
    short = _SHORT.match(text, at)
    return short.end() if short is not None and _MIXED.match(short["run"]) else at


def _from_ends(text: str) -> Iterator[Span]:
    for end in _END.finditer(text):
        begin, at = None, text.rfind("\n", max(end.start() - _LONGEST_LINE, 0), end.start())
        short = 0
        while at > 0:
            start = text.rfind("\n", max(at - _LONGEST_LINE, 0), at) + 1
            if start == 0 and at > _LONGEST_LINE:
                break
            if _LINE_BEFORE_END.fullmatch(text, start, at):
                begin = start
            elif begin is None and short < 2 and _SHORT_BEFORE_END.fullmatch(text, start, at):
                short += 1
            else:
                break
            at = start - 1
        if begin is not None:
            yield begin, end.end()


REACH = 16_384
"""The number of characters behind a step of `_substituted` that a match may extend to."""

# A key begins at the beginning of a word, or behind an escaped line break; so none is found in a picture's base64.
_START = r"(?:(?<![A-Za-z0-9+])|(?<=\\[nrt]))"
_WORD = "[A-Za-z0-9]"
_LONG = "[A-Za-z0-9_-]"

_KEYS: tuple[tuple[str, str], ...] = (
    ("AWS key", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])"),
    ("GitHub token", rf"gh[pousr]_{_WORD}{{36,}}+|github_pat_[A-Za-z0-9_]{{22,}}+"),
    ("GitLab token", rf"gl(?:pat|dt|rt|ptt|cbt|ft|soat|oas|agent|imt)-{_LONG}{{20,}}+"),
    ("Slack token", r"(?:xox[abeoprs]|xapp)-(?=[A-Za-z-]{0,20}+[0-9])[A-Za-z0-9-]{10,}+"),
    (
        "Google key",
        rf"AIza{_LONG}{{35}}(?![A-Za-z0-9_-])|ya29\.{_LONG}{{20,}}+|GOCSPX-{_LONG}{{20,}}+",
    ),
    # Names of styles begin with plain `sk-` too; they have hyphens and no digit.
    (
        "API key",
        rf"sk-(?:ant|proj|or|svcacct|admin|lf)-{_LONG}{{16,}}+|sk-(?=[A-Za-z]{{0,40}}+[0-9]){_WORD}{{32,}}+"
        rf"|gsk_{_WORD}{{20,}}+|xai-{_WORD}{{20,}}+|hf_{_WORD}{{30,}}+|r8_{_WORD}{{30,}}+|pplx-{_WORD}{{30,}}+"
        rf"|[sr]k_(?:live|test)_{_WORD}{{16,}}+|whsec_[A-Za-z0-9+/=]{{20,}}+|SG\.{_LONG}{{16,64}}+\.{_LONG}{{16,}}+"
        rf"|npm_{_WORD}{{36,}}+|pypi-{_LONG}{{50,}}+|do[opr]_v1_[a-f0-9]{{64}}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{{32,}}+"
        rf"|dapi[a-f0-9]{{32}}(?![a-f0-9])|hv[sb]\.{_LONG}{{24,}}+|lin_api_{_WORD}{{32,}}+|glsa_[A-Za-z0-9_]{{32,}}+"
        rf"|ATATT3[A-Za-z0-9_=-]{{50,}}+|AGE-SECRET-KEY-1[A-Z0-9]{{50,}}+|[0-9]{{8,10}}:AA{_LONG}{{33}}(?![A-Za-z0-9_-])",
    ),
    # A run of these characters is matched from its beginning only.
    ("web token", rf"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))eyJ{_LONG}{{8,4096}}+\.eyJ{_LONG}{{8,8192}}+\.{_LONG}*+"),
)

KEYS = re.compile(_START + "(?:" + "|".join(f"(?P<k{at}>{shape})" for at, (_, shape) in enumerate(_KEYS)) + ")")
"""Any of the keys. `kind_of` finds the kind by the matching group."""

URL_PASSWORD = re.compile(
    r"""://[^\s/:@"'<>\\?#]{0,128}+:(?![0-9]{1,5}[/?#])(?P<value>[^\s@"'<>{}\\]{1,256}+)@(?!sha256:)"""
)
"""The password in an address such as `postgres://user:password@host`; it may have characters that should be escaped."""

URL_HOST = re.compile(r"[A-Za-z0-9-]{1,63}+(?:\.[A-Za-z0-9-]{1,63}+){1,8}+(?::[0-9]{1,5}+)?/")
"""A host name with a dot, and the beginning of a path."""

URL_REST = re.compile(r"""[^\s"'<>\\?,;)]{0,256}+""")
"""The rest of an address, in which a password with an at sign continues."""

AUTHORIZATION = re.compile(
    r"(?:[Aa]uthorization|AUTHORIZATION)\\{0,2}+[\"']?\s{0,4}+[:=]\s{0,4}+\\{0,2}+[\"']?"
    r"(?:[Bb]earer|[Bb]asic|[Tt]oken|[Aa]pi[Kk]ey)\s{1,4}+(?P<value>[A-Za-z0-9._~+/=-]{8,}+)"
)
"""The credentials behind the scheme in an Authorization header."""

BEARER = re.compile(r"(?:Bearer|bearer|BEARER)\s{1,4}+(?P<value>[A-Za-z0-9._~+/=-]{16,}+)")

_BETWEEN_NAME_AND_VALUE = (
    r""",?\s{0,40}+\\{0,2}+["']?[Vv]alue\\{0,2}+["']?\s{0,4}+[:=]\s{0,4}+"""
    r"|\s{0,24}+(?:=>|:=|\?=|:\s{0,2}+[A-Za-z_][A-Za-z0-9_.\[\]| ]{0,40}+=(?!=)|[:=,])\s{0,8}+"
    r"|\]\s{0,4}+=\s{0,4}+|>|\s{1,4}+"
)
"""The text between a name and its value: first in lists of names and values, then with or without a type. For a comma
and the last ones, the surrounding text decides."""

_QUOTED = "|".join(
    rf"""{quote}(?P<v{at}>(?:[^{quote}\\\n]|\\[^\n]){{1,256}}+){quote}"""
    rf"""|\\{{1,2}}+{quote}(?P<w{at}>[^{quote}\\\n]{{1,256}}+)\\{{1,2}}+{quote}"""
    for at, quote in enumerate("\"'`")
)
"""A value in quotes, also in the escaped quotes of a quoted text."""

ASSIGNED = re.compile(
    r"(?P<name>(?i:pass(?:word|wd|phrase)|pwd|secret|token|api[_-]?key|(?:access|private|auth|account)[_-]?key|credential)"
    rf"""[A-Za-z0-9_-]{{0,24}}+)(?P<behind>\\{{0,2}}+["']?)(?P<between>{_BETWEEN_NAME_AND_VALUE})"""
    rf"(?:[\[(]?[fFrRbBuU]{{0,2}}+(?:{_QUOTED})"
    r"""|\\{0,2}+(?P<open>["'`]?)(?P<bare>[^\s"'`,;<>(){}\[\]&\\]{8,256}+))"""
)
"""A value behind a name that suggests a secret, in code, settings or a log. `_looks_secret` decides."""

BARE_REST = re.compile(r"""[^\s"'`,;<>(){}\[\]&\\]*+""")
"""The rest of an unquoted value that is longer than `ASSIGNED` matches."""

OPEN_REST = {quote: re.compile(rf"[^{quote}\n]*+") for quote in "\"'`"}
"""The rest of such a value with an open quote, by the quote."""


def kind_of(found: re.Match[str]) -> str:
    """Return the kind of key that a match of `KEYS` is."""
    assert found.lastgroup is not None
    return _KEYS[int(found.lastgroup[1:])][0]


REDACTED = "[redacted: "
"""The beginning of a mask."""
MIN_KNOWN = 8
"""Shorter known secrets are not searched for: they would be found in ordinary words."""
SHORTEST = 6
"""The length of the shortest shape, `://:p@`. Shorter texts, such as most keys of objects, are skipped."""

Naming: TypeAlias = Literal["", "password", "secret", "token"]
"""What a name says about its value: nothing, a password, another secret, or possibly a secret."""

_PASSWORDS = ("password", "passwords", "passwd", "passphrase", "pwd")
"""Ends of words, as in PGPASSWORD."""
_SECRETS = frozenset({"secret", "secrets", "apikey", "authorization", "credential", "credentials"})
_PAIRS = frozenset({"api key", "access key", "private key", "secret key", "auth key", "account key"}) | {
    f"{of} token" for of in ("access", "refresh", "id", "auth", "session", "bearer", "api", "bot", "security")
}
_ABOUT = re.compile(
    "ids?|names?|types?|counts?|hash|sha|md|digest|checksum|file|path|ur[li]|at|in|expir(?:es|y|ation)|length|limit|policy|"
    "version|field|header|env|var|ref|arn|budget|usage|used|status|hint|index|age|date|time|created|changed|updated|"
    "pattern|prompt|label|placeholder|message|title|description|help|template"
)
"""Last words of names whose value is about a secret, not the secret."""
_OF_LISTS = re.compile(
    "next|page|prev(?:ious)?|continuation|sync|cursor|max|min|total|input|output|prompt|completion|cached"
)
"""Words beside "token" if it is a position in a list or a unit of text."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NAME_BEFORE = 40
_LINE_BEFORE = 200
_NAME_END = re.compile(r"[A-Za-z0-9_-]*\Z")
_NETRC = re.compile(r"(?:^|\s)(?:login|account)\s{1,4}\S{1,64}\s{1,8}\Z")
_CALL = re.compile(r"\(\s{0,4}\\{0,2}[\"']\Z")
_NAME_PART = re.compile(r"[A-Za-z]+[0-9]{0,2}")
_NUMBER_PART = re.compile(r"[0-9]{1,4}")
_SEPARATORS = re.compile(r"[._/:-]+")
_LETTER, _DIGIT, _SPECIAL = re.compile(r"[A-Za-z]"), re.compile(r"[0-9]"), re.compile(r"[!@#$%^&*+=~?]")
_PLACEHOLDER = re.compile(r"^.{0,7}$|[<>{}$*]|^[A-Z][A-Z0-9]*_[A-Z0-9_]*$|^arn:| ")
"""Placeholders for a secret: something short, a variable, words."""
_EXAMPLE = re.compile(r"(?:pass(?:word|wd|phrase)?|pwd)[0-9]?|\*+|x+|\$[A-Z_][A-Z0-9_]*", re.IGNORECASE)
"""Example passwords in documents, and names of variables for them."""
_VARIABLE = re.compile(r"\$\{|\$\(|\{[A-Za-z_]|%\(|<[A-Za-z]|^\$[A-Za-z_][A-Za-z0-9_]*$")
"""Placeholders that a program replaces with a value."""
_NO_SECRET = re.compile(
    r"(?:[a-z][a-z0-9+]*:)?//.*|[a-z][a-z0-9+]*://.*|arn:.*|(?:\.{0,2}/|[~%$]).*|[0-9]{4}-[0-9]{2}-[0-9]{2}[T0-9:.Z+-]*"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,12}"
)
"""Addresses, names of resources, paths, times, and addresses of people."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=:@%!#*|-]+")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
"""An address in a block chain, where tokens are something else."""
_OF_FORMS = re.compile(
    r"str(?:ing)?|text|secret|(?:new|current)?-?password|required|optional|true|false|none|null", re.IGNORECASE
)
_SPEAKS = re.compile(r"(?=.* ).*\bpass(?:word|phrase)", re.IGNORECASE | re.DOTALL)
_SCHEME = re.compile(r"(?:basic|bearer|token|apikey)\s{1,4}(?P<value>[A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)

_STEP = 1 << 16


Replaced: TypeAlias = tuple[int, int, str] | None
"""Begin and end of the text to replace, and the kind of secret; None if there is none."""


def redact(value: Json, known: Sequence[str] = ()) -> Json:
    """Return `value` without the secrets in its strings. Keys stay, unless they are secrets themselves."""
    match value:
        case str():
            return redact_text(value, known)
        case list():
            return [redact(item, known) for item in _without_keys(value)]
        case dict():
            return _object(value, known)
        case _:
            return value


_MOST_LOOKS = 4
"""A bound, so that the time stays proportional to the text."""


def redact_text(text: str, known: Sequence[str] = ()) -> str:
    """Return `text` with `[redacted: kind]` for every secret; `known` are secrets to find literally."""
    if len(text) < SHORTEST:
        return text
    text = without_known(text, sorted(known, key=len, reverse=True))
    return _without_shapes(_masked(text, private_keys(text)))


class StreamMask:
    """Masks known secrets in a stream of text, wherever it is split."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = sorted((secret for secret in known if len(secret) >= MIN_KNOWN), key=len, reverse=True)
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be shown now. A possible beginning of a secret is held back."""
        if not self._known:
            return piece
        text = without_known(self._held + piece, self._known)
        begins = min((_beginning_of(secret, text) for secret in self._known), default=len(text))
        self._held = text[begins:]
        return text[:begins]

    def end(self) -> str:
        """Return the held-back text at the end of the stream, or a mask if it is `MIN_KNOWN` or more of a secret."""
        held, self._held = self._held, ""
        return _mask("known secret") if len(held) >= MIN_KNOWN else held


def _beginning_of(secret: str, text: str) -> int:
    """Return where the longest end of `text` begins that is a beginning of `secret`; the text's length if none is."""
    at = text.find(secret[0], max(len(text) - len(secret) + 1, 0))
    while at >= 0:
        if secret.startswith(text[at:]):
            return at
        at = text.find(secret[0], at + 1)
    return len(text)


def without_known(text: str, known: Sequence[str]) -> str:
    """Return `text` with a mask for each known secret. `known` must have the longest first."""
    for secret in known:
        if len(secret) >= MIN_KNOWN and secret in text:
            text = text.replace(secret, _mask("known secret"))
    return text


def redacted_lines(text: str) -> str:
    """Like `redact_text`, but keep the number of lines: line numbers stay valid, and no page of the text has a part of
    a secret."""
    return _without_shapes(_masked(text, private_keys(text), lines=True))


def naming(name: str) -> Naming:
    """Return what the name of a field or variable says about its value."""
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


def _without_shapes(text: str) -> str:
    """Replace secrets found by shape or name. Repeat after a change, because the value of one name may be the name of
    the next: `a=…=b=…`."""
    for _ in range(_MOST_LOOKS):
        before = text
        for pattern, judged in _RULES:
            text = _substituted(pattern, judged, text)
        if text == before:
            break
    return text


def _masked(text: str, keys: list[Span], *, lines: bool = False) -> str:
    """Return `text` with a mask for each private key; with `lines`, followed by the key's line feeds."""
    pieces: list[str] = []
    copied = 0
    for begin, end in keys:
        pieces += [text[copied:begin], _mask("private key"), "\n" * text.count("\n", begin, end) if lines else ""]
        copied = end
    return "".join([*pieces, text[copied:]])


def _without_keys(items: list[Json]) -> list[Json]:
    """Mask private keys in a list of lines, in which notebooks store texts."""
    lines = [item for item in items if isinstance(item, str)]
    if len(lines) < 2 or len(lines) < len(items):
        return items
    return [_masked(line, keys) for line, keys in zip(lines, in_lines(lines), strict=True)]


def _object(value: JsonObject, known: Sequence[str]) -> JsonObject:
    found: JsonObject = {}
    called = value.get("name", value.get("key"))
    for key, item in value.items():
        name = redact_text(key, known)
        if name != key and (name in found or name in value):
            others = (f"{name} {at}" for at in range(2, 2 * len(value) + 2))
            name = next(other for other in others if other not in found and other not in value)
        found[name] = _field(called if key == "value" and isinstance(called, str) else key, item, known)
    return found


def _field(key: str, item: Json, known: Sequence[str]) -> Json:
    if isinstance(item, list):
        return [_field(key, each, known) for each in _without_keys(item)]
    if not isinstance(item, str) or not item:
        return redact(item, known)
    match naming(key):
        case "password" if not (_OF_FORMS.fullmatch(item) or _SPEAKS.match(item)):
            return _mask("password")
        case "secret" if not _PLACEHOLDER.search(item):
            return _mask("secret")
        case "secret" if (header := _SCHEME.fullmatch(item)) and _is_mixed(header["value"]):
            return item[: header.start("value")] + _mask("token")
        case "token" if _looks_secret(item, "token", quoted=True):
            return _mask("token")
        case _:
            return redact_text(item, known)


def _substituted(pattern: re.Pattern[str], judged: Callable[[re.Match[str]], Replaced], text: str) -> str:
    """Like `pattern.sub`, but in steps: no other thread runs during one call of `re`."""
    pieces: list[str] = []
    copied = at = 0
    while at < len(text):
        seen = pattern.search(text, at, at + _STEP + REACH)
        if seen is None:
            at += _STEP
            continue
        found = pattern.match(text, seen.start())  # the whole match, also beyond the step
        replaced = found and judged(found)
        if replaced is None:  # the supposed value may contain another name and its secret
            at = seen.start() + 1 if found is None else found.start(found.lastgroup or 0)
            continue
        begin, end, kind = replaced
        pieces += [text[copied:begin], _mask(kind)]
        copied = at = end
    return "".join([*pieces, text[copied:]])


def _key(found: re.Match[str]) -> Replaced:
    return found.start(), found.end(), kind_of(found)


def _url_password(found: re.Match[str]) -> Replaced:
    if _EXAMPLE.fullmatch(found["value"]) or "://" in found["value"]:
        return None
    rest = URL_REST.match(found.string, found.end())
    following = rest[0].split("://")[0] if rest else ""
    further = following.rfind("@")
    goes_on = further > 0 and following[further - 1] != "/" and not URL_HOST.match(following)
    return found.start("value"), found.end() + further if goes_on else found.end("value"), "password"


def _authorization(found: re.Match[str]) -> Replaced:
    return (*found.span("value"), "token") if _is_mixed(found["value"]) else None


def _bearer(found: re.Match[str]) -> Replaced:
    """Both "bearer" and the next word may be ordinary words."""
    value = found["value"]
    return (*found.span("value"), "token") if _LETTER.search(value) and _DIGIT.search(value) else None


def _assigned(found: re.Match[str]) -> Replaced:
    before = found.string[max(found.start() - _LINE_BEFORE, 0) : found.start()]
    name = _NAME_END.findall(before[-_NAME_BEFORE:])[0]
    kind = naming(name + found["name"])
    group = str(found.lastgroup)
    begin, end = found.span(group)
    following = found.string[end : end + 1]
    before = before[: len(before) - len(name)]
    match found["between"].strip():
        case "":
            is_place = name.startswith("--") or (not name and _NETRC.search(before) is not None)
        case ",":
            is_place = group != "bare" and _CALL.search(before) is not None
        case ">":
            is_place = before.endswith("<") and following == "<"
        case _:
            is_place = True
    if not is_place or not kind:
        return None
    if group != "bare":
        return (begin, end, kind) if _looks_secret(found[group], kind, quoted=True) else None
    if following in ("(", "[") or not _looks_secret(found[group], kind, quoted=bool(found["open"])):
        return None
    rest = (OPEN_REST[found["open"]] if found["open"] else BARE_REST).match(found.string, end)
    return begin, rest.end() if rest else end, kind


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Replaced]], ...] = (
    (KEYS, _key),
    (URL_PASSWORD, _url_password),
    (AUTHORIZATION, _authorization),
    (BEARER, _bearer),
    (ASSIGNED, _assigned),
)


def _looks_secret(value: str, kind: Naming, *, quoted: bool) -> bool:
    """Whether the value looks random: long enough, letters and other characters, no name, path or address. Without
    quotes it may be an identifier of a program."""
    least, distinct = (8, 5) if kind == "password" else (16, 8)
    if len(value) < least or len(set(value)) < distinct or not _LETTER.search(value) or REDACTED in value:
        return False
    if not (_DIGIT.search(value) or (kind == "password" and quoted and _SPECIAL.search(value))):
        return False
    if " " in value or _EXAMPLE.fullmatch(value) or _VARIABLE.search(value) or _NO_SECRET.fullmatch(value):
        return False
    if kind == "token" and (_ADDRESS.fullmatch(value) or not _TOKEN.fullmatch(value)):
        return False
    return not _is_name(value, kind, quoted=quoted)


def _is_name(value: str, kind: Naming, *, quoted: bool) -> bool:
    parts = [part for part in _SEPARATORS.split(value) if part]
    words = [part for part in parts if _NAME_PART.fullmatch(part)]
    if len(words) == len(parts):
        return len(parts) > 1 or kind != "password"
    numbers = sum(_NUMBER_PART.fullmatch(part) is not None for part in parts)
    in_code = not quoted and ("." in value or len(words) > 1)
    return in_code and len(words) + numbers == len(parts) and _NAME_PART.match(parts[0]) is not None


def _is_mixed(value: str) -> bool:
    """Whether it has letters and digits, or both cases behind the first letter: no plain word, no number."""
    rest = value[1:]
    has_both = any(letter.islower() for letter in rest) and any(letter.isupper() for letter in rest)
    return _LETTER.search(value) is not None and (has_both or _DIGIT.search(value) is not None)


def _mask(kind: str) -> str:
    return f"{REDACTED}{kind}]"
