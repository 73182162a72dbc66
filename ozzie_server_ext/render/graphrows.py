"""The rows that a graph is drawn in: each line goes from one row to the next, in a lane where it passes a row."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TypeAlias

Lane: TypeAlias = tuple[bool, int]
"""Lines that share lanes come from one node, or (False) go to one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Items row by row: the nodes, and above their numbers the lanes. `parents` are an item's in the row before it,
    `chains` the items that the line from one node to another passes, both ends with it."""

    rows: list[list[int]]
    parents: list[list[int]]
    chains: dict[tuple[int, int], list[int]]


def wrapped_rows(layers: Sequence[Sequence[int]], sizes: Sequence[int], gap: int, room: int) -> list[list[int]] | None:
    """The layers, each broken into as many rows as it needs to fit `room`; None where a node alone does not."""
    rows: list[list[int]] = []
    for layer in layers:
        rows.append([])
        used = -gap
        for node in layer:
            if sizes[node] > room:
                return None
            used += gap + sizes[node]
            if used > room:
                rows.append([])
                used = sizes[node]
            rows[-1].append(node)
    return rows


def laned(rows: Sequence[Sequence[int]], parents: Sequence[Sequence[int]]) -> Rows:
    """The rows with their lanes, ordered by the median of their parents.

    A line that passes rows shares its lanes with the other long ones of its source or, where more come together there,
    of its target: there are never more lanes beside a row than nodes before or after it.
    """
    row_of = {node: at for at, row in enumerate(rows) for node in row}
    long = [(need, node) for node, needs in enumerate(parents) for need in needs if row_of[node] - row_of[need] > 1]
    out, into = Counter(source for source, _ in long), Counter(target for _, target in long)
    items = [list(row) for row in rows]
    before: list[list[int]] = [[] for _ in parents]
    chains: dict[tuple[int, int], list[int]] = {}
    lanes: dict[tuple[Lane, int], int] = {}
    for node, needs in enumerate(parents):
        for need in needs:
            chain = [need]
            lane = (True, need) if out[need] >= into[node] else (False, node)
            for at in range(row_of[need] + 1, row_of[node]):
                item = lanes.get((lane, at))
                if item is None:
                    item = lanes[lane, at] = len(before)
                    before.append([])
                    items[at].append(item)
                chain.append(item)
            chain.append(node)
            chains[need, node] = chain
            for source, to in pairwise(chain):
                if source not in before[to]:
                    before[to].append(source)
    _order(items, before)
    return Rows(rows=items, parents=before, chains=chains)


def _order(rows: list[list[int]], parents: Sequence[Sequence[int]]) -> None:
    share: dict[int, float] = {}
    for row in rows:
        own = {item: (place + 0.5) / len(row) for place, item in enumerate(row)}
        wanted = {item: median(share[each] for each in parents[item]) if parents[item] else own[item] for item in row}
        row.sort(key=lambda item: (wanted[item], own[item]))
        share |= {item: (place + 0.5) / len(row) for place, item in enumerate(row)}
