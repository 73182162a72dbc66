"""One table of all routes."""

from typing import Any

from jupyter_server.utils import url_path_join

from ozzie_server_ext.gateway import rest
from ozzie_server_ext.gateway.ws import WsHandler

PREFIX = "/ozzie/api"

ROUTES: tuple[tuple[str, Any], ...] = (
    ("/health", rest.HealthHandler),
    (r"/kernels/(?P<kernel_id>[A-Za-z0-9-]{8,64})/token", rest.KernelTokenHandler),
    ("/tasks", rest.TasksHandler),
    (r"/tasks/(?P<task_id>[0-9A-Za-z]{1,64})", rest.TaskHandler),
    (r"/tasks/(?P<task_id>[0-9A-Za-z]{1,64})/cancel", rest.TaskCancelHandler),
    ("/ws", WsHandler),
)


def handlers(base_url: str) -> list[tuple[str, Any]]:
    """The table as tornado takes it, below the server's base URL."""
    return [(url_path_join(base_url, PREFIX, pattern), handler) for pattern, handler in ROUTES]
