"""`ozzie worker`: replace this process, terminal and signals included, with the worker program."""

import argparse
import os
import sys

from ozzie_server_ext.cli.parser import Misused

# `-P`: a `json.py` in the user's folder must not shadow the library's.
PROGRAM = (sys.executable, "-P", "-m", "ozzie_server_ext.programs.worker")


def worker(options: argparse.Namespace) -> int:
    """Serve a model at a socket until a signal. Raises Misused."""
    if options.json:
        raise Misused("ozzie worker prints no JSON.", hint='Ask it at its socket: {"type": "status"}')
    given = {"--socket": options.socket, "--model": options.model}
    arguments = [word for name, value in given.items() if value for word in (name, value)]
    sys.stdout.flush()
    os.execv(PROGRAM[0], [*PROGRAM, *arguments])
