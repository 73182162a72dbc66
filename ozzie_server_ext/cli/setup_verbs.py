"""The declared commands for setting Ozzie up: models, tools, skills, rules, secrets, configuration."""

from ozzie_server_ext.cli.declared import argument, group, limit, verb
from ozzie_server_ext.domain.messages import Channel

PROJECT = argument("--project", metavar="FOLDER", help="the project folder (default: here)")

OF_PROJECT = argument("--project", metavar="FOLDER", help="of this project (default: the gateway's own)")

OWN_SESSION = "cli"
"""The name of a terminal's session if none is given."""
TERMINAL = argument("--session", metavar="NAME", help=f"the terminal's session (default: {OWN_SESSION})")
WORKS_IN = argument(
    "--project", metavar="FOLDER", help="the project folder of a new session (default: the gateway's own)"
)

MODEL = argument("--model", default="", metavar="NAME", help="an alias, a provider, or driver/model")

_MODEL_NAME = argument("model", metavar="NAME", help="an alias, a provider, or driver/model")

_SKILL_NAME = argument("name", metavar="NAME", help="as ozzie skills list shows it")

_SKILL_FILE = argument("file", metavar="FILE", help="in the folder .ozzie/skills of the project")

_FOLDER = argument("folder", nargs="?", default=".", help="the project folder (default: here)")

MODELS = group(
    "models",
    "models that can answer",
    verb("list", "list the models, and what was found on this machine", "models:list_models", OF_PROJECT),
    verb(
        "show",
        "show what a model is, what it can do and costs, and how its calls went",
        "models:show_model",
        _MODEL_NAME,
        OF_PROJECT,
    ),
    verb("test", "ask a model for one short answer, and report the result", "models:test_model", _MODEL_NAME),
    verb(
        "usage",
        "sum up what models used, in tokens and money",
        "models:show_usage",
        argument("--by", choices=("model", "day", "session"), default="model", help="one line for each"),
        argument("--since", metavar="DAY", help="the first day, such as 2026-01-31"),
        argument("--until", metavar="DAY", help="the last day"),
        argument("--session", metavar="SESSION", help="only of this session"),
        limit(20, "lines"),
    ),
    verb(
        "resolve",
        "show which model a selector chooses",
        "models:resolve_model",
        argument("--selector", required=True, metavar="JSON", help="constraints on tags"),
        argument("--explain", action="store_true", help="show the result for every model"),
        OF_PROJECT,
        more="A --selector of - is read from standard input. The status is 1 if no model fits.",
    ),
)

TOOLS = group(
    "tools",
    "tools that a model can call",
    verb("list", "list the tools, and what the rules say about a call", "tools:list_tools", OF_PROJECT),
    verb(
        "show",
        "show a tool's contract",
        "tools:show_tool",
        argument("name", metavar="NAME", help="its id or name, such as read_file"),
        OF_PROJECT,
    ),
)

SKILLS = group(
    "skills",
    "skills: instructions and workflows in files",
    verb("list", "list the skills, and why some are not used", "skills:list_skills", PROJECT),
    verb("show", "show what a skill does, its input and its steps", "skills:show_skill", _SKILL_NAME, PROJECT),
    verb(
        "check",
        "check skill files, and report errors with line and column",
        "skills:check_skills",
        argument("files", metavar="FILE", nargs="*", help="only these (default: all that would be used)"),
        PROJECT,
    ),
    verb(
        "run",
        "run a skill and print its result",
        "skills:run_skill",
        _SKILL_NAME,
        argument("words", metavar="key=value", nargs="*", help="its input, or the text for a skill that takes one"),
        TERMINAL,
        WORKS_IN,
        MODEL,
    ),
    verb("trust", "trust a project's skill, as it is now", "skills:trust_skill", _SKILL_FILE, speaks_for_a_person=True),
    verb("untrust", "stop trusting a project's skill, even if its file is gone", "skills:untrust_skill", _SKILL_FILE),
)

_PLUGIN = argument("name", metavar="NAME", help="as ozzie plugins list shows it")
_WISHES = argument("wishes", nargs="*", metavar="WISH", help="these alone, as ozzie plugins show --json lists them")
_YES = argument("--yes", action="store_true", help="don't ask back")
_EFFECTS = argument(
    "tools", nargs="*", metavar="TOOL=EFFECT", help="reads, changes, sends, deletes, pays or configures"
)
_TARGETS = argument(
    "--target",
    action="append",
    default=[],
    metavar="TOOL.ARGUMENT=KIND",
    help="what an argument names, such as recipient; may be repeated",
)

PLUGINS = group(
    "plugins",
    "plugins: tools of others, in a box",
    verb("list", "list the plugins, and whether they are used", "plugins_settle:list_plugins", PROJECT),
    verb("show", "show what a plugin is, may do and was refused", "plugins_settle:show_plugin", _PLUGIN, PROJECT),
    verb(
        "add",
        "add a plugin to yours, after you have seen what it asks for",
        "plugins_settle:add_plugin",
        argument("folder", metavar="FOLDER", help="the folder with its manifest and code"),
        _YES,
        PROJECT,
        speaks_for_a_person=True,
    ),
    verb(
        "grant",
        "grant a plugin what it asks for",
        "plugins_settle:grant_plugin",
        _PLUGIN,
        _WISHES,
        _YES,
        PROJECT,
        speaks_for_a_person=True,
    ),
    verb(
        "revoke",
        "take back what a plugin was granted",
        "plugins_settle:revoke_plugin",
        _PLUGIN,
        _WISHES,
        PROJECT,
        speaks_for_a_person=True,
    ),
    verb("enable", "turn a plugin on", "plugins_settle:enable_plugin", _PLUGIN, PROJECT, speaks_for_a_person=True),
    verb("disable", "turn a plugin off", "plugins_settle:disable_plugin", _PLUGIN, PROJECT, speaks_for_a_person=True),
    verb(
        "classify",
        "say what tools of a plugin do",
        "plugins_settle:classify_plugin",
        _PLUGIN,
        _EFFECTS,
        _TARGETS,
        PROJECT,
        speaks_for_a_person=True,
    ),
    verb(
        "remove",
        "remove a plugin of yours, with its notes",
        "plugins_settle:remove_plugin",
        _PLUGIN,
        PROJECT,
        speaks_for_a_person=True,
    ),
    verb(
        "check",
        "check a plugin's manifest and code, and show what it asks for",
        "plugins:check_plugin",
        argument("folder", metavar="FOLDER", help="the folder with its manifest"),
    ),
    verb(
        "new",
        "make a folder to write a plugin in",
        "plugins_new:new_plugin",
        argument("name", metavar="NAME", help="a name for it, such as word-count"),
        argument("--lang", choices=("assemblyscript", "c", "python"), default="assemblyscript", help="the language"),
        argument("--folder", metavar="FOLDER", help="the new folder (default: NAME, here)"),
        more="It has a tool and examples. In Python it is a program, otherwise WebAssembly. The guide is "
        "docs/writing-plugins.md.",
    ),
    verb(
        "test",
        "run a plugin's examples, without a network",
        "plugins_examples:run_examples",
        argument("folder", metavar="FOLDER", help="the folder with its manifest, code and examples.jsonc"),
    ),
)

_SERVER = argument("name", metavar="NAME", help="as ozzie mcp list shows it")

_MCP_ACCESS = (
    argument("--read", action="append", default=[], metavar="PATH", help="it may read this; may be repeated"),
    argument(
        "--write", action="append", default=[], metavar="PATH", help="it may read and change this; may be repeated"
    ),
    argument("--host", action="append", default=[], metavar="HOST", help="it may reach this host; may be repeated"),
)

_MCP_YES = (
    argument("--as-claimed", action="store_true", help="take what it claims that its tools do"),
    argument("--yes", action="store_true", help="don't ask back"),
)

MCP = group(
    "mcp",
    "servers of tools that speak MCP",
    verb("list", "list the servers in mcp.json, yours and the project's", "mcp:list_servers", PROJECT),
    verb(
        "add",
        "add a server to yours, after you have seen what it may do",
        "mcp_settle:add_server",
        argument("name", metavar="NAME", help="a name for it"),
        argument("server", nargs="+", metavar="SERVER", help="its address, or -- and the command that starts it"),
        argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for it; may be repeated"),
        argument("--header", action="append", default=[], metavar="NAME:VALUE", help="a header; may be repeated"),
        argument("--sse", action="store_true", help="the address speaks the older transport"),
        *_MCP_ACCESS,
        *_MCP_YES,
        PROJECT,
        more="A key goes into the vault, and ${NAME} takes its place. For a stored secret, write ${NAME} yourself.",
        speaks_for_a_person=True,
    ),
    verb("show", "show what a server may do, and its tools", "mcp_settle:show_server", _SERVER, PROJECT),
    verb("test", "connect to a trusted server, and show what differs", "mcp_settle:test_server", _SERVER, PROJECT),
    verb(
        "trust",
        "trust a listed server as it is now",
        "mcp_settle:trust_server",
        _SERVER,
        *_MCP_ACCESS,
        *_MCP_YES,
        PROJECT,
        speaks_for_a_person=True,
    ),
    verb(
        "login",
        "sign in to a trusted server through a browser",
        "mcp_login:login",
        _SERVER,
        argument("--scope", default="", metavar="RIGHTS", help="ask for these rights (default: those that it names)"),
        argument("--client-id", default="", metavar="ID", help="as whom Ozzie is known there, if you registered it"),
        argument("--client-secret", action="store_true", help="the client has a secret: it is asked for"),
        argument("--yes", action="store_true", help="don't ask back about hosts"),
        PROJECT,
        speaks_for_a_person=True,
    ),
    verb(
        "logout",
        "forget a sign-in",
        "mcp_login:logout",
        _SERVER,
        PROJECT,
        speaks_for_a_person=True,
    ),
    verb(
        "classify",
        "say what tools of a server do",
        "mcp_settle:classify_tools",
        _SERVER,
        _EFFECTS,
        _TARGETS,
        PROJECT,
        speaks_for_a_person=True,
    ),
    verb(
        "serve",
        "be an MCP server for another agent, over standard input and output",
        "mcp_serve:serve",
        WORKS_IN,
        more="Other agents start this: claude mcp add ozzie -- ozzie mcp serve",
    ),
    verb(
        "token",
        "make a token for an agent that uses Ozzie over HTTP, or list who has one",
        "mcp_serve:token",
        argument("name", metavar="NAME", nargs="?", help="a name for the agent, such as claude-code"),
        argument("--revoke", action="store_true", help="end its token"),
        more="The token opens /ozzie/mcp and nothing else, and is shown once. A new one ends the one before.",
        speaks_for_a_person=True,
    ),
    verb(
        "rm",
        "stop trusting a server, and take it out if it is yours",
        "mcp_settle:remove_server",
        _SERVER,
        PROJECT,
        speaks_for_a_person=True,
    ),
)

POLICY = group(
    "policy",
    "rules for what runs, what asks first, and what never runs",
    verb(
        "check",
        "check the rule files and their examples",
        "policy:check_rules",
        argument("file", metavar="FILE", nargs="?", help="only this one (default: all in force)"),
        PROJECT,
    ),
    verb(
        "explain",
        "explain what would happen to a call, and by which rule",
        "policy:explain_call",
        argument("tool", metavar="TOOL", help="its id or name, such as read_file"),
        argument("args", metavar="JSON", nargs="?", default="{}", help="its arguments"),
        argument("--channel", choices=tuple(map(str, Channel)), default="cli", help="its channel (default: cli)"),
        argument("--user", default="", metavar="NAME", help="the user who asks"),
        argument("--unattended", action="store_true", help="as if nobody could be asked"),
        argument(
            "--source",
            action="append",
            default=[],
            metavar="SOURCE",
            help="as if made from outside content of this source, such as web:example.org; may be repeated",
        ),
        PROJECT,
    ),
    verb(
        "simulate",
        "try a changed file of rules on the calls in the log",
        "simulate:simulate_policy",
        argument("file", metavar="FILE", help="the rules to try in place of your own"),
        argument("--since", metavar="DAY", help="from this day on, such as 2026-01-31 (default: 30 days)"),
    ),
    verb(
        "trust",
        "trust a project's rules, as they are now",
        "policy:trust_project_rules",
        _FOLDER,
        speaks_for_a_person=True,
    ),
    verb(
        "untrust",
        "stop trusting a project's rules, even if their file is gone",
        "policy:untrust_project_rules",
        _FOLDER,
    ),
    verb(
        "revoke",
        'take back a rule that was made on a card by "Don\'t ask again"',
        "policy:revoke_rule",
        argument("rule", metavar="RULE", help="its id, such as standing.notes: see ozzie policy check"),
    ),
)

_SECRET = argument("name", metavar="NAME", help="letters, digits and _, such as OPENAI_API_KEY")

_SCOPE = (
    argument("--project", metavar="FOLDER", help="for this project only (default: for all)"),
    argument("--plugin", metavar="NAME", help="for this plugin only"),
)

_VALUE = argument("--stdin", action="store_true", help="read the value from standard input, without a prompt")

_PASSPHRASE = argument("--stdin", action="store_true", help="read each passphrase from a line of standard input")

_NO_VALUE = (
    "A value is never an argument: the process list and the shell's history show those. It was not stored, and is "
    "not repeated here; if it was a secret, replace it at its provider."
)

SECRETS = group(
    "secrets",
    "keys and passwords, encrypted",
    verb(
        "set",
        "store a value under a name, or a new version of it",
        "secrets:set_secret",
        _SECRET,
        *_SCOPE,
        _VALUE,
        more="Type the value, which is not shown, or pipe it in with --stdin.",
        discreet=_NO_VALUE,
    ),
    verb("list", "list the names, their scopes, and when they changed", "secrets:list_secrets"),
    verb(
        "rm",
        "remove a secret",
        "secrets:remove_secret",
        _SECRET,
        *_SCOPE,
        argument("--yes", action="store_true", help="don't ask back"),
        discreet=_NO_VALUE,
    ),
    verb(
        "rotate",
        "replace one value; without a name, encrypt all of them with a new key",
        "secrets:rotate",
        argument("name", metavar="NAME", nargs="?", help="the secret (default: all)"),
        *_SCOPE,
        _VALUE,
        discreet=_NO_VALUE,
    ),
    verb(
        "protect",
        "choose what opens the vault, in place of what opens it now",
        "secrets:protect",
        argument(
            "--with",
            dest="ways",
            action="append",
            required=True,
            metavar="WAY",
            help="keyfile, passphrase or keyring; may be repeated: any of them then opens it",
        ),
        _PASSPHRASE,
        discreet=_NO_VALUE,
    ),
    verb(
        "export",
        "write all secrets into a file protected by a passphrase",
        "secrets:export_secrets",
        argument("file", metavar="FILE", help="a new file"),
        _PASSPHRASE,
        discreet=_NO_VALUE,
    ),
    verb(
        "import",
        "store all secrets of an exported file",
        "secrets:import_secrets",
        argument("file", metavar="FILE", help="as ozzie secrets export wrote it"),
        argument("--replace", action="store_true", help="overwrite values that differ"),
        _PASSPHRASE,
        discreet=_NO_VALUE,
    ),
    verb(
        "unlock",
        "let the running gateway use a vault that has a passphrase",
        "secrets:unlock",
        _PASSPHRASE,
        discreet=_NO_VALUE,
    ),
    verb("lock", "have the running gateway forget the passphrase", "secrets:lock"),
)

CONFIG = group(
    "config",
    "the configuration",
    verb(
        "trust",
        "trust a project's configuration, as it is now",
        "trust:trust_project",
        _FOLDER,
        speaks_for_a_person=True,
    ),
)
