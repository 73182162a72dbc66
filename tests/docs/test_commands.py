"""Every magic and every verb of the command line is written down."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ozzie_kernel.magics import MAGICS
from ozzie_server_ext.cli.declared import Group
from ozzie_server_ext.cli.parser import parser as command_line
from ozzie_server_ext.cli.verbs import COMMANDS
from tests.docs import cli_page

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
KEYRING_ENTRY = "ozzie vault"
"""No command: how the vault's file and its key begin (docs/secrets.md)."""


def verbs(parser: argparse.ArgumentParser, before: str = "ozzie") -> Iterator[str]:
    """Every command, such as `ozzie tasks list`, by its present name."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for group in groups:
        for choice in group._choices_actions:
            yield from verbs(group.choices[choice.dest], f"{before} {choice.dest}")
    if not groups:
        yield before


@pytest.mark.parametrize("name", [*MAGICS, "%python"])
def test_every_magic_is_in_the_readme(name: str) -> None:
    assert re.search(rf"^\| `%{name}[`, ]", README, re.MULTILINE)


@pytest.mark.parametrize("verb", [*verbs(command_line())])
def test_every_verb_is_on_the_page_of_the_command_line(verb: str) -> None:
    assert re.search(rf"^\| `{verb}[ `]", cli_page.PAGE.read_text(), re.MULTILINE)


def test_the_page_of_the_command_line_is_made_from_the_declared_commands() -> None:
    page = cli_page.PAGE.read_text()

    assert page == cli_page.with_commands(page), "run: python -m tests.docs.cli_page"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_names_no_verb_that_there_is_not(page: Path) -> None:
    alone = {verb for verb in verbs(command_line()) if verb.count(" ") == 1}
    there = {*verbs(command_line()), *former_names(), *groups(), KEYRING_ENTRY}
    written = re.findall(r"(?:^|`)(ozzie [a-z]+)((?: [a-z]+)?)", page.read_text(), re.MULTILINE)

    assert [word + rest for word, rest in written if word not in alone and word + rest not in there] == []


def former_names() -> set[str]:
    return {
        f"ozzie {group.name} {alias}"
        for group in COMMANDS
        if isinstance(group, Group)
        for verb in group.verbs
        for alias in verb.aliases
    }


def groups() -> set[str]:
    """The first words of commands that have a second one, such as `ozzie tasks`."""
    return {verb.rsplit(" ", 1)[0] for verb in verbs(command_line()) if verb.count(" ") == 2}
