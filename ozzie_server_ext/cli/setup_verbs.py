"""What sets Ozzie up: models, tools, rules, secrets, the configuration."""

from ozzie_server_ext.cli.declared import Group, Verb, argument, limit
from ozzie_server_ext.domain.messages import Channel

_PROJECT = argument("--project", metavar="FOLDER", help="the project folder (default: here)")

MODELS = Group(
    "models",
    "what can answer",
    (
        Verb("list", "the models that can be chosen, and what was found on this machine", "models:list_models"),
        Verb(
            "show",
            "what a model stands for, what it can do and costs, and how it fares",
            "models:show_model",
            (argument("model", metavar="NAME", help="an alias, a provider, or driver/model"),),
        ),
        Verb(
            "test",
            "ask a model for one short answer, and say how that went",
            "models:test_model",
            (argument("model", metavar="NAME", help="an alias, a provider, or driver/model"),),
        ),
        Verb(
            "usage",
            "what models used, in tokens and money",
            "models:show_usage",
            (
                argument("--by", choices=("model", "day", "session"), default="model", help="one line for each"),
                argument("--since", metavar="DAY", help="the first day that counts, as 2026-01-31"),
                argument("--until", metavar="DAY", help="the last day that counts"),
                argument("--session", metavar="SESSION", help="only what this session used"),
                limit(20, "lines"),
            ),
        ),
        Verb(
            "resolve",
            "say which model a selector chooses",
            "models:resolve_model",
            (
                argument("--selector", required=True, metavar="JSON", help="constraints on tags"),
                argument("--explain", action="store_true", help="show how every model fared"),
            ),
            more="A --selector of - is read from standard input. The status is 1 where no model fits.",
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
            (argument("name", metavar="NAME", help="its id or name, such as read_file"),),
        ),
    ),
)

SKILLS = Group(
    "skills",
    "what Ozzie knows how to do: instructions and workflows in files",
    (
        Verb("list", "the skills, and what is wrong with those that are not used", "skills:list_skills", (_PROJECT,)),
        Verb(
            "show",
            "what a skill does, what it takes, and its steps",
            "skills:show_skill",
            (argument("name", metavar="NAME", help="as ozzie skills list shows it"), _PROJECT),
        ),
        Verb(
            "check",
            "say what is wrong with a skill's file, with line and column",
            "skills:check_skills",
            (
                argument("files", metavar="FILE", nargs="*", help="these only (default: all that would be used)"),
                _PROJECT,
            ),
        ),
        Verb(
            "run",
            "run a skill and print what comes of it",
            "skills:run_skill",
            (
                argument("name", metavar="NAME", help="as ozzie skills list shows it"),
                argument("words", metavar="key=value", nargs="*", help="its input; of one that takes a text, that"),
                argument("--session", default="cli", metavar="NAME", help="the terminal's session (default: cli)"),
                argument("--model", default="", metavar="NAME", help="an alias, a provider, or driver/model"),
            ),
        ),
        Verb(
            "trust",
            "let a skill of a project be used, as it is now",
            "skills:trust_skill",
            (argument("file", metavar="FILE", help="in the folder .ozzie/skills of the project"),),
            speaks_for_a_person=True,
        ),
        Verb(
            "untrust",
            "let a skill of a project be used no longer, even where its file is gone",
            "skills:untrust_skill",
            (argument("file", metavar="FILE", help="in the folder .ozzie/skills of the project"),),
        ),
    ),
)

POLICY = Group(
    "policy",
    "the rules for what runs, what asks first, and what never runs",
    (
        Verb(
            "check",
            "check the files of rules, and that their examples are so",
            "policy:check_rules",
            (argument("file", metavar="FILE", nargs="?", help="this one only (default: all that count)"), _PROJECT),
        ),
        Verb(
            "explain",
            "say what would be done with a call, and by which rule",
            "policy:explain_call",
            (
                argument("tool", metavar="TOOL", help="its id or name, such as read_file"),
                argument("args", metavar="JSON", nargs="?", default="{}", help="its arguments"),
                argument(
                    "--channel",
                    choices=tuple(map(str, Channel)),
                    default="cli",
                    help="how it is asked (default: cli)",
                ),
                argument("--user", default="", metavar="NAME", help="who asks"),
                argument("--unattended", action="store_true", help="as if nobody were there to be asked"),
                argument(
                    "--source",
                    action="append",
                    default=[],
                    metavar="SOURCE",
                    help="as if it were made from content from there, such as web:example.org; it may be repeated",
                ),
                _PROJECT,
            ),
        ),
        Verb(
            "trust",
            "let a project's own rules count, as they are now",
            "policy:trust_project_rules",
            (argument("folder", nargs="?", default=".", help="the project folder (default: here)"),),
            speaks_for_a_person=True,
        ),
        Verb(
            "untrust",
            "let a project's own rules count no longer, even where their file is gone",
            "policy:untrust_project_rules",
            (argument("folder", nargs="?", default=".", help="the project folder (default: here)"),),
        ),
    ),
)

_SECRET = argument("name", metavar="NAME", help="letters, digits and _, such as OPENAI_API_KEY")

_SCOPE = (
    argument("--project", metavar="FOLDER", help="for this project only (default: for all)"),
    argument("--plugin", metavar="NAME", help="for this plugin only"),
)

_VALUE = argument("--stdin", action="store_true", help="read the value from standard input, and ask nobody")

_PASSPHRASE = argument("--stdin", action="store_true", help="read each passphrase from a line of standard input")

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
        Verb(
            "rm",
            "remove a secret",
            "secrets:remove_secret",
            (_SECRET, *_SCOPE, argument("--yes", action="store_true", help="don't ask whether to")),
            discreet=_NO_VALUE,
        ),
        Verb(
            "rotate",
            "replace the value of one; without a name, seal all of them with a new key",
            "secrets:rotate",
            (argument("name", metavar="NAME", nargs="?", help="which (default: all)"), *_SCOPE, _VALUE),
            discreet=_NO_VALUE,
        ),
        Verb(
            "protect",
            "choose what opens the vault, instead of what opens it now",
            "secrets:protect",
            (
                argument(
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
            (argument("file", metavar="FILE", help="a new file"), _PASSPHRASE),
            discreet=_NO_VALUE,
        ),
        Verb(
            "import",
            "keep all that an exported file holds",
            "secrets:import_secrets",
            (
                argument("file", metavar="FILE", help="as ozzie secrets export wrote it"),
                argument("--replace", action="store_true", help="take its values where others are here"),
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
            (argument("folder", nargs="?", default=".", help="the project folder (default: here)"),),
            speaks_for_a_person=True,
        ),
    ),
)
