"""The parts of a `%` command, and the kernel's interface for it."""

import difflib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from ozzie_kernel.client import REQUEST_TIMEOUT_S
from ozzie_kernel.connect import Link, SessionChoice
from ozzie_kernel.parameters import Parameters
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.page import Block


class Host(Protocol):
    """The kernel's interface for its commands."""

    @property
    def parameters(self) -> Parameters: ...

    async def link(self) -> Link:
        """Return the connection to the gateway. Raises Unavailable."""
        ...

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        as_user: bool = False,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> JsonObject:
        """Send a request that may be repeated: after a lost connection, it is sent once more over a new one. `as_user`:
        with the user's rights, which the kernel's own token lacks. `timeout_s`: how long the gateway may take.

        Raises Unavailable, and Refused with the gateway's error.
        """
        ...

    async def switch(self, choice: SessionChoice) -> Link:
        """Switch to another session, with a token for it. Running turns of the old one go on.

        Raises Unavailable, and Refused if there is no such session; then nothing changes.
        """
        ...


@dataclass(frozen=True, slots=True)
class MagicUsage:
    """A form of a command, and what it does, without a full stop."""

    text: str
    does: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Magic:
    """A command. `forms` are its forms if there are several; each begins with `%name`."""

    name: str
    usage: MagicUsage
    run: Callable[[str, Host], Awaitable[Sequence[Block]]]
    forms: tuple[MagicUsage, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words that may follow the name, such as `list` in `%session list`."""
        words = (form.text.split()[1] for form in self.forms if " " in form.text)
        return tuple(dict.fromkeys(word for word in words if word.isalpha() and word.islower()))


def did_you_mean(word: str, known: Iterable[str], before: str) -> str:
    """Return a hint with the most similar known word, or ""."""
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return f"Did you mean `{before}{near[0]}`?" if near else ""


def moment(value: object) -> str:
    """Return a time of the gateway's as local day and time. The day is always shown: a list stays in the notebook."""
    return f"{datetime.fromisoformat(str(value)).astimezone():%Y-%m-%d %H:%M}"
