"""What the JupyterLab extension knows of the protocol, made from the code: our wire shapes as a JSON schema, and the
operations of REST that it uses, each with its path, its input and its answer.

`make types` generates them and the TypeScript from the schema.
"""

import json
from collections.abc import Collection
from dataclasses import make_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args

import msgspec

from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    CheckpointSaved,
    Fact,
    MessageReceived,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    PromptAnswered,
    PromptRequested,
    StepFailed,
    StepSkipped,
    StepStarted,
    TaskFact,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.gateway.openapi import shape_name
from ozzie_server_ext.gateway.operation import Operation
from ozzie_server_ext.gateway.rest import shapes
from ozzie_server_ext.gateway.routes import REST
from ozzie_server_ext.gateway.ws import FeedSubscribe
from ozzie_server_ext.protocol.frames import EventFrame, Request, Response

EXTENSION = Path(__file__).resolve().parents[2] / "labextension"
SCHEMA = EXTENSION / "protocol.schema.json"
TABLE = EXTENSION / "src" / "api" / "operations.gen.ts"

FOLLOWED: tuple[type[Fact], ...] = (
    *get_args(TaskFact),
    MessageReceived,
    ModelCallStarted,
    ModelCallCompleted,
    ModelCallFailed,
    ToolCallRequested,
    ToolCallDecided,
    ToolCallStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallCancelled,
    ToolCallUncertain,
    ApprovalRequested,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalExpired,
    PromptRequested,
    PromptAnswered,
    CheckpointSaved,
    StepStarted,
    StepFailed,
    StepSkipped,
)
"""The facts that the page folds into its lists of tasks and of approvals."""

USED = (
    "get_health",
    "list_tasks",
    "get_task",
    "get_task_output",
    "get_task_graph",
    "get_run_step",
    "list_events",
    "sum_today",
    "list_examples",
    "confirm_message",
    "answer_task",
    "cancel_task",
    "pause_task",
    "resume_task",
    "retry_task",
    "list_approvals",
    "get_approval",
    "get_approval_card",
    "grant_approval",
    "reject_approval",
    "renew_approval",
)
"""The operations of REST that the page uses, by the names of their functions."""

OPERATIONS: tuple[Operation, ...] = tuple(next(each for each in REST if each.name == name) for name in USED)

_CALLED = {
    "Page_Approval_": "ApprovalPage",
    "Page_Task_": "TaskPage",
    "Page_EventRecord_": "EventRecordPage",
    "Page_Example_": "ExamplePage",
    "ozzie_server_ext.domain.budget.Usage": "CallUsage",
    "ozzie_server_ext.gateway.rest.shapes.Usage": "UsageSum",
    "ozzie_server_ext.domain.events.TaskRetried": "TaskRetried",
    "ozzie_server_ext.gateway.rest.task_shapes.TaskRetried": "TaskRetry",
}


def schema() -> dict[str, Any]:
    """One definition for each shape; `EventBodies` has a property for each fact that the page folds."""
    bodies = make_dataclass("EventBodies", [(fact.type.replace(".", "__"), fact) for fact in FOLLOWED])
    answers = [kind for each in OPERATIONS for kind in each.answers.values() if kind is not NoneType]
    inputs = [each.request_type for each in OPERATIONS]
    kinds = [bodies, Request, Response, EventFrame, FeedSubscribe, shapes.Error, *answers, *inputs]
    _, defined = msgspec.json.schema_components(kinds, ref_template="#/definitions/{name}")
    text = json.dumps(defined)
    for name, called in _CALLED.items():
        text = text.replace(name, called)
    definitions = json.loads(text)
    named = definitions["EventBodies"]
    named["properties"] = {name.replace("__", "."): value for name, value in named["properties"].items()}
    named["required"] = list(named["properties"])
    named.pop("description", None)
    for name, shape in definitions.items():
        _untitle(shape)
        shape["title"] = name
        _complete(shape, _SENT | {kind.__name__ for kind in inputs})
    return {
        "$comment": "Made by `make types`; not to be changed by hand.",
        "title": "Protocol",
        "type": "object",
        "definitions": definitions,
    }


def _untitle(part: Any) -> None:
    """Take out titles: ours say in words what a value must be, and TypeScript would get a type of that name."""
    if isinstance(part, list):
        for item in cast("list[Any]", part):
            _untitle(item)
    elif isinstance(part, dict):
        named = cast("dict[str, Any]", part)
        if isinstance(named.get("title"), str):  # there are properties of that name too
            del named["title"]
        for value in named.values():
            _untitle(value)


_SENT = {"EventFrame", "Request", "Response", "ErrorInfo", "FeedSubscribe"}


def _complete(shape: dict[str, Any], may_leave_out: Collection[str]) -> None:
    """What we send has all its fields, also those with a default here; only a frame leaves out what is empty, and a
    page what it does not ask."""
    for value in (shape, *shape.get("properties", {}).values()):
        value.pop("default", None)
        if "description" in value:
            value["description"] = " ".join(value["description"].split())
        if value.get("type") == "object" and "properties" not in value:
            value["additionalProperties"] = True
    if shape["title"] not in may_leave_out:
        shape["required"] = list(shape.get("properties", {}))
    shape["additionalProperties"] = False


def written() -> str:
    return json.dumps(schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def table() -> str:
    """The operations for TypeScript: what is sent where, and the types of it."""
    inputs = {each.name: each.request_type.__name__ for each in OPERATIONS}
    answers = {each.name: [_name(kind) for kind in each.answers.values()] for each in OPERATIONS}
    names = sorted({*inputs.values(), *(name for found in answers.values() for name in found if name != "null")})
    lines = [
        "/** Made by `make types` from the gateway's operations; not to be changed by hand. */",
        "",
        "import type {",
        ",\n".join(f"  {name}" for name in names),
        "} from './protocol.gen';",
        "",
        "/** The method and the path of each operation that the page uses. */",
        "export const OPERATIONS = {",
        ",\n".join(f"  {each.name}: '{each.rest}'" for each in OPERATIONS),
        "} as const;",
        "",
        "/** What each takes and answers. */",
        "export interface Operations {",
        *(f"  {name}: {{ input: {inputs[name]}; answer: {' | '.join(answers[name])} }};" for name in inputs),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _name(kind: Any) -> str:
    if kind is NoneType:
        return "null"
    name = shape_name(kind)
    return _CALLED.get(f"{kind.__module__}.{name}", name)


if __name__ == "__main__":
    SCHEMA.write_text(written())
    TABLE.write_text(table())
