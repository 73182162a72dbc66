"""A value that shows itself to nobody who does not ask for it by name."""

import hmac
from typing import NoReturn, SupportsIndex

_SHOWN = "Secret(…)"


class Secret:
    """A secret's value. Text, reprs and formats of it are one fixed word; it can't be pickled, copied or made JSON.

    `reveal()` gives the value. Python's text can't be wiped: from then on the value lies in this process's memory for
    as long as the system leaves it there, and a debugger, a core dump or swap may hold it.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return _SHOWN

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        return _SHOWN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # a hash of it would tell two values apart

    def __getstate__(self) -> NoReturn:
        raise TypeError("A secret can't be pickled or copied.")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("A secret can't be pickled or copied.")
