"""Asking back at the terminal, before what can't be undone."""

import sys
from collections.abc import Iterable

from ozzie_server_ext.cli.parser import Misused


def agreed(question: str, *, about: str, facts: Iterable[str] = ()) -> bool:
    """Whether a person at the terminal types yes; an interrupt is a no. `about` says what they would be asked for,
    `facts` are lines above the question. Raises Misused where there is nobody."""
    if not sys.stdin.isatty():
        raise Misused(f"Nobody can be asked here whether to {about}.", hint="Say so with --yes.")
    for line in facts:
        print(line, file=sys.stderr)
    try:
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        answer = ""
    if not answer:  # nobody has ended the line of the question
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")
