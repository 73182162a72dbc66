"""Which way lines go between two rows: along the row in a track of their own, else straight on."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
_CLEAR, _APART = 8, 6


def hubs(pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[bool, int]]:
    """Which lines between two rows run together: those of the source or, where more come together there, the target."""
    out, into = Counter(source for source, _ in pairs), Counter(to for _, to in pairs)
    return {(source, to): (True, source) if out[source] >= into[to] else (False, to) for source, to in pairs}


def tracks(pairs: Sequence[tuple[int, int]], place: Mapping[int, int]) -> dict[tuple[int, int], int]:
    """The track of each line that turns, numbered from zero: lines that run together share one, others that would run
    over each other have different ones."""
    found = hubs(pairs)
    spans: dict[tuple[bool, int], list[int]] = {}
    for (source, to), hub in found.items():
        if place[source] != place[to]:
            spans.setdefault(hub, []).extend((place[source], place[to]))
    numbers = packed({hub: (min(ends), max(ends)) for hub, ends in spans.items()})
    return {pair: numbers[hub] for pair, hub in found.items() if hub in numbers}


def packed(spans: Mapping[Key, tuple[int, int]]) -> dict[Key, int]:
    """The lowest track for each span that no other one in it touches, from the left."""
    ends: list[int] = []
    numbers: dict[Key, int] = {}
    for each, (low, high) in sorted(spans.items(), key=lambda item: item[1]):
        number = next((at for at, end in enumerate(ends) if end + _CLEAR <= low), len(ends))
        ends[number : number + 1] = [high]
        numbers[each] = number
    return numbers


def track_count(numbers: Iterable[int]) -> int:
    return max(numbers, default=-1) + 1


def track_place(number: int, count: int, start: int, gap: int) -> int:
    """Where a track runs in the `gap` px from `start`: about the middle, closer together where there are many."""
    apart = min(_APART, (gap - 2 * _CLEAR) / max(count - 1, 1))
    return round(start + gap / 2 + (number - (count - 1) / 2) * apart)


def gap_for(count: int, least: int) -> int:
    """What `count` tracks need between two rows, where there is room in that direction."""
    return max(least, 2 * _CLEAR + _APART * (count - 1))
