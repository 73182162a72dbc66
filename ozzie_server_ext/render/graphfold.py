"""A workflow as a person sees it, folded from the frames of its task; pure, beside `render.turn`'s fold (UX §3)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from ozzie_server_ext.render.graphview import GraphStep, GraphView, Move
from ozzie_server_ext.render.text import cut_end

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
    """A call that only reads began and ended in one: then that says how long it took."""
    call = payload.get("call")
    if not isinstance(call, Mapping) or step.state == "Working":
        return step
    took = timedelta(milliseconds=float(call.get("duration_ms", 0)))
    return _started(step, payload, ts - took if ts else None)


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
