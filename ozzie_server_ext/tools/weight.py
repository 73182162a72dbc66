"""How much a result is, found out before anything is made of it (THREATS 17)."""

from collections.abc import Mapping
from typing import Any

from ozzie_server_ext.tools.base import ToolFailed

MAX_RESULT = 4 << 20
"""In characters: what JSON of it is made, searched for secrets and kept of. More is for a file, not for a result."""
MAX_ITEMS = 500_000
"""Of the values in a result, at whatever depth."""
LIGHT_ITEMS = 500
LIGHT = 4096
"""What is looked at at once and not beside the loop: so many characters in so many values."""


class TooLarge(ToolFailed):
    """The tool gave back more than is taken from any. Where it had an effect, that was had."""

    code = "tool.too_large"


def is_light(result: Any) -> bool:
    """Whether it is so little that it takes no time."""
    return _weighs_at_most(result, LIGHT, LIGHT_ITEMS)


def expect_bearable(result: Any) -> None:
    """Raises TooLarge; the time that it takes is bounded too."""
    if not _weighs_at_most(result, MAX_RESULT, MAX_ITEMS):
        raise TooLarge(
            f"It gave back more than {MAX_RESULT >> 20} MiB, or more than {MAX_ITEMS:,} values, and that is not taken. "
            "Ask for less at once."
        )


def _weighs_at_most(result: Any, characters: int, items: int) -> bool:
    waiting: list[Any] = [result]
    while waiting:
        value = waiting.pop()
        items -= 1
        match value:
            case str():
                characters -= len(value)
            case Mapping():
                items -= len(value)
                if items < 0:
                    return False
                waiting.extend(value.keys())
                waiting.extend(value.values())
            case list() | tuple():
                if len(value) > items:
                    return False
                waiting.extend(value)
            case _:
                pass
        if characters < 0 or items < 0:
            return False
    return True
