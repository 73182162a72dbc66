"""A workflow as a person sees it: its steps, what each waits for, how far each has come (UX §3)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

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
"""The words of UX §10, and those that only a step has."""

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
