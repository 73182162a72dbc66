"""`ozzie`: the command line (OB-4). Exit status 0 only when what was asked is so; no traceback reaches the terminal."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

from ozzie_server_ext.domain.errors import InputError, OzzieError

Verb = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["gateway"]:
        # Its own program: in the foreground it takes this one's place, terminal and signals included.
        os.execv(sys.executable, [sys.executable, "-m", "ozzie_server_ext.programs.gateway", *words[1:]])
    if sys.stdout is None:  # as the shell's >&- leaves it
        sys.exit(_failed("There is nowhere to print to: standard output is closed."))
    options = _parser().parse_args(words)
    try:
        status = options.verb(options)
        sys.stdout.flush()
    except OzzieError as error:
        status = _failed(str(error), error.hint)
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        # The reader has gone, as with `| head`: not an error, but nothing more can be written either.
        _print_no_more()
        status = 0
    except OSError as error:
        _print_no_more()
        where = f": {error.filename}" if error.filename else ""
        status = _failed(f"{error.strerror or error}{where}.")
    sys.exit(status)


def _failed(sentence: str, hint: str = "") -> int:
    """Say what went wrong, where there is somewhere to say it; the exit status."""
    if sys.stderr is not None:
        print(f"ozzie: {sentence}", *([hint] if hint else []), sep="\n", file=sys.stderr)
    return 1


def _print_no_more() -> None:
    """Drop what is left to print: Python would try again on its way out, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ozzie", description="The agent server that lives in Jupyter.")
    parser.add_argument("--version", action="version", version=f"ozzie {version('jupyter-ozzie')}")
    verbs = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    verbs.add_parser("gateway", help="run the gateway without JupyterLab (see ozzie gateway --help)", add_help=False)

    ask = _verb(verbs, "ask", "ask one question and print the answer as it comes", _ask)
    ask.add_argument("text", help="the message; - reads it from standard input")
    ask.add_argument("--session", default="cli", metavar="NAME", help="the session to ask in (default: cli)")
    ask.add_argument("--model", default="", metavar="NAME", help="an alias, a provider, or driver/model")

    _verb(verbs, "status", "say whether a gateway runs, and how it is", _status)

    tasks = verbs.add_parser("tasks", help="what Ozzie is doing and has done").add_subparsers(
        required=True, metavar="COMMAND"
    )
    listing = _verb(tasks, "list", "the newest tasks first", _tasks_list)
    listing.add_argument("--limit", type=int, default=20, help="how many (default 20, at most 500)")

    cancel = _verb(tasks, "cancel", "stop a task, running or waiting", _tasks_cancel)
    cancel.add_argument("task_id", metavar="ID", help="as ozzie tasks list shows it")

    events = verbs.add_parser("events", help="the event log").add_subparsers(required=True, metavar="COMMAND")
    _verb(events, "verify", "check that no event was changed or removed after it was written", _events_verify)

    config = verbs.add_parser("config", help="the configuration").add_subparsers(required=True, metavar="COMMAND")
    trust = _verb(config, "trust", "let a project's own configuration count, as it is now", _config_trust)
    trust.add_argument("folder", nargs="?", default=".", help="the project folder (default: here)")
    return parser


def _verb(
    group: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, help_: str, verb: Verb
) -> argparse.ArgumentParser:
    parser = group.add_parser(name, help=help_, description=f"{help_[0].upper()}{help_[1:]}.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(verb=verb)
    return parser


# Each verb imports what it needs: `ozzie --help` should not wait for any of it.


def _ask(options: argparse.Namespace) -> int:
    from ozzie_server_ext.cli.ask import ask

    text = _standard_input() if options.text == "-" else options.text
    return ask(text, session=options.session, model=options.model, as_json=options.json)


def _standard_input() -> str:
    if sys.stdin is None:
        raise InputError("Standard input is closed.")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise InputError("The message is not UTF-8 text.") from None


def _status(options: argparse.Namespace) -> int:
    from ozzie_server_ext.cli.status import status

    return status(as_json=options.json)


def _tasks_list(options: argparse.Namespace) -> int:
    from ozzie_server_ext.cli.tasks import tasks_list

    return tasks_list(limit=options.limit, as_json=options.json)


def _tasks_cancel(options: argparse.Namespace) -> int:
    from ozzie_server_ext.cli.tasks import tasks_cancel

    return tasks_cancel(options.task_id, as_json=options.json)


def _events_verify(options: argparse.Namespace) -> int:
    from ozzie_server_ext.cli.verify import verify

    return verify(as_json=options.json)


def _config_trust(options: argparse.Namespace) -> int:
    from ozzie_server_ext.cli.trust import trust_project

    return trust_project(options.folder, as_json=options.json)


if __name__ == "__main__":
    main()
