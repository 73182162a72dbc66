"""A run of a skill as it is drawn: what its own events tell of its steps, and what the tasks that carry them out do."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.tasks import TaskStatus
from ozzie_server_ext.render.graphview import GraphStep, GraphView, StepState
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.delegated import waiting_below

_ASKS: Mapping[TaskStatus, StepState] = {
    TaskStatus.WAITING_APPROVAL: "Waiting for you",
    TaskStatus.WAITING_INPUT: "Waiting for your answer",
}


@dataclass(frozen=True, slots=True)
class RunTasks:
    """The tasks that a run has delegated, by step, and those that wait for a person, by the task of the run above them:
    a step that runs another skill waits where a step of that does."""

    by_step: Mapping[str, Sequence[Row]]
    waiting: Mapping[str, Sequence[Row]]

    @classmethod
    async def of(cls, log: EventLog, task_id: TaskId) -> "RunTasks":
        found: dict[str, list[Row]] = defaultdict(list)
        for row in await log.rows("tasks", where={"parent_id": task_id}, order_by="task_id"):
            found[str(row["step_id"])].append(row)
        return cls(found, await waiting_below(log))

    @property
    def version(self) -> str:
        """Another one whenever anything of theirs has changed."""
        own = [str(row["latest_event_id"]) for rows in self.by_step.values() for row in rows]
        below = [f"{row['task_id']}{row['status']}" for rows in self.waiting.values() for row in rows]
        return " ".join([*own, *sorted(below)])

    def told(self, view: GraphView) -> GraphView:
        """`view` with what its steps have cost, who answers in them, and which of them wait for a person."""
        return replace(view, steps=tuple(self._step(step) for step in view.steps))

    def _step(self, step: GraphStep) -> GraphStep:
        rows = self.by_step.get(step.step_id, ())
        if not rows:
            return step
        latest = next((row for row in rows if row["task_id"] == step.task_id), rows[-1])
        state = step.state
        if state == "Working":
            asking = [latest, *self.waiting.get(str(latest["task_id"]), ())]
            state = next((_ASKS[status] for status in _ASKS if any(row["status"] == status for row in asking)), state)
        return replace(
            step,
            state=state,
            model=step.model or str(latest["model"]),
            cost=sum(cast(int, row["cost"]) for row in rows),
            cost_known=all(row["cost_known"] for row in rows),
        )
