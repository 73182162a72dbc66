"""The order of a workflow's steps: Kahn's algorithm, as the standard library has it (S1 "Workflow Skills", TK-4)."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter


def first_cycle(needs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """A way round among steps, each needed by the one behind it, the last one being the first again; empty where there
    is none. `needs` has every step with the steps that it needs."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def before(needs: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """Of every step all those that have ended when it begins. Steps that need themselves, also by way of others, are
    left out: they never begin."""
    found: dict[str, frozenset[str]] = {}
    sorter = TopologicalSorter(needs)
    try:
        order = tuple(sorter.static_order())
    except CycleError:
        return {}
    for step in order:
        direct = needs.get(step, ())
        found[step] = frozenset(direct).union(*(found[each] for each in direct))
    return found
