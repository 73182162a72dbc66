"""The table of everything that the gateway answers."""

from typing import Any

import msgspec

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway import methods, ws
from ozzie_server_ext.gateway.mcp import MCP_PATH, McpHandler
from ozzie_server_ext.gateway.openapi import document
from ozzie_server_ext.gateway.operation import Call, Operation, pattern
from ozzie_server_ext.gateway.rest import (
    approvals,
    artifacts,
    events,
    exports,
    forks,
    health,
    labels,
    models,
    notebooks,
    plugins,
    replays,
    runs,
    search,
    secrets,
    servers,
    sessions,
    tasks,
    tools,
)
from ozzie_server_ext.gateway.rest.handler import NothingHandler, RestHandler
from ozzie_server_ext.gateway.rest.shapes import Accepted
from ozzie_server_ext.gateway.ws import WsHandler
from ozzie_server_ext.replay.service import MOST_S
from ozzie_server_ext.tasks.models import WORKER_S

PREFIX = "/ozzie/api"
WS_PATH = "/ws"


ERASING_S = 600.0
"""How long an erasure may take: the database and the readable files are written anew."""
EXPORTING_S = 120.0
"""How long the export of a long session may take: 1,000 turns take seconds."""


class OpenapiQuery(msgspec.Struct, frozen=True, kw_only=True):
    """No parameters."""


async def get_openapi(call: Call, request: OpenapiQuery) -> JsonObject:
    """This document."""
    return document(REST, PREFIX)


OPERATIONS: tuple[Operation, ...] = (
    Operation(health.get_health, "GET /health", attached=health.as_attached),
    Operation(get_openapi, "GET /openapi.json"),
    Operation(
        sessions.send_message,
        "POST /message",
        errors=(404, 409),
        status={Accepted: 202},
        waits_s=sessions.MAX_WAIT_S,
    ),
    Operation(methods.send_message, ws="message.send", kernels="own session"),
    Operation(methods.confirm_message, "POST /messages/confirm", ws="message.confirm"),
    Operation(sessions.list_sessions, "GET /sessions"),
    Operation(sessions.create_session, "POST /sessions", errors=(409,)),
    Operation(sessions.get_session, "GET /sessions/{session_id}"),
    Operation(sessions.resume_session, "POST /sessions/{session_id}/resume"),
    Operation(
        sessions.rename_session,
        "POST /sessions/{session_id}/rename",
        ws="session.rename",
        kernels="own session",
        payload=sessions.info_of,
    ),
    Operation(
        sessions.archive_session,
        "POST /sessions/{session_id}/archive",
        ws="session.archive",
        kernels="own session",
        payload=sessions.info_of,
    ),
    Operation(
        sessions.close_session,
        "POST /sessions/{session_id}/close",
        ws="session.close",
        kernels="own session",
        payload=sessions.info_of,
    ),
    Operation(
        exports.export_session,
        "GET /sessions/{session_id}/export",
        ws="session.export",
        kernels="own session",
        payload=exports.text_of,
        waits_s=EXPORTING_S,
    ),
    Operation(forks.list_turns, "GET /sessions/{session_id}/turns", ws="session.turns", kernels="own session"),
    Operation(
        forks.fork_session, "POST /sessions/{session_id}/fork", ws="session.fork", errors=(409,), waits_s=EXPORTING_S
    ),
    Operation(
        replays.replay_session,
        "POST /sessions/{session_id}/replay",
        ws="session.replay",
        kernels="own session",
        errors=(409, 410),
        waits_s=MOST_S,
    ),
    Operation(forks.get_session_tree, "GET /sessions/{session_id}/tree", ws="session.tree"),
    Operation(sessions.erase_session, "DELETE /sessions/{session_id}", errors=(409,), waits_s=ERASING_S),
    Operation(sessions.erase_message, "DELETE /messages/{message_id}", errors=(409, 410), waits_s=ERASING_S),
    Operation(sessions.list_pins, "GET /sessions/{session_id}/pins", ws="session.pins", kernels="own session"),
    Operation(
        sessions.pin_fact, "POST /sessions/{session_id}/pins", ws="session.pin", kernels="own session", errors=(409,)
    ),
    Operation(
        sessions.unpin_fact, "DELETE /sessions/{session_id}/pins/{pin_id}", ws="session.unpin", kernels="own session"
    ),
    Operation(methods.open_session, ws="session.open", kernels="own session"),
    Operation(methods.list_sessions, ws="session.list"),
    Operation(methods.find_session, ws="session.find"),
    Operation(methods.find_earlier_runs, ws="session.earlier", kernels="own session"),
    Operation(methods.sum_session_costs, ws="session.costs", kernels="own session"),
    Operation(search.search, "GET /search", ws="search", errors=(404,)),
    Operation(labels.get_session_labels, "GET /sessions/{session_id}/labels"),
    Operation(labels.clear_session_labels, "POST /sessions/{session_id}/labels/clear"),
    Operation(labels.list_labelled_files, "GET /labels"),
    Operation(labels.clear_file_labels, "POST /labels/clear", errors=(404,)),
    Operation(tasks.list_tasks, "GET /tasks", ws="task.list", kernels="own session"),
    Operation(tasks.get_task, "GET /tasks/{task_id}"),
    Operation(runs.get_task_output, "GET /tasks/{task_id}/output"),
    Operation(runs.get_task_graph, "GET /tasks/{task_id}/graph"),
    Operation(runs.get_run_step, "GET /tasks/{task_id}/steps/{step_id}"),
    Operation(tasks.cancel_task, "POST /tasks/{task_id}/cancel", ws="task.cancel", kernels="own task", errors=(409,)),
    Operation(tasks.answer_task, "POST /tasks/{task_id}/answer", ws="task.answer", kernels="own task", errors=(409,)),
    Operation(tasks.retry_task, "POST /tasks/{task_id}/retry", ws="task.retry", kernels="own task", errors=(409,)),
    Operation(tasks.pause_task, "POST /tasks/{task_id}/pause", ws="task.pause", kernels="own task", errors=(409,)),
    Operation(tasks.resume_task, "POST /tasks/{task_id}/resume", ws="task.resume", kernels="own task", errors=(409,)),
    Operation(
        tasks.tell_task,
        "POST /tasks/{task_id}/events",
        ws="task.tell",
        kernels="own task",
        payload=tasks.heard,
        errors=(409,),
    ),
    Operation(tasks.update_task, "POST /tasks/{task_id}/update", ws="task.update", kernels="own task", errors=(409,)),
    Operation(approvals.list_approvals, "GET /approvals", ws="approval.list", kernels="own session"),
    Operation(approvals.get_approval, "GET /approvals/{approval_id}"),
    Operation(approvals.get_approval_card, "GET /approvals/{approval_id}/card", errors=(409,)),
    Operation(approvals.grant_approval, "POST /approvals/{approval_id}/approve", errors=(409,)),
    Operation(approvals.reject_approval, "POST /approvals/{approval_id}/reject", errors=(409,)),
    Operation(approvals.renew_approval, "POST /approvals/{approval_id}/renew", errors=(409,)),
    Operation(approvals.revoke_approval, "POST /approvals/{approval_id}/revoke", errors=(409,)),
    Operation(methods.answer_approval, ws="approval.answer", kernels="all"),
    Operation(artifacts.list_artifacts, "GET /artifacts"),
    Operation(artifacts.get_artifact, "GET /artifacts/{artifact_id}"),
    Operation(artifacts.erase_artifact, "DELETE /artifacts/{artifact_id}", errors=(409, 410)),
    Operation(artifacts.get_artifact_content, "GET /artifacts/{artifact_id}/content", errors=(410,)),
    Operation(events.list_events, "GET /events", ws="event.list"),
    Operation(models.list_models, "GET /models", ws="models.list", kernels="all", payload=models.listing_of),
    Operation(models.show_model, "GET /models/show", errors=(404,), waits_s=WORKER_S),
    Operation(models.resolve_model, "POST /models/resolve"),
    Operation(methods.choose_model, ws="model.choose", kernels="own session"),
    Operation(methods.list_skills, ws="skills.list", kernels="all"),
    Operation(tools.list_tools, "GET /tools", ws="tools.list", kernels="all"),
    Operation(servers.list_servers, "GET /servers"),
    Operation(plugins.list_plugins, "GET /plugins"),
    Operation(plugins.list_incidents, "GET /incidents"),
    Operation(plugins.close_incident, "POST /incidents/{incident_id}/close", errors=(404,)),
    Operation(tools.show_tool, "GET /tools/{name}", ws="tools.show", kernels="all"),
    Operation(methods.show_config, ws="config.show", kernels="all"),
    Operation(methods.show_prompt, ws="prompt.show", kernels="own session"),
    Operation(secrets.refresh_secrets, "POST /secrets/refresh"),
    Operation(secrets.unlock_secrets, "POST /secrets/unlock", waits_s=30.0),
    Operation(secrets.lock_secrets, "POST /secrets/lock"),
    Operation(notebooks.list_examples, "GET /examples"),
    Operation(models.sum_usage, "GET /usage"),
    Operation(models.sum_today, "GET /usage/today"),
    Operation(notebooks.move_notebook, "POST /notebooks/move"),
    Operation(notebooks.issue_kernel_token, "POST /kernels/{kernel_id}/token"),
    Operation(methods.complete, ws="complete", kernels="all"),
    Operation(methods.inspect, ws="inspect", kernels="all"),
    Operation(ws.subscribe, ws="feed.subscribe", kernels="own session"),
    Operation(ws.unsubscribe, ws="feed.unsubscribe", kernels="all"),
    Operation(ws.notebook_opened, ws="notebook.opened"),
    Operation(ws.notebook_closed, ws="notebook.closed"),
    Operation(ws.notebook_answered, ws="notebook.answer"),
)


REST: tuple[Operation, ...] = tuple(operation for operation in OPERATIONS if operation.rest)
METHODS: dict[str, Operation] = {operation.ws: operation for operation in OPERATIONS if operation.ws}


def by_path() -> dict[str, dict[str, Operation]]:
    """Return the operations of each path, by HTTP method."""
    found: dict[str, dict[str, Operation]] = {}
    for operation in REST:
        found.setdefault(operation.path, {})[operation.method] = operation
    return found


def handlers() -> list[tuple[Any, ...]]:
    """Return the table for tornado, below a server's base URL."""
    return [
        *((PREFIX + pattern(path), RestHandler, {"operations": operations}) for path, operations in by_path().items()),
        (PREFIX + WS_PATH, WsHandler, {"methods": METHODS}),
        (PREFIX + r"(?P<rest>|/.*)", NothingHandler),
        (MCP_PATH, McpHandler),
    ]
