"""Declarations of commands: name, arguments, and the function that runs them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument: its names, and the keyword arguments of `add_argument`."""

    names: tuple[str, ...]
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verb:
    """A command. `run` names its function as `module:function` in this package; it takes the parsed options and returns
    the exit status. `more` follows `about` in the command's help. `aliases` are former names, which still work."""

    name: str
    about: str
    run: str
    arguments: tuple[Argument, ...] = ()
    more: str = ""
    aliases: tuple[str, ...] = ()
    discreet: str = ""
    """If not empty, the error for surplus arguments, which are not repeated because they may be secret."""
    speaks_for_a_person: bool = False
    """Refused to programs that Ozzie itself runs for a tool call: only the person may decide this."""


@dataclass(frozen=True, slots=True)
class Group:
    """Commands with the same first word."""

    name: str
    about: str
    verbs: tuple[Verb, ...]


def argument(*names: str, **given: Any) -> Argument:
    return Argument(names, given)


def limit(default: int, what: str) -> Argument:
    """Declare `--limit` for a list of `what`."""
    return argument("--limit", type=int, default=default, help=f"how many {what} (default {default})")


def verb(name: str, about: str, run: str, *arguments: Argument, **given: Any) -> Verb:
    return Verb(name, about, run, arguments, **given)


def group(name: str, about: str, *verbs: Verb) -> Group:
    return Group(name, about, verbs)
