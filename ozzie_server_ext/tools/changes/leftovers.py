"""What a change leaves beside the file when its process is killed in the middle, and how it is cleared away.

A new version is written as `.NAME.ozzie-RANDOM.part`. Once whole it is called `.NAME.ozzie-RANDOM-NEW-OLD`, the last
two being the beginnings of the SHA-256 of the new content and of that which it replaces (`none` for a new file). After
the swap that name leads to what was replaced. So name and content alone tell what may go: the new version, and the one
that a person agreed to replace. Anything else was saved by somebody in the very moment and is kept, as is whatever has
`.kept` after that name: a change ended without knowing which version is whose.
"""

import os
import re
import secrets
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.held import Held, held_folder
from ozzie_server_ext.tools.changes.lease import Lease
from ozzie_server_ext.tools.changes.outcome import told_in_words
from ozzie_server_ext.tools.changes.seen import Seen, read_file
from ozzie_server_ext.tools.rooted import MAX_NAME_BYTES, closing, open_deepest, open_plain, readable_parts

KEPT = ".kept"
_HASH_DIGITS = 16
_LONGEST_ENDING = len(".ozzie-12345678") + 2 * (1 + _HASH_DIGITS) + len(KEPT)
_ENDING = re.compile(
    r"\.ozzie-[0-9a-f]{8}(?:\.part|-(?P<new>[0-9a-f]{16})-(?P<old>[0-9a-f]{16}|none)(?P<kept>\.kept)?)\Z"
)


class Kind(Enum):
    """What a leftover holds: a new version that may not be whole, one that is, the version that was to be replaced, or
    what is none of these."""

    PART = "part"
    NEW = "new"
    OLD = "old"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Cleared:
    """Names in the file's folder: what was removed, and what was kept because it is somebody's."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]


def new_part(name: str) -> str:
    """A name for the new version of `name` while it is being written."""
    return f"{_stem(name)}.ozzie-{secrets.token_hex(4)}.part"


def when_whole(part: str, content: bytes, seen: Seen) -> str:
    """The name of that new version once it is whole."""
    old = seen.file.sha256[:_HASH_DIGITS] if seen.file else "none"
    return f"{part.removesuffix('.part')}-{sha256(content).hexdigest()[:_HASH_DIGITS]}-{old}"


def leftovers(root: Path, path: str) -> tuple[str, ...]:
    """The names of what changes of the file at `path` left in its folder, or are at work on now.

    Raises OutsideProject, ToolFailed.
    """
    *above, name = readable_parts(path)
    with told_in_words(path):
        descriptor, missing = open_deepest(root, tuple(above))
        with closing(descriptor):
            return () if missing else names_of(descriptor, name)


def clear_leftovers(root: Path, path: str) -> Cleared:
    """Removes what changes of the file at `path` left over.

    Raises OutsideProject, ToolFailed, FileBusy.
    """
    path = "/".join(readable_parts(path))
    with told_in_words(path), held_folder(root, path) as folder:
        return clear_in(folder, path.rpartition("/")[2])


def clear_in(folder: Held, name: str) -> Cleared:
    """The same in a folder that is held, so that no change is at work in it. Raises OSError."""
    removed: list[str] = []
    kept: list[str] = []
    for found in names_of(folder.descriptor, name):
        if kind_of(folder.descriptor, found) is Kind.FOREIGN:
            kept.append(found)
        else:
            os.unlink(found, dir_fd=folder.descriptor)
            removed.append(found)
    return Cleared(tuple(removed), tuple(kept))


def names_of(folder: int, name: str) -> tuple[str, ...]:
    """The names in an open folder that changes of `name` made."""
    stem = _stem(name)
    return tuple(
        found
        for found in sorted(os.listdir(folder))
        if found.startswith(stem) and _ENDING.fullmatch(found, len(stem)) is not None
    )


def belongs_to(found: str, sha256_of_new: str, seen: Seen) -> bool:
    """Whether the leftover `found` is of a change of what was seen into a content with that hash."""
    ending = _ENDING.fullmatch(found, len(_stem(seen.name)))
    old = seen.file.sha256[:_HASH_DIGITS] if seen.file else "none"
    return ending is not None and (ending["new"], ending["old"]) == (sha256_of_new[:_HASH_DIGITS], old)


def kind_of(folder: int, found: str) -> Kind:
    """What the leftover `found` holds."""
    ending = _ENDING.search(found)
    if ending is None or ending["kept"]:
        return Kind.FOREIGN
    try:
        descriptor = open_plain(folder, found, found)
        if descriptor is None:
            return Kind.FOREIGN
        with closing(descriptor), Lease(descriptor, found):
            file, _ = read_file(descriptor, found)
    except (ToolFailed, OSError):  # a link, a folder, too large, open for writing
        return Kind.FOREIGN
    if ending["new"] is None:
        return Kind.PART if file.owner == os.geteuid() else Kind.FOREIGN
    digits = file.sha256[:_HASH_DIGITS]
    return Kind.NEW if digits == ending["new"] else Kind.OLD if digits == ending["old"] else Kind.FOREIGN


def _stem(name: str) -> str:
    """As much of the name as leaves room for the ending, not cut within a character."""
    room = MAX_NAME_BYTES - 1 - _LONGEST_ENDING
    return "." + name.encode()[:room].decode("utf-8", "ignore")
