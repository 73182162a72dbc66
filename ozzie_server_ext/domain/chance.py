"""Bytes of chance, many at once: to ask the system for a few at a time costs more than what they are for."""

import os
import threading

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
