"""Approvals: what a person is shown before a tool acts, and how strong an answer has to be."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias, TypeVar

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.toolmeta import Category, RiskLevel, SideEffect, ToolMeta


class AuthStrength(StrEnum):
    """How an answer came, from the weakest: by a second model, where a rule lets it look first; told by a kernel, which
    runs the user's code; by another program of the user's; from a page under the user's own identity; after the user
    proved once more who they are."""

    MODEL = "model"
    RELAY = "relay"
    CLI = "cli"
    BROWSER = "browser"
    STEP_UP = "step_up"

    @property
    def strength(self) -> int:
        """More is stronger."""
        return _STRENGTHS[self]


_STRENGTHS = {way: strength for strength, way in enumerate(AuthStrength)}

ApprovalScope: TypeAlias = Literal["once", "session"]
"""What a yes is good for: the call that was shown, or whatever its `SessionGrant` covers."""

EXPIRES_S = 3600
"""How long an approval waits, unless the configuration says otherwise. Nothing is lost then: it can be asked anew."""
GRANT_S = 600
"""How long a yes is good for: a call that a restart put off for longer asks again."""
SESSION_S = 1800
"""How long a yes for the session is good for."""
MOST_ASKS = 5
"""How often a turn may ask before it has to be told to go on asking."""

_GRAVE = frozenset(
    {Category.LIVE_KERNEL, Category.HOST_COMMAND, Category.CODE_CELL, Category.CONFIG_CHANGE, Category.PAYMENT}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGrant:
    """What a yes for the session covers: calls of the tool in this version and project that the same rule asks for,
    where every path lies below one of the folders `below` or is one of the files `on`, every host is one of `hosts`,
    and what they are made from bears the same labels. A call that names none of these may do anything, so only the
    very same one is covered: `arguments` is the SHA-256 of its arguments then, and empty else. `said` tells it to
    people: "`edit_file` in `notes/`"."""

    tool_id: str
    version: str
    project: str
    rule: str
    below: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]
    said: str
    on: tuple[tuple[str, ...], ...] = ()
    hosts: tuple[str, ...] = ()
    arguments: str = ""


def weakest_way(meta: ToolMeta, *, labelled: bool = False) -> AuthStrength:
    """The weakest way by which a yes to a call of the tool may come. What can't be undone, is of high risk or is made
    from content from outside is not for a kernel to say."""
    grave = meta.side_effect is SideEffect.IRREVERSIBLE or meta.risk_level is RiskLevel.HIGH
    return AuthStrength.CLI if grave or labelled or meta.categories & _GRAVE else AuthStrength.RELAY


def may_cover(meta: ToolMeta) -> bool:
    """Whether a yes for the session is offered: never for what can't be undone, and not for what is never silently
    allowed."""
    undone = meta.side_effect is SideEffect.REVERSIBLE or meta.side_effect is SideEffect.NONE
    if meta.for_skills:  # a gate is asked about what stands before it, each time
        return False
    return undone and meta.risk_level is not RiskLevel.HIGH and not meta.categories


SKIP = "skip"
"""What the answer is called that answers nothing."""
_SHOWN = 40
"""Characters of what was given, and of each label, that an error repeats."""


class Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def takes_text(self) -> bool: ...


Option = TypeVar("Option", bound=Named)


def meant(options: Iterable[Option], given: str) -> Option:
    """The one of that name, or else of that label, in small or large letters. Raises InputError."""
    offered = tuple(options)
    words = _plain(given)
    ways: tuple[Callable[[Option], bool], ...] = (
        lambda option: option.name == words,
        lambda option: _plain(option.label) == words,
        lambda option: words.casefold() in (option.name.casefold(), _plain(option.label).casefold()),
    )
    for fits in ways:
        found = [option for option in offered if fits(option)]
        if len(found) == 1:
            return found[0]
        if found:
            raise _no_answer(offered, f'"{given[:_SHOWN]}" may be more than one of the answers.')
    raise _no_answer(offered, f'"{given[:_SHOWN]}" is no answer to this.')


def answered(options: Iterable[Option], given: str, words: str = "") -> tuple[Option, str]:
    """The answer that is meant, and the words that go with it. Where nothing is offered but to write an answer, what is
    given is one. Raises InputError."""
    offered = tuple(options)
    try:
        return meant(offered, given), words
    except InputError:
        written = [option for option in offered if option.name != SKIP]
        text = f"{given} {words}".strip()
        if not text or len(written) != 1 or not written[0].takes_text:
            raise
        return written[0], text


def _plain(text: str) -> str:
    return " ".join(text.split())


def _no_answer(options: Iterable[Named], why: str) -> InputError:
    return InputError(why, hint=f"There are: {', '.join(map(_shown, options))}.", code="answer.unknown")


def _shown(option: Named) -> str:
    label = option.label if len(option.label) <= _SHOWN else f"{option.label[: _SHOWN - 1].rstrip()}…"
    return option.name if label.casefold() == option.name else f"{option.name} ({label})"
