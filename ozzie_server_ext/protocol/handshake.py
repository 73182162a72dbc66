"""How a kernel or a command finds the gateway: a private file in Jupyter's runtime folder.

The file holds the gateway's address and a token of its own; only the user can read it (mode 0600). It is a file because
other processes of the user could read an environment.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.protocol.jsontext import dumps, loads_object
from ozzie_server_ext.protocol.owner import owner_pid, process_alive

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """`url`: the server's base, slash at its end. `home`: the absolute `OZZIE_PATH`. `started`: epoch seconds."""

    v: int
    url: str
    token: str
    pid: int
    home: str
    started: float

    def __repr__(self) -> str:  # the token stays out of logs and tracebacks
        return f"Handshake(url={self.url!r}, pid={self.pid}, home={self.home!r})"


def handshake_path(runtime_dir: Path, pid: int) -> Path:
    return runtime_dir / f"ozzie-{pid}.json"


def write_handshake(path: Path, handshake: Handshake) -> None:
    """Write the file so that nobody else can read it at any moment, nor see half of it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(dumps(encode(handshake)))
    fresh.replace(path)


def find_handshakes(runtime_dir: Path, home: Path) -> Iterator[Handshake]:
    """Yield the gateways of `home` whose processes are alive, newest first. They may not answer."""
    found: list[Handshake] = []
    for raw in _raw_handshakes(runtime_dir):
        try:
            handshake = decode(Handshake, raw)
        except InputError:
            continue
        if handshake.v == VERSION and Path(handshake.home) == home and process_alive(handshake.pid):
            found.append(handshake)
    yield from sorted(found, key=lambda handshake: handshake.started, reverse=True)


def find_other_versions(runtime_dir: Path, home: Path) -> list[int]:
    """Return the processes of living gateways of `home` whose handshakes are of another version."""
    return [
        pid
        for raw in _raw_handshakes(runtime_dir)
        if raw.get("v") != VERSION
        and raw.get("home") == str(home)
        and isinstance(pid := raw.get("pid"), int)
        and process_alive(pid)
    ]


def _raw_handshakes(runtime_dir: Path) -> Iterator[JsonObject]:
    """Yield the content of the handshake files that only this user can have written."""
    for path in runtime_dir.glob("ozzie-*.json"):
        try:
            info = path.stat()
            if info.st_uid != os.getuid() or info.st_mode & 0o077:
                continue  # another user could have put it there
            yield loads_object(path.read_bytes())
        except (OSError, InputError):
            continue


def remove_dead_handshakes(runtime_dir: Path) -> None:
    """Remove the files of gateways that were killed: another process could get the same pid, or the same port."""
    for path in runtime_dir.glob("ozzie-*.json"):
        number = path.stem.removeprefix("ozzie-")
        if number.isdecimal() and not process_alive(int(number)):
            path.unlink(missing_ok=True)


def find_owner(runtime_dir: Path, home: Path) -> Handshake | None:
    """Return the handshake of the process that holds the lock of `home`, once it has written it. An older one could
    name a port that belongs to somebody else by now."""
    owner = owner_pid(home)
    return next((found for found in find_handshakes(runtime_dir, home) if found.pid == owner), None)
