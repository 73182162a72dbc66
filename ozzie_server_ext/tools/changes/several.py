"""Changing several files, each on exactly what was seen of it, one after the other (ADR 33)."""

from dataclasses import dataclass
from dataclasses import replace as with_changes
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.afterwards import came_to_be, went_to_trash
from ozzie_server_ext.tools.changes.folders import make_folders, remove_folders
from ozzie_server_ext.tools.changes.replace import replace
from ozzie_server_ext.tools.changes.seen import Seen
from ozzie_server_ext.tools.changes.trash import move_to_trash


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
class Way:
    """The steps with nothing missing any more, and the folders that were made for that, the outermost first."""

    steps: tuple[Step, ...]
    made: tuple[str, ...]


def make_way(root: Path, steps: tuple[Step, ...]) -> Way:
    """Makes all folders that are missing: two files may go into the same new one.

    Raises FileChanged where something else is there by now, ToolFailed; then those that it made are gone again.
    """
    made: dict[str, tuple[int, int]] = {}
    try:
        return Way(tuple(with_changes(step, seen=_placed(root, step.seen, made)) for step in steps), tuple(made))
    except BaseException:
        remove_folders(root, tuple(made))
        raise


def clear_way(root: Path, way: Way) -> None:
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
