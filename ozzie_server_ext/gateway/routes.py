"""One table of everything that the gateway answers."""

from dataclasses import dataclass
from typing import Any

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.openapi import document
from ozzie_server_ext.gateway.rest import (
    approvals,
    artifacts,
    events,
    health,
    labels,
    models,
    notebooks,
    runs,
    secrets,
    sessions,
    tasks,
    tools,
)
from ozzie_server_ext.gateway.rest.handler import NothingHandler, RestHandler
from ozzie_server_ext.gateway.rest.operation import Call, Operation, pattern
from ozzie_server_ext.gateway.rest.shapes import Accepted
from ozzie_server_ext.gateway.ws import WsHandler
from ozzie_server_ext.tasks.models import WORKER_S

PREFIX = "/ozzie/api"
WS_PATH = "/ws"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenapiQuery:
    """Nothing."""


async def get_openapi(call: Call, asked: OpenapiQuery) -> JsonObject:
    """This document."""
    return document(OPERATIONS, PREFIX)


OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/health", health.get_health, attached=health.as_attached),
    Operation("GET", "/openapi.json", get_openapi),
    Operation(
        "POST",
        "/message",
        sessions.send_message,
        errors=(404, 409),
        status={Accepted: 202},
        waits_s=sessions.MAX_WAIT_S,
    ),
    Operation("GET", "/sessions", sessions.list_sessions),
    Operation("POST", "/sessions", sessions.create_session),
    Operation("GET", "/sessions/{session_id}", sessions.get_session),
    Operation("POST", "/sessions/{session_id}/resume", sessions.resume_session),
    Operation("POST", "/sessions/{session_id}/rename", sessions.rename_session),
    Operation("POST", "/sessions/{session_id}/archive", sessions.archive_session),
    Operation("POST", "/sessions/{session_id}/close", sessions.close_session),
    Operation("GET", "/sessions/{session_id}/labels", labels.get_session_labels),
    Operation("POST", "/sessions/{session_id}/labels/clear", labels.clear_session_labels),
    Operation("GET", "/labels", labels.list_labelled_files),
    Operation("POST", "/labels/clear", labels.clear_file_labels, errors=(404,)),
    Operation("GET", "/tasks", tasks.list_tasks),
    Operation("GET", "/tasks/{task_id}", tasks.get_task),
    Operation("GET", "/tasks/{task_id}/output", runs.get_task_output),
    Operation("GET", "/tasks/{task_id}/graph", runs.get_task_graph),
    Operation("GET", "/tasks/{task_id}/steps/{step_id}", runs.get_run_step),
    Operation("POST", "/tasks/{task_id}/cancel", tasks.cancel_task, errors=(409,)),
    Operation("POST", "/tasks/{task_id}/answer", tasks.answer_task, errors=(409,)),
    Operation("POST", "/tasks/{task_id}/retry", tasks.retry_task, errors=(409,)),
    Operation("POST", "/tasks/{task_id}/pause", tasks.pause_task, errors=(409,)),
    Operation("POST", "/tasks/{task_id}/resume", tasks.resume_task, errors=(409,)),
    Operation("POST", "/tasks/{task_id}/events", tasks.tell_task, errors=(409,)),
    Operation("POST", "/tasks/{task_id}/update", tasks.update_task, errors=(409,)),
    Operation("GET", "/approvals", approvals.list_approvals),
    Operation("GET", "/approvals/{approval_id}", approvals.get_approval),
    Operation("GET", "/approvals/{approval_id}/card", approvals.get_approval_card, errors=(409,)),
    Operation("POST", "/approvals/{approval_id}/approve", approvals.grant_approval, errors=(409,)),
    Operation("POST", "/approvals/{approval_id}/reject", approvals.reject_approval, errors=(409,)),
    Operation("POST", "/approvals/{approval_id}/renew", approvals.renew_approval, errors=(409,)),
    Operation("POST", "/approvals/{approval_id}/revoke", approvals.revoke_approval, errors=(409,)),
    Operation("GET", "/artifacts", artifacts.list_artifacts),
    Operation("GET", "/artifacts/{artifact_id}", artifacts.get_artifact),
    Operation("DELETE", "/artifacts/{artifact_id}", artifacts.erase_artifact, errors=(409, 410)),
    Operation("GET", "/artifacts/{artifact_id}/content", artifacts.get_artifact_content, errors=(410,)),
    Operation("GET", "/events", events.list_events),
    Operation("GET", "/models", models.list_models),
    Operation("GET", "/models/show", models.show_model, errors=(404,), waits_s=WORKER_S),
    Operation("POST", "/models/resolve", models.resolve_model),
    Operation("GET", "/tools", tools.list_tools),
    Operation("GET", "/tools/{name}", tools.show_tool),
    Operation("POST", "/secrets/refresh", secrets.refresh_secrets),
    Operation("POST", "/secrets/unlock", secrets.unlock_secrets, waits_s=30.0),
    Operation("POST", "/secrets/lock", secrets.lock_secrets),
    Operation("GET", "/examples", notebooks.list_examples),
    Operation("GET", "/usage", models.sum_usage),
    Operation("GET", "/usage/today", models.sum_today),
    Operation("POST", "/notebooks/move", notebooks.move_notebook),
    Operation("POST", "/kernels/{kernel_id}/token", notebooks.issue_kernel_token),
)


def by_path() -> dict[str, dict[str, Operation]]:
    """The operations of each path, by method."""
    found: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        found.setdefault(operation.path, {})[operation.method] = operation
    return found


def handlers() -> list[tuple[Any, ...]]:
    """The table as tornado takes it, below a server's base URL."""
    return [
        *((PREFIX + pattern(path), RestHandler, {"operations": operations}) for path, operations in by_path().items()),
        (PREFIX + WS_PATH, WsHandler),
        (PREFIX + r"(?P<rest>|/.*)", NothingHandler),
    ]
