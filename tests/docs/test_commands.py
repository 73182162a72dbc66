"""Every magic and every verb of the command line is written down."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ozzie_kernel.magics import MAGICS
from ozzie_server_ext.cli.parser import parser as command_line

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def verbs(parser: argparse.ArgumentParser, before: str = "ozzie") -> Iterator[str]:
    """Every command that can be typed, such as `ozzie tasks list`."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for group in groups:
        for name, below in group.choices.items():
            yield from verbs(below, f"{before} {name}")
    if not groups:
        yield before


@pytest.mark.parametrize("name", [*MAGICS, "%python"])
def test_every_magic_is_in_the_readme(name: str) -> None:
    assert re.search(rf"^\| `%{name}[`, ]", README, re.MULTILINE)


@pytest.mark.parametrize("verb", [*verbs(command_line())])
def test_every_verb_is_in_the_readme(verb: str) -> None:
    assert re.search(rf"^{verb}\b", README, re.MULTILINE)


def test_the_readme_names_no_verb_that_there_is_not() -> None:
    written = re.findall(r"^(ozzie [a-z]+(?: [a-z]+)?)\b", README, re.MULTILINE)

    assert set(written) == set(verbs(command_line()))
