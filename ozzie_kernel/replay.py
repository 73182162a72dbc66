"""`%replay`: step through the record of a session, or check that it would be recorded again as it was."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from ozzie_kernel.client import WHOLE_SESSION_TIMEOUT_S, Refused
from ozzie_kernel.magic import Host
from ozzie_kernel.recording import Recording
from ozzie_server_ext.domain.disk import read_text
from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.domain.json import Json, JsonObject, objects
from ozzie_server_ext.render.page import Block, Command, Paragraph, Table, paragraph

_USAGE = "Write %replay, %replay TITLE --turn 3, or %replay --check --until 3."
_FILES = ("policy", "prompt", "skill")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a `%replay` line asks for. `session` is an id or a title, "" for the kernel's own session; `turn` the one
    to begin at, or the last one to check; `files` are paths of what a check tries, by kind."""

    session: str = ""
    turn: int | None = None
    is_check: bool = False
    files: Sequence[tuple[str, str]] = field(default=())


def parse(argument: str) -> Wanted:
    """Parse what follows `%replay`. Raises InputError."""
    try:
        words = shlex.split(argument)
    except ValueError:
        words = argument.split()  # a title may have an apostrophe
    is_check = "--check" in words
    number = "until" if is_check else "turn"
    named: list[str] = []
    turn: int | None = None
    files: list[tuple[str, str]] = []
    while words:
        word = words.pop(0)
        option = word.removeprefix("--")
        if word == "--check":
            continue
        if not word.startswith("-"):
            named.append(word)
            continue
        if option not in ("turn", "until", *_FILES) or word == option:
            raise _wrong(f"%replay has no {word[:40]}.")
        if option in _FILES and not is_check:
            raise _wrong(f"{word} goes with --check.")
        if option in ("turn", "until") and option != number:
            raise _wrong(f"{word} goes {'without' if is_check else 'with'} --check.")
        if not words:
            raise _wrong(f"{word} needs a value.")
        if option != "skill" and (turn is not None if option == number else option in dict(files)):
            raise _wrong(f"{word} stands there twice.")
        value = words.pop(0)
        if option in _FILES:
            files.append((option, value))
        elif value.isascii() and value.isdecimal() and len(value) < 7 and int(value):
            turn = int(value)
        else:
            raise _wrong(f"{value[:40]} is no number of a turn.")
    return Wanted(session=" ".join(named), turn=turn, is_check=is_check, files=tuple(files))


def _wrong(sentence: str) -> InputError:
    return InputError(sentence, hint=_USAGE, code="magic.usage")


async def check(wanted: Wanted, host: Host) -> Sequence[Block]:
    """Replay a session by the present code, and tell whether all comes out as it was recorded. Raises InputError if a
    file can't be read, and the gateway's refusals."""
    session_id = (await _find(wanted.session, host))[0]
    texts = [(kind, read_text(path)) for kind, path in wanted.files]
    tried: dict[str, Json] = {kind: text for kind, text in texts if kind != "skill"}
    params: JsonObject = {
        "session_id": session_id,
        **({} if wanted.turn is None else {"until": wanted.turn}),
        **tried,
        "skills": [text for kind, text in texts if kind == "skill"],
    }
    found = await host.ask("session.replay", params, as_user=True, timeout_s=WHOLE_SESSION_TIMEOUT_S)
    page: list[Block] = [Paragraph((str(found["sentence"]),))]
    if found["turn"] is not None:
        named = f" {shlex.quote(wanted.session)}" if wanted.session else ""
        page.append(paragraph("To see what happened then: ", Command(f"%replay{named} --turn {found['turn']}")))
    return page


async def recording(wanted: Wanted, host: Host) -> Recording:
    """Return the record of a session. Raises InputError if it has no such turn, and the gateway's refusals."""
    session_id, title = await _find(wanted.session, host)

    async def ask(method: str, params: JsonObject) -> JsonObject:
        return await host.ask(method, params, as_user=True)

    turns = objects((await ask("session.turns", {"session_id": session_id}))["items"])
    if not turns:
        raise InputError("This session has no turn yet.", hint="Run a message first.", code="replay.empty")
    if wanted.turn is not None and wanted.turn > len(turns):
        hint = f"Its turns have the numbers 1 to {len(turns)}." if len(turns) > 1 else "It has one turn."
        raise InputError(f"This session has no turn {wanted.turn}.", hint=hint, code="replay.turn")
    return Recording(session_id, title, turns, ask)


def overview(recording: Recording) -> Sequence[Block]:
    """Return the turns, for where there are neither buttons nor keys."""
    rows = [(str(number), title) for number, title in enumerate(recording.titles, 1)]
    return [
        Table(heads=("Turn", "Message"), rows=rows, right=frozenset({0}), flexible=frozenset({1})),
        paragraph("Run this cell in JupyterLab or in a console to step through them."),
    ]


async def _find(named: str, host: Host) -> tuple[str, str]:
    """Return the id and the title of a session, or of the kernel's own."""
    if not named:
        own = await host.ask("session.open")
        return str(own["session_id"]), str(own["title"])
    try:
        found = await host.ask("session.find", {"text": named}, as_user=True)
    except Refused as error:
        # The gateway's hint names a command for a terminal.
        hint = "`%session list` shows them." if error.code == NotFound.code else error.hint
        raise Refused(str(error), hint=hint, code=error.code) from None
    return str(found["session_id"]), str(found["title"])
