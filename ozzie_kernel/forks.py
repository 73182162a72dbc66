"""`%session turns` and `%session fork`: go on from an earlier turn, in a session and a notebook of its own."""

import os
from collections.abc import Sequence
from pathlib import Path

from ozzie_kernel.client import WHOLE_SESSION_TIMEOUT_S
from ozzie_kernel.magic import Host, moment
from ozzie_server_ext.domain.disk import expect_new, write_new
from ozzie_server_ext.domain.errors import InputError, OzzieError, Unavailable
from ozzie_server_ext.domain.json import objects
from ozzie_server_ext.render.forks import about_fork
from ozzie_server_ext.render.page import Block, Command, Strong, Table, paragraph

MOST_TURNS = 50
_SUFFIX = ".ipynb"
_USAGE = "%session fork 3 goes on from turn 3; behind it, the name of a new notebook may stand."


async def list_turns(rest: str, host: Host) -> Sequence[Block]:
    """Show the newest turns with their numbers. Raises InputError for an argument."""
    if rest:
        raise InputError("%session turns takes no argument.", hint="Run `%session turns` alone.", code="magic.usage")
    turns = objects((await host.ask("session.turns"))["items"])
    if not turns:
        return [paragraph("This session has no turn yet.")]
    page: list[Block] = [
        Table(
            heads=("Turn", "When", "Message", "State"),
            rows=[
                (str(turn["number"]), moment(turn["at"]), str(turn["title"]), str(turn["status"]).lower())
                for turn in turns[-MOST_TURNS:]
            ],
            right=frozenset({0}),
            flexible=frozenset({2}),
        )
    ]
    if len(turns) > MOST_TURNS:
        page.append(paragraph(f"These are the newest {MOST_TURNS} of {len(turns):,}."))
    page.append(paragraph("Go on from one in a notebook of its own: ", Command(f"%session fork {turns[-1]['number']}")))
    return page


async def fork(rest: str, host: Host) -> Sequence[Block]:
    """Fork this session, after the turn of a number or after the last one. In a notebook, the fork gets one too.

    Raises InputError for other arguments; Conflict if the notebook exists; Unavailable if it can't be written; the
    gateway's refusals.
    """
    turn, name = _parsed(rest)
    here = os.environ.get("JPY_SESSION_NAME", "")
    is_notebook = here.endswith(_SUFFIX)
    wanted: dict[str, object] = {"session_id": (await host.link()).session_id}
    if turn is not None:
        wanted["turn"] = turn
    path = None
    if is_notebook or name:
        path = Path.cwd() / name if name else _free(Path(here).stem if is_notebook else "fork", turn)
        expect_new(path)
        wanted["notebook"] = str(path)
    made = await host.ask("session.fork", wanted, as_user=True, timeout_s=WHOLE_SESSION_TIMEOUT_S)
    session = made["session"]
    assert isinstance(session, dict), "the fork is a session"
    if path is not None:
        try:
            write_new(path, str(made["notebook"]).encode())
        except OzzieError as error:
            hint = f"Go on in it: %session resume {session['id']}"
            raise Unavailable(f"The fork is made, but not its notebook: {error}", hint=hint) from None
    where = f" after turn {made['turn']}" if made["turn"] else ""
    page: list[Block] = [paragraph("The fork ", Strong(str(session["title"])), f" begins{where}. This session stays.")]
    page += about_fork(made)
    if path is None:
        page.append(paragraph("Go on in it: ", Command(f"%session resume {session['id']}")))
    else:
        page.append(paragraph("Open its notebook, with the cells up to there: ", Strong(path.name)))
    return page


def _parsed(rest: str) -> tuple[int | None, str]:
    """Return the number and the file's name; None and "" if they are left out."""
    words = rest.removeprefix("--from ").split()
    turn = int(words.pop(0)) if words and words[0].isdecimal() and len(words[0]) < 7 else None
    name = " ".join(words)
    if name and not name.endswith(_SUFFIX):
        raise InputError(f"{name[:40]} is no number of a turn, and no {_SUFFIX} file.", hint=_USAGE, code="magic.usage")
    return turn, name


def _free(stem: str, turn: int | None) -> Path:
    """Return the path of a file beside the notebook that is not there."""
    base = f"{stem}-from-turn-{turn}" if turn is not None else f"{stem}-fork"
    names = (f"{base}{'' if count == 1 else f'-{count}'}{_SUFFIX}" for count in range(1, 1000))
    return next((path for name in names if not (path := Path.cwd() / name).exists()), Path.cwd() / f"{base}{_SUFFIX}")
