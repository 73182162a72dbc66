"""Runs of skills and turns as pages show them: the graph, one step in full, and a cell's output."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, TypeAlias, cast

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.calls import Calls
from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.domain.events import (
    Event,
    MadeCall,
    SkillStarted,
    StepCompleted,
    StepFailed,
    StepStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    Transient,
)
from ozzie_server_ext.domain.ids import task_stream
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest import graph_shapes as shapes
from ozzie_server_ext.gateway.rest.graph_shapes import StepAttempt, StepCall, StepDetail
from ozzie_server_ext.gateway.rest.shapes import TaskId
from ozzie_server_ext.gateway.rest.steps import Steps
from ozzie_server_ext.gateway.rest.task_shapes import Step, TaskOutput, TaskState
from ozzie_server_ext.render.graph.geometry import WIDTH, Edge, Layout, Node
from ozzie_server_ext.render.graph.view import GraphStep, GraphView, as_one, awaited, titles, tried
from ozzie_server_ext.render.static import static_bundle
from ozzie_server_ext.render.toolrows import main_argument
from ozzie_server_ext.render.turnfold import fold
from ozzie_server_ext.render.turnview import TextPart
from ozzie_server_ext.skills.spec import Work
from ozzie_server_ext.skills.templates import Values, as_text, fill, resolve
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.feed import OpenReply
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.views import FoldedTurn, RunTasks
from ozzie_server_ext.tasks.workflows.executor import FailedAttempt, Outcome, Succeeded
from ozzie_server_ext.tasks.workflows.skill_log import LoadedRun, load_run
from ozzie_server_ext.tasks.workflows.step_ends import held_steps

Version: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{24}$", title="the version of an answer before")]


class TaskOutputQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`known`: the `version` of an earlier answer. If nothing has changed since, the answer is 204."""

    task_id: TaskId
    known: Version | None = None


async def get_task_output(call: Call, request: TaskOutputQuery) -> TaskOutput | None:
    """Show a task's turn as its cell does, as far as it is.

    After its end, this is what its kernel wrote into the notebook, or would have written.
    """
    task_id = ids.TaskId(request.task_id)
    row = await call.ozzie.tasks.get(task_id)
    session_id = None if row["session_id"] is None else ids.SessionId(str(row["session_id"]))
    # Before reading the events: a reply that is completed meanwhile is in one of them.
    written = [(reply.reply_id, tuple(reply.so_far())) for reply in _replies(call, task_id)]
    turn = await call.ozzie.turns.get(task_id, session_id)
    view = turn.view
    if view.is_final:
        row = await call.ozzie.tasks.get(task_id)  # it may have ended since
    # As of before reading the events: what has ended is shown as ended.
    status = cast("TaskState", row["status"])
    whole = {part.reply_id for part in view.parts if isinstance(part, TextPart) and part.done}
    said = [] if view.is_final else [item for reply_id, items in written if reply_id not in whole for item in items]
    version = _version(status, turn, said)
    if version == request.known:
        return None
    if view.is_final:
        from ozzie_server_ext.render.graph.output import graph_bundle  # what draws is loaded with the first graph

        data, metadata = static_bundle(view, turn.graph)
        picture: JsonObject = {} if turn.graph is None else {**graph_bundle(turn.graph)}
        return TaskOutput(
            task_id=task_id, status=status, version=version, data=data, metadata=metadata, graph=picture, html=""
        )
    for item in said:
        view = fold(view, item.type, item.payload)
    html = turn.live.html(view, call.ozzie.clock.now())
    return TaskOutput(task_id=task_id, status=status, version=version, data={}, metadata={}, graph={}, html=html)


def _replies(call: Call, task_id: ids.TaskId) -> list[OpenReply]:
    """Return the parts of the turn that are being written and are in no event yet."""
    return [reply for reply in call.ozzie.feed.open_replies if reply.task_id == task_id]


def _version(status: TaskState, turn: FoldedTurn, said: Sequence[Transient]) -> str:
    """Return a text that changes whenever anything but the time does. It is the same in every gateway, so that a page
    can go on asking after another took over."""
    digest = blake2b(f"{status} {turn.event_id}".encode(), digest_size=12)
    for item in said:
        # With its text: a reply that was reset may have grown to the same length again.
        text = f"\0{item.type}\0{item.payload['reply_id']}\0{item.payload.get('content', '')}"
        digest.update(text.encode("utf-8", "replace"))
    return digest.hexdigest()


Width: TypeAlias = Annotated[int, Meta(ge=100, le=4000, description="So many px there are for the picture.")]


class TaskGraphQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`known`: the `version` of an earlier answer. If the run hasn't changed since, the answer is 204."""

    task_id: TaskId
    width: Width = WIDTH
    known: Version | None = None


async def get_task_graph(call: Call, request: TaskGraphQuery) -> shapes.TaskGraph | None:
    """Show a run of a skill with steps: the state of each, and where it is drawn."""
    task_id = ids.TaskId(request.task_id)
    row = await call.ozzie.tasks.get(task_id)
    session_id = None if row["session_id"] is None else ids.SessionId(str(row["session_id"]))
    # In this order: what a step's task does is recorded before the run records the step's end.
    tasks = await RunTasks.of(call.ozzie.log, task_id)
    turn = await call.ozzie.turns.get(task_id, session_id)
    if turn.graph is None:
        raise NotFound("This task has no steps of a skill.", code="task.no_graph")
    said = f"{row['status']} {request.width} {turn.event_id} {tasks.version}"
    version = blake2b(said.encode(), digest_size=12).hexdigest()
    if version == request.known:
        return None
    view = await tasks.add_to(turn.graph, row, call.ozzie.log, call.ozzie.blobs)
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
        layout=_drawn(view, _layout(_structure(view), request.width)),
    )


def _structure(view: GraphView) -> GraphView:
    """Return what the layout depends on, which stays the same during the run."""
    steps = (GraphStep(step_id=each.step_id, title="", needs=each.needs, skill=each.skill) for each in view.steps)
    return GraphView(name="", kind=view.kind, steps=tuple(steps), moves=view.moves)


@lru_cache(maxsize=32)
def _layout(view: GraphView, width: int) -> Layout:
    from ozzie_server_ext.render.graph.layout import graph_layout

    return graph_layout(view, width=width)


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


StepId: TypeAlias = Annotated[
    str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", title="the id of a step, as its skill has it")
]
MOST_TEXT = 8_000
"""Characters shown of an instruction or a result."""


class RunStepQuery(msgspec.Struct, frozen=True, kw_only=True):
    task_id: TaskId
    step_id: StepId


async def get_run_step(call: Call, request: RunStepQuery) -> StepDetail:
    """Show one step of a run of a skill: its instruction and acceptance, input and result, and each attempt."""
    task_id = ids.TaskId(request.task_id)
    row = await call.ozzie.tasks.get(task_id)
    events = await call.ozzie.log.read_stream(task_stream(task_id))
    started = next((event.body for event in events if isinstance(event.body, SkillStarted)), None)
    planned = next((step for step in started.steps if step.step_id == request.step_id), None) if started else None
    if planned is None:
        raise NotFound(f"This task has no step {request.step_id}.", code="task.no_step")
    loaded = await load_run(call.ozzie.log, call.ozzie.blobs, task_id)
    work, values = loaded.run.steps[request.step_id], loaded.run.values
    attempts = _attempts(events, request.step_id)
    output = values.outputs.get(request.step_id)
    value = None if output is None else output.value
    if attempts and attempts[-1].finished_at is None and attempts[-1].task_id:
        attempts[-1], held = await _held(call, row, loaded, request.step_id, attempts[-1])
        value = held.value if isinstance(held, Succeeded) else value
    result = "" if value is None else as_text(value)
    completed = [each.body for each in events if isinstance(each.body, StepCompleted)]
    accepted = [fact.accepted for fact in completed if fact.step_id == request.step_id]
    return StepDetail(
        step_id=work.id,
        title=work.name,
        kind=planned.kind,
        instruction=_filled(_instruction(work), values)[:MOST_TEXT],
        acceptance=_filled(work.acceptance or "", values),
        accepted=accepted[-1] if accepted else "",
        input=_given(work, values),
        result=result[:MOST_TEXT],
        is_cut=len(result) > MOST_TEXT,
        attempts=attempts,
        calls=await _calls(call, attempts[-1].task_id) if attempts and attempts[-1].task_id else [],
        call=_made_at_once(events, request.step_id),
    )


def _instruction(work: Work) -> str:
    """Return the instruction as the skill has it."""
    if work.call is not None:
        return work.call.tool
    if work.ask is not None:
        return work.ask.question
    if work.approve is not None:
        return work.approve.question
    return work.instruction or work.skill or ""


def _given(work: Work, values: Values) -> Json:
    given: Json = work.call.args if work.call is not None else work.with_ if work.skill is not None else None
    if work.approve is not None and work.approve.show:
        given = {"show": work.approve.show}
    try:
        return resolve(given, values.find)
    except InputError:
        return given


def _filled(text: str, values: Values) -> str:
    """Return the instruction filled in with what is known; unfilled if that is not enough."""
    try:
        return fill(text, values.find)
    except InputError:
        return text


def _attempts(events: tuple[Event, ...], step_id: str) -> list[StepAttempt]:
    found: list[StepAttempt] = []
    for event in events:
        match event.body:
            case StepStarted() as fact if fact.step_id == step_id:
                attempt = StepAttempt(
                    visit=fact.visit,
                    attempt=fact.attempt,
                    state="Working",
                    message="",
                    started_at=time_text(event.ts),
                    finished_at=None,
                    task_id=str(fact.task or ""),
                )
                found.append(attempt)
            case StepCompleted() | StepFailed() as fact if fact.step_id == step_id and _is_new(fact, found):
                found.append(_attempt_at_once(fact, event.ts))
            case StepCompleted() | StepFailed() as fact if fact.step_id == step_id and found:
                found[-1] = _ended(found[-1], fact, event.ts)
            case _:
                pass
    return found


async def _held(
    call: Call, run: Row, loaded: LoadedRun, step_id: str, attempt: StepAttempt
) -> tuple[StepAttempt, Outcome | None]:
    """Return the running attempt, and how it ended if the run is paused."""
    log = call.ozzie.log
    rows = await log.rows("tasks", where={"task_id": attempt.task_id}, limit=1)
    row = rows[0] if rows else None
    step = (await held_steps(loaded, run, {step_id: row}, log, call.ozzie.blobs)).get(step_id)
    if step is None:
        return attempt, None
    told = replace(attempt, state="Paused", finished_at=cast("str | None", row["finished_at"]) if row else None)
    match step.outcome:
        case Succeeded() if not step.next:
            told = replace(told, state="Done")
        case FailedAttempt(message=message):
            told = replace(told, state="Failed", message=message)
        case _:
            pass
    return told, step.outcome


def _is_new(fact: StepCompleted | StepFailed, found: list[StepAttempt]) -> bool:
    """Return whether the attempt began and ended with this event, as earlier versions recorded it (ADR 44)."""
    goes_on = bool(found) and found[-1].finished_at is None
    return fact.call is not None and not goes_on


def _attempt_at_once(fact: StepCompleted | StepFailed, ended: datetime) -> StepAttempt:
    assert fact.call is not None
    begun = StepAttempt(
        visit=fact.visit,
        attempt=fact.attempt,
        state="Working",
        message="",
        started_at=time_text(ended - timedelta(milliseconds=fact.call.duration_ms)),
        finished_at=None,
        task_id="",
    )
    return _ended(begun, fact, ended)


def _ended(attempt: StepAttempt, fact: StepCompleted | StepFailed, ended: datetime) -> StepAttempt:
    if fact.took_ms is not None:  # its start is recorded with its end
        began = ended - timedelta(milliseconds=fact.took_ms)
        attempt = replace(attempt, started_at=time_text(began), task_id="")
    state, message = ("Done", fact.accepted) if isinstance(fact, StepCompleted) else ("Failed", fact.message)
    return replace(attempt, state=state, message=message, finished_at=time_text(ended))


def _made_at_once(events: tuple[Event, ...], step_id: str) -> StepCall | None:
    """Return the call of the latest attempt if it had no task."""
    found: StepCall | None = None
    calls = Calls()
    for event in events:
        call = calls.take(event.body)
        match event.body:
            case StepStarted() as fact if fact.step_id == step_id:
                found = None
            case StepCompleted() | StepFailed() as fact if fact.step_id == step_id and fact.call is not None:
                found = _step_call(fact.call, fact.call.rule, fact.call.summary, fact.call.duration_ms)
            case _ if call is not None and call.requested is not None and call.requested.step_id == step_id:
                ended = call.outcome if isinstance(call.outcome, ToolCallCompleted | ToolCallFailed) else None
                summary = ended.summary if isinstance(ended, ToolCallCompleted) else ""
                rule = call.decided.rule if call.decided is not None else ""
                found = _step_call(call.requested, rule, summary, ended.duration_ms if ended is not None else 0.0)
            case _:
                pass
    return found


def _step_call(made: MadeCall | ToolCallRequested, rule: str, summary: str, duration_ms: float) -> StepCall:
    return StepCall(
        name=made.name,
        args=made.args,
        argument=main_argument(made.args),
        duration_ms=duration_ms,
        rule=rule,
        summary=summary,
    )


async def _calls(call: Call, task_id: str) -> list[Step]:
    """Return the model and tool calls of the task that carries out the step."""
    steps = Steps()
    for event in await call.ozzie.log.read_stream(task_stream(ids.TaskId(task_id))):
        steps.take(event)
    return steps.all()
