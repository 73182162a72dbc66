"""Whether a change was made of which the outcome was not recorded (DESIGN §2.5)."""

from pathlib import Path

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.leftovers import Kind, belongs_to, kind_of, names_of
from ozzie_server_ext.tools.changes.outcome import told_in_words
from ozzie_server_ext.tools.changes.seen import Seen, look
from ozzie_server_ext.tools.changes.trash import was_trashed
from ozzie_server_ext.tools.rooted import closing, open_deepest


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
