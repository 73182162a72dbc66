"""Turning what a command changed in its copy of a folder into changes that a person may apply (ADR 33).

All of it is kept or nothing: a partial set misleads. What can't be a project file (links, pipes, hidden names) is only
listed as left out.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.redaction import REDACTED, redact_text
from ozzie_server_ext.domain.toolmeta import Made
from ozzie_server_ext.execution.runner import Collected
from ozzie_server_ext.render.text import byte_count
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.builtin.writing import counts
from ozzie_server_ext.tools.changes.changeset import MAX_PATH, ChangeSet, FileChange, nested, text_of
from ozzie_server_ext.tools.changes.seen import MAX_BYTES, Looked, look
from ozzie_server_ext.tools.notebook.files import expect_inert
from ozzie_server_ext.tools.safe_open import readable_parts

MAX_REPLACED = 16 * 1024 * 1024
"""Bytes of everything that changes replace: it is kept too."""
_MOST_PROBLEMS = 10


class Proposal(msgspec.Struct, frozen=True):
    """`data` is for the model. `made` is the change set to keep, if any. `count` files would change; `left_out` are
    names that are not part of it, each with the reason."""

    data: JsonObject
    made: Made | None = None
    count: int = 0
    left_out: tuple[str, ...] = ()

    @property
    def is_refused(self) -> bool:
        return "refused" in self.data


def not_kept(why: str) -> Proposal:
    """Return the proposal if nothing of the changes is kept."""
    return Proposal({"files": [], "refused": f"Nothing of what it changed was kept. {why}"})


def proposal(project: Path, folder: str, left: Collected) -> Proposal:
    """Return the changes that a job left in its copy of `folder` ("" is the whole project)."""
    if left.incomplete:
        return not_kept(f"{left.incomplete} Change less at once, or name a smaller folder.")
    changes, left_out = _usable(folder, left)
    if not changes:
        return Proposal({"files": []}, left_out=left_out)
    clash = nested(change.path for change in changes)
    if clash is not None:
        return not_kept(f"{clash[0]} was a file or is one, and {clash[1]} is below it; use a new name.")
    files: list[Json] = []
    problems: list[str] = []
    replaced = 0
    for change in changes:
        try:
            looked = look(project, change.path)
            _expect_sound(change, looked)
        except ToolFailed as error:
            problems.append(str(error))
            continue
        replaced += len(looked.content)
        files.append(_described(change, looked))
    if problems:
        return not_kept(first_problems(problems))
    if replaced > MAX_REPLACED:
        return not_kept(f"It would replace more than {byte_count(MAX_REPLACED)}. Change less at once.")
    found = ChangeSet(changes)
    text = found.text()
    if redact_text(text) != text:
        return not_kept("Together the files have what looks like a secret. Change less at once.")
    name = found.name()
    made = Made(name=name, kind="json", mime="application/json", content=text, told=True)
    note = "Nothing of it is in the project yet. apply_changes, with exactly these paths, asks a person."
    return Proposal({"artifact": name, "files": files, "note": note}, made, len(changes), left_out)


def first_problems(problems: Sequence[str]) -> str:
    """Join the first problems, with the number of the others."""
    more = f" And {len(problems) - _MOST_PROBLEMS} more." if len(problems) > _MOST_PROBLEMS else ""
    return " ".join(problems[:_MOST_PROBLEMS]) + more


def _usable(folder: str, left: Collected) -> tuple[tuple[FileChange, ...], tuple[str, ...]]:
    """Return the changes of files with usable names, sorted by path, and the other names."""
    found: dict[str, FileChange] = {}
    left_out: list[str] = []
    for path, change in _each(folder, left):
        try:
            if path != "/".join(readable_parts(path)) or len(path) > MAX_PATH:
                raise ToolFailed(path)
        except ToolFailed:
            left_out.append(f"{path[:80]} (its name can't be used)")
            continue
        found[path] = change
    return tuple(found[path] for path in sorted(found)), tuple(left_out)


def _each(folder: str, left: Collected) -> Iterator[tuple[str, FileChange]]:
    def at(path: str) -> str:
        return f"{folder}/{path}" if folder else path

    for file in left.changed:
        was = left.before.get(file.path)
        executable = None if file.executable == (was is not None and was.executable) else file.executable
        before = was.sha256 if was else None
        yield at(file.path), FileChange(path=at(file.path), before=before, content=file.content, executable=executable)
    for path in left.deleted:
        was = left.before.get(path)
        yield at(path), FileChange(path=at(path), before=was.sha256 if was else None, content=None)


def _expect_sound(change: FileChange, looked: Looked) -> None:
    """Raises ToolFailed if the change could not be applied, or its content not be kept unchanged."""
    now = looked.seen.file.sha256 if looked.seen.file else None
    if now != change.before:
        raise ToolFailed(f"{change.path} was changed in the project meanwhile; run the command again.")
    if change.content is None:
        return
    if len(change.content) > MAX_BYTES:
        raise ToolFailed(f"{change.path} would be larger than {MAX_BYTES:,} bytes; tools write no such files.")
    new, old = text_of(change.content), text_of(looked.content) or ""
    if new is not None and new.count(REDACTED) > old.count(REDACTED):
        raise ToolFailed(f"{change.path} has [redacted: …] where a secret was taken out, which would be lost.")
    fragment = change.text()
    if redact_text(fragment) != fragment or (new is not None and redact_text(new) != new):
        raise ToolFailed(
            f"{change.path} has what looks like a secret, and such contents are not kept; leave the file as it is, or "
            "change what is around the secret with edit_file."
        )
    expect_inert(change.path, looked.content if looked.seen.file else None, change.content)


def _described(change: FileChange, looked: Looked) -> JsonObject:
    what = "removed" if change.content is None else "changed" if change.before else "new"
    entry: JsonObject = {"path": change.path, "is": what}
    old, new = text_of(looked.content), text_of(change.content or b"")
    if old is None or new is None:
        entry["size"] = byte_count(len(looked.content if change.content is None else change.content))
    else:
        entry["lines"] = counts(old, new)
    if change.executable is not None:
        entry["executable"] = change.executable
    return entry
