"""Approvals: how strong an answer must be, what it covers, and how a typed answer is understood."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias, TypeVar

import msgspec

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.toolmeta import Category, RiskLevel, SideEffect, ToolMeta


class AuthStrength(StrEnum):
    """Where an answer came from, weakest first: a second model, if a rule allows that; a kernel, which runs the user's
    code; another program of the user's; a page under the user's own identity; a user who authenticated again."""

    MODEL = "model"
    RELAY = "relay"
    CLI = "cli"
    BROWSER = "browser"
    STEP_UP = "step_up"

    @property
    def strength(self) -> int:
        """A rank: higher is stronger."""
        return _STRENGTHS[self]


_STRENGTHS = {way: rank for rank, way in enumerate(AuthStrength)}

ApprovalScope: TypeAlias = Literal["once", "session", "standing"]
"""What a yes covers: the call that was shown; everything in its `SessionGrant`; or the call, and from now on what the
request's `standing` describes, by a rule (docs/policy.md, Don't ask again)."""

REQUEST_EXPIRES_S = 3600
"""How long an approval waits by default. After that it can be requested again."""
YES_EXPIRES_S = 600
"""How long a yes is valid: a call that a restart delays for longer asks again."""
SESSION_YES_EXPIRES_S = 1800
"""How long a yes for the session is valid."""
MOST_ASKS = 5
"""How often a turn may ask before a person must allow it to ask more."""

_GRAVE = frozenset(
    {Category.LIVE_KERNEL, Category.HOST_COMMAND, Category.CODE_CELL, Category.CONFIG_CHANGE, Category.PAYMENT}
)


class SessionGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What a yes for the session covers: calls of the tool in this version and project that the same rule asks for, if
    every path is below one of the folders `below` or is one of the files `on`, every host is one of `hosts`, and the
    call is made from content with the same labels. A call without paths and hosts could do anything, and one that names
    a recipient or the like is for just that, so only the identical call is covered: `arguments` is the SHA-256 of its
    arguments, otherwise empty. `said` describes the grant to people: "`edit_file` in `notes/`"."""

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
    """Return the minimum strength of a yes to a call of the tool. A kernel may not approve what can't be undone, has a
    high risk, or is made from labelled content."""
    grave = meta.side_effect is SideEffect.IRREVERSIBLE or meta.risk_level is RiskLevel.HIGH
    return AuthStrength.CLI if grave or labelled or meta.categories & _GRAVE else AuthStrength.RELAY


def may_cover(meta: ToolMeta) -> bool:
    """Whether a yes for the session is offered: not for what can't be undone, has a high risk or a category, and not
    for gates of skills, which are about the steps before them each time."""
    is_grave = meta.side_effect is SideEffect.IRREVERSIBLE or meta.risk_level is RiskLevel.HIGH
    return not (is_grave or meta.categories or meta.for_skills)


SKIP = "skip"
"""The name of the option that leaves a question unanswered."""
_SHOWN = 40
"""Characters of the answer, and of each label, that an error quotes."""


class Answerable(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def takes_text(self) -> bool: ...


Option = TypeVar("Option", bound=Answerable)


def find_option(options: Iterable[Option], given: str) -> Option:
    """Return the option with that name, else with that label, else with either in another case. Raises InputError."""
    offered = tuple(options)
    words = _plain(given)
    matches: tuple[Callable[[Option], bool], ...] = (
        lambda option: option.name == words,
        lambda option: _plain(option.label) == words,
        lambda option: words.casefold() in (option.name.casefold(), _plain(option.label).casefold()),
    )
    for match in matches:
        found = [option for option in offered if match(option)]
        if len(found) == 1:
            return found[0]
        if found:
            raise _no_answer(offered, f'"{given[:_SHOWN]}" may be more than one of the answers.')
    raise _no_answer(offered, f'"{given[:_SHOWN]}" is no answer to this.')


def parse_answer(options: Iterable[Option], given: str, words: str = "") -> tuple[Option, str]:
    """Return the chosen option and its text. If the only option besides `skip` takes text, `given` may be that text.
    Raises InputError."""
    offered = tuple(options)
    try:
        return find_option(offered, given), words
    except InputError:
        written = [option for option in offered if option.name != SKIP]
        text = f"{given} {words}".strip()
        if not text or len(written) != 1 or not written[0].takes_text:
            raise
        return written[0], text


def _plain(text: str) -> str:
    return " ".join(text.split())


def _no_answer(options: Iterable[Answerable], why: str) -> InputError:
    return InputError(why, hint=f"There are: {', '.join(map(_shown, options))}.", code="answer.unknown")


def _shown(option: Answerable) -> str:
    label = option.label if len(option.label) <= _SHOWN else f"{option.label[: _SHOWN - 1].rstrip()}…"
    return option.name if label.casefold() == option.name else f"{option.name} ({label})"
