"""What each step of a workflow waits for, by its place among all; of a state machine, from where it is reached."""

from collections import defaultdict, deque
from collections.abc import Sequence

from ozzie_server_ext.render.graphview import GraphStep, GraphView, Move


def needs_of(view: GraphView) -> list[tuple[int, ...]]:
    """The steps that each needs, without itself and without what is not there. A state needs those that were reached
    before it and from which a move leads to it."""
    if view.kind == "dag":
        return _known(view.steps)
    turn = {view.steps[index].step_id: at for at, index in enumerate(reached(view.steps, view.moves))}
    ahead: dict[str, list[str]] = defaultdict(list)
    for move in view.moves:
        if move.source in turn and move.to in turn and turn[move.source] < turn[move.to]:
            ahead[move.to].append(move.source)
    place = places(view.steps)
    return [tuple(dict.fromkeys(place[source] for source in ahead[step.step_id])) for step in view.steps]


def reached(steps: Sequence[GraphStep], moves: Sequence[Move]) -> list[int]:
    """The places of the states, in the order in which the first one's moves come to them; then those that none does."""
    place = places(steps)
    ways: dict[int, list[int]] = defaultdict(list)
    for move in moves:
        if move.source in place and move.to in place:
            ways[place[move.source]].append(place[move.to])
    found: dict[int, None] = {}
    for root in range(len(steps)):
        waiting = deque([root])
        while waiting:
            index = waiting.popleft()
            if index not in found:
                found[index] = None
                waiting.extend(ways[index])
    return list(found)


def places(steps: Sequence[GraphStep]) -> dict[str, int]:
    """Where each step stands among all; of two with one id, which there must not be, the first."""
    return {step.step_id: index for index, step in reversed(list(enumerate(steps)))}


def _known(steps: Sequence[GraphStep]) -> list[tuple[int, ...]]:
    place = places(steps)
    return [
        tuple(dict.fromkeys(place[need] for need in step.needs if place.get(need, index) != index))
        for index, step in enumerate(steps)
    ]
