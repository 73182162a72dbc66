"""A run of a state machine: in which state it is, and what comes next (TK-4). Pure, as `workflow_run`."""

from collections.abc import Iterator, Mapping

from ozzie_server_ext.domain import steps
from ozzie_server_ext.domain.events import StepCompleted, StepFact
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.steps import StepRecord, StepStatus
from ozzie_server_ext.skills.checks import FAILED
from ozzie_server_ext.skills.conditions import read_condition
from ozzie_server_ext.skills.decisions import Begin, Done, Ended, Failed, Next
from ozzie_server_ext.skills.spec import FsmSkill, State
from ozzie_server_ext.skills.values import Output, Values
from ozzie_server_ext.skills.workflow_run import NOTHING


class FsmRun:
    """Of a state machine: one state at a time. `records` are the states as they stand at their last visits."""

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
        """As `WorkflowRun.retried`: the state that failed is come to once more."""
        self.taken_up = dict(taken_up)
        if isinstance(self.ended, Failed):
            self.ended = None
            self._enter(self.current)

    def next(self) -> Iterator[Next]:
        """As `WorkflowRun.next`: the state that it is in."""
        if self.ended is None and not self.running:
            record = self.records[self.current]
            yield Begin(self.steps[self.current], record.visit, record.attempt + 1)

    def leads_to(self, state: State, event: str, output: Output | None = None) -> str:
        """The state that a move leads to once `state` ended with that event; empty where none fits. `output` is what it
        gave, which is not recorded yet. Raises Unresolved, and UnfitValues where a condition can't be told."""
        values = Values(self.values.given, self.values.content)
        values.outputs = self.values.outputs if output is None else {**self.values.outputs, state.id: output}
        for move in state.moves:
            fits = move.on == event or (move.on is None and event != FAILED)
            if fits and (move.when is None or read_condition(move.when).holds(values.find)):
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
