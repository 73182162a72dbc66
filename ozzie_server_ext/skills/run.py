"""The state of a run with steps, as a workflow or state machine, and what comes next. Pure."""

from collections import deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

from ozzie_server_ext.domain import steps
from ozzie_server_ext.domain.content import CLEAN
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import StepCompleted, StepFact
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.steps import StepRecord, StepStatus
from ozzie_server_ext.skills.checks import FAILED
from ozzie_server_ext.skills.conditions import read_condition
from ozzie_server_ext.skills.spec import FsmSkill, State, Step, Work, WorkflowSkill
from ozzie_server_ext.skills.templates import Output, Values


class Begin(msgspec.Struct, frozen=True):
    """Start an attempt at a step."""

    work: Work
    visit: int
    attempt: int


class Skip(msgspec.Struct, frozen=True):
    """Skip a step."""

    step_id: str
    visit: int
    reason: str


class Broken(msgspec.Struct, frozen=True):
    """A step can't begin: its condition can't be evaluated."""

    work: Work
    visit: int
    message: str


class Done(msgspec.Struct, frozen=True):
    """The run has its result."""

    output: Output


class Failed(msgspec.Struct, frozen=True):
    """The run has failed; `step_id` is the first step that failed, empty if none did."""

    message: str
    step_id: str = ""


Next = Begin | Skip | Broken
Ended = Done | Failed


NOTHING: Mapping[str, TaskId] = MappingProxyType({})


class WorkflowRun:
    """A workflow run, by Kahn's algorithm. `records` holds the state of each step."""

    def __init__(self, skill: WorkflowSkill, values: Values) -> None:
        self.skill = skill
        self.values = values
        self.steps = {step.id: step for step in skill.steps}
        self.records = {step.id: StepRecord(step_id=step.id) for step in skill.steps}
        self.running: set[str] = set()
        self.taken_up: Mapping[str, TaskId] = {}
        self._open_needs = {step.id: len(set(step.needs)) for step in skill.steps}
        self._needed_by: dict[str, list[str]] = {step.id: [] for step in skill.steps}
        for step in skill.steps:
            for need in set(step.needs):
                self._needed_by[need].append(step.id)
        self._free = deque(step.id for step in skill.steps if not step.needs)
        self._retrying: deque[str] = deque()
        self.settled = 0

    def apply(self, fact: StepFact, output: Output | None = None) -> StepRecord:
        """Apply one event; `output` is the whole output of a completed step. Raises IllegalStep."""
        record = self.records[fact.step_id] = steps.fold(self.records[fact.step_id], fact)
        self.running.discard(record.step_id)
        if record.status is StepStatus.RUNNING:
            self.running.add(record.step_id)
            self.taken_up = {each: task for each, task in self.taken_up.items() if each != record.step_id}
            self._dequeue(record.step_id)
        elif record.status is StepStatus.RETRYING:
            self._retrying.append(record.step_id)
        else:
            self._dequeue(record.step_id)
            self._settle(record, fact, output)
        return record

    def retried(self, taken_up: Mapping[str, TaskId] = NOTHING) -> None:
        """Retry failed steps and resume those that waited; `taken_up` are tasks of an earlier attempt to resume."""
        self.taken_up = dict(taken_up)
        for record in self.records.values():
            if record.status is StepStatus.FAILED and not self.steps[record.step_id].optional:
                self.records[record.step_id] = StepRecord(step_id=record.step_id, visit=record.visit + 1)
                self.settled -= 1
                self._free.append(record.step_id)

    def next(self) -> Iterator[Next]:
        """Yield what to do now, within `max_parallel`. Apply the outcome of each before taking the next."""
        while self._free:
            step = self.steps[self._free[0]]
            record = self.records[step.id]
            if why := self._why_skipped(step):
                yield Skip(step.id, record.visit, why)
                continue
            try:
                holds = step.when is None or read_condition(step.when).holds(self.values.find)
            except InputError as error:
                yield Broken(step, record.visit, f"Its condition can't be evaluated: {error}")
                continue
            if not holds:
                yield Skip(step.id, record.visit, f"Its condition does not hold: {step.when}")
                continue
            if len(self.running) >= self.skill.max_parallel:
                return
            yield Begin(step, record.visit, record.attempt + 1)
        while self._retrying and len(self.running) < self.skill.max_parallel:
            record = self.records[self._retrying.popleft()]
            yield Begin(self.steps[record.step_id], record.visit, record.attempt + 1)

    @property
    def ended(self) -> Ended | None:
        """The end of the run; None while anything runs or can run."""
        if self.running or self._free or self._retrying:
            return None
        for step in self.skill.steps:
            record = self.records[step.id]
            if record.status is StepStatus.FAILED and not step.optional:
                return Failed(f"{step.name}: {record.message}", step.id)
        if self.settled < len(self.steps):
            return Failed("Some of its steps need each other, so none of them can begin.")
        return Done(self._result())

    def _why_skipped(self, step: Step) -> str:
        skipped = bool(step.needs) and all(self.records[need].status is StepStatus.SKIPPED for need in step.needs)
        return "All that it needs was skipped." if skipped else ""

    def _dequeue(self, step_id: str) -> None:
        if self._free and self._free[0] == step_id:
            self._free.popleft()
        elif step_id in self._free:
            self._free.remove(step_id)
        elif step_id in self._retrying:
            self._retrying.remove(step_id)

    def _settle(self, record: StepRecord, fact: StepFact, output: Output | None) -> None:
        self.settled += 1
        if isinstance(fact, StepCompleted):
            self.values.outputs[record.step_id] = output or Output(fact.output)
        if record.status is StepStatus.FAILED and not self.steps[record.step_id].optional:
            return  # steps that need it never begin
        for other in self._needed_by[record.step_id]:
            self._open_needs[other] -= 1
            if not self._open_needs[other]:
                self._free.append(other)

    def _result(self) -> Output:
        """Return the output of the step that the skill names, else of the last steps: one as it is, several by id."""
        if self.skill.output is not None:
            return self.values.outputs.get(self.skill.output, Output(None))
        last = [step.id for step in self.skill.steps if not self._needed_by[step.id]]
        given = {step_id: self.values.outputs[step_id] for step_id in last if step_id in self.values.outputs}
        content = CLEAN
        for output in given.values():
            content = content | output.content
        if len(last) == 1:
            return Output(given[last[0]].value if given else None, content)
        return Output({step_id: output.value for step_id, output in given.items()}, content)


class FsmRun:
    """A state machine run, one state at a time. `records` holds each state's last visit."""

    def __init__(self, skill: FsmSkill, values: Values) -> None:
        self.skill = skill
        self.values = values
        self.steps = {state.id: state for state in skill.states}
        self.records: dict[str, StepRecord] = {}
        self.current = skill.first
        self.running: set[str] = set()
        self.taken_up: Mapping[str, TaskId] = {}
        self.settled = 0
        self.ended: Ended | None = None
        self._enter(skill.first)

    def apply(self, fact: StepFact, output: Output | None = None) -> StepRecord:
        """As `WorkflowRun.apply`."""
        record = self.records[fact.step_id] = steps.fold(self.records[fact.step_id], fact)
        self.running = {record.step_id} if record.status is StepStatus.RUNNING else set()
        self.taken_up = {each: task for each, task in self.taken_up.items() if each not in self.running}
        if isinstance(fact, StepCompleted):
            self.values.outputs[record.step_id] = output or Output(fact.output)
        if record.is_settled:
            self.settled += 1
            self._move(record)
        return record

    def retried(self, taken_up: Mapping[str, TaskId] = NOTHING) -> None:
        """As `WorkflowRun.retried`: enter the failed state again."""
        self.taken_up = dict(taken_up)
        if isinstance(self.ended, Failed):
            self.ended = None
            self._enter(self.current)

    def next(self) -> Iterator[Next]:
        """As `WorkflowRun.next`: begin the current state."""
        if self.ended is None and not self.running:
            record = self.records[self.current]
            yield Begin(self.steps[self.current], record.visit, record.attempt + 1)

    def leads_to(self, state: State, event: str, output: Output | None = None) -> str:
        """Return the target of the first move that fits `state` ending with that event, or "". `output` is its output,
        which is not recorded yet. Raises Unresolved, and UnfitValues if a condition can't be evaluated."""
        values = Values(self.values.given, self.values.content)
        values.outputs = self.values.outputs if output is None else {**self.values.outputs, state.id: output}
        for move in state.moves:
            matches = move.on == event or (move.on is None and event != FAILED)
            if matches and (move.when is None or read_condition(move.when).holds(values.find)):
                return move.to
        return ""

    def _enter(self, state_id: str) -> None:
        before = self.records.get(state_id)
        self.current = state_id
        self.records[state_id] = StepRecord(step_id=state_id, visit=before.visit + 1 if before else 1)
        state = self.steps[state_id]
        if state.final and not state.kinds:
            self.records[state_id] = StepRecord(step_id=state_id, status=StepStatus.COMPLETED)
            self._end(state)

    def _move(self, record: StepRecord) -> None:
        state = self.steps[record.step_id]
        if record.to:
            if self.settled >= self.skill.max_moves:
                self.ended = Failed(f"It did not come to an end within {self.skill.max_moves:,} moves.", state.id)
            else:
                self._enter(record.to)
        elif record.status is StepStatus.FAILED:
            self.ended = Failed(f"{state.name}: {record.message}", state.id)
        elif state.final:
            self._end(state)
        else:
            self.ended = Failed(f'{state.name} ended with "{record.event}", and no move leads on from there.', state.id)

    def _end(self, state: State) -> None:
        if state.outcome == "failed":
            self.ended = Failed(f"It ended in the state {state.name}.", state.id)
            return
        own = self.values.outputs.get(state.id)
        self.ended = Done(own or next(reversed(self.values.outputs.values()), Output(None)))
