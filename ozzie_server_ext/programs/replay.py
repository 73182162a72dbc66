"""Replays one session for a gateway, apart from it: a replay keeps a processor busy.

`python -m ozzie_server_ext.programs.replay` reads a `replay.service.Errand` and writes a `replay.service.Answer`, both
as JSON. `replay.service` starts it. Once all is loaded it takes from itself what a replay must not need: the network,
other programs, and changing files anywhere but in the folder that it replays skills from.
"""

import logging
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.planes.child import limit_child, tie_to
from ozzie_server_ext.protocol.frames import ErrorInfo
from ozzie_server_ext.replay.outcome import Verdict
from ozzie_server_ext.replay.record import opened
from ozzie_server_ext.replay.replay import replay
from ozzie_server_ext.replay.service import Answer, Errand
from ozzie_server_ext.replay.verdict import verdict_of

NICE = 10
MAX_CPU_S = 600
MAX_MEMORY = 4 << 30

_ALLOWED = frozenset({"socket.__new__"})
"""What a loop needs for itself."""
_PREFIXES = ("socket.", "subprocess.", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "os.system", "os.startfile",
             "pty.", "os.kill", "ftplib.", "http.", "imaplib.", "smtplib.", "telnetlib.", "urllib.")  # fmt: skip
_CHANGES = frozenset(
    {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.chown", "os.link", "os.symlink",
     "os.utime", "os.setxattr", "os.removexattr"}
)  # fmt: skip
"""Audit events of what a replay never does (https://docs.python.org/3/library/audit_events.html)."""


def take_away(folder: Path) -> None:
    """Refuse, from now on and for good, the network, other programs, databases that are files, and changes of files
    outside a folder. This finds mistakes; it is no sandbox for code that wants out."""
    own = f"{folder.resolve()}{os.sep}"

    def refuse(event: str, args: tuple[Any, ...]) -> None:
        if event.startswith(_PREFIXES) and event not in _ALLOWED:
            raise PermissionError(f"A replay does not do this: {event}.")
        if event == "sqlite3.connect" and args[0] != ":memory:":
            raise PermissionError("A replay opens no database.")
        changes = event in _CHANGES or (event == "open" and _writes(args[1], args[2]))
        if changes and not _is_below(args[0], own):
            raise PermissionError("A replay changes no files.")

    sys.addaudithook(refuse)


def _is_below(path: Any, folder: str) -> bool:
    """Whether a path is in a folder; not if it is a number, or counts from another folder."""
    return isinstance(path, str | bytes) and os.path.realpath(os.fsdecode(path)).startswith(folder)


def _writes(mode: Any, flags: Any) -> bool:
    by_mode = isinstance(mode, str) and any(letter in mode for letter in "wax+")
    changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
    return by_mode or (isinstance(flags, int) and bool(flags & changing))


def main() -> None:
    errand = msgspec.json.decode(sys.stdin.buffer.read(), type=Errand)
    tie_to(errand.parent)
    limit_child(cpu_s=MAX_CPU_S, memory=MAX_MEMORY, nice=NICE)
    sys.stdout.buffer.write(msgspec.json.encode(_answer(errand)))


def _answer(errand: Errand) -> Answer:
    logging.disable(logging.CRITICAL)  # what a replay stops is no trouble of the gateway
    try:
        return Answer(verdict=_verdict(errand))
    except OzzieError as error:
        return Answer(refusal=ErrorInfo(code=error.code, message=str(error), hint=error.hint))


def _verdict(errand: Errand) -> Verdict:
    home, folder = Home(Path(errand.home)), Path(errand.folder)
    with opened(home) as reading:
        changes = errand.changes()
        take_away(folder)
        record = reading.record(SessionId(errand.session_id), until_turn=errand.until)
        return verdict_of(record, replay(record, home, changes, folder=folder))


if __name__ == "__main__":
    main()
