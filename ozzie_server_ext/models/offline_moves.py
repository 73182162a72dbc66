"""The parts of the offline script: what it has seen of a turn, its next move, and the words for results."""

import csv
import io
import posixpath
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.render.text import counted

_PATH = re.compile(r"@(?:\"([^\"]+)\"|(\S+))|(?<![\w/@])((?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,9})\b")


class Say(msgspec.Struct, frozen=True):
    """The answer, in Markdown."""

    text: str


class Ask(msgspec.Struct, frozen=True):
    """Calls a tool before it answers."""

    tool: str
    args: JsonObject


class Seen(msgspec.Struct, frozen=True):
    """The result of a tool in this turn: its data, or a sentence that says why there is none."""

    tool: str
    data: Json
    error: str = ""


Move: TypeAlias = Say | Ask
Rule: TypeAlias = Callable[[str, Sequence[Seen]], Move | None]


def given_by(tool: str, seen: Sequence[Seen]) -> Seen | None:
    """Return the latest result of this tool in this turn."""
    return next((found for found in reversed(seen) if found.tool == tool), None)


def ask_once(tool: str, args: JsonObject, seen: Sequence[Seen], answer: Callable[[Json], str]) -> Move:
    """Call the tool, or answer with its result if this turn has one."""
    given = given_by(tool, seen)
    return Ask(tool, args) if given is None else Say(answer(given.data))


def path_in(question: str) -> str:
    """Return the first file that the question names, or ""."""
    found = _PATH.search(question)
    if not found:
        return ""
    return found[1] or (found[2] or found[3]).rstrip(".,;:!?)'\"`").rstrip("/")


_SHOWN_LINES = 8
_SHOWN_CHARS = 800
_SHOWN_ENTRIES = 40


def code(text: str) -> str:
    """Return `text` as a Markdown code span that it can't break out of."""
    lookalike = "\N{MODIFIER LETTER GRAVE ACCENT}"
    return f"`{text.replace('`', lookalike)}`"


def get(data: Json, name: str) -> Json:
    """Return a field of `data`; None if there is none, or `data` is no object."""
    return data.get(name) if isinstance(data, dict) else None


def items(data: Json, name: str) -> list[Json]:
    """Return a list in `data`; an empty one if there is none."""
    found = get(data, name)
    return found if isinstance(found, list) else []


def field(data: Json, *names: str) -> str:
    """Return the first of `names` that `data` has, as text; without one of them, all of `data`."""
    for name in names:
        if (found := get(data, name)) is not None:
            return field(found)
    return data if isinstance(data, str) else dumps(data)


def names_in(data: Json) -> list[str] | None:
    """Return the names in a listing; None if `data` is no listing, or not the whole of it."""
    entries = None if get(data, "truncated") else get(data, "entries")
    return [_name(entry) for entry in entries] if isinstance(entries, list) else None


def listing(path: str, data: Json) -> str:
    entries = get(data, "entries")
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
    """Return the first lines of a file that was read."""
    text = field(data, "text", "content")
    shown = "\n".join(text.splitlines()[:_SHOWN_LINES])[:_SHOWN_CHARS]
    if not shown:
        return f"{code(path)} is empty."
    total = _lines(text, data)
    head = f"{code(path)} has {counted(total, 'line')}."
    return (
        f"{head} It begins:\n\n{_fenced(shown)}" if len(shown) < len(text.rstrip()) else f"{head}\n\n{_fenced(shown)}"
    )


def printed(data: Json) -> str:
    """Return what a command printed, and how it ended."""
    output = get(data, "output")
    text = (output if isinstance(output, str) else "") or _kept_head(data)
    code_ = get(data, "exit_code")
    ended = field(data, "ended") if get(data, "ended") else ""
    how = ended or ("It ran." if code_ == 0 else f"It ended with {code(f'exit {code_}')}.")
    shown = "\n".join(text.rstrip().splitlines()[:_SHOWN_ENTRIES])
    return f"{how}\n\n{_fenced(shown)}" if shown else f"{how} It printed nothing."


def kernels(data: Json) -> str:
    """Return the running kernels, and their notebooks."""
    listed = items(data, "kernels")
    if not listed:
        return field(data, "note") if get(data, "note") else "No kernel runs here."
    lines = [
        f"- {code(field(each, 'notebook' if each.get('notebook') else 'name'))}: {code(field(each, 'state'))}"
        for each in listed
        if isinstance(each, dict)
    ]
    return "These kernels run:\n\n" + "\n".join(lines[:_SHOWN_ENTRIES])


def fetched(data: Json) -> str:
    """Return where a page was found and how it begins, or where it redirects."""
    where = code(field(data, "url") if isinstance(data, dict) and "url" in data else "")
    if get(data, "leads_to"):
        return f"{where} redirects to {code(field(data, 'leads_to'))}, which was not followed."
    text = _kept_head(data) or (field(data, "text") if isinstance(data, dict) and "text" in data else "")
    shown = "\n".join(text.splitlines()[:_SHOWN_LINES])[:_SHOWN_CHARS]
    title = field(data, "title") if get(data, "title") else ""
    head = f"{where}, {code(title)}" if title else where
    return f"{head} begins:\n\n{_fenced(shown)}" if shown else f"{head} has no text."


def found(data: Json) -> str:
    """Return the results of a web search."""
    results = [f"- {code(field(each, 'title'))}: {code(field(each, 'url'))}" for each in items(data, "results")]
    return "\n".join(results) or "The search found nothing."


def _kept_head(data: Json) -> str:
    """Return the beginning of a result that was too long, and is kept elsewhere."""
    heads = [each for each in items(data, "kept") if isinstance(each, dict) and "head" in each]
    return field(heads[0], "head") + "…\n" if heads else ""


def changes_in(data: Json) -> tuple[str, list[str]] | None:
    """Return the artifact with a command's changes and the changed paths; None if there is none."""
    changes = get(data, "changes")
    files = get(changes, "files")
    if not isinstance(files, list) or not get(changes, "artifact"):
        return None
    return field(changes, "artifact"), [field(file, "path") for file in files]


def applied(data: Json) -> str:
    """Return which files were changed in the project, and which were not."""
    done, left = ([code(field(path)) for path in items(data, name)] for name in ("applied", "not_applied"))
    if left:
        return f"Applied: {', '.join(done)}. Not applied: {', '.join(left)}. {field(data, 'why')}"
    return f"Applied: {', '.join(done)}." if done else "There was nothing to apply."


def count_rows(path: str, data: Json, *, unit: str) -> str:
    """Return the number of rows: records below the header line of a table, else lines."""
    text = field(data, "text", "content")
    truncated = bool(get(data, "truncated"))
    suffix = posixpath.splitext(path)[1].lower()
    if suffix not in (".csv", ".tsv") or unit == "lines":
        return f"{code(path)} has {counted(_lines(text, data), 'line')}."
    if truncated:
        return (
            f"{code(path)} has {counted(max(0, _lines(text, data) - 1), 'line')} below its header line; "
            "only a part of it was read, so a row that spans lines counts as several."
        )
    rows = _records(text, "\t" if suffix == ".tsv" else ",")
    return f"{code(path)} has **{counted(max(0, rows - 1), 'row')}**, not counting its header line."


def _records(text: str, delimiter: str) -> int:
    try:
        return sum(1 for record in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if record)
    except csv.Error:  # a stray NUL or an endless quoted field
        return sum(1 for line in text.splitlines() if line.strip())


def _lines(text: str, data: Json) -> int:
    lines = get(data, "lines")
    return lines if isinstance(lines, int) and not isinstance(lines, bool) else len(text.splitlines())


def _name(entry: Json) -> str:
    return field(entry, "name", "path")


def _slash(entry: Json) -> str:
    return "/" if get(entry, "kind") in ("folder", "directory", "dir") else ""


def _size(entry: Json) -> str:
    size = None if _slash(entry) else get(entry, "size")
    return f", {counted(size, 'byte')}" if isinstance(size, int) and not isinstance(size, bool) else ""


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


_SIGNS = str.maketrans(
    {"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "²": "^2", "³": "^3", "\N{NO-BREAK SPACE}": " "}
)
# It begins at a number's first digit and is bounded, so that a long run of digits is not searched from each of them.
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
    """Return the sum in `question` as an expression of numbers, brackets and `+ - * / **`; None if there is none.

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
