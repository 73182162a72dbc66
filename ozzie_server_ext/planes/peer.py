"""Who is at the other end of a Unix socket (THREATS 12)."""

import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")


def peer_uid(end: socket.socket) -> int | None:
    """The user of the process at the other end, as it was when it connected or listened; None where the system does
    not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    _, uid, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return uid


def is_trusted(uid: int | None) -> bool:
    """Whether a process of this user may talk with us: ourselves and root may, who can read our memory anyway."""
    return uid in (os.getuid(), 0)
