"""Prompting for hidden input at the terminal, or reading it from standard input."""

import getpass
import io
import sys
import warnings
from typing import BinaryIO

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.vault.errors import BadSecret
from ozzie_server_ext.vault.scope import MAX_VALUE_BYTES


class NoTerminal(InputError):
    """No terminal for hidden input."""

    code = "input.terminal"

    def __init__(
        self,
        message: str = "There is no terminal to type it at.",
        *,
        hint: str = "Give it on standard input, with --stdin; never as an argument.",
    ) -> None:
        super().__init__(message, hint=hint)


def ask_hidden(prompt: str) -> str:
    """Prompt for input without showing it. Raises NoTerminal."""
    with warnings.catch_warnings():
        # Without a terminal, getpass would show the input.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return getpass.getpass(prompt)
        except (getpass.GetPassWarning, EOFError, io.UnsupportedOperation):
            raise NoTerminal() from None


def ask_passphrase() -> str:
    """Prompt for the vault's passphrase. Raises NoTerminal."""
    try:
        return ask_hidden("Passphrase of the vault: ")
    except NoTerminal:
        raise NoTerminal(
            "The vault asks for its passphrase, and there is no terminal to type it at.",
            hint="Do this at a terminal, or let the vault open without a person: ozzie secrets protect --with keyfile",
        ) from None


def value_from_stdin() -> str:
    """Read standard input, without the final line break. Raises BadSecret."""
    return _text(_stdin().read(MAX_VALUE_BYTES + len("\r\n") + 1))


def line_from_stdin() -> str:
    """Read the next line of standard input. Raises BadSecret at its end."""
    line = _stdin().readline(MAX_VALUE_BYTES)
    if not line:
        raise BadSecret("Standard input ended before the passphrase.", hint="Give one passphrase a line.")
    return _text(line)


def _stdin() -> BinaryIO:
    if sys.stdin is None:  # as the shell's <&- leaves it
        raise BadSecret("Standard input is closed.", hint="Pipe the value into it, or leave out --stdin to type it.")
    return sys.stdin.buffer


def _text(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise BadSecret("Standard input is not UTF-8 text.") from None
    return text.removesuffix("\n").removesuffix("\r")
