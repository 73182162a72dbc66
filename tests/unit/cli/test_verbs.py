"""What is declared of the command line can be carried out."""

import argparse
import importlib
import inspect

import pytest

from ozzie_server_ext.cli.declared import Group, Verb
from ozzie_server_ext.cli.verbs import COMMANDS

VERBS = [verb for command in COMMANDS for verb in (command.verbs if isinstance(command, Group) else [command])]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.run)
def test_the_function_of_a_command_is_there_and_takes_its_options(verb: Verb) -> None:
    module, name = verb.run.split(":")
    function = getattr(importlib.import_module(f"ozzie_server_ext.cli.{module}"), name)
    (options,) = inspect.signature(function).parameters.values()

    assert options.annotation is argparse.Namespace
    assert inspect.signature(function).return_annotation is int


@pytest.mark.parametrize("command", [*COMMANDS, *VERBS], ids=lambda command: f"{type(command).__name__} {command.name}")
def test_a_command_says_what_it_does_in_a_few_words(command: Verb | Group) -> None:
    assert command.about[0].islower()
    assert not command.about.endswith(".")
    assert len(command.about) <= 80
