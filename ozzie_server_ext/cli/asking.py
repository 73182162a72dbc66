"""Asking back at the terminal, before what can't be undone."""

import sys

from ozzie_server_ext.cli.parser import Misused


def agreed(question: str, *, about: str) -> bool:
    """Whether a person at the terminal types yes. `about` says what they would be asked for. Raises Misused where there
    is nobody."""
    if not sys.stdin.isatty():
        raise Misused(f"Nobody can be asked here whether to {about}.", hint="Say so with --yes.")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
