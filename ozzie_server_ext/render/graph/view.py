"""A workflow as a person sees it: its steps, how far each has come, and the words for that.

Pure: `fold_graph` makes a `GraphView` of the frames of a task, as `render.turn` makes a turn of them."""

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
"""States of a task, and those that only a step has."""

SETTLED: frozenset[StepState] = frozenset({"Done", "Failed", "Skipped", "Stopped"})
ASKING: frozenset[StepState] = frozenset({"Waiting for you", "Waiting for your answer", "Needs a decision"})
PROBLEMS: frozenset[StepState] = frozenset({"Failed", *ASKING})
"""What a person is to look at: nothing of it may be hidden in a stack or a dot."""

# What is said of several steps at once: the first of these that one of them is in.
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
    """One step, or one state of a state machine. `cost` is in 1e-9 USD, a lower bound where `cost_known` is false;
    `note` what it tells of itself ("14 files", "3 of 8"), `problem` why it failed; `visits` how often a state machine
    came to it. What is drawn where depends on `step_id`, `needs` and `skill` alone."""

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
        """How long it took or has been running; None where nothing was measured."""
        end = self.finished_at or (None if self.is_settled or self.state == "Paused" else now)
        if self.started_at is None or end is None:
            return None
        return max((end - self.started_at).total_seconds(), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A way from one state of a state machine to another."""

    source: str
    to: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphView:
    """One workflow. Ids of steps differ from each other; a need that no step has is as good as none. `moves` and
    `current` belong to a state machine, whose first step is where it begins. Where it `is_held`, no step begins."""

    name: str
    kind: Literal["dag", "fsm"] = "dag"
    steps: tuple[GraphStep, ...]
    moves: tuple[Move, ...] = ()
    current: str = ""
    is_held: bool = False

    @property
    def settled(self) -> int:
        """How many steps have come to their end, whichever. A skipped one has."""
        return sum(step.is_settled for step in self.steps)

    @property
    def counts(self) -> str:
        """ "6 of 9": settled of all."""
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
        """The steps that a person is to look at, in their order."""
        return tuple(step for step in self.steps if step.state in PROBLEMS)

    @property
    def state(self) -> StepState:
        """The workflow in one word: paused where it is held, unless a person is asked something. A state machine is as
        far as its current state: others may never be reached."""
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
    """Several steps in one word: what needs a person, then a failure, then work, or what is held; else how it ended or
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


COST_UNKNOWN = "cost unknown"
_NAMED = 2


def as_one(steps: Sequence[GraphStep], name: str = "") -> GraphStep:
    """Several steps told as if they were one called `name`: how many have settled or failed is its note."""
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
    """What of several steps is worth telling: "28 of 60, 2 failed"; empty once all went well."""
    settled = sum(step.is_settled for step in steps)
    failed = sum(step.state == "Failed" for step in steps)
    asking = sum(step.state in ASKING for step in steps)
    told = [f"{settled:,} of {len(steps):,}"] if settled < len(steps) or failed else []
    told += [f"{failed:,} failed"] if failed else []
    return ", ".join([*told, *([f"{asking:,} waiting for you"] if asking else [])])


def titles(view: GraphView, named: Iterable[tuple[tuple[str, ...], str]]) -> dict[str, str]:
    """What each step is called where it is told of: by its title, or by the name of its group where that has one."""
    called = {step.step_id: step.title for step in view.steps}
    return called | {each: name for ids, name in named if name for each in ids}


def awaited(step: GraphStep, steps: Mapping[str, GraphStep], called: Mapping[str, str]) -> list[str]:
    """ "After check claims and merge", "After check claims + 1": what is to settle before this step, fullest first;
    none where nothing is."""
    names = [called[each] for each in step.needs if each in steps and not steps[each].is_settled]
    names = list(dict.fromkeys(names))
    if len(names) < 2:
        return [f"After {name}" for name in names]
    whole = f"{names[0]} and {len(names) - 1} more" if len(names) > _NAMED else " and ".join(names)
    return [f"After {whole}", f"After {names[0]} + {len(names) - 1}"]


def second_lines(step: GraphStep, after: Sequence[str], now: datetime | None = None) -> Iterator[str]:
    """The second line of a node, fullest first: model, cost and note are dropped in turn where there is no room."""
    match step.state:
        case "Waiting":
            yield from after or ("Waiting",)
        case "Waiting for you" | "Waiting for your answer" | "Needs a decision":
            yield step.state
        case "Skipped":
            yield "Skipped"
        case "Paused":
            told = step.note or tried(step) or "Paused"
            yield from (" · ".join(filter(None, [told, time_of(step)])), told)
        case "Failed":
            yield step.problem or (step.note or "Failed")
        case "Working" | "Done" | "Stopped":
            took, model, note, cost = time_of(step, now), step.model, step.note or tried(step), cost_of(step)
            word = step.state if step.state == "Stopped" or not took else ""
            for parts in ([word, took, model, note, cost], [word, took, note, cost], [word, took, note], [word, took]):
                yield " · ".join(filter(None, parts))


def time_of(step: GraphStep, now: datetime | None = None) -> str:
    """ "2.1 s"; while it runs "6 s"; empty where nothing was measured."""
    seconds = step.seconds(now)
    if seconds is None:
        return ""
    return duration(seconds) if step.finished_at else elapsed(seconds)


def cost_of(step: GraphStep) -> str:
    """What it cost, where it cost anything; an unknown cost never reads as nothing."""
    if not step.cost_known:
        return COST_UNKNOWN
    return money(step.cost) if step.cost else ""


def tried(step: GraphStep) -> str:
    """ "attempt 2 of 3", from the second one on."""
    return f"attempt {step.attempt} of {step.attempts}" if step.attempt > 1 else ""


def trouble(step: GraphStep) -> str:
    """What is to be seen to, in a few words: why a step failed, or that it waits for a person."""
    if step.state != "Failed":
        return step.state
    attempts = f"{step.attempt} of {step.attempts} attempts" if step.attempt > 1 else ""
    return "; ".join(filter(None, (step.problem.removesuffix("."), attempts))) or "Failed"


def summary(view: GraphView) -> list[str]:
    """ "150 of 200", "12 running", "2 failed", "1 waiting for you"."""
    told = [view.counts]
    told += [f"{view.running:,} running"] if view.running else []
    told += [f"{view.failed:,} failed"] if view.failed else []
    return told + ([f"{view.asking:,} waiting for you"] if view.asking else [])


MOST_NOTE = 60
"""In characters, of what a tool said in a few words of what it gave."""

_Change: TypeAlias = Callable[[GraphStep, Mapping[str, Any], datetime | None], GraphStep]


def fold_graph(
    view: GraphView | None, canonical: str, payload: Mapping[str, Any], ts: datetime | None = None
) -> GraphView | None:
    """The workflow after one frame; None as long as the task runs none. A skill that is one agent has no graph."""
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
    said = str(call.get("summary", "")) if isinstance(call, Mapping) else ""
    step = _made_at_once(step, payload, ts)
    return replace(step, state="Done", finished_at=ts, note=cut_end(said, MOST_NOTE) if event == "done" else event)


def _failed(step: GraphStep, payload: Mapping[str, Any], ts: datetime | None) -> GraphStep:
    if payload.get("again_in_s") is not None:
        return replace(step, attempts=step.attempt + 1)
    step = _made_at_once(step, payload, ts)
    return replace(step, state="Failed", finished_at=ts, problem=str(payload.get("message", "")))


def _made_at_once(step: GraphStep, payload: Mapping[str, Any], ts: datetime | None) -> GraphStep:
    """Return a step whose call was made without a task: the end says how long it took, unless a slow one had begun."""
    call = payload.get("call")
    if not isinstance(call, Mapping):
        return step
    if step.state != "Working":
        took = timedelta(milliseconds=float(call.get("duration_ms", 0)))
        step = _started(step, payload, ts - took if ts else None)
    return replace(step, task_id="")


def _skipped(step: GraphStep, payload: Mapping[str, Any], ts: datetime | None) -> GraphStep:
    return replace(step, state="Skipped")


def _cut_off(step: GraphStep, ts: datetime | None) -> GraphStep:
    """Of a run that has ended: nothing goes on."""
    return replace(step, state="Stopped", finished_at=ts) if step.state == "Working" else step


def _is_last(view: GraphView, step_id: str) -> bool:
    return not any(move.source == step_id for move in view.moves)


def _final(step: GraphStep) -> GraphStep:
    """A final state in which nothing is left to do; one that does something says so when it begins."""
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
