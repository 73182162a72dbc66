"""Which of the answers that a question offers somebody means."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from ozzie_server_ext.domain.errors import InputError

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
