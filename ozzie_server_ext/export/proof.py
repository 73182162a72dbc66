"""What a proof in an exported file says, and how the file is compared with it (docs/export.md).

A proof lists, for each cell of a notebook or line of a file, a hash of what is shown, and which events of the log it
was made from. It is signed. Only what a reader sees is hashed: an editor may change ids, the order of keys, how texts
are split into lines, and the metadata of cells and outputs.
"""

import hashlib
import re
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import InvalidJson, canonical_bytes, loads

PROOF = "ozzie_proof"
"""The key of the proof in a notebook's metadata, and in the last line of a file of lines."""
NUMBER = "ozzie_cell"
"""The key in a cell's metadata for its number in the proof, from 0 on."""
MAX_BYTES = 64 << 20
"""The largest file that is checked: a notebook of 16,000 turns, or the lines of 6,000."""
MOST_ITEMS = 100_000
"""Cells or lines of it."""

_Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
"""More than any log has events, and exact in JavaScript too."""
_Name: TypeAlias = Annotated[str, Meta(max_length=128, pattern=r"^[\w.:+-]*$")]
"""An id, a hash, a version, a key: nothing that could pass for a sentence."""
_Moment: TypeAlias = Annotated[str, Meta(pattern=r"^(19[7-9]|[2-8]\d\d)\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")]

Kind: TypeAlias = Literal["notebook", "lines"]
"""The two forms that carry a proof."""


class Item(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A cell or line: the hash of what is `shown`, and of its `source` alone. A turn's cells name its `task`, how many
    of its events are shown, and the `digest` of these (`digest_of`)."""

    shown: _Name
    source: _Name = ""
    task: _Name = ""
    events: _Count = 0
    digest: _Name = ""


class Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was exported: from the log whose first event has the hash `log`, up to the event at position `head`, at the
    time `at`, by this `version` of Ozzie. `key` is the public key, `signature` covers all other fields."""

    format: Literal[1] = 1
    kind: Kind
    session: _Name
    log: _Name
    head: _Count
    at: _Moment
    version: _Name
    items: tuple[Item, ...]
    key: _Name = ""
    signature: _Name = ""

    def signed_bytes(self) -> bytes:
        """Return what the signature is over."""
        fields = msgspec.to_builtins(self)
        del fields["signature"]
        return b"ozzie export 1\0" + canonical_bytes(fields)


def digest_of(events: Iterable[tuple[int, str]]) -> str:
    """Return the digest of events by their positions and hashes, in order."""
    digest = hashlib.sha256(b"ozzie events 1\0")
    for position, hash_ in events:
        digest.update(f"{position} {hash_}\n".encode())
    return digest.hexdigest()


# --- what is shown ----------------------------------------------------------------------------------------------------


class Found(msgspec.Struct, frozen=True):
    """A cell or line of a file as it is. `claims` is the number that it has by its own account, `is_hidden` whether a
    reader has to unfold it, `line` the event of a line. `further` names metadata that a program may obey which shows
    the cell."""

    shown: str
    source: str = ""
    claims: int | None = None
    is_hidden: bool = False
    further: tuple[str, ...] = ()
    line: Mapping[str, Json] | None = None


class Export(msgspec.Struct, frozen=True):
    """A file and the proof that it carries, if any. `further`: as in `Found`, of the whole notebook."""

    kind: Kind
    found: tuple[Found, ...]
    proof: Proof | None
    further: tuple[str, ...] = ()


def read_export(content: bytes) -> Export:
    """Read an exported notebook or file of lines. Raises InputError for anything else."""
    first = content.lstrip()[:1]
    if first != b"{":
        raise _no_export()
    try:
        value = loads(content, max_bytes=MAX_BYTES)
    except InvalidJson:
        return _read_lines(content)
    if isinstance(value, dict) and isinstance(value.get("cells"), list):
        return _read_notebook(value)
    return _read_lines(content)


def _no_export() -> InputError:
    return InputError(
        "This is neither a notebook nor lines that Ozzie exported.",
        hint="Files that end with .ipynb and .jsonl carry a proof: ozzie sessions export SESSION --to FILE.ipynb",
        code="input.export",
    )


def _read_notebook(notebook: Mapping[str, Any]) -> Export:
    version = notebook.get("nbformat")
    if type(version) is not int or version != 4 or "worksheets" in notebook:  # readers of version 3 show worksheets
        raise InputError(
            "This notebook has another format than Ozzie writes, so it is not what was exported.",
            hint="Ozzie writes version 4 (nbformat). Export the session again.",
            code="input.export",
        )
    if len(notebook["cells"]) > MOST_ITEMS:
        raise _too_many()
    metadata: Mapping[str, Any] = _object(notebook.get("metadata"))
    cells = tuple(found_cell(cell) for cell in notebook["cells"])
    further = set(metadata) - _OF_NOTEBOOKS
    language = _object(metadata.get("language_info")).get("name", "")
    if not isinstance(language, str) or not _LANGUAGE.fullmatch(language):
        further.add("language_info")  # nbconvert writes it into the text
    return Export("notebook", cells, _proof(metadata.get(PROOF)), tuple(sorted(further)))


def _read_lines(content: bytes) -> Export:
    """Read lines of JSON, of which the last one is the proof alone."""
    texts = [text for text in content.split(b"\n") if text.strip()]
    if len(texts) > MOST_ITEMS:
        raise _too_many()
    lines: list[Mapping[str, Json]] = []
    for text in texts:
        try:
            line = loads(text, max_bytes=MAX_BYTES)
        except InvalidJson:
            raise _no_export() from None
        if not isinstance(line, dict):
            raise _no_export()
        lines.append(line)
    proof = _proof(lines.pop()[PROOF]) if lines and set(lines[-1]) == {PROOF} else None
    return Export("lines", tuple(Found(shown_line(line), line=line) for line in lines), proof)


def _too_many() -> InputError:
    return InputError(
        f"This file has more than {MOST_ITEMS:,} cells or lines.", hint="Exports have fewer.", code="input.export"
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _proof(value: object) -> Proof | None:
    try:
        proof = msgspec.convert(value, Proof)
        datetime.fromisoformat(proof.at)
    except (msgspec.ValidationError, ValueError):
        return None
    return proof if len(proof.items) <= MOST_ITEMS else None


def found_cell(cell: object) -> Found:
    """Return a notebook's cell (https://nbformat.readthedocs.io) as a proof sees it."""
    if not isinstance(cell, dict):
        return Found(_hash(cell))
    metadata = _object(cell.get("metadata"))
    source = {"type": cell.get("cell_type"), "source": _text(cell.get("source"))}
    outputs = cell.get("outputs")
    shown = {
        **source,
        "count": cell.get("execution_count"),
        "outputs": [_output(output) for output in outputs] if isinstance(outputs, list) else outputs,
        "attachments": cell.get("attachments"),
    }
    claims = metadata.get(NUMBER)
    return Found(
        _hash({name: value for name, value in shown.items() if value not in (None, [], {})}),
        _hash(source),
        claims if type(claims) is int else None,
        _is_hidden(metadata),
        tuple(sorted(set(metadata) - _OF_CELLS)),
    )


def shown_line(line: Mapping[str, Json]) -> str:
    return _hash(line)


def _output(output: object) -> object:
    if not isinstance(output, dict):
        return output
    shown = {name: value for name, value in output.items() if name not in ("metadata", "data", "transient")}
    data = output.get("data")
    if data is not None and not isinstance(data, dict):
        shown["data"] = data
    elif data is not None:
        shown["data"] = {mime: value if mime.endswith("json") else _text(value) for mime, value in data.items()}
    if "text" in shown:
        shown["text"] = _text(shown["text"])
    return shown


def _text(value: object) -> object:
    """Join a text that was split into lines, as notebooks may have it."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "".join(value)
    return value


_OF_CELLS = frozenset(
    {
        NUMBER,
        "collapsed",
        "deletable",
        "editable",
        "execution",
        "heading_collapsed",
        "hidden",
        "jp-MarkdownHeadingCollapsed",
        "jupyter",
        "tags",
        "trusted",
    }
)
_OF_NOTEBOOKS = frozenset({PROOF, "kernelspec", "language_info", "orig_nbformat", "ozzie"})
"""Metadata that JupyterLab and Ozzie write. Others may have nbconvert leave texts out, or write them into it."""
_HIDES = re.compile("^(hide|remove|skip)", re.IGNORECASE)
_LANGUAGE = re.compile(r"[\w+#.-]{0,40}")

_FOLDED_HEADINGS = ("jp-MarkdownHeadingCollapsed", "heading_collapsed")
"""What JupyterLab and Notebook 6 note in the cell of a heading under which all is folded away."""


def _is_hidden(metadata: Mapping[str, Any]) -> bool:
    jupyter = metadata.get("jupyter")
    hides = [metadata.get(name) for name in ("collapsed", "hidden", *_FOLDED_HEADINGS)]
    hides += [jupyter.get("source_hidden"), jupyter.get("outputs_hidden")] if isinstance(jupyter, dict) else []
    tags = metadata.get("tags")
    hides += [any(_HIDES.search(str(tag)) for tag in tags)] if isinstance(tags, list) else []
    return any(hides)


def _hash(value: object) -> str:
    return hashlib.sha256(b"ozzie shown 1\0" + canonical_bytes(_plain(value))).hexdigest()


def _plain(value: object) -> object:
    """Write 1.0 as 1: JavaScript, which saves notebooks, doesn't tell them apart."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value


# --- comparing --------------------------------------------------------------------------------------------------------

Verdict: TypeAlias = Literal["as recorded", "changed since", "not from this log", "erased since", "moved", "missing"]


class Finding(msgspec.Struct, frozen=True):
    """What became of a cell or line. `number` counts from 1 in the file as it is, None if it is missing; `item` is its
    index in the proof, None if it is not from there. `further`: as in `Found`."""

    number: int | None
    item: int | None
    verdict: Verdict
    note: str = ""
    further: tuple[str, ...] = ()

    @property
    def is_as_it_was(self) -> bool:
        """Whether it is shown as it was exported."""
        return self.verdict in ("as recorded", "erased since") and not self.further


def compare(proof: Proof, found: Sequence[Found]) -> list[Finding]:
    """Compare a file with its proof: one finding for each cell or line of the file, in order, then the missing ones."""
    whose = _same(proof.items, found)
    straying = _straying([item for item in whose if item is not None])
    _pair_changed(proof.items, found, whose)
    findings = [
        _finding(number, each, item, proof.items, straying)
        for number, (each, item) in enumerate(zip(found, whose, strict=True), 1)
    ]
    there = sorted((item, number) for number, item in enumerate(whose, 1) if item is not None)
    left = set(range(len(proof.items))) - {item for item, _ in there}
    return findings + [Finding(None, item, "missing", _where(item, there)) for item in sorted(left)]


def _same(items: Sequence[Item], found: Sequence[Found]) -> list[int | None]:
    """Return for each cell that is as recorded its index in the proof. Of equal ones each stands for one."""
    taken: set[int] = set()
    whose: list[int | None] = [None] * len(found)
    for at, each in enumerate(found):
        claims = each.claims
        if claims is None or not 0 <= claims < len(items) or claims in taken:
            continue
        if items[claims].shown == each.shown:
            whose[at] = claims
            taken.add(claims)
    free: dict[str, deque[int]] = defaultdict(deque)
    for index, item in enumerate(items):
        if index not in taken:
            free[item.shown].append(index)
    for at, each in enumerate(found):
        if whose[at] is None and (left := free.get(each.shown)):
            whose[at] = left.popleft()
    return whose


def _straying(items: Sequence[int]) -> set[int]:
    """Return the fewest items without which the others are in order (the rest is a longest increasing subsequence,
    https://en.wikipedia.org/wiki/Longest_increasing_subsequence)."""
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for item in items:
        at = bisect_left(ends, item)
        before[item] = ends[at - 1] if at else None
        ends[at : at + 1] = [item]
    kept: set[int] = set()
    item = ends[-1] if ends else None
    while item is not None:
        kept.add(item)
        item = before[item]
    return set(items) - kept


def _pair_changed(items: Sequence[Item], found: Sequence[Found], whose: list[int | None]) -> None:
    """Find out which cells were changed: by the number that they have, or as the one that follows the cell above."""
    left = set(range(len(items))) - {item for item in whose if item is not None}
    for at, each in enumerate(found):
        if whose[at] is None and each.claims in left:
            whose[at] = each.claims
            left.discard(each.claims)
    above = -1
    for at, item in enumerate(whose):
        if item is None and above + 1 in left:
            whose[at] = item = above + 1
            left.discard(item)
        above = above if item is None else item


def _finding(number: int, found: Found, item: int | None, items: Sequence[Item], straying: set[int]) -> Finding:
    if item is None:
        return Finding(number, None, "not from this log")
    if found.shown != items[item].shown:
        what = "" if not found.source else "its output" if found.source == items[item].source else "its text"
        return Finding(number, item, "changed since", what)
    if item in straying:
        return Finding(number, item, "moved", f"it was number {item + 1}")
    notes = ["hidden until it is unfolded"] if found.is_hidden else []
    if found.further:
        notes.append("further metadata may have it shown in another way")
    return Finding(number, item, "as recorded", ", ".join(notes), found.further)


def _where(item: int, findings: Sequence[tuple[int, int]]) -> str:
    """Say where a missing cell stood; `findings` are the indexes of those that are there with their numbers, sorted."""
    at = bisect_left(findings, (item, 0))
    after = f", which stood after what is number {findings[at - 1][1]} now" if at else ""
    return f"number {item + 1}{after}"
