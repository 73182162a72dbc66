"""`ozzie`: the command line. It exits with 0 only on success, and no traceback reaches the terminal."""

import argparse
import importlib
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence

from ozzie_server_ext.cli.parser import Misused, parser
from ozzie_server_ext.cli.terminal import for_terminal
from ozzie_server_ext.domain.errors import InputError, OzzieError, PolicyError, Unavailable
from ozzie_server_ext.protocol.made_from import content_in
from ozzie_server_ext.render.text import visible_prose

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    if sys.stdout is None:  # as the shell's >&- leaves it
        closed = Unavailable("Standard output is closed, so nothing can be printed.", code="output.closed")
        sys.exit(_failed(closed, as_json))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal with another encoding than UTF-8 lacks some characters; standard error escapes them by itself.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = _run(words)
        sys.stdout.flush()
    except Misused as error:
        status = _failed(error, as_json, status=2)
    except OzzieError as error:
        status = _failed(error, as_json)
    except RuntimeError as error:
        if "home directory" not in str(error):
            raise
        hint = "Set HOME, or both OZZIE_PATH and JUPYTER_RUNTIME_DIR."
        status = _failed(Unavailable("This account has no home folder.", hint=hint, code="home.none"), as_json)
    except ImportError as error:
        missing = Unavailable(
            f"Ozzie can't be loaded: {error}.", hint="Install jupyter-ozzie again.", code="install.incomplete"
        )
        status = _failed(missing, as_json)
    except KeyboardInterrupt:
        # What the interrupt left half made would complain as it goes.
        sys.unraisablehook = lambda _: None
        warnings.simplefilter("ignore")
        status = INTERRUPTED
    except BrokenPipeError:
        # The reader is gone, as with `| head`: not an error, but nothing more can be written.
        _discard_output()
        status = 0
    except OSError as error:
        _discard_output()
        where = f": {error.filename}" if error.filename else ""
        status = _failed(Unavailable(f"{error.strerror or error}{where}.", code="system"), as_json)
    sys.exit(status)


def _run(words: Sequence[str]) -> int:
    try:
        options = parser().parse_args(words)
    except SystemExit:  # help or the version has been printed
        return 0
    _expect_text(options)
    if options.speaks_for_a_person and content_in(os.environ):
        raise PolicyError(
            f"{options.prog} is for a person, and this runs in one of Ozzie's own commands.",
            hint="Run it yourself, in your own terminal.",
            code="policy.person",
        )
    module, name = str(options.run).split(":")
    # Load only the command's own module: `ozzie --help` should not wait for the others.
    verb: Callable[[argparse.Namespace], int] = getattr(importlib.import_module(f"ozzie_server_ext.cli.{module}"), name)
    return verb(options)


def _expect_text(options: argparse.Namespace) -> None:
    """Raises InputError for an argument with undecodable bytes, which Python keeps as lone surrogates."""
    for name, value in vars(options).items():
        for text in value if isinstance(value, list) else [value]:
            try:
                str(text).encode()
            except UnicodeEncodeError:
                raise InputError(f"The {name.replace('_', ' ')} is not UTF-8 text.") from None


def _failed(error: OzzieError, as_json: bool, *, status: int = 1) -> int:
    """Print the error, if standard error is open; return the exit status."""
    if sys.stderr is None:
        return status
    hint = for_terminal(error.hint)
    try:
        if as_json:
            print(json.dumps({"code": error.code, "message": str(error), "hint": hint}), file=sys.stderr)
        else:
            lines = [f"ozzie: {error}", *([hint] if hint else [])]
            print(*map(visible_prose, lines), sep="\n", file=sys.stderr)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    return status


def _discard_output() -> None:
    """Discard buffered output: Python would try to write it again at exit, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
