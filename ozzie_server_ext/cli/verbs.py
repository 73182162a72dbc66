"""The declared commands. Nothing that a command needs is loaded here."""

from typing import get_args

from ozzie_server_ext.cli.declared import Group, Verb, argument, group, limit, verb
from ozzie_server_ext.cli.setup_verbs import (
    CONFIG,
    MCP,
    MODEL,
    MODELS,
    OF_PROJECT,
    PLUGINS,
    POLICY,
    PROJECT,
    SECRETS,
    SKILLS,
    TERMINAL,
    TOOLS,
    WORKS_IN,
)
from ozzie_server_ext.domain.artifacts import ArtifactKind
from ozzie_server_ext.domain.terms import Kind

_SESSION = argument("session", metavar="SESSION", help="its id, the end of its id, or its title")

_TASK = argument("task_id", metavar="ID", help="as ozzie tasks list shows it")

_KEY = argument("--key", metavar="KEY", default="", help="repeated calls with the same key count once")

_ONLY_SESSION = argument("--session", metavar="SESSION", help="only of this session")

_YES = argument("--yes", action="store_true", help="don't ask back")

ASK = verb(
    "ask",
    "ask one question and print the answer as it comes",
    "ask:ask",
    argument("message", metavar="text", help="the message; - reads it from standard input"),
    TERMINAL,
    WORKS_IN,
    MODEL,
    argument("--schema", metavar="FILE", help="print the answer as JSON that fits the JSON Schema in this file"),
)

SEARCH = verb(
    "search",
    "find what was said and done by its words",
    "search:search",
    argument("words", nargs="+", metavar="WORD", help='"two words" stand side by side; beg* begins a word'),
    _ONLY_SESSION,
    argument("--project", metavar="FOLDER", help="only of sessions in this folder"),
    argument("--kind", action="append", choices=get_args(Kind), default=[], help="only these texts; may be repeated"),
    argument("--since", metavar="DAY", help="not before this day or moment"),
    argument("--until", metavar="DAY", help="before this day or moment"),
    limit(10, "results"),
    argument("--explain", action="store_true", help="show what each word adds to a result's score"),
    more="A text is found if it has all the words, in any form: messages, answers, tool calls, titles, artifacts.",
)

STATUS = verb("status", "show whether a gateway runs, and its state", "gateway:status")

GATEWAY = verb(
    "gateway",
    "run the gateway without JupyterLab",
    "gateway:gateway",
    argument("--port", help="0 for any free port (default: gateway.port, or 18420 if free)"),
    argument("--project", metavar="FOLDER", help="the project folder (default: here)"),
    argument("--idle-exit", metavar="SECONDS", help="exit after this long without a client"),
    argument("--detach", action="store_true", help="run in the background; print process and address once it answers"),
    argument("--stop", action="store_true", help="stop the running gateway, and wait until it is gone"),
    argument("--verbose", action="store_true", help="show the server's log instead of its state"),
)

WORKER = verb(
    "worker",
    "serve a model to other programs, at a Unix socket",
    "worker:worker",
    argument("--socket", metavar="PATH", help="path of the socket (default: /run/fazai/gemma.sock)"),
    argument("--model", metavar="NAME", help="the model (default: models.default of the configuration)"),
)

SESSIONS = group(
    "sessions",
    "conversations of notebooks and terminals",
    verb(
        "list",
        "list the sessions, the most recently used first",
        "sessions:list_sessions",
        argument("--archived", action="store_true", help="only archived sessions"),
        limit(20, "sessions"),
    ),
    verb(
        "show",
        "print the conversation of a session",
        "sessions:show_session",
        _SESSION,
        limit(20, "of the newest turns"),
    ),
    verb(
        "resume",
        "continue a session from this terminal; ozzie ask then adds to it",
        "sessions:resume_session",
        _SESSION,
        argument(
            "message", metavar="text", nargs="?", help="send this message at once; - reads it from standard input"
        ),
        argument("--as", dest="terminal", default="cli", metavar="NAME", help="the terminal's session (default: cli)"),
    ),
    verb(
        "rename",
        "change a session's title",
        "sessions:rename_session",
        _SESSION,
        argument("title", metavar="TITLE", help="at most 60 characters are kept"),
    ),
    verb("archive", "archive a session until its next message", "sessions:archive_session", _SESSION),
    verb("close", "close a session: it takes no messages until it is resumed", "sessions:close_session", _SESSION),
    verb(
        "export",
        "write a session into a file, with a proof that it is as recorded",
        "export:export_session",
        _SESSION,
        argument("--to", metavar="FILE", required=True, help="a new file: .ipynb, .md, .html or .jsonl"),
    ),
    verb(
        "verify",
        "check whether an exported file is as recorded",
        "export:verify_export",
        argument("file", metavar="FILE", help="an .ipynb or .jsonl file of ozzie sessions export"),
        argument("--key", metavar="KEY", help="its author's public key, or a file with it (default: yours)"),
        more="Names each cell that was changed, moved, added or taken out. Works without a gateway.",
    ),
    verb(
        "fork",
        "go on from an earlier turn, in a session of its own",
        "sessions:fork_session",
        _SESSION,
        argument(
            "--from",
            dest="turn",
            metavar="TURN",
            type=int,
            help="the last turn to keep (default: all that are over)",
        ),
        argument("--event", metavar="POSITION", type=int, help="the last event to keep, in place of a turn"),
        argument("--title", metavar="TITLE", help="a title for the fork"),
        argument("--to", metavar="FILE", help="a new .ipynb file: the fork's notebook"),
        more="Effects stay done, and files are not restored. `ozzie sessions show` has the numbers of the turns.",
    ),
    verb(
        "replay",
        "run a session again from its record, and say whether it comes out the same",
        "replays:replay_session",
        _SESSION,
        argument("--until", metavar="TURN", type=int, help="the last turn to replay (default: all)"),
        argument("--policy", metavar="FILE", help="try these rules"),
        argument("--prompt", metavar="FILE", help="try this prompt, as in SOUL.md"),
        argument("--skill", dest="skills", metavar="FILE", action="append", default=[], help="try this skill file"),
        more="Names the first event that would differ, and why. Ends with 1 if one does.",
    ),
    verb("key", "print the public key that your exports are signed with", "export:print_public_key"),
    verb(
        "erase",
        "erase all that was said and done in a session, for good",
        "sessions:erase_session",
        _SESSION,
        _YES,
        speaks_for_a_person=True,
    ),
)

MESSAGES = group(
    "messages",
    "the messages of a session",
    verb("list", "list the newest messages with their ids", "messages:list_messages", _SESSION, limit(50, "messages")),
    verb(
        "erase",
        "erase a message and its whole turn, for good",
        "messages:erase_message",
        argument("message_id", metavar="ID", help="as ozzie messages list shows it"),
        _YES,
        speaks_for_a_person=True,
    ),
)

TASKS = group(
    "tasks",
    "what Ozzie is doing and has done",
    verb(
        "list",
        "list the tasks, the newest first",
        "tasks:list_tasks",
        argument("--open", action="store_true", help="only unfinished tasks"),
        argument("--all", action="store_true", help="include the steps of skill runs"),
        _ONLY_SESSION,
        limit(20, "tasks"),
    ),
    verb("show", "show a task with its steps and usage", "tasks:show_task", _TASK),
    verb(
        "wait",
        "wait until a task ends, and print the result",
        "waiting:wait_for_task",
        _TASK,
        argument("--timeout", type=float, metavar="SECONDS", help="give up after this long (default: never)"),
        more="It prints what the task waits for to standard error. The status is 0 if the task succeeded, "
        "3 if it failed or was stopped, 4 on timeout.",
    ),
    verb("cancel", "stop a task, running or waiting", "tasks:cancel_task", _TASK),
    verb("pause", "pause a task at the end of its current step", "tasks:pause_task", _TASK),
    verb("resume", "continue a paused task", "tasks:resume_task", _TASK),
    verb(
        "signal",
        "send an event from outside to a run of a skill",
        "tasks:signal_task",
        _TASK,
        argument("event", metavar="EVENT", help="the event a step waits for: see ozzie tasks show ID"),
        argument("--data", metavar="JSON", default="", help="a JSON object: the output of that step"),
        _KEY,
        aliases=("tell",),
    ),
    verb(
        "update",
        "send further instructions to a running task",
        "tasks:update_task",
        _TASK,
        argument("text", metavar="TEXT", help="the instructions, in your own words"),
        _KEY,
        speaks_for_a_person=True,
    ),
    verb("retry", "retry a failed or stopped task", "tasks:retry_task", _TASK),
    verb(
        "answer",
        "answer a task's question",
        "tasks:answer_task",
        _TASK,
        argument("option", metavar="ANSWER", nargs="?", default="", help="leave it out to print the question"),
        argument("text", metavar="TEXT", nargs="*", help="your own words; without ANSWER if nothing else is offered"),
        argument("--amount", metavar="N", help="another amount than offered, in USD, tokens, or seconds"),
        speaks_for_a_person=True,
    ),
)

_APPROVAL = argument("approval_id", metavar="ID", help="as ozzie approvals list shows it")

APPROVALS = group(
    "approvals",
    "tool calls that wait for your approval",
    verb(
        "list",
        "list the pending approvals, the newest first",
        "approvals:list_approvals",
        argument("--all", action="store_true", help="include answered and expired ones"),
        _ONLY_SESSION,
        limit(20, "approvals"),
    ),
    verb("show", "show one in full: what the call would do, and how to answer", "approvals:show_approval", _APPROVAL),
    verb(
        "approve",
        "approve a call",
        "approvals:approve",
        _APPROVAL,
        argument("--session", action="store_true", help="for the session, as ozzie approvals show describes it"),
        argument("--yes", action="store_true", help="don't ask back, even if the call can't be undone"),
        speaks_for_a_person=True,
    ),
    verb(
        "reject",
        "reject a call; the turn goes on without it",
        "approvals:reject",
        _APPROVAL,
        argument("comment", metavar="COMMENT", nargs="?", default="", help="the reason, for the model to read"),
    ),
    verb("renew", "ask again for an expired approval", "approvals:renew", _APPROVAL),
    verb("revoke", "take back an approval for the session", "approvals:revoke", _APPROVAL),
)

_KINDS = get_args(ArtifactKind)

_ARTIFACT = argument("artifact_id", metavar="ID", help="as ozzie artifacts list shows it")

INCIDENTS = group(
    "incidents",
    "what happened that you should look at",
    verb(
        "list",
        "list the open ones, the newest first",
        "incidents:list_incidents",
        argument("--all", action="store_true", help="closed ones too"),
        limit(50, "incidents"),
    ),
    verb(
        "close",
        "close one that you have looked at",
        "incidents:close_incident",
        argument("incident_id", metavar="ID", help="as the list shows it"),
        speaks_for_a_person=True,
    ),
)

ARTIFACTS = group(
    "artifacts",
    "files that tasks made, and long results",
    verb(
        "list",
        "list the artifacts, the newest first, with every version",
        "artifacts:list_artifacts",
        _ONLY_SESSION,
        argument("--task", metavar="ID", help="only of this task"),
        argument("--kind", action="append", default=[], choices=_KINDS, help="only this one; may be repeated"),
        limit(20, "artifacts"),
    ),
    verb("show", "show one with its size, versions and origin", "artifacts:show_artifact", _ARTIFACT),
    verb(
        "get",
        "print an artifact's content, or save it",
        "artifacts:get_artifact",
        _ARTIFACT,
        argument("--output", metavar="FILE", help="save to a new file (default: print)"),
    ),
    verb(
        "rm",
        "erase an artifact's content; its record stays",
        "artifacts:erase_artifact",
        _ARTIFACT,
        _YES,
        speaks_for_a_person=True,
    ),
)

LABELS = group(
    "labels",
    "labels on outside content in sessions and files",
    verb("show", "list the outside sources that a session has read", "labels:show_labels", _SESSION),
    verb("files", "list the project's files that were made from outside content", "labels:list_files", OF_PROJECT),
    verb(
        "clear",
        "remove the labels: you checked the content and trust it",
        "labels:clear_labels",
        argument("session", metavar="SESSION", nargs="?", default="", help="everything that this session has read"),
        argument("--file", metavar="PATH", default="", help="this file, as ozzie labels files lists it"),
        OF_PROJECT,
        speaks_for_a_person=True,
    ),
)

EVENTS = group(
    "events",
    "the event log",
    verb(
        "tail",
        "print the newest events",
        "events:tail",
        argument("--follow", "-f", action="store_true", help="keep printing new events, also after a restart"),
        limit(20, "events"),
        argument("--type", action="append", default=[], metavar="NAME", help="only this one; may be repeated"),
        _ONLY_SESSION,
        argument("--task", metavar="ID", help="only of this task"),
        more="With --json, --follow prints one object a line.",
    ),
    verb(
        "verify",
        "check that no event was changed or removed after it was written",
        "verify:verify",
        argument("--deep", action="store_true", help="check the database's pages, the blobs and the tables too"),
    ),
    verb(
        "accept",
        "accept the log as it is, though verify finds it changed or not anchored",
        "verify:accept_log",
        _YES,
        more="For a restored backup, a copied folder, a lost anchor or key. It is recorded beside the key.",
        speaks_for_a_person=True,
    ),
    verb("rebuild", "rebuild the tables from the log at the next start", "verify:rebuild"),
)

STORE = group(
    "store",
    "the files of Ozzie's folder",
    verb(
        "compact",
        "move requests and answers of models that are files into the database",
        "verify:compact_store",
        more="An earlier version kept them as files. In the database they need a fraction of the space.",
    ),
)

TRASH = group(
    "trash",
    "files in a project's trash",
    verb("list", "list the trash, the newest first", "trash:list_trash", PROJECT),
    verb(
        "restore",
        "move a file back to where it was",
        "trash:restore_from_trash",
        argument("id", metavar="ID", help="as ozzie trash list shows it"),
        PROJECT,
    ),
)

COMMANDS: tuple[Verb | Group, ...] = (
    ASK,
    SEARCH,
    STATUS,
    SESSIONS,
    MESSAGES,
    TASKS,
    APPROVALS,
    ARTIFACTS,
    LABELS,
    TRASH,
    EVENTS,
    STORE,
    MODELS,
    TOOLS,
    SKILLS,
    PLUGINS,
    MCP,
    INCIDENTS,
    POLICY,
    SECRETS,
    CONFIG,
    GATEWAY,
    WORKER,
)
