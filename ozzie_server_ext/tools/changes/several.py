"""Changing several files one after the other, each exactly on what was seen (ADR 33)."""

from datetime import datetime
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec.structs import replace as with_changes

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.held import make_folders, remove_folders
from ozzie_server_ext.tools.changes.replace import Kind, belongs_to, kind_of, names_of, replace
from ozzie_server_ext.tools.changes.seen import Seen, explain_os_errors, look
from ozzie_server_ext.tools.changes.trash import move_to_trash, was_trashed
from ozzie_server_ext.tools.safe_open import closing, open_deepest


def was_replaced(root: Path, seen: Seen, sha256_of_new: str) -> bool | None:
    """Whether `replace` of what was seen by the content with that hash was done; None if that can't be known.

    True: the content is there (perhaps saved by another program, which makes no difference), or the replaced version
    lies beside it under the change's own name. False: the file is the one that was seen, or still missing, or the new
    version still waits under its own name. (A new file that somebody removed at once is then made again; asking a
    person about each would be worse.) None: the file holds something else and nothing lies beside it, or another
    program saved it during the change.

    Call it before `clear_leftovers`, while the change is not in progress. Raises ToolFailed.
    """
    kinds = _beside(root, seen, sha256_of_new)
    try:
        now = look(root, seen.path).seen
    except ToolFailed:
        now = None
    if Kind.FOREIGN in kinds:
        return None
    if seen.file is not None and now == seen:  # a swap changes the inode, so leftovers beside it are older
        return False
    if Kind.OLD in kinds or (now is not None and now.file is not None and now.file.sha256 == sha256_of_new):
        return True
    still_none = seen.file is None and now is not None and now.file is None
    return False if Kind.NEW in kinds or still_none else None


def was_moved_to_trash(root: Path, seen: Seen, trash_id: str) -> bool | None:
    """Whether the file went to the trash; None if it is neither there nor in its place. Raises ToolFailed."""
    assert seen.file is not None
    if was_trashed(root, trash_id, seen.file.sha256):
        return True
    return False if look(root, seen.path).seen == seen else None


def _beside(root: Path, seen: Seen, sha256_of_new: str) -> set[Kind]:
    with explain_os_errors(seen.path):
        folder, missing = open_deepest(root, seen.parts[:-1])
        with closing(folder):
            found = () if missing else names_of(folder, seen.name)
            return {kind_of(folder, name) for name in found if belongs_to(name, sha256_of_new, seen)}


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One file's change: the new content, or None to move it to the trash; see `FileChange`."""

    seen: Seen
    content: bytes | None
    executable: bool | None = None

    @property
    def effect(self) -> JsonObject:
        """The record by which `was_done` checks later."""
        digest = None if self.content is None else sha256(self.content).hexdigest()
        return {"seen": encode(self.seen), "sha256": digest, "executable": self.executable}


class PreparedSteps(msgspec.Struct, frozen=True):
    """The steps with their folders in place, and the folders that were made for them, outermost first."""

    steps: tuple[Step, ...]
    made: tuple[str, ...]


def make_missing_folders(root: Path, steps: tuple[Step, ...]) -> PreparedSteps:
    """Make all missing folders: two files may go into the same new one.

    Raises FileChanged if something is there by now, ToolFailed; then the folders made are removed.
    """
    made: dict[str, tuple[int, int]] = {}
    try:
        placed = tuple(with_changes(step, seen=_placed(root, step.seen, made)) for step in steps)
        return PreparedSteps(placed, tuple(made))
    except BaseException:
        remove_folders(root, tuple(made))
        raise


def carry_out(root: Path, step: Step, key: str, when: datetime) -> tuple[str, ...]:
    """Do one step; return sentences on what could not be confirmed. Raises as `replace` and `move_to_trash`."""
    if step.content is None:
        return move_to_trash(root, step.seen, _trash_id(key, step.seen.path), when=when).notes
    return replace(root, step.seen, step.content, executable=step.executable).notes


def was_done(root: Path, effect: JsonObject, key: str) -> bool | None:
    """Whether the step with that effect was done; None if that can't be known."""
    seen, digest = decode(Seen, effect["seen"]), effect["sha256"]
    try:
        if digest is None:
            return was_moved_to_trash(root, seen, _trash_id(key, seen.path))
        return was_replaced(root, seen, str(digest))
    except ToolFailed:
        return None


def _placed(root: Path, seen: Seen, made: dict[str, tuple[int, int]]) -> Seen:
    """Return what is seen once the folders exist; folders made are added to `made` with their identity."""
    anchor = seen.anchor
    for folder in seen.missing:
        if folder not in made:
            one = with_changes(seen, path=f"{folder}/{seen.name}", anchor=anchor, missing=(folder,))
            made[folder] = make_folders(root, one).anchor
        anchor = made[folder]
    return with_changes(seen, anchor=anchor, missing=())


def _trash_id(key: str, path: str) -> str:
    """An id holds one file. It depends on the path, so that a resumed call uses no id twice."""
    return f"{key}-{sha256(path.encode()).hexdigest()[:8]}"
