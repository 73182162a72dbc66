"""Plain text for people: invisible characters made visible, cuts by width, and how amounts are written."""

import json
import re
import unicodedata

from ozzie_server_ext.domain.budget import NANO_USD_PER_USD
from ozzie_server_ext.domain.json import Json

LINE_WIDTH = 80
"""The assumed width of a console."""

_NONE = frozenset({"Mn", "Me", "Cf"})
_EMOJI_FORM = "\ufe0f"


def columns(text: str) -> int:
    """Return the width in columns of one line without control characters."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def cut_columns(text: str, width: int) -> str:
    """Cut the end of `text`, to at most `width` columns."""
    if columns(text) <= width:
        return text
    return f"{_head(text, width - 1).rstrip()}…" if width > 0 else ""


def cut_middle_columns(text: str, width: int) -> str:
    """Cut the middle of `text`, to at most `width` columns: a path keeps its root and its name."""
    if columns(text) <= width:
        return text
    tail = _head(text[::-1], width // 2)[::-1]
    return f"{_head(text, width - 1 - columns(tail))}…{tail}" if width > 0 else ""


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Pad `text` to `width` columns; on the left side if `right`-aligned."""
    blanks = " " * max(width - columns(text), 0)
    return f"{blanks}{text}" if right else f"{text}{blanks}"


def wrapped(text: str, width: int = LINE_WIDTH, *, indent: str = "") -> list[str]:
    """Wrap a paragraph at blanks into lines of at most `width` columns; `indent` precedes all but the first. A longer
    word stays whole: a cut address can't be copied."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line.strip() else f"{line}{word}"
        if line.strip() and columns(longer) > width:
            lines.append(line)
            longer = f"{indent}{word}"
        line = longer
    return [*lines, line] if line.strip() else lines


def folded(text: str, width: int = LINE_WIDTH) -> list[str]:
    """Fold one line into pieces of at most `width` columns, wherever they break, without leaving out anything."""
    pieces: list[str] = []
    while columns(text) > width:
        piece = _head(text, width) or text[:1]
        pieces.append(piece)
        text = text[len(piece) :]
    return [*pieces, text]


def _head(text: str, width: int) -> str:
    taken = 0
    for index, char in enumerate(text):
        taken += _columns(char)
        if taken > width:
            return text[:index]
    return text


def _columns(char: str) -> int:
    if char == _EMOJI_FORM or unicodedata.category(char) in _NONE:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


# Characters that can reorder, hide or overwrite the text around them: C0 and C1 controls, bidi embeddings, overrides
# and isolates, line separators, halves of surrogate pairs, interlinear annotations and tag characters.
_PROSE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# In a label, and in what is to be approved, also those that only hide or mark a direction: zero-width characters, the
# byte-order mark, controls of hieroglyphs, shorthand and music. Signs before Arabic numbers have their category (Cf),
# but are seen.
_HIDING = (
    "\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
_LABEL = re.compile("[\x00-\x1f" + _HIDING)
_PROOF = re.compile("[\x00-\x08\x0b-\x1f" + _HIDING)
# Letters and marks that show nothing by themselves: fillers, joiners, variation selectors.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]")
"""Look like a space, but are other characters."""
_UNSEEN = re.compile("|".join(each.pattern for each in (_PROOF, _BLANK, _SPACES)))
_PLAIN_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_BRAILLE_BLANK = "\u2800"
BACKTICK = "\\u0060"
"""Replaces a backtick within a quoted name."""
_CRLF = re.compile(r"\r\n?")
_GAP = re.compile(r"\s+")


def visible_prose(text: str) -> str:
    r"""Show every character of `text` that could disguise the rest as `\u202e`; line ends become newlines. Tabs,
    newlines, and the joiners and marks that scripts and emoji need stay."""
    return _PROSE.sub(_escaped, _CRLF.sub("\n", text))


def visible_proof(text: str) -> str:
    """Make a text of several lines visible for approval: nothing invisible but tabs and newlines stays, even if a
    script or an emoji needs it, as names that look the same may differ."""
    return _PROOF.sub(_escaped, _CRLF.sub("\n", text))


def visible_json(value: Json) -> str:
    r"""Return `value` as JSON for approval. Invisible characters, and those like a space, are JSON escapes (`\u202e`),
    so that a parser gets the same value back."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def visible_label(text: str) -> str:
    """Return `text` on one line, for a label, an argument or a title: nothing invisible is left in it."""
    return _LABEL.sub(_escaped, _GAP.sub(" ", _CRLF.sub("\n", text)).strip())


def without_hidden(text: str) -> str:
    """Remove all invisible characters but tabs and newlines from `text`: in outside content they hide text from people
    that a model reads. Emoji lose their joiners."""
    return _BLANK.sub("", _PROOF.sub("", _CRLF.sub("\n", text)))


def inside(sentence: str) -> str:
    """Return a sentence for use within another one: without its full stop, in lower case if it began with a plain word.
    A name in capitals, and "I", stay as they are."""
    text = sentence.strip().removesuffix(".")
    first = text.split(" ", 1)[0]
    is_plain = first.isalpha() and first.istitle() and first != "I"
    return text[:1].lower() + text[1:] if is_plain else text


def quoted(name: str) -> str:
    """Return a name between backticks for a question: on one line, nothing invisible, and whole, as names cut in the
    middle could look the same."""
    return f"`{visible_label(name).replace('`', BACKTICK)}`"


def spelled(word: str) -> str:
    """Return a word of a command in quotes, on one line, for approval: other spaces, invisible and combining characters
    are shown by their codes, so that different words look different, except for letters of other scripts."""
    return f'"{"".join(_PLAIN_ESCAPES.get(each) or (each if _is_seen(each) else _code(each)) for each in word)}"'


def _is_seen(character: str) -> bool:
    blank = _BLANK.match(character) or character == _BRAILLE_BLANK
    return character.isprintable() and not blank and not unicodedata.combining(character)


def _escaped(match: re.Match[str]) -> str:
    return _code(match[0])


def _code(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def cut_end(text: str, width: int) -> str:
    """Cut the end of `text`, to at most `width` characters."""
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def cut_middle(text: str, width: int) -> str:
    """Cut the middle of `text`, to at most `width` characters: a path keeps its root and its name."""
    if len(text) <= width:
        return text
    tail = width // 2
    return f"{text[: width - tail - 1]}…{text[-tail:]}"


def duration(seconds: float) -> str:
    """Return a measured time: "0.4 s", "18.0 s", "4 min 12 s", "2 h 5 min"."""
    if seconds < 59.95:
        return f"{max(seconds, 0):.1f} s"
    return elapsed(seconds)


def elapsed(seconds: float) -> str:
    """Return a running time in whole seconds, so that it does not flicker: "0 s", "18 s", "4 min 12 s"."""
    whole = max(int(seconds + 0.5), 0) if seconds >= 59.95 else max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def spoken_duration(seconds: float) -> str:
    """Return a time for a screen reader: "9 minutes 41 seconds"."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    parts = [counted(minutes, "minute")] if minutes else []
    if rest or not minutes:
        parts.append(counted(rest, "second"))
    return " ".join(parts)


def money(nano_usd: int) -> str:
    """Return an amount of 1e-9 USD: three decimals below a dollar, else two; a small amount never reads as zero."""
    if nano_usd == 0:
        return "$0.00"
    usd = nano_usd / NANO_USD_PER_USD
    if usd < 0.0005:
        return "<$0.001"
    return f"${usd:.3f}" if usd < 0.9995 else f"${usd:,.2f}"


def amount_of_money(nano_usd: int) -> str:
    """Return an amount that a person chooses: in cents if it is whole cents, else like `money`."""
    cents, rest = divmod(nano_usd, NANO_USD_PER_USD // 100)
    return money(nano_usd) if rest else f"${cents / 100:,.2f}"


def byte_count(size: int) -> str:
    """ "812 bytes", "9.6 kB", "12 kB": rounded down."""
    for unit, factor in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)):
        if size >= factor:
            return f"{size // factor} {unit}" if size >= 10 * factor else f"{size * 10 // factor / 10} {unit}"
    return counted(size, "byte")


_SENTENCE_END = re.compile(r"[.!?](?=\s+[^\sa-z])")
"""A lowercase letter continues the sentence, as after "e.g."."""


def first_sentence(text: str) -> str:
    """Return the first sentence of a text on one line, like `visible_label`."""
    label = visible_label(text)
    end = _SENTENCE_END.search(label)
    return label[: end.end()] if end else label


def token_count(tokens: int) -> str:
    """ "1 token", "1,940 tokens"."""
    return counted(tokens, "token")


def line_count(lines: int) -> str:
    """ "1 line", "1,204 lines"."""
    return counted(lines, "line")


def file_count(files: int) -> str:
    """ "1 file", "3 files"."""
    return counted(files, "file")


def step_count(steps: int) -> str:
    """ "1 step", "3 steps"."""
    return counted(steps, "step")


def counted(number: int, noun: str) -> str:
    """Return "1 line", "1,204 lines"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
