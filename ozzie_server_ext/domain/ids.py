"""Names of things, as distinct types. All are ULIDs; a session's carries the prefix `sess_`."""

import os
import re
import threading
from typing import NewType

_ASKED = 4096


class Chance:
    """What the system gave and nobody has taken yet. No two get the same, not even behind a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given, self._at = b"", 0
        os.register_at_fork(after_in_child=self._forget)

    def take(self, count: int) -> bytes:
        """So many bytes, as good as the system's own."""
        with self._lock:
            if len(self._given) - self._at < count:
                self._given, self._at = os.urandom(max(_ASKED, count)), 0
            self._at += count
            return self._given[self._at - count : self._at]

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._given, self._at = b"", 0


CHANCE = Chance()
"""The process's own."""


SessionId = NewType("SessionId", str)
TaskId = NewType("TaskId", str)
EventId = NewType("EventId", str)
ReplyId = NewType("ReplyId", str)
CallId = NewType("CallId", str)
MessageId = NewType("MessageId", str)
PromptId = NewType("PromptId", str)
ArtifactId = NewType("ArtifactId", str)
ApprovalId = NewType("ApprovalId", str)
BlobRef = NewType("BlobRef", str)
"""Content address: `sha256:` and 64 hexadecimal digits."""

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_SHIFTS = range(120, -1, -10)


def is_ulid(text: str) -> bool:
    """Whether `text` is a ULID in its canonical form: 26 characters of Crockford's base 32, upper case."""
    return _ULID.fullmatch(text) is not None


def ulid_text(value: int) -> str:
    """The canonical form of a ULID's 128 bits: the milliseconds of its making, then 80 bits of chance. Two characters
    of Crockford's base 32 at a time."""
    return "".join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])


def is_session_id(text: str) -> bool:
    return text.startswith("sess_") and is_ulid(text[5:])


def session_stream(session_id: SessionId) -> str:
    """The stream that holds a session's own facts."""
    return f"session:{session_id}"


def task_stream(task_id: TaskId) -> str:
    """The stream that holds everything that happened in one task."""
    return f"task:{task_id}"


APPROVALS_STREAM = "approvals"
"""The stream that holds the answers to approvals that did not count."""

ARTIFACTS_STREAM = "artifacts"
"""The stream that holds which artifacts were erased."""


def worker_stream(plane: str) -> str:
    """The stream that holds what became of the processes of one plane."""
    return f"worker:{plane}"
