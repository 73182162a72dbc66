"""`ozzie sessions fork`: go on from an earlier turn."""

import argparse
from pathlib import Path

from ozzie_server_ext.cli.http import post
from ozzie_server_ext.cli.sessions import find_session
from ozzie_server_ext.cli.terminal import print_result
from ozzie_server_ext.domain.disk import write_new
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.render.forks import about_fork
from ozzie_server_ext.render.page import page_text
from ozzie_server_ext.render.text import visible_label

FORKING_S = 150.0
"""How long to wait: half a minute longer than a fork may take in the gateway (`gateway.routes`)."""


def fork_session(options: argparse.Namespace) -> int:
    """Fork a session, and write its notebook if wanted. Raises as `find_session` does; InputError for another ending;
    Answered if there is no such turn, or it is not over; Unavailable if the notebook can't be written."""
    path = None if options.to is None else Path(options.to).absolute()
    if path is not None and path.suffix != ".ipynb":
        raise InputError(
            f"A fork's notebook is an .ipynb file, not {options.to}.",
            hint="Leave --to out for none.",
            code="input.file",
        )
    session = find_session(options.session)
    wanted = {
        "turn": options.turn,
        "event": options.event,
        "title": options.title,
        "notebook": None if path is None else str(path),
    }
    body = {name: value for name, value in wanted.items() if value is not None}
    fork = post(f"sessions/{session['id']}/fork", body, timeout_s=FORKING_S)
    made = fork["session"]
    if path is not None:
        write_new(path, fork.pop("notebook").encode())
    where = f" after turn {fork['turn']}" if fork["turn"] else ""
    head = f'"{visible_label(made["title"])}" begins{where}. Its id is {made["id"]}.'
    if path is None:
        then = f"Go on in it: ozzie sessions resume {made['id'][-6:]} TEXT"
    else:
        then = f"Its notebook, with the cells up to there: {visible_label(str(path))}"
    about = about_fork(fork)
    return print_result(fork, head, *([page_text(about)] if about else []), then, as_json=options.json)
