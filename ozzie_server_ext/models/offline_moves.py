"""What the offline script is made of: what it has seen of a turn, and what it does next."""

import csv
import io
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.jsontext import dumps

_PATH = re.compile(r"@(?:\"([^\"]+)\"|(\S+))|(?<![\w/@])((?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,9})\b")


@dataclass(frozen=True, slots=True)
class Say:
    """The answer, in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Wants a tool to run before it answers."""

    tool: str
    args: JsonObject


@dataclass(frozen=True, slots=True)
class Seen:
    """What a tool of this turn gave: its data, or the sentence that says why it gave none."""

    tool: str
    data: Json
    error: str = ""


Move: TypeAlias = Say | Ask
Rule: TypeAlias = Callable[[str, Sequence[Seen]], Move | None]


def given_by(tool: str, seen: Sequence[Seen]) -> Seen | None:
    """The last that this tool gave in this turn."""
    return next((found for found in reversed(seen) if found.tool == tool), None)


def path_in(question: str) -> str:
    """The first file that the question names; empty where it names none."""
    found = _PATH.search(question)
    if not found:
        return ""
    return found[1] or (found[2] or found[3]).rstrip(".,;:!?)'\"`").rstrip("/")


_SHOWN_LINES = 8
_SHOWN_CHARS = 800
_SHOWN_ENTRIES = 40


def code(text: str) -> str:
    """`text` as a Markdown code span that it can't break out of."""
    lookalike = "\N{MODIFIER LETTER GRAVE ACCENT}"
    return f"`{text.replace('`', lookalike)}`"


def field(data: Json, *names: str) -> str:
    """The first of `names` that `data` has, as text; without one of them, all of it."""
    if isinstance(data, dict):
        for name in names:
            if data.get(name) is not None:
                return field(data[name])
    return data if isinstance(data, str) else dumps(data)


def names_in(data: Json) -> list[str] | None:
    """The names in a listing; None where this is no listing, or not the whole of it."""
    if not isinstance(data, dict) or data.get("truncated"):
        return None
    entries = data.get("entries")
    return [_name(entry) for entry in entries] if isinstance(entries, list) else None


def listing(path: str, data: Json) -> str:
    entries = data.get("entries") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        return _fenced(field(data, "text"))
    if not entries:
        return f"{code(path)} is empty."
    more = len(entries) - _SHOWN_ENTRIES
    lines = [f"- {code(_name(entry) + _slash(entry))}{_size(entry)}" for entry in entries[:_SHOWN_ENTRIES]]
    if more > 0:
        lines.append(f"- and {more:,} more")
    return f"In {code(path)}:\n\n" + "\n".join(lines)


def excerpt(path: str, data: Json) -> str:
    """The first lines of a file that was read."""
    text = field(data, "text", "content")
    shown = "\n".join(text.splitlines()[:_SHOWN_LINES])[:_SHOWN_CHARS]
    if not shown:
        return f"{code(path)} is empty."
    total = _lines(text, data)
    head = f"{code(path)} has {_counted(total, 'line')}."
    return (
        f"{head} It begins:\n\n{_fenced(shown)}" if len(shown) < len(text.rstrip()) else f"{head}\n\n{_fenced(shown)}"
    )


def printed(data: Json) -> str:
    """What a command printed, and how it ended."""
    text = field(data, "output") if isinstance(data, dict) and isinstance(data.get("output"), str) else ""
    text = text or _kept_head(data)
    code_ = data.get("exit_code") if isinstance(data, dict) else None
    ended = field(data, "ended") if isinstance(data, dict) and data.get("ended") else ""
    how = ended or ("It ran." if code_ == 0 else f"It ended with {code(f'exit {code_}')}.")
    shown = "\n".join(text.rstrip().splitlines()[:_SHOWN_ENTRIES])
    return f"{how}\n\n{_fenced(shown)}" if shown else f"{how} It printed nothing."


def kernels(data: Json) -> str:
    """The kernels that run, and what for."""
    listed = data.get("kernels") if isinstance(data, dict) else None
    if not isinstance(listed, list) or not listed:
        return field(data, "note") if isinstance(data, dict) and data.get("note") else "No kernel runs here."
    rows = [each for each in listed if isinstance(each, dict)]
    lines = [
        f"- {code(field(each, 'notebook' if each.get('notebook') else 'name'))}: {code(field(each, 'state'))}"
        for each in rows
    ]
    return "These kernels run:\n\n" + "\n".join(lines[:_SHOWN_ENTRIES])


def fetched(data: Json) -> str:
    """Where a page stood, and how it begins; or where it leads."""
    where = code(field(data, "url") if isinstance(data, dict) and "url" in data else "")
    if isinstance(data, dict) and data.get("leads_to"):
        return f"{where} redirects to {code(field(data, 'leads_to'))}, which was not followed."
    text = _kept_head(data) or (field(data, "text") if isinstance(data, dict) and "text" in data else "")
    shown = "\n".join(text.splitlines()[:_SHOWN_LINES])[:_SHOWN_CHARS]
    title = field(data, "title") if isinstance(data, dict) and data.get("title") else ""
    head = f"{where}, {code(title)}" if title else where
    return f"{head} begins:\n\n{_fenced(shown)}" if shown else f"{head} has no text."


def found(data: Json) -> str:
    """What a search of the web gave."""
    results = data.get("results") if isinstance(data, dict) else None
    if not isinstance(results, list) or not results:
        return "The search found nothing."
    return "\n".join(f"- {code(field(each, 'title'))}: {code(field(each, 'url'))}" for each in results)


def _kept_head(data: Json) -> str:
    """The beginning of what was too long to be told, and is kept."""
    kept = data.get("kept") if isinstance(data, dict) else None
    heads = [each for each in kept if isinstance(each, dict) and "head" in each] if isinstance(kept, list) else []
    return field(heads[0], "head") + "…\n" if heads else ""


def changes_in(data: Json) -> tuple[str, list[str]] | None:
    """The artifact with what a command changed in its copy, and the paths in it; None where there is none."""
    changes = data.get("changes") if isinstance(data, dict) else None
    if not isinstance(changes, dict) or not isinstance(changes.get("files"), list) or not changes.get("artifact"):
        return None
    files = changes["files"]
    assert isinstance(files, list)
    return field(changes, "artifact"), [field(file, "path") for file in files]


def applied(data: Json) -> str:
    """Which files were changed in the project, and which were not."""
    found = data if isinstance(data, dict) else {}
    done, left = (
        [code(field(path)) for path in paths] for paths in (_list(found, "applied"), _list(found, "not_applied"))
    )
    if left:
        return f"Applied: {', '.join(done)}. Not applied: {', '.join(left)}. {field(found, 'why')}"
    return f"Applied: {', '.join(done)}." if done else "There was nothing to apply."


def _list(data: dict[str, Json], name: str) -> list[Json]:
    found = data.get(name)
    return found if isinstance(found, list) else []


def count_rows(path: str, data: Json, *, unit: str) -> str:
    """How many rows the file has: in a table, records below the header line; else lines."""
    text = field(data, "text", "content")
    truncated = isinstance(data, dict) and bool(data.get("truncated"))
    suffix = posixpath.splitext(path)[1].lower()
    if suffix not in (".csv", ".tsv") or unit == "lines":
        return f"{code(path)} has {_counted(_lines(text, data), 'line')}."
    if truncated:
        return (
            f"{code(path)} has {_counted(max(0, _lines(text, data) - 1), 'line')} below its header line; "
            "only a part of it was read, so a row that spans lines counts as several."
        )
    rows = _records(text, "\t" if suffix == ".tsv" else ",")
    return f"{code(path)} has **{_counted(max(0, rows - 1), 'row')}**, not counting its header line."


def _records(text: str, delimiter: str) -> int:
    try:
        return sum(1 for record in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if record)
    except csv.Error:  # a stray NUL or an endless quoted field
        return sum(1 for line in text.splitlines() if line.strip())


def _lines(text: str, data: Json) -> int:
    told = data.get("lines") if isinstance(data, dict) else None
    return told if isinstance(told, int) and not isinstance(told, bool) else len(text.splitlines())


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _name(entry: Json) -> str:
    return field(entry, "name", "path")


def _slash(entry: Json) -> str:
    folder = isinstance(entry, dict) and entry.get("kind") in ("folder", "directory", "dir")
    return "/" if folder else ""


def _size(entry: Json) -> str:
    size = entry.get("size") if isinstance(entry, dict) and not _slash(entry) else None
    return f", {_counted(size, 'byte')}" if isinstance(size, int) and not isinstance(size, bool) else ""


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


_SIGNS = str.maketrans(
    {"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "²": "^2", "³": "^3", "\N{NO-BREAK SPACE}": " "}
)
# Begun at a number's first digit only and bounded, so that a long run of digits is not searched from each of them.
_NUMBER = r"(?<![\d.])(\d{1,30}(?:\.\d{1,30})?)"
_WORDS = (
    (re.compile(r"\s+(?:multiplied by|times)\s+", re.I), " * "),
    (re.compile(r"\s+(?:divided by|over)\s+", re.I), " / "),
    (re.compile(r"\s+plus\s+", re.I), " + "),
    (re.compile(r"\s+minus\s+", re.I), " - "),
    (re.compile(r"\s+to the power of\s+", re.I), " ^ "),
)
_PERCENT_OF = re.compile(rf"{_NUMBER}\s*(?:%|percent|per cent)\s+of\s+{_NUMBER}", re.I)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_WANTED = re.compile(r"\b(calculat\w*|comput\w*|what is|what's|how much is|evaluate|work out)\b|=", re.I)
# Not inside a word, a path or a date: a sum is on its own.
_SUM = re.compile(r"(?<![\w@/.\-])-?[\d(.][\d\s+\-*/^().]*")
_OPERATION = re.compile(r"[\d)]\s*[+\-*/^]\s*[\d(.\-]")
_MAX_CHARS = 200


def find_expression(question: str) -> str | None:
    """The sum in `question` as an expression of numbers, brackets and `+ - * / **`; None where it asks for none.

    >>> find_expression("What is 17.5 % of 2,480?")
    '17.5/100*2480'
    """
    text = _THOUSANDS.sub("", question.translate(_SIGNS))
    for pattern, sign in _WORDS:
        text = pattern.sub(sign, text)
    percent = _PERCENT_OF.search(text)
    if percent:
        return f"{percent[1]}/100*{percent[2]}"
    sums = [found for match in _SUM.finditer(text) if (found := _trimmed(match, text))]
    if not sums:
        return None
    longest = max(sums, key=len)
    if not _WANTED.search(text) and len(longest) < len(text.strip(" .?!")):
        return None
    return longest.replace("^", "**")


def _trimmed(match: re.Match[str], text: str) -> str | None:
    follower = text[match.end() : match.end() + 1]
    found = match[0].rstrip(" .+-*/^\n\t")
    whole_word = not (follower.isalnum() and match[0] == found) and follower not in ("/", "@", "_")
    balanced = found.count("(") == found.count(")")
    if whole_word and balanced and len(found) <= _MAX_CHARS and _OPERATION.search(found):
        return re.sub(r"\s+", "", found)
    return None
