"""What can be typed: one small declaration for each command. None of what a command needs is loaded here."""

from typing import get_args

from ozzie_server_ext.cli.declared import Group, Verb, argument, limit
from ozzie_server_ext.cli.setup_verbs import CONFIG, MODELS, POLICY, SECRETS, SKILLS, TOOLS
from ozzie_server_ext.domain.artifacts import ArtifactKind

_SESSION = argument("session", metavar="SESSION", help="its id, the end of its id, or its title")

_TASK = argument("task_id", metavar="ID", help="as ozzie tasks list shows it")

_KEY = argument("--key", metavar="KEY", default="", help="counts once with it, however often this is run")

_TERMINAL = argument("--session", default="cli", metavar="NAME", help="the terminal's session (default: cli)")

ASK = Verb(
    "ask",
    "ask one question and print the answer as it comes",
    "ask:ask",
    (
        argument("message", metavar="text", help="the message; - reads it from standard input"),
        _TERMINAL,
        argument("--model", default="", metavar="NAME", help="an alias, a provider, or driver/model"),
        argument("--schema", metavar="FILE", help="print the answer as JSON that fits the JSON Schema in this file"),
    ),
)

STATUS = Verb("status", "say whether a gateway runs, and how it is", "gateway:status")

GATEWAY = Verb(
    "gateway",
    "run the gateway without JupyterLab",
    "gateway:gateway",
    (
        argument("--port", help="0 for any free port (default: gateway.port, or 18420 if free)"),
        argument("--project", metavar="FOLDER", help="the project folder (default: here)"),
        argument("--idle-exit", metavar="SECONDS", help="end when no client was connected for so long"),
        argument("--detach", action="store_true", help="leave it running; say its process and address once it answers"),
        argument("--stop", action="store_true", help="stop the one that runs, and wait until it is gone"),
        argument("--verbose", action="store_true", help="show the server's log instead of how it stands"),
    ),
)

WORKER = Verb(
    "worker",
    "serve a model to other programs, at a Unix socket",
    "worker:worker",
    (
        argument("--socket", metavar="PATH", help="where (default: /run/fazai/gemma.sock)"),
        argument("--model", metavar="NAME", help="which (default: models.default of the configuration)"),
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
                argument("--archived", action="store_true", help="those that were put away"),
                limit(20, "sessions"),
            ),
        ),
        Verb(
            "show",
            "print the conversation of a session",
            "sessions:show_session",
            (_SESSION, limit(20, "of the newest turns")),
        ),
        Verb(
            "resume",
            "go on in a session from this terminal: the next ozzie ask is part of it",
            "sessions:resume_session",
            (
                _SESSION,
                argument("message", metavar="text", nargs="?", help="ask this at once; - reads it from standard input"),
                argument(
                    "--as", dest="terminal", default="cli", metavar="NAME", help="the terminal's session (default: cli)"
                ),
            ),
        ),
        Verb(
            "rename",
            "give a session another title",
            "sessions:rename_session",
            (_SESSION, argument("title", metavar="TITLE", help="at most 60 characters are kept")),
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
                argument("--open", action="store_true", help="only those that have not ended"),
                argument("--all", action="store_true", help="also the steps of runs of skills"),
                argument("--session", metavar="SESSION", help="only those of this session"),
                limit(20, "tasks"),
            ),
        ),
        Verb("show", "one task with its steps, and what it used", "tasks:show_task", (_TASK,)),
        Verb(
            "wait",
            "wait until one has ended, and say how",
            "waiting:wait_for_task",
            (
                _TASK,
                argument("--timeout", type=float, metavar="SECONDS", help="how long at the most (default: no limit)"),
            ),
            more="What it waits for is told on standard error. The status is 0 where the task did what it was for, "
            "3 where it failed or was stopped, 4 where the time ran out.",
        ),
        Verb("cancel", "stop a task, running or waiting", "tasks:cancel_task", (_TASK,)),
        Verb("pause", "hold one at the end of what it is doing", "tasks:pause_task", (_TASK,)),
        Verb("resume", "let one go on that is paused", "tasks:resume_task", (_TASK,)),
        Verb(
            "tell",
            "tell a run of a skill what happened outside",
            "tasks:tell_task",
            (
                _TASK,
                argument("event", metavar="EVENT", help="as a step of it waits for it: ozzie tasks show ID"),
                argument("--data", metavar="JSON", default="", help="a JSON object: the output of that step"),
                _KEY,
            ),
        ),
        Verb(
            "update",
            "say something more to one that goes on",
            "tasks:update_task",
            (_TASK, argument("text", metavar="TEXT", help="what it is to know, in your words"), _KEY),
            speaks_for_a_person=True,
        ),
        Verb("retry", "try one again that failed or was stopped", "tasks:retry_task", (_TASK,)),
        Verb(
            "answer",
            "answer what a task waits to be told",
            "tasks:answer_task",
            (
                _TASK,
                argument("option", metavar="ANSWER", nargs="?", default="", help="none prints the question"),
                argument("text", metavar="TEXT", nargs="*", help="your own words; alone where nothing else is offered"),
                argument("--amount", metavar="N", help="instead of what is offered: USD, tokens, or seconds"),
            ),
            speaks_for_a_person=True,
        ),
    ),
)

_APPROVAL = argument("approval_id", metavar="ID", help="as ozzie approvals list shows it")

APPROVALS = Group(
    "approvals",
    "calls of tools that wait for your yes or no",
    (
        Verb(
            "list",
            "those that wait for an answer, the newest first",
            "approvals:list_approvals",
            (
                argument("--all", action="store_true", help="the others too, with their answers"),
                argument("--session", metavar="SESSION", help="only those of this session"),
                limit(20, "approvals"),
            ),
        ),
        Verb(
            "show",
            "what one asks, all that the call would do, and how to answer",
            "approvals:show_approval",
            (_APPROVAL,),
        ),
        Verb(
            "approve",
            "say yes to a call",
            "approvals:approve",
            (
                _APPROVAL,
                argument(
                    "--session", action="store_true", help="also to what ozzie approvals show says of the session"
                ),
                argument("--yes", action="store_true", help="without asking back, also where it can't be undone"),
            ),
            speaks_for_a_person=True,
        ),
        Verb(
            "reject",
            "say no to a call; the turn goes on without it",
            "approvals:reject",
            (
                _APPROVAL,
                argument("comment", metavar="COMMENT", nargs="?", default="", help="why, for the model to read"),
            ),
        ),
        Verb("renew", "ask again for one that has expired", "approvals:renew", (_APPROVAL,)),
        Verb("revoke", "take back a yes for the session", "approvals:revoke", (_APPROVAL,)),
    ),
)

_KINDS = get_args(ArtifactKind)

_ARTIFACT = argument("artifact_id", metavar="ID", help="as ozzie artifacts list shows it")

ARTIFACTS = Group(
    "artifacts",
    "what tasks made, and results that were too long",
    (
        Verb(
            "list",
            "the newest first, every version",
            "artifacts:list_artifacts",
            (
                argument("--session", metavar="SESSION", help="only those of this session"),
                argument("--task", metavar="ID", help="only those of this task"),
                argument("--kind", action="append", default=[], choices=_KINDS, help="only these; it may be repeated"),
                limit(20, "artifacts"),
            ),
        ),
        Verb("show", "one with its size, versions, and where it came from", "artifacts:show_artifact", (_ARTIFACT,)),
        Verb(
            "get",
            "print the content of one, or save it",
            "artifacts:get_artifact",
            (_ARTIFACT, argument("--output", metavar="FILE", help="a new file (default: print it)")),
        ),
        Verb(
            "rm",
            "erase the content of one; that it was there stays known",
            "artifacts:erase_artifact",
            (_ARTIFACT, argument("--yes", action="store_true", help="don't ask whether to")),
        ),
    ),
)

LABELS = Group(
    "labels",
    "what of a session or a file came from outside",
    (
        Verb("show", "where that came from what a session has read", "labels:show_labels", (_SESSION,)),
        Verb("files", "the files of the project that were made from such content", "labels:list_files"),
        Verb(
            "clear",
            "take the labels off: you looked at it, and answer for it",
            "labels:clear_labels",
            (
                argument("session", metavar="SESSION", nargs="?", default="", help="of all that this session has read"),
                argument("--file", metavar="PATH", default="", help="of this file, as ozzie labels files names it"),
            ),
            speaks_for_a_person=True,
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
                argument("--follow", "-f", action="store_true", help="go on with what happens, also behind a restart"),
                limit(20, "events"),
                argument("--type", action="append", default=[], metavar="NAME", help="only these; it may be repeated"),
                argument("--session", metavar="SESSION", help="only those of this session"),
                argument("--task", metavar="ID", help="only those of this task"),
            ),
            more="With --json, --follow prints one object a line.",
        ),
        Verb(
            "verify",
            "check that no event was changed or removed after it was written",
            "verify:verify",
            (argument("--deep", action="store_true", help="the database's pages, the blobs and the tables too"),),
        ),
        Verb(
            "accept",
            "take the log as it is, though verify finds it changed or without its anchor",
            "verify:accept_log",
            (argument("--yes", action="store_true", help="don't ask whether to"),),
            more="For a restored backup, a copied folder, a lost anchor or key. It is noted beside the key.",
        ),
        Verb("rebuild", "have the tables made again from the log at the next start", "verify:rebuild"),
    ),
)

_PROJECT = argument("--project", metavar="FOLDER", help="the project folder (default: here)")

TRASH = Group(
    "trash",
    "files of a project that were moved to its trash",
    (
        Verb("list", "what lies there, the newest first", "trash:list_trash", (_PROJECT,)),
        Verb(
            "restore",
            "put a file back to where it lay",
            "trash:restore_from_trash",
            (argument("id", metavar="ID", help="as ozzie trash list shows it"), _PROJECT),
        ),
    ),
)

COMMANDS: tuple[Verb | Group, ...] = (
    ASK,
    STATUS,
    SESSIONS,
    TASKS,
    APPROVALS,
    ARTIFACTS,
    LABELS,
    TRASH,
    EVENTS,
    MODELS,
    TOOLS,
    SKILLS,
    POLICY,
    SECRETS,
    CONFIG,
    GATEWAY,
    WORKER,
)
