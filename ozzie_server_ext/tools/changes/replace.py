"""Giving a file a new content, on exactly the version that was seen.

The new version is written beside the file. One step of the kernel then swaps the two names, and what came out is held
against what was seen; if it is anything else, they are swapped back. So whoever looks finds the old version or the new
one, whole, and what somebody else saved in between is never written over.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as with_changes
from pathlib import Path

from ozzie_server_ext.tools.base import ToolFailed, Unsettled
from ozzie_server_ext.tools.changes.folders import make_folders, remove_folders
from ozzie_server_ext.tools.changes.held import Held, folder_as_seen
from ozzie_server_ext.tools.changes.leftovers import clear_in
from ozzie_server_ext.tools.changes.match import Match, opened_as_seen
from ozzie_server_ext.tools.changes.outcome import FileChanged, told_in_words
from ozzie_server_ext.tools.changes.renames import move, require_renames, swap
from ozzie_server_ext.tools.changes.seen import MAX_BYTES, FileSeen, Seen, identity, named
from ozzie_server_ext.tools.changes.version import Version, new_version
from ozzie_server_ext.tools.rooted import readable_parts

_TRIES = 100
"""How often a version of ours is looked for that somebody else moved in the moment of its change: for some 1 ms."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """It was done. `seen` is what is there now; `notes` are sentences for the user, mostly none: what could not be made
    sure of afterwards, and what lies beside the file."""

    seen: Seen
    notes: tuple[str, ...]


def replace(
    root: Path, seen: Seen, content: bytes, *, executable: bool | None = None, most: int = MAX_BYTES
) -> Replaced:
    """Gives the file at `seen.path` that content, or makes it, with the folders that are missing, where none was. Where
    `executable` is set, it is made so, or not so. `most`: in bytes, of the content.

    Raises FileChanged where it is not what was seen, FileBusy, NotOffered or another ToolFailed: then nothing was done.
    Raises Unsettled where that can't be said.
    """
    require_renames()
    readable_parts(seen.path)
    if len(content) > most:
        raise ToolFailed(f"{seen.path} would be larger than {most:,} bytes; nothing was written.")
    placed = make_folders(root, seen) if seen.missing else seen
    try:
        with told_in_words(seen.path), folder_as_seen(root, placed) as folder:
            kept = clear_in(folder, seen.name).kept
            if placed.file is None:
                file, note = _create(folder, placed, content, executable)
            else:
                file, note = _swap_in(folder, placed, content, executable)
    except ToolFailed:
        remove_folders(root, seen.missing)
        raise
    found = tuple(f"What another program saved during a change that broke off is kept as {name}." for name in kept)
    return Replaced(with_changes(placed, file=file), (note, *found) if note else found)


def _create(folder: Held, seen: Seen, content: bytes, executable: bool | None) -> tuple[FileSeen, str]:
    if named(folder.descriptor, seen.name) is not None:
        raise _appeared(seen)
    with new_version(folder, seen, content, None, executable) as version:
        try:
            move(folder.descriptor, version.name, folder.descriptor, seen.name)
        except BaseException as error:
            version.discard()
            raise (_appeared(seen) if isinstance(error, FileExistsError) else error) from None
        if not folder.leads_here():
            _move_back(folder, seen, version)
            raise _moved(seen)
        return version.file, folder.sync()


def _swap_in(folder: Held, seen: Seen, content: bytes, executable: bool | None) -> tuple[FileSeen, str]:
    with opened_as_seen(folder, seen) as old:
        if not old.writable(folder):
            raise ToolFailed(f"{seen.path} is read-only, so it was left alone.")
        with new_version(folder, seen, content, old.descriptor, executable) as version:
            try:
                # Writing took a while. What changed in that is found here, before anybody sees the new version.
                old.confirm()
                _must_lead_to(folder, seen.name, old)
                swap(folder.descriptor, version.name, seen.name)
            except BaseException as error:
                version.discard()
                raise (_gone(seen) if isinstance(error, FileNotFoundError) else error) from None
            try:
                note = _confirm(folder, seen, version.name, old)
            except BaseException as error:
                _swap_back(folder, seen, version, error)
                raise
            if note:
                return version.file, f"{note} The replaced version is kept as {version.name} until the next change."
            return version.file, _remove(folder, version.name)


def _confirm(folder: Held, seen: Seen, name: str, old: Match) -> str:
    """Makes sure that what came out, now called `name`, is what was seen, and makes the swap durable; a note.

    The first look is the quickest one: what was put there in the last moment goes back at once. Once the disk has
    confirmed, nobody can be on the way to the old version by its name any more, so the last look is at who wants to
    write into it.
    """
    _must_lead_to(folder, name, old)
    if not folder.leads_here():
        raise _moved(seen)
    old.confirm()
    note = folder.sync()
    old.confirm()
    return note


def _must_lead_to(folder: Held, name: str, file: Match) -> None:
    if named(folder.descriptor, name) != identity(file.descriptor):
        raise FileChanged(f"{file.seen.path} was replaced by another program; look at it again.")


def _swap_back(folder: Held, seen: Seen, version: Version, why: BaseException) -> None:
    """Puts back what came out by mistake, as soon as our version has the name. Nothing else is removed.

    Raises Unsettled where our version stays away, because somebody moved or replaced it, or where they wrote to it.
    """
    for _ in range(_TRIES):
        with suppress(OSError):
            if named(folder.descriptor, seen.name) == identity(version.descriptor):
                swap(folder.descriptor, version.name, seen.name)
            if named(folder.descriptor, version.name) == identity(version.descriptor):
                if version.discard():
                    return
                break
    raise _unsettled(seen, version) from why


def _move_back(folder: Held, seen: Seen, version: Version) -> None:
    with suppress(OSError):
        move(folder.descriptor, seen.name, folder.descriptor, version.name)
        if version.discard():
            return
        move(folder.descriptor, version.name, folder.descriptor, seen.name)
    raise _unsettled(seen, version)


def _remove(folder: Held, name: str) -> str:
    """Removes the replaced version; a note where that failed, which the next change of the file makes good."""
    try:
        os.unlink(name, dir_fd=folder.descriptor)
    except OSError as error:
        return f"The replaced version could not be removed and is called {name}: {error.strerror}."
    return ""


def _appeared(seen: Seen) -> FileChanged:
    return FileChanged(f"{seen.path} was not there when it was looked at, and now it is; look at it again.")


def _gone(seen: Seen) -> FileChanged:
    return FileChanged(f"{seen.path} is gone since it was looked at; look at it again.")


def _moved(seen: Seen) -> FileChanged:
    return FileChanged(f"The folder of {seen.path} was moved meanwhile; look at it again.")


def _unsettled(seen: Seen, version: Version) -> Unsettled:
    return Unsettled(
        f"Another program changed {seen.path} more than once in the moment of the change, so it is not clear which "
        "version lies there.",
        hint=f"Look at it, and for {version.keep()} beside it, where another version may be kept.",
    )
