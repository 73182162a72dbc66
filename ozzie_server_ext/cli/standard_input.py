"""What is typed or piped into a command."""

import sys

from ozzie_server_ext.domain.errors import InputError


def standard_input(what: str) -> str:
    """All of it as text; `what` names it in a refusal. Raises InputError."""
    if sys.stdin is None:
        raise InputError("Standard input is closed.")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise InputError(f"{what} is not UTF-8 text.") from None
