"""How a command is declared: its name, its arguments, and what carries it out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument as argparse takes it: its names, and the rest of `add_argument`."""

    names: tuple[str, ...]
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verb:
    """A command. `run` names the function that carries it out, as `module:function` in this package; it takes the
    parsed options and returns the exit status. `more` follows `about` in the command's own help."""

    name: str
    about: str
    run: str
    arguments: tuple[Argument, ...] = ()
    more: str = ""
    discreet: str = ""
    """Where not empty: said instead of the words that were too many, because they may be secret."""
    speaks_for_a_person: bool = False
    """Not for a program that Ozzie itself runs for a call: it is the person's to say."""


@dataclass(frozen=True, slots=True)
class Group:
    """Commands that share their first word."""

    name: str
    about: str
    verbs: tuple[Verb, ...]


def argument(*names: str, **given: Any) -> Argument:
    """One by its names and what `add_argument` takes."""
    return Argument(names, given)


def limit(default: int, what: str) -> Argument:
    """`--limit`, of a list of `what`."""
    return argument("--limit", type=int, default=default, help=f"how many {what} (default {default})")
