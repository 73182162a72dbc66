"""How deep each node of a graph lies, and in which order those of one depth stand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """The nodes of each layer in their order; `depth` has the layer of each node. `parents` are the needs without those
    that closed a circle, `is_whole` whether there were none."""

    layers: tuple[tuple[int, ...], ...]
    depth: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]
    is_whole: bool


def layered(parents: Sequence[Sequence[int]]) -> Layers:
    """Layers by the longest way to each node, ordered by the median of its parents: one pass over nodes and needs.

    The same needs always make the same layers. A workflow with a circle is refused long before it is drawn; here the
    need that closes it is left out, so that what is wrong can still be looked at.
    """
    kept: list[tuple[int, ...]] = [()] * len(parents)
    depth = [0] * len(parents)
    for node, needs in _parents_first(parents):
        kept[node] = needs
        depth[node] = max((depth[need] + 1 for need in needs), default=0)
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for node, at in enumerate(depth):
        layers[at].append(node)
    # Where a node stands in its layer, as a share of it: parents may stand in layers of different length.
    share = [0.0] * len(parents)
    for layer in layers:
        wanted = {node: median(share[need] for need in kept[node]) if kept[node] else 0.0 for node in layer}
        layer.sort(key=lambda node: (wanted[node], node))
        for place, node in enumerate(layer):
            share[node] = (place + 0.5) / len(layer)
    is_whole = all(len(before) == len(after) for before, after in zip(parents, kept, strict=True))
    return Layers(layers=tuple(map(tuple, layers)), depth=tuple(depth), parents=tuple(kept), is_whole=is_whole)


def _parents_first(parents: Sequence[Sequence[int]]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each node after all that it needs. Without recursion: a chain may be a thousand steps long."""
    new, open_, closed = 0, 1, 2
    seen = [new] * len(parents)
    for root in range(len(parents)):
        if seen[root] != new:
            continue
        seen[root] = open_
        way: list[tuple[int, Iterator[int], list[int]]] = [(root, iter(parents[root]), [])]
        while way:
            node, rest, kept = way[-1]
            need = next(rest, None)
            if need is None:
                way.pop()
                seen[node] = closed
                yield node, tuple(kept)
            elif seen[need] != open_:
                kept.append(need)
                if seen[need] == new:
                    seen[need] = open_
                    way.append((need, iter(parents[need]), []))
