"""What the JupyterLab extension knows of our wire shapes, as a JSON schema made from the code.

`make types` writes it anew, and the TypeScript made from it.
"""

import json
from dataclasses import make_dataclass
from pathlib import Path
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
from ozzie_server_ext.gateway.rest import approval_shapes, graph_shapes, shapes, task_shapes
from ozzie_server_ext.gateway.ws import FeedSubscribe
from ozzie_server_ext.protocol.frames import EventFrame, Request, Response

SCHEMA = Path(__file__).resolve().parents[2] / "labextension" / "protocol.schema.json"

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
    CheckpointSaved,
    StepStarted,
    StepFailed,
    StepSkipped,
)
"""The facts that the page folds into its lists of tasks and of approvals."""

ANSWERS: tuple[Any, ...] = (
    shapes.Done,
    shapes.Error,
    shapes.Health,
    shapes.Page[approval_shapes.Approval],
    approval_shapes.Card,
    shapes.Page[shapes.EventRecord],
    shapes.Page[shapes.Example],
    shapes.Page[task_shapes.Task],
    graph_shapes.StepDetail,
    graph_shapes.TaskGraph,
    task_shapes.TaskOutput,
    task_shapes.TaskWithSteps,
    shapes.UsageSums,
)

_CALLED = {
    "Page_Approval_": "ApprovalPage",
    "Page_Task_": "TaskPage",
    "Page_EventRecord_": "EventRecordPage",
    "Page_Example_": "ExamplePage",
    "ozzie_server_ext.domain.budget.Usage": "CallUsage",
    "ozzie_server_ext.gateway.rest.shapes.Usage": "UsageSum",
}


def schema() -> dict[str, Any]:
    """One definition for each shape; `EventBodies` has a property for each fact that the page folds."""
    bodies = make_dataclass("EventBodies", [(fact.type.replace(".", "__"), fact) for fact in FOLLOWED])
    kinds = [bodies, Request, Response, EventFrame, FeedSubscribe, *ANSWERS]
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
        _complete(shape)
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


def _complete(shape: dict[str, Any]) -> None:
    """What we send has all its fields, also those with a default here; only a frame leaves out what is empty."""
    for value in (shape, *shape.get("properties", {}).values()):
        value.pop("default", None)
        if "description" in value:
            value["description"] = " ".join(value["description"].split())
        if value.get("type") == "object" and "properties" not in value:
            value["additionalProperties"] = True
    if shape["title"] not in ("EventFrame", "Request", "Response", "ErrorInfo", "FeedSubscribe"):
        shape["required"] = list(shape.get("properties", {}))
    shape["additionalProperties"] = False


def written() -> str:
    return json.dumps(schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(written())
