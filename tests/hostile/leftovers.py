"""What changes of a file left beside it, or are at work on."""

from pathlib import Path

from ozzie_server_ext.tools.changes.replace import names_of
from ozzie_server_ext.tools.changes.seen import explain_os_errors
from ozzie_server_ext.tools.safe_open import closing, open_deepest, readable_parts


def leftovers(root: Path, path: str) -> tuple[str, ...]:
    """Return their names. Raises OutsideProject, ToolFailed."""
    *above, name = readable_parts(path)
    with explain_os_errors(path):
        descriptor, missing = open_deepest(root, tuple(above))
        with closing(descriptor):
            return () if missing else names_of(descriptor, name)
