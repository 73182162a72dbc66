"""Changing several files, each on exactly what was seen of it, one after the other (ADR 33)."""

from dataclasses import dataclass
from dataclasses import replace as with_changes
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.held import make_folders, remove_folders
from ozzie_server_ext.tools.changes.replace import Kind, belongs_to, kind_of, names_of, replace
from ozzie_server_ext.tools.changes.seen import Seen, look, told_in_words
from ozzie_server_ext.tools.changes.trash import move_to_trash, was_trashed
from ozzie_server_ext.tools.safe_open import closing, open_deepest


def came_to_be(root: Path, seen: Seen, sha256_of_new: str) -> bool | None:
    """Whether `replace` of what was seen by a content with that hash was done; None where that can't be known.

    Yes: the content is there, or the version that it replaced lies beside it under the change's own name. That another
    program saved the same content can't be told apart, and need not be. No: the very file that was seen is there, or
    there is none as there was none, or the new version still waits under its own name. (A new file that somebody
    removed within that moment is made once more then; to ask a person about every one would be worse.) Neither: the
    file holds something else and nothing lies beside it. Nor is there an answer where another program saved the file in
    the moment of the change: a person has to look.

    To be asked before `clear_leftovers`, and while nobody is at work on that change. Raises ToolFailed.
    """
    kinds = _beside(root, seen, sha256_of_new)
    try:
        now = look(root, seen.path).seen
    except ToolFailed:
        now = None
    if Kind.FOREIGN in kinds:
        return None
    if seen.file is not None and now == seen:  # a swap gives the name another file: whatever lies beside is older
        return False
    if Kind.OLD in kinds or (now is not None and now.file is not None and now.file.sha256 == sha256_of_new):
        return True
    still_none = seen.file is None and now is not None and now.file is None
    return False if Kind.NEW in kinds or still_none else None


def went_to_trash(root: Path, seen: Seen, trash_id: str) -> bool | None:
    """Whether the file that was seen went to the trash under that id: it is there now, or it still lies where it lay;
    None where neither is so. Raises ToolFailed."""
    assert seen.file is not None
    if was_trashed(root, trash_id, seen.file.sha256):
        return True
    return False if look(root, seen.path).seen == seen else None


def _beside(root: Path, seen: Seen, sha256_of_new: str) -> set[Kind]:
    with told_in_words(seen.path):
        folder, missing = open_deepest(root, seen.parts[:-1])
        with closing(folder):
            found = () if missing else names_of(folder, seen.name)
            return {kind_of(folder, name) for name in found if belongs_to(name, sha256_of_new, seen)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One file's change: its new content, or None where it goes to the trash; see `FileChange`."""

    seen: Seen
    content: bytes | None
    executable: bool | None = None

    @property
    def effect(self) -> JsonObject:
        """What `was_done` finds out by afterwards."""
        digest = None if self.content is None else sha256(self.content).hexdigest()
        return {"seen": encode(self.seen), "sha256": digest, "executable": self.executable}


@dataclass(frozen=True, slots=True)
class MadePath:
    """The steps with nothing missing any more, and the folders that were made for that, the outermost first."""

    steps: tuple[Step, ...]
    made: tuple[str, ...]


def make_way(root: Path, steps: tuple[Step, ...]) -> MadePath:
    """Makes all folders that are missing: two files may go into the same new one.

    Raises FileChanged where something else is there by now, ToolFailed; then those that it made are gone again.
    """
    made: dict[str, tuple[int, int]] = {}
    try:
        return MadePath(tuple(with_changes(step, seen=_placed(root, step.seen, made)) for step in steps), tuple(made))
    except BaseException:
        remove_folders(root, tuple(made))
        raise


def clear_way(root: Path, way: MadePath) -> None:
    """Removes the folders that were made and that nothing came into."""
    remove_folders(root, way.made)


def carry_out(root: Path, step: Step, key: str, when: datetime) -> tuple[str, ...]:
    """Do one step; `key` is the call's. What could not be made sure of afterwards, in sentences. Raises as `replace`
    and `move_to_trash`."""
    if step.content is None:
        return move_to_trash(root, step.seen, _trash_id(key, step.seen.path), when=when).notes
    return replace(root, step.seen, step.content, executable=step.executable).notes


def was_done(root: Path, effect: JsonObject, key: str) -> bool | None:
    """Whether the step with that effect was done; None where that can't be known."""
    seen, digest = decode(Seen, effect["seen"]), effect["sha256"]
    try:
        if digest is None:
            return went_to_trash(root, seen, _trash_id(key, seen.path))
        return came_to_be(root, seen, str(digest))
    except ToolFailed:
        return None


def _placed(root: Path, seen: Seen, made: dict[str, tuple[int, int]]) -> Seen:
    """What is seen once its folders are there; those that are made are added to `made` with what they are."""
    anchor = seen.anchor
    for folder in seen.missing:
        if folder not in made:
            one = with_changes(seen, path=f"{folder}/{seen.name}", anchor=anchor, missing=(folder,))
            made[folder] = make_folders(root, one).anchor
        anchor = made[folder]
    return with_changes(seen, anchor=anchor, missing=())


def _trash_id(key: str, path: str) -> str:
    """The trash has one file under an id. By the path, so that a call that goes on with the rest takes no id twice."""
    return f"{key}-{sha256(path.encode()).hexdigest()[:8]}"
