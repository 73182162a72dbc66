"""What a `%` command is made of, and what it may ask of the kernel."""

import difflib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ozzie_kernel.connect import Link, SessionChoice
from ozzie_kernel.parameters import Parameters
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.page import Block


class Host(Protocol):
    """The kernel, as far as its commands need it."""

    @property
    def parameters(self) -> Parameters: ...

    async def link(self) -> Link:
        """The connected gateway. Raises Unavailable."""
        ...

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, *, as_user: bool = False) -> JsonObject:
        """The gateway's answer to what may be asked twice: where the connection ends under the question, it is asked
        once more over a new one. `as_user`: as the user may ask, and the kernel's own token may not.

        Raises Unavailable, and Refused with the gateway's own words.
        """
        ...

    async def switch(self, choice: SessionChoice) -> Link:
        """Go on in another session, with a token for that one. What runs in the one before goes on.

        Raises Unavailable, and Refused where there is no such session; then all stays as it was.
        """
        ...


@dataclass(frozen=True, slots=True)
class MagicUsage:
    """A form in which a command is written, and what it does, without a full stop."""

    text: str
    does: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Magic:
    """`forms` are all ways to write it where there are several; each begins with `%name`."""

    name: str
    usage: MagicUsage
    run: Callable[[str, Host], Awaitable[Sequence[Block]]]
    forms: tuple[MagicUsage, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words that may follow on the name: `list` of `%session list`."""
        words = (form.text.split()[1] for form in self.forms if " " in form.text)
        return tuple(dict.fromkeys(word for word in words if word.isalpha() and word.islower()))


def did_you_mean(word: str, known: Iterable[str], before: str) -> str:
    """A hint that names the nearest of the known words; empty where none is near."""
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return f"Did you mean `{before}{near[0]}`?" if near else ""
