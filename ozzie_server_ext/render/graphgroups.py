"""Which steps of a workflow are drawn as one: stacks of like siblings, and what each group needs."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ozzie_server_ext.render.graphview import GraphStep

SMALLEST_STACK = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups of steps, by their first step, and the groups that each needs; the name of one that has a single step is
    empty."""

    steps: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]


def stacked(steps: Sequence[GraphStep], needs: Sequence[tuple[int, ...]]) -> Groups:
    """Each step for itself, but six or more that have the same skill, needs and children are one stack."""
    children: dict[int, list[int]] = defaultdict(list)
    for index, needed in enumerate(needs):
        for each in needed:
            children[each].append(index)
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for index, step in enumerate(steps):
        same = (step.skill, frozenset(needs[index]), tuple(children[index])) if step.skill else index
        alike[same].append(index)
    key: list[Hashable] = list(range(len(steps)))
    for members in alike.values():
        if len(members) >= SMALLEST_STACK:
            for index in members:
                key[index] = members[0]
    return grouped(steps, needs, key)


def grouped(steps: Sequence[GraphStep], needs: Sequence[tuple[int, ...]], key: Sequence[Hashable]) -> Groups:
    """One group for each key, in the order in which they come; a need within a group is none."""
    members: dict[Hashable, list[int]] = defaultdict(list)
    for index, each in enumerate(key):
        members[each].append(index)
    place = {each: group for group, each in enumerate(members)}
    parents = [
        tuple(dict.fromkeys(place[key[need]] for index in indexes for need in needs[index] if key[need] != each))
        for each, indexes in members.items()
    ]
    return Groups(
        steps=tuple(tuple(steps[index].step_id for index in indexes) for indexes in members.values()),
        names=tuple(steps[indexes[0]].skill if len(indexes) > 1 else "" for indexes in members.values()),
        parents=tuple(parents),
    )
