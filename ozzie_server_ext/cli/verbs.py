"""What can be typed: one small declaration for each command. None of what a command needs is loaded here."""

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


@dataclass(frozen=True, slots=True)
class Group:
    """Commands that share their first word."""

    name: str
    about: str
    verbs: tuple[Verb, ...]


def _argument(*names: str, **given: Any) -> Argument:
    return Argument(names, given)


def _limit(default: int, what: str) -> Argument:
    return _argument("--limit", type=int, default=default, help=f"how many {what} (default {default})")


_SESSION = _argument("session", metavar="SESSION", help="its id, the end of its id, or its title")
_TASK = _argument("task_id", metavar="ID", help="as ozzie tasks list shows it")
_TERMINAL = _argument("--session", default="cli", metavar="NAME", help="the terminal's session (default: cli)")

ASK = Verb(
    "ask",
    "ask one question and print the answer as it comes",
    "ask:ask",
    (
        _argument("message", metavar="text", help="the message; - reads it from standard input"),
        _TERMINAL,
        _argument("--model", default="", metavar="NAME", help="an alias, a provider, or driver/model"),
        _argument("--schema", metavar="FILE", help="print the answer as JSON that fits the JSON Schema in this file"),
    ),
)

STATUS = Verb("status", "say whether a gateway runs, and how it is", "status:status")

GATEWAY = Verb(
    "gateway",
    "run the gateway without JupyterLab",
    "gateway:gateway",
    (
        _argument("--port", help="0 for any free port (default: gateway.port, which is 18420)"),
        _argument("--project", metavar="FOLDER", help="the project folder (default: here)"),
        _argument("--idle-exit", metavar="SECONDS", help="end when no client was connected for so long"),
        _argument(
            "--detach", action="store_true", help="leave it running; say its process and address once it answers"
        ),
        _argument("--stop", action="store_true", help="stop the one that runs, and wait until it is gone"),
        _argument("--verbose", action="store_true", help="show the server's log instead of how it stands"),
    ),
)

WORKER = Verb(
    "worker",
    "serve a model to other programs, at a Unix socket",
    "worker:worker",
    (
        _argument("--socket", metavar="PATH", help="where (default: /run/fazai/gemma.sock)"),
        _argument("--model", metavar="NAME", help="which (default: models.default of the configuration)"),
    ),
)

SESSIONS = Group(
    "sessions",
    "the conversations, of notebooks and terminals",
    (
        Verb(
            "list",
            "those in which something happened last first",
            "sessions:list_sessions",
            (
                _argument("--archived", action="store_true", help="those that were put away"),
                _limit(20, "sessions"),
            ),
        ),
        Verb(
            "show",
            "print the conversation of a session",
            "sessions:show_session",
            (_SESSION, _limit(20, "of the newest turns")),
        ),
        Verb(
            "resume",
            "go on in a session from this terminal: the next ozzie ask is part of it",
            "sessions:resume_session",
            (
                _SESSION,
                _argument(
                    "message", metavar="text", nargs="?", help="ask this at once; - reads it from standard input"
                ),
                _argument(
                    "--as", dest="terminal", default="cli", metavar="NAME", help="the terminal's session (default: cli)"
                ),
            ),
        ),
        Verb(
            "rename",
            "give a session another title",
            "sessions:rename_session",
            (_SESSION, _argument("title", metavar="TITLE", help="at most 60 characters are kept")),
        ),
        Verb("archive", "put a session away until a message comes", "sessions:archive_session", (_SESSION,)),
        Verb("close", "let a session take no more messages until it is resumed", "sessions:close_session", (_SESSION,)),
    ),
)

TASKS = Group(
    "tasks",
    "what Ozzie is doing and has done",
    (
        Verb(
            "list",
            "the newest tasks first",
            "tasks:list_tasks",
            (
                _argument("--open", action="store_true", help="only those that have not ended"),
                _argument("--session", metavar="SESSION", help="only those of this session"),
                _limit(20, "tasks"),
            ),
        ),
        Verb("show", "one task with its steps, and what it used", "tasks:show_task", (_TASK,)),
        Verb("cancel", "stop a task, running or waiting", "tasks:cancel_task", (_TASK,)),
        Verb(
            "answer",
            "answer what a task waits to be told",
            "tasks:answer_task",
            (
                _TASK,
                _argument("option", metavar="ANSWER", nargs="?", default="", help="none prints the question"),
                _argument("--amount", metavar="N", help="instead of what is offered: USD, tokens, or seconds"),
            ),
        ),
    ),
)

EVENTS = Group(
    "events",
    "the event log",
    (
        Verb(
            "tail",
            "print the newest events",
            "events:tail",
            (
                _argument("--follow", "-f", action="store_true", help="go on with what happens, also behind a restart"),
                _limit(20, "events"),
                _argument("--type", action="append", default=[], metavar="NAME", help="only these; it may be repeated"),
                _argument("--session", metavar="SESSION", help="only those of this session"),
                _argument("--task", metavar="ID", help="only those of this task"),
            ),
            more="With --json, --follow prints one object a line.",
        ),
        Verb("verify", "check that no event was changed or removed after it was written", "verify:verify"),
    ),
)

MODELS = Group(
    "models",
    "what can answer",
    (
        Verb("list", "the models that can be chosen, and what was found on this machine", "models:list_models"),
        Verb(
            "show",
            "what a model stands for, what it can do and costs, and how it fares",
            "model_details:show_model",
            (_argument("model", metavar="NAME", help="an alias, a provider, or driver/model"),),
        ),
        Verb(
            "test",
            "ask a model for one short answer, and say how that went",
            "models:test_model",
            (_argument("model", metavar="NAME", help="an alias, a provider, or driver/model"),),
        ),
        Verb(
            "usage",
            "what models used, in tokens and money",
            "usage:show_usage",
            (
                _argument("--by", choices=("model", "day", "session"), default="model", help="one line for each"),
                _argument("--since", metavar="DAY", help="the first day that counts, as 2026-01-31"),
                _argument("--until", metavar="DAY", help="the last day that counts"),
                _argument("--session", metavar="SESSION", help="only what this session used"),
                _limit(20, "lines"),
            ),
        ),
        Verb(
            "resolve",
            "say which model a selector chooses",
            "models:resolve_model",
            (
                _argument("--selector", required=True, metavar="JSON", help="constraints on tags"),
                _argument("--explain", action="store_true", help="show how every model fared"),
            ),
            more="A --selector of - is read from standard input. The status is 1 where no model fits.",
        ),
    ),
)

_SECRET = _argument("name", metavar="NAME", help="letters, digits and _, such as OPENAI_API_KEY")
_SCOPE = (
    _argument("--project", metavar="FOLDER", help="for this project only (default: for all)"),
    _argument("--plugin", metavar="NAME", help="for this plugin only"),
)
_VALUE = _argument("--stdin", action="store_true", help="read the value from standard input, and ask nobody")
_PASSPHRASE = _argument("--stdin", action="store_true", help="read each passphrase from a line of standard input")
_NO_VALUE = (
    "A value is never an argument: the list of processes and the shell's history show those. It was not kept, and is "
    "not repeated here; if it was one, replace it at its provider."
)

SECRETS = Group(
    "secrets",
    "keys and passwords, encrypted",
    (
        Verb(
            "set",
            "keep a value under a name, or a new version of it",
            "secrets:set_secret",
            (_SECRET, *_SCOPE, _VALUE),
            more="The value is typed, and not shown, or comes on standard input.",
            discreet=_NO_VALUE,
        ),
        Verb("list", "the names, whom they belong to, and when they changed", "secrets:list_secrets"),
        Verb("rm", "remove a secret", "secrets:remove_secret", (_SECRET, *_SCOPE), discreet=_NO_VALUE),
        Verb(
            "rotate",
            "replace the value of one; without a name, seal all of them with a new key",
            "secrets:rotate",
            (_argument("name", metavar="NAME", nargs="?", help="which (default: all)"), *_SCOPE, _VALUE),
            discreet=_NO_VALUE,
        ),
        Verb(
            "protect",
            "choose what opens the vault, instead of what opens it now",
            "secrets:protect",
            (
                _argument(
                    "--with",
                    dest="ways",
                    action="append",
                    required=True,
                    metavar="WAY",
                    help="keyfile, passphrase or keyring; it may be repeated: each of them opens it then",
                ),
                _PASSPHRASE,
            ),
            discreet=_NO_VALUE,
        ),
        Verb(
            "export",
            "write all of them into a file that a passphrase opens",
            "secrets:export_secrets",
            (_argument("file", metavar="FILE", help="a new file"), _PASSPHRASE),
            discreet=_NO_VALUE,
        ),
        Verb(
            "import",
            "keep all that an exported file holds",
            "secrets:import_secrets",
            (
                _argument("file", metavar="FILE", help="as ozzie secrets export wrote it"),
                _argument("--replace", action="store_true", help="take its values where others are here"),
                _PASSPHRASE,
            ),
            discreet=_NO_VALUE,
        ),
        Verb(
            "unlock",
            "let the gateway that runs use a vault that has a passphrase",
            "secrets:unlock",
            (_PASSPHRASE,),
            discreet=_NO_VALUE,
        ),
        Verb("lock", "have the gateway that runs forget the passphrase", "secrets:lock"),
    ),
)

CONFIG = Group(
    "config",
    "the configuration",
    (
        Verb(
            "trust",
            "let a project's own configuration count, as it is now",
            "trust:trust_project",
            (_argument("folder", nargs="?", default=".", help="the project folder (default: here)"),),
        ),
    ),
)

TOOLS = Group(
    "tools",
    "what a model can call",
    (
        Verb("list", "the tools, and what the rules say to a call", "tools:list_tools"),
        Verb(
            "show",
            "a tool's contract",
            "tools:show_tool",
            (_argument("name", metavar="NAME", help="its id or name, such as read_file"),),
        ),
    ),
)

_PROJECT = _argument("--project", metavar="FOLDER", help="the project folder (default: here)")

POLICY = Group(
    "policy",
    "the rules for what runs, what asks first, and what never runs",
    (
        Verb(
            "check",
            "check the files of rules, and that their examples are so",
            "policy:check_rules",
            (_argument("file", metavar="FILE", nargs="?", help="this one only (default: all that count)"), _PROJECT),
        ),
        Verb(
            "explain",
            "say what would be done with a call, and by which rule",
            "policy:explain_call",
            (
                _argument("tool", metavar="TOOL", help="its id or name, such as read_file"),
                _argument("args", metavar="JSON", nargs="?", default="{}", help="its arguments"),
                _argument("--channel", default="cli", metavar="NAME", help="where it is asked for (default: cli)"),
                _argument("--user", default="", metavar="NAME", help="who asks"),
                _argument("--unattended", action="store_true", help="as if nobody were there to be asked"),
                _PROJECT,
            ),
        ),
        Verb(
            "trust",
            "let a project's own rules count, as they are now",
            "policy:trust_project_rules",
            (_argument("folder", nargs="?", default=".", help="the project folder (default: here)"),),
        ),
    ),
)

COMMANDS: tuple[Verb | Group, ...] = (
    ASK,
    STATUS,
    SESSIONS,
    TASKS,
    EVENTS,
    MODELS,
    TOOLS,
    POLICY,
    SECRETS,
    CONFIG,
    GATEWAY,
    WORKER,
)
