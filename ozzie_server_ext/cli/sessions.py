"""`ozzie sessions`: list, show, fork, resume, rename, archive, close and erase sessions."""

import argparse
import sys
from pathlib import Path

from ozzie_server_ext.cli.http import Object, delete, get, items, post
from ozzie_server_ext.cli.terminal import agreed, cell, cost, local_time, print_json, print_result, tokens
from ozzie_server_ext.domain.disk import expect_new, write_new
from ozzie_server_ext.domain.errors import InputError, NotFound, OzzieError, Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.frames import EventFrame
from ozzie_server_ext.render.console import console_lines
from ozzie_server_ext.render.forks import about_fork
from ozzie_server_ext.render.page import page_text
from ozzie_server_ext.render.text import LINE_WIDTH, columns, counted, visible_label, visible_prose, wrapped
from ozzie_server_ext.render.turnfold import new_turn
from ozzie_server_ext.render.turnview import TurnView

MAX_EVENTS = 100_000
"""Events of one turn; a turn has a few for each step."""

MOST_COUNTED = 1000
"""Artifacts that are counted before a session is erased."""
MOST_INDENTED = 10
"""Levels of forks that are told apart by their indent."""
EXPORTING_S = 150.0
"""How long to wait: half a minute longer than an export, or a fork's notebook, may take in the gateway
(`gateway.routes`)."""
ERASING_S = 660.0
"""How long to wait: a minute longer than an erasure may take in the gateway (`gateway.routes`)."""


def find_session(text: str) -> Object:
    """Find the session that a person names. Raises NotRunning, NotFound, InputError if several match."""
    shown = visible_label(text)[:40]
    matches = get("sessions", named=text)["items"] if len(text) <= 500 else []
    if not matches:
        raise NotFound(f'There is no session "{shown}".', hint="List them with ozzie sessions list.")
    if len(matches) > 1:
        ids = ", ".join(session["id"] for session in matches[:5])
        raise InputError(
            f'{len(matches)} sessions are called "{shown}".', hint=f"Name one by its id: {ids}.", code="input.session"
        )
    return matches[0]


def list_sessions(options: argparse.Namespace) -> int:
    """Print the sessions. Raises NotRunning, or Answered."""
    sessions = list(items("sessions", options.limit, status="archived" if options.archived else None))
    if options.json:
        print_json(sessions)
        return 0
    if not sessions:
        print("No sessions. Run a cell of an Ozzie notebook, or try: ozzie ask hello")
    for session in sessions:
        closed = "closed  " if session["status"] == "closed" else ""
        count = counted(session["message_count"], "message")
        print(
            f"{session['id'][-6:]}  {local_time(session['updated_at'])}  {cell(count, 13)}  "
            f"{cell(cost(session['cost']), 12)}  {closed}{cell(session['title'], 25 - len(closed))}".rstrip()
        )
    return 0


def show_session(options: argparse.Namespace) -> int:
    """Print a session's newest turns. Raises as `find_session` does."""
    session = find_session(options.session)
    turns = get(f"sessions/{session['id']}/turns")["items"]
    turns = turns[max(len(turns) - options.limit, 0) :]
    if options.json:
        whole = get(f"sessions/{session['id']}", limit=min(options.limit * 2, 500))
        tasks = list(items("tasks", options.limit, session_id=session["id"]))
        print_json({**whole, "tasks": tasks, "turns": turns})
        return 0
    print(visible_label(session["title"]) or "Untitled")
    used = [counted(session["message_count"], "message"), tokens(session["token_usage"]), cost(session["cost"])]
    facts = [session["status"], visible_label(session["chosen_model"] or session["model"]), *used]
    place = f" in {visible_label(session['project'])}" if session["project"] else ""
    print(f"{session['id']}{place}")
    print(", ".join(filter(None, facts)))
    for line in _forks(session):
        print(line)
    for turn in turns:
        print()
        _print_turn(turn)
    return 0


def _forks(session: Object) -> list[str]:
    """Return a line for each session of the tree of forks; none for a session alone."""
    branches: list[Object] = get(f"sessions/{session['id']}/tree")["items"]
    if len(branches) < 2:
        return []
    below: dict[str | None, list[Object]] = {}
    for branch in branches:
        below.setdefault(branch["parent"], []).append(branch)
    lines = ["Forks:"]
    pending = [(branch, 1) for branch in below.get(None, [])]
    while pending:
        branch, depth = pending.pop()
        title = "(erased)" if branch["status"] == "erased" else visible_label(branch["title"]) or "Untitled"
        mark = "  (this one)" if branch["id"] == session["id"] else ""
        lines.append(f"{'  ' * min(depth, MOST_INDENTED)}{branch['id'][-6:]}  {title}{mark}")
        pending += [(each, depth + 1) for each in reversed(below.get(branch["id"], []))]
    return lines


def fork_session(options: argparse.Namespace) -> int:
    """Fork a session, and write its notebook if wanted. Raises as `find_session` does; InputError for another ending;
    Answered if there is no such turn, or it is not over; Unavailable if the notebook can't be written."""
    path = None if options.to is None else Path(options.to).absolute()
    if path is not None and path.suffix != ".ipynb":
        hint = "Leave --to out for none."
        raise InputError(f"A fork's notebook is an .ipynb file, not {options.to}.", hint=hint, code="input.file")
    if path is not None:
        expect_new(path)
    session = find_session(options.session)
    wanted = {
        "turn": options.turn,
        "event": options.event,
        "title": options.title,
        "notebook": None if path is None else str(path),
    }
    body = {name: value for name, value in wanted.items() if value is not None}
    fork = post(f"sessions/{session['id']}/fork", body, timeout_s=EXPORTING_S)
    made = fork["session"]
    go_on = f"Go on in it: ozzie sessions resume {made['id'][-6:]} TEXT"
    if path is not None:
        try:
            write_new(path, fork["notebook"].encode())
        except OzzieError as error:
            raise Unavailable(f"The fork is made, but not its notebook: {error}", hint=go_on) from None
        fork["notebook"] = None
        go_on = f"Its notebook, with the cells up to there: {visible_label(str(path))}"
    where = f" after turn {fork['turn']}" if fork["turn"] else ""
    head = f'"{visible_label(made["title"])}" begins{where}. Its id is {made["id"]}.'
    about = about_fork(fork)
    return print_result(fork, head, *([page_text(about)] if about else []), go_on, as_json=options.json)


def resume_session(options: argparse.Namespace) -> int:
    """Make a session this terminal's, and send a message in it. Raises as `find_session` does."""
    session = post(f"sessions/{find_session(options.session)['id']}/resume", {"name": f"cli:{options.terminal}"})
    if options.message is not None:
        from ozzie_server_ext.cli.ask import Where, ask_in

        return ask_in(options.message, Where(options.terminal), model="", as_json=options.json)
    where = "" if options.terminal == "cli" else f" --session {options.terminal}"
    line = f'"{visible_label(session["title"])}" continues here: ozzie ask{where} TEXT'
    return print_result(session, line, as_json=options.json)


def rename_session(options: argparse.Namespace) -> int:
    """Change a session's title. Raises as `find_session` does."""
    return _changed(options, "rename", {"title": options.title}, "is its title now")


def archive_session(options: argparse.Namespace) -> int:
    """Archive a session. Raises as `find_session` does."""
    return _changed(options, "archive", {}, "is archived. A message in it brings it back")


def close_session(options: argparse.Namespace) -> int:
    """Close a session. Raises as `find_session` does."""
    return _changed(options, "close", {}, "is closed. Continue it with ozzie sessions resume")


def erase_session(options: argparse.Namespace) -> int:
    """Erase a session, after asking back. Raises as `find_session` does; Misused without a terminal to ask at; Answered
    while one of its turns runs."""
    session = find_session(options.session)
    title = visible_label(session["title"]) or "Untitled"
    artifacts = len(list(items("artifacts", MOST_COUNTED, session_id=session["id"])))
    has = [counted(session["message_count"], "message"), *([counted(artifacts, "artifact")] if artifacts else [])]
    question = f'Erase "{title}" with {" and ".join(has)}? It can\'t be undone.'
    facts = [f"  {session['id']}, last used {local_time(session['updated_at'])}"]
    if not options.yes and not agreed(question, about="erase it", facts=facts):
        print("Nothing was erased.", file=sys.stderr)
        return 1
    delete(f"sessions/{session['id']}", timeout_s=ERASING_S)
    line = f'"{title}" is erased. The log keeps that it was there, not what it said.'
    return print_result({"erased": session["id"]}, line, as_json=options.json)


def _changed(options: argparse.Namespace, verb: str, body: JsonObject, result: str) -> int:
    session = post(f"sessions/{find_session(options.session)['id']}/{verb}", body)
    return print_result(session, f'"{visible_label(session["title"])}" {result}.', as_json=options.json)


def _print_turn(turn: Object) -> None:
    from ozzie_kernel.cellturn import fold_frame  # loads tornado, which a list need not wait for

    if turn["status"] == "erased":
        print(f"Turn {turn['number']} was erased on {turn['at'][:10]}.")
        return
    view: TurnView = new_turn(task_id=turn["task_id"])
    message = turn["title"]
    for event in items("events", MAX_EVENTS, task_id=turn["task_id"]):
        if turn["until"] is not None and event["position"] > turn["until"]:
            break
        if event["type"] == "message.received":
            message = str(event["payload"]["text"])
        frame = EventFrame(
            event=event["name"],
            canonical=event["type"],
            position=event["position"],
            payload=event["payload"],
            ts=event["ts"],
            labels=tuple(event["labels"]),
        )
        view = fold_frame(view, frame)
    print(f"Turn {turn['number']}, {local_time(turn['at'])}, {visible_label(turn['by']) or 'you'}:")
    _print_wrapped([f"> {line}" for line in visible_prose(message).strip().split("\n")], "> ")
    print()
    _print_wrapped(console_lines(view)[1:] if view.is_final else console_lines(view), "")


def _print_wrapped(lines: list[str], indent: str) -> None:
    for line in lines:
        print("\n".join([line] if columns(line) <= LINE_WIDTH else wrapped(line, indent=indent)))
