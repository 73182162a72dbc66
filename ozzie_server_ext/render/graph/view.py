"""A workflow as a person sees it: its steps, their progress, and the words for that.

Pure: `fold_graph` makes a `GraphView` from the frames of a task, like `render.turnfold` makes a turn.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from ozzie_server_ext.render.text import cut_end, duration, elapsed, money

StepState: TypeAlias = Literal[
    "Waiting",
    "Working",
    "Waiting for you",
    "Waiting for your answer",
    "Needs a decision",
    "Done",
    "Failed",
    "Skipped",
    "Stopped",
    "Paused",
]
"""The states of a task, and those that only a step has."""

SETTLED: frozenset[StepState] = frozenset({"Done", "Failed", "Skipped", "Stopped"})
ASKING: frozenset[StepState] = frozenset({"Waiting for you", "Waiting for your answer", "Needs a decision"})
PROBLEMS: frozenset[StepState] = frozenset({"Failed", *ASKING})
"""What needs a person's attention: never hidden in a stack or a dot."""

# The state of several steps together: the first of these that one of them has.
_FIRST: tuple[StepState, ...] = (
    "Needs a decision",
    "Waiting for you",
    "Waiting for your answer",
    "Failed",
    "Working",
    "Paused",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphStep:
    """One step, or one state of a state machine. `cost` is in 1e-9 USD, a lower bound if `cost_known` is false; `note`
    is its own summary ("14 files", "3 of 8"), `problem` why it failed; `visits` how often a state machine entered it.
    The drawing depends only on `step_id`, `needs` and `skill`."""

    step_id: str
    title: str
    state: StepState = "Waiting"
    needs: tuple[str, ...] = ()
    skill: str = ""
    model: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cost: int = 0
    cost_known: bool = True
    note: str = ""
    attempt: int = 0
    attempts: int = 1
    visits: int = 0
    problem: str = ""
    task_id: str = ""

    @property
    def is_settled(self) -> bool:
        return self.state in SETTLED

    def seconds(self, now: datetime | None = None) -> float | None:
        """Return how long it took or has been running; None if that is unknown."""
        end = self.finished_at or (None if self.is_settled or self.state == "Paused" else now)
        if self.started_at is None or end is None:
            return None
        return max((end - self.started_at).total_seconds(), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A transition between two states of a state machine."""

    source: str
    to: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphView:
    """One workflow. Ids of steps are unique; needs of unknown steps are ignored. `moves` and `current` belong to a
    state machine, which begins in its first step. While it `is_held`, no step begins."""

    name: str
    kind: Literal["dag", "fsm"] = "dag"
    steps: tuple[GraphStep, ...]
    moves: tuple[Move, ...] = ()
    current: str = ""
    is_held: bool = False

    @property
    def settled(self) -> int:
        """How many steps have ended, in any way, also by being skipped."""
        return sum(step.is_settled for step in self.steps)

    @property
    def counts(self) -> str:
        """Ended steps of all: "6 of 9"."""
        return f"{self.settled:,} of {len(self.steps):,}"

    @property
    def running(self) -> int:
        return sum(step.state == "Working" for step in self.steps)

    @property
    def failed(self) -> int:
        return sum(step.state == "Failed" for step in self.steps)

    @property
    def asking(self) -> int:
        """How many steps wait for a person."""
        return sum(step.state in ASKING for step in self.steps)

    @property
    def problems(self) -> tuple[GraphStep, ...]:
        """The steps that need attention, in order."""
        return tuple(step for step in self.steps if step.state in PROBLEMS)

    @property
    def state(self) -> StepState:
        """The workflow in one word: paused if it is held, unless a person has to answer. A state machine has the state
        of its current step, as others may never be reached."""
        word = self._own_state
        return "Paused" if self.is_held and word not in ASKING else word

    @property
    def _own_state(self) -> StepState:
        if self.kind == "fsm":
            current: StepState | None = next((step.state for step in self.steps if step.step_id == self.current), None)
            if current is not None:
                return current
        return state_of_all(step.state for step in self.steps)


def state_of_all(states: Iterable[StepState]) -> StepState:
    """Return several steps in one word: a question first, then a failure, then work or a pause; else how they ended or
    began."""
    found: set[StepState] = set(states)
    for state in _FIRST:
        if state in found:
            return state
    if "Waiting" in found:
        return "Waiting" if found == {"Waiting"} else "Working"
    if "Stopped" in found:
        return "Stopped"
    return "Skipped" if found == {"Skipped"} else "Done"


def needs_of(view: GraphView) -> list[tuple[int, ...]]:
    """Return the steps that each needs, without itself and unknown ones. A state needs the states that are reached
    before it and have a move to it."""
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
    """Return the indexes of the states, in the order in which moves reach them from the first; then unreached ones."""
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
    """Return the index of each step; of two with one id, which is not allowed, the first."""
    return {step.step_id: index for index, step in reversed(list(enumerate(steps)))}


def _known(steps: Sequence[GraphStep]) -> list[tuple[int, ...]]:
    place = places(steps)
    return [
        tuple(dict.fromkeys(place[need] for need in step.needs if place.get(need, index) != index))
        for index, step in enumerate(steps)
    ]


SMALLEST_STACK = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups of steps, and the groups that each needs; a group of a single step has no name."""

    steps: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]


def stacked(steps: Sequence[GraphStep], needs: Sequence[tuple[int, ...]]) -> Groups:
    """Group six or more steps with the same skill, needs and children into a stack; leave the others single."""
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
    """Return one group for each key, in order of appearance; needs within a group are dropped."""
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


COST_UNKNOWN = "cost unknown"
_NAMED = 2


def as_one(steps: Sequence[GraphStep], name: str = "") -> GraphStep:
    """Merge several steps into one called `name`, whose note counts the ended and failed ones."""
    first = steps[0]
    if len(steps) == 1:
        return replace(first, title=name or first.title)
    starts = [step.started_at for step in steps if step.started_at]
    ends = [step.finished_at for step in steps if step.finished_at]
    settled = sum(step.is_settled for step in steps)
    return replace(
        first,
        title=name or first.title,
        state=state_of_all(step.state for step in steps),
        needs=tuple(dict.fromkeys(need for step in steps for need in step.needs)),
        model=first.model if len({step.model for step in steps}) == 1 else "",
        started_at=min(starts, default=None),
        finished_at=max(ends, default=None) if settled == len(steps) else None,
        cost=sum(step.cost for step in steps),
        cost_known=all(step.cost_known for step in steps),
        note=counted(steps),
        attempt=0,
        problem=next((step.problem for step in steps if step.problem), ""),
    )


def counted(steps: Sequence[GraphStep]) -> str:
    """Return the counts of several steps: "28 of 60, 2 failed"; "" once all went well."""
    settled = sum(step.is_settled for step in steps)
    failed = sum(step.state == "Failed" for step in steps)
    asking = sum(step.state in ASKING for step in steps)
    counts = [f"{settled:,} of {len(steps):,}"] if settled < len(steps) or failed else []
    counts += [f"{failed:,} failed"] if failed else []
    return ", ".join([*counts, *([f"{asking:,} waiting for you"] if asking else [])])


def titles(view: GraphView, named: Iterable[tuple[tuple[str, ...], str]]) -> dict[str, str]:
    """Return the name of each step in sentences: that of its group if it has one, else its title."""
    called = {step.step_id: step.title for step in view.steps}
    return called | {each: name for ids, name in named if name for each in ids}


def awaited(step: GraphStep, steps: Mapping[str, GraphStep], called: Mapping[str, str]) -> list[str]:
    """Return what has to end before this step, the longest text first: "After check claims and merge", "After check
    claims + 1"; [] if nothing has."""
    names = [called[each] for each in step.needs if each in steps and not steps[each].is_settled]
    names = list(dict.fromkeys(names))
    if len(names) < 2:
        return [f"After {name}" for name in names]
    whole = f"{names[0]} and {len(names) - 1} more" if len(names) > _NAMED else " and ".join(names)
    return [f"After {whole}", f"After {names[0]} + {len(names) - 1}"]


def second_lines(step: GraphStep, after: Sequence[str], now: datetime | None = None) -> Iterator[str]:
    """Yield the second line of a node, longest first: without room, model, cost and note are dropped in turn."""
    match step.state:
        case "Waiting":
            yield from after or ("Waiting",)
        case "Waiting for you" | "Waiting for your answer" | "Needs a decision":
            yield step.state
        case "Skipped":
            yield "Skipped"
        case "Paused":
            note = step.note or tried(step) or "Paused"
            yield from (" · ".join(filter(None, [note, time_of(step)])), note)
        case "Failed":
            yield step.problem or (step.note or "Failed")
        case "Working" | "Done" | "Stopped":
            took, model, note, cost = time_of(step, now), step.model, step.note or tried(step), cost_of(step)
            word = step.state if step.state == "Stopped" or not took else ""
            for parts in ([word, took, model, note, cost], [word, took, note, cost], [word, took, note], [word, took]):
                yield " · ".join(filter(None, parts))


def time_of(step: GraphStep, now: datetime | None = None) -> str:
    """Return "2.1 s", or "6 s" while it runs; "" if nothing was measured."""
    seconds = step.seconds(now)
    if seconds is None:
        return ""
    return duration(seconds) if step.finished_at else elapsed(seconds)


def cost_of(step: GraphStep) -> str:
    """Return the cost if there is any; an unknown cost never reads as nothing."""
    if not step.cost_known:
        return COST_UNKNOWN
    return money(step.cost) if step.cost else ""


def tried(step: GraphStep) -> str:
    """Return "attempt 2 of 3", from the second one on."""
    return f"attempt {step.attempt} of {step.attempts}" if step.attempt > 1 else ""


def trouble(step: GraphStep) -> str:
    """Return what needs attention, in a few words: why a step failed, or that it waits for a person."""
    if step.state != "Failed":
        return step.state
    attempts = f"{step.attempt} of {step.attempts} attempts" if step.attempt > 1 else ""
    return "; ".join(filter(None, (step.problem.removesuffix("."), attempts))) or "Failed"


def summary(view: GraphView) -> list[str]:
    """Return "150 of 200", "12 running", "2 failed", "1 waiting for you"."""
    counts = [view.counts]
    counts += [f"{view.running:,} running"] if view.running else []
    counts += [f"{view.failed:,} failed"] if view.failed else []
    return counts + ([f"{view.asking:,} waiting for you"] if view.asking else [])


MOST_NOTE = 60
"""Characters of a tool's own summary in a note."""

_Change: TypeAlias = Callable[[GraphStep, Mapping[str, Any], datetime | None], GraphStep]


def fold_graph(
    view: GraphView | None, canonical: str, payload: Mapping[str, Any], ts: datetime | None = None
) -> GraphView | None:
    """Return the workflow after one frame; None while the task runs none. A skill of one agent has no graph."""
    if canonical == "skill.started":
        return _begun(payload)
    if view is None:
        return None
    if canonical in ("task.cancelled", "task.failed"):
        return replace(view, steps=tuple(_cut_off(step, ts) for step in view.steps))
    change = _CHANGES.get(canonical)
    if change is None:
        return view
    step_id = str(payload.get("step_id", ""))
    steps = tuple(change(step, payload, ts) if step.step_id == step_id else step for step in view.steps)
    current = step_id
    if view.kind == "fsm" and payload.get("to"):
        current = str(payload["to"])
        steps = tuple(_final(step) if step.step_id == current and _is_last(view, current) else step for step in steps)
    return replace(view, steps=steps, current=current if view.kind == "fsm" else "")


def _begun(payload: Mapping[str, Any]) -> GraphView | None:
    if payload.get("kind") == "simple":
        return None
    planned = [step for step in payload.get("steps", ()) if isinstance(step, Mapping)]
    steps = tuple(
        GraphStep(
            step_id=str(step["step_id"]),
            title=str(step.get("title") or step["step_id"]),
            needs=tuple(map(str, step.get("needs", ()))),
            skill=str(step.get("skill", "")),
            model=str(step.get("model", "")),
        )
        for step in planned
    )
    moves = tuple(
        Move(source=str(step["step_id"]), to=str(to)) for step in planned for to in _texts(step.get("leads_to", ()))
    )
    kind = "fsm" if payload.get("kind") == "fsm" else "dag"
    current = steps[0].step_id if steps and kind == "fsm" else ""
    return GraphView(name=str(payload.get("skill", "")), kind=kind, steps=steps, moves=moves, current=current)


def _started(step: GraphStep, payload: Mapping[str, Any], ts: datetime | None) -> GraphStep:
    visit, attempt = _number(payload, "visit"), _number(payload, "attempt")
    return replace(
        step,
        state="Working",
        started_at=step.started_at if attempt > 1 else ts,
        finished_at=None,
        attempt=attempt,
        attempts=max(step.attempts, attempt),
        visits=visit,
        problem="",
        task_id=str(payload.get("task") or ""),
    )


def _completed(step: GraphStep, payload: Mapping[str, Any], ts: datetime | None) -> GraphStep:
    event, call = str(payload.get("event", "done")), payload.get("call")
    summed_up = str(call.get("summary", "")) if isinstance(call, Mapping) else str(payload.get("summary", ""))
    step = _made_at_once(step, payload, ts)
    return replace(step, state="Done", finished_at=ts, note=cut_end(summed_up, MOST_NOTE) if event == "done" else event)


def _failed(step: GraphStep, payload: Mapping[str, Any], ts: datetime | None) -> GraphStep:
    if payload.get("again_in_s") is not None:
        return replace(step, attempts=step.attempt + 1)
    step = _made_at_once(step, payload, ts)
    return replace(step, state="Failed", finished_at=ts, problem=str(payload.get("message", "")))


def _made_at_once(step: GraphStep, payload: Mapping[str, Any], ts: datetime | None) -> GraphStep:
    """Return a step whose call had no task of its own: the end says how long it took. In events of earlier versions,
    the end is also its start, unless a slow one had begun."""
    call, took_ms = payload.get("call"), payload.get("took_ms")
    if isinstance(took_ms, int | float):
        began = ts - timedelta(milliseconds=took_ms) if ts and step.attempt == 1 else step.started_at
        return replace(step, started_at=began, task_id="")
    if not isinstance(call, Mapping):
        return step
    if step.state != "Working":
        took = timedelta(milliseconds=float(call.get("duration_ms", 0)))
        step = _started(step, payload, ts - took if ts else None)
    return replace(step, task_id="")


def _skipped(step: GraphStep, payload: Mapping[str, Any], ts: datetime | None) -> GraphStep:
    return replace(step, state="Skipped")


def _cut_off(step: GraphStep, ts: datetime | None) -> GraphStep:
    """Return a step of a run that has ended: nothing continues."""
    return replace(step, state="Stopped", finished_at=ts) if step.state == "Working" else step


def _is_last(view: GraphView, step_id: str) -> bool:
    return not any(move.source == step_id for move in view.moves)


def _final(step: GraphStep) -> GraphStep:
    """Return a final state without anything to do; others report when they begin."""
    return replace(step, state="Done", visits=1)


def _number(payload: Mapping[str, Any], key: str) -> int:
    value = payload.get(key, 1)
    return value if isinstance(value, int) else 1


def _texts(value: object) -> Iterable[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else []


_CHANGES: dict[str, _Change] = {
    "step.started": _started,
    "step.completed": _completed,
    "step.failed": _failed,
    "step.skipped": _skipped,
}
