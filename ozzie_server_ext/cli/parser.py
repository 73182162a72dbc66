"""Parsing the command line: the declared commands as argparse parsers, errors in one sentence."""

import argparse
import re
import sys
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, NoReturn

from ozzie_server_ext.cli.declared import Group, Verb
from ozzie_server_ext.cli.verbs import COMMANDS
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.render.text import visible_label

_UNKNOWN = re.compile(r"argument COMMAND: invalid choice: (.+) \(choose from (.+)\)$", re.DOTALL)


class Misused(InputError):
    """The arguments are not a valid command."""

    code = "input.usage"


class _Parser(argparse.ArgumentParser):
    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse ignores write errors here and exits as if all were well.
        (file or sys.stderr).write(message)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        options, extra = self.parse_known_args(args, namespace)
        if extra:
            if discreet := getattr(options, "discreet", ""):
                raise Misused(discreet, hint=f"See {options.prog} --help.")
            self.error(f"unrecognized arguments: {' '.join(extra)}")
        return options

    def error(self, message: str) -> NoReturn:
        if unknown := _UNKNOWN.match(message):
            message = f"There is no command {unknown[1]} here, but {unknown[2].replace(chr(39), '')}"
        raise Misused(f"{visible_label(message)}.", hint=f"See {self.prog} --help.")


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands. Parsing raises Misused, or SystemExit after printing help or the version."""
    found = _Parser(prog="ozzie", description="The agent server that lives in Jupyter.", allow_abbrev=False)
    found.add_argument("--version", action="version", version=f"ozzie {version('jupyter-ozzie')}")
    _add(found.add_subparsers(title="commands", required=True, metavar="COMMAND"), COMMANDS)
    return found


def _add(parsers: "argparse._SubParsersAction[Any]", commands: Iterable[Verb | Group]) -> None:
    for command in commands:
        about = f"{command.about[0].upper()}{command.about[1:]}."
        if isinstance(command, Group):
            below = parsers.add_parser(command.name, help=command.about, description=about, allow_abbrev=False)
            _add(below.add_subparsers(title="commands", required=True, metavar="COMMAND"), command.verbs)
            continue
        described = f"{about} {command.more}".strip()
        verb = parsers.add_parser(
            command.name, aliases=command.aliases, help=command.about, description=described, allow_abbrev=False
        )
        for argument in command.arguments:
            verb.add_argument(*argument.names, **argument.given)
        verb.add_argument("--json", action="store_true", help="print JSON")
        verb.set_defaults(
            run=command.run, prog=verb.prog, discreet=command.discreet, speaks_for_a_person=command.speaks_for_a_person
        )
