"""What a person is shown of changes of several files before they are applied: how many, where, and all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from ozzie_server_ext.render.text import byte_count, file_count, line_count, quoted
from ozzie_server_ext.tools.base import Preview
from ozzie_server_ext.tools.builtin.writing import changed
from ozzie_server_ext.tools.changes.changeset import FileChange, text_of
from ozzie_server_ext.tools.changes.diff import MOST_STEPS, unified
from ozzie_server_ext.tools.changes.seen import Looked

_LEAST_STEPS = MOST_STEPS // 20
"""What is looked at to find what the versions of one file among many have in common."""
_UNDO = (
    "What it replaces is kept among the artifacts, as changes that apply_changes takes back; what it removes lies in "
    "the trash, too."
)


@dataclass(frozen=True, slots=True)
class Pending:
    """A change that is not in the project yet, and the file as it is there."""

    change: FileChange
    looked: Looked

    @property
    def verb(self) -> str:
        if self.change.content is None:
            return "remove"
        return "change" if self.looked.seen.file else "add"

    @property
    def texts(self) -> tuple[str, str] | None:
        """The old text and the new one; None where one of them is none."""
        old, new = text_of(self.looked.content), text_of(self.change.content or b"")
        return None if old is None or new is None else (old, new)


def preview(pending: Sequence[Pending]) -> Preview:
    """Of changes in the order of their paths."""
    steps = max(_LEAST_STEPS, MOST_STEPS // len(pending))
    proof = "\n".join(part for each in pending for part in _shown(each, steps))
    return Preview(sentence=f"{_what(pending)}: {line_counts(pending)}?", proof=proof, shown="diff", undo=_UNDO)


def line_counts(pending: Sequence[Pending]) -> str:
    """ "+12 −4 lines"; how many files are no text, and how many can be run from then on, or no more."""
    texts = [each.texts for each in pending]
    counted = [changed(*each) for each in texts if each is not None]
    come, go = sum(come for come, _ in counted), sum(go for _, go in counted)
    said = [f"+{come:,} −{go:,} lines"] if come or go else []
    for count, what in (
        (len(texts) - len(counted), "without text"),
        (sum(each.change.executable is True for each in pending), "made executable"),
        (sum(each.change.executable is False for each in pending), "not executable any more"),
    ):
        said += [f"{count:,} {what}"] if count else []
    return ", ".join(said) or "+0 −0 lines"


def _what(pending: Sequence[Pending]) -> str:
    if len(pending) == 1:
        return f"{pending[0].verb.capitalize()} {quoted(pending[0].change.path)}"
    counts = {verb: sum(each.verb == verb for each in pending) for verb in ("change", "add", "remove")}
    (first, count), *others = [(verb, count) for verb, count in counts.items() if count]
    parts = [f"{first.capitalize()} {file_count(count)}", *(f"{verb} {count:,}" for verb, count in others)]
    *rest, last = parts
    said = f"{', '.join(rest)} and {last}" if rest else last
    folder = _common([each.change.path for each in pending])
    return f"{said} in {quoted(folder + '/')}" if folder else f"{said} of the project"


def _common(paths: Sequence[str]) -> str:
    """The folder that all of them are in; empty for the project itself."""
    first, *others = [path.split("/")[:-1] for path in paths]
    for other in others:
        same = next((at for at, (one, two) in enumerate(zip(first, other, strict=False)) if one != two), None)
        first = first[: min(len(first), len(other)) if same is None else same]
    return "/".join(first)


def _shown(pending: Pending, steps: int) -> list[str]:
    """A heading, which no line of a diff can look like, and what comes and goes."""
    change, looked = pending.change, pending.looked
    said = [{"change": "changed", "add": "new", "remove": "to the trash"}[pending.verb]]
    if change.executable is not None:
        said.append("becomes executable" if change.executable else "not executable any more")
    texts = pending.texts
    if texts is None:
        old = byte_count(len(looked.content)) if looked.seen.file else ""
        new = byte_count(len(change.content)) if change.content is not None else ""
        said.append(f"no text, {' → '.join(filter(None, [old, new]))}")
        if change.after is not None:
            said.append(f"SHA-256 {change.after[:16]}…")
        return [_heading(change.path, said)]
    come, go = changed(*texts)
    said.append(line_count(come) if pending.verb == "add" else f"+{come:,} −{go:,} lines")
    return list(filter(None, [_heading(change.path, said), unified(*texts, steps)]))


def _heading(path: str, said: Sequence[str]) -> str:
    return f"=== {path} ({', '.join(said)})"
