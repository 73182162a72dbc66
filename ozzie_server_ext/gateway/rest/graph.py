"""`tasks/{task_id}/graph`: a run of a skill as a page draws it, laid out here (UX §3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, TypeAlias, cast

from msgspec import Meta

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.gateway.rest import graph_shapes as shapes
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.output import Version
from ozzie_server_ext.gateway.rest.shapes import TaskId
from ozzie_server_ext.gateway.rest.task_shapes import TaskState
from ozzie_server_ext.render.graph.geometry import WIDTH, Edge, Layout, Node
from ozzie_server_ext.render.graph.layout import graph_layout
from ozzie_server_ext.render.graph.view import GraphStep, GraphView, as_one, awaited, titles, tried
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.tasks.run_view import RunTasks

Width: TypeAlias = Annotated[int, Meta(ge=100, le=4000, description="So many px there are for the picture.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGraphQuery:
    """`known`: the `version` of the answer before. Where the run still is like that, the answer is 204."""

    task_id: TaskId
    width: Width = WIDTH
    known: Version | None = None


async def get_task_graph(call: Call, asked: TaskGraphQuery) -> shapes.TaskGraph | None:
    """A run of a skill with steps: how far each is, and where it is drawn."""
    task_id = ids.TaskId(asked.task_id)
    row = await call.ozzie.tasks.get(task_id)
    session_id = None if row["session_id"] is None else ids.SessionId(str(row["session_id"]))
    # In this order: what a step's task does stands in it before its end stands in the run's.
    tasks = await RunTasks.of(call.ozzie.log, task_id)
    turn = await call.ozzie.turns.get(task_id, session_id)
    if turn.graph is None:
        raise NotFound("This task has no steps of a skill.", code="task.no_graph")
    said = f"{row['status']} {asked.width} {turn.event_id} {tasks.version}"
    version = blake2b(said.encode(), digest_size=12).hexdigest()
    if version == asked.known:
        return None
    view = await tasks.told(turn.graph, row, call.ozzie.log, call.ozzie.blobs)
    return shapes.TaskGraph(
        task_id=task_id,
        status=cast(TaskState, row["status"]),
        version=version,
        name=view.name,
        kind=view.kind,
        state=view.state,
        current=view.current,
        settled=view.settled,
        running=view.running,
        failed=view.failed,
        asking=view.asking,
        steps=[_step(step) for step in view.steps],
        layout=_drawn(view, _layout(_structure(view), asked.width)),
    )


def _structure(view: GraphView) -> GraphView:
    """What of a run its layout hangs on, the same as long as it goes on."""
    steps = (GraphStep(step_id=each.step_id, title="", needs=each.needs, skill=each.skill) for each in view.steps)
    return GraphView(name="", kind=view.kind, steps=tuple(steps), moves=view.moves)


_layout = lru_cache(maxsize=32)(lambda view, width: graph_layout(view, width=width))


def _drawn(view: GraphView, layout: Layout) -> shapes.GraphLayout:
    steps = {step.step_id: step for step in view.steps}
    called = titles(view, ((node.step_ids, node.name) for node in layout.nodes if node.is_stack))
    return shapes.GraphLayout(
        form=layout.form,
        width=layout.width,
        height=layout.height,
        nodes=[_node(view, node, steps, called) for node in layout.nodes],
        edges=[_edge(edge) for edge in layout.edges],
    )


def _node(view: GraphView, node: Node, steps: Mapping[str, GraphStep], called: Mapping[str, str]) -> shapes.GraphNode:
    one = as_one([steps[each] for each in node.step_ids], node.name)
    after = awaited(one, steps, called) if view.kind == "dag" else ["Not reached yet"]
    return shapes.GraphNode(
        node_id=node.node_id,
        step_ids=list(node.step_ids),
        x=node.x,
        y=node.y,
        w=node.w,
        h=node.h,
        layer=node.layer,
        dots=[shapes.GraphDot(step_id=dot.step_id, x=dot.x, y=dot.y) for dot in node.dots],
        told=_step(one),
        after=after[-1] if after else "",
    )


def _edge(edge: Edge) -> shapes.GraphEdge:
    x, y = edge.label_at
    return shapes.GraphEdge(
        source=edge.source, to=edge.to, path=edge.path, is_back=edge.is_back, label=edge.label, label_x=x, label_y=y
    )


def _step(step: GraphStep) -> shapes.GraphStep:
    return shapes.GraphStep(
        step_id=step.step_id,
        title=step.title,
        state=step.state,
        needs=list(step.needs),
        skill=step.skill,
        model=step.model,
        started_at=_time(step.started_at),
        finished_at=_time(step.finished_at),
        cost=step.cost if step.cost_known else None,
        note=step.note or tried(step),
        attempt=step.attempt,
        attempts=step.attempts,
        visits=step.visits,
        problem=step.problem,
        task_id=step.task_id,
    )


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else time_text(moment)
