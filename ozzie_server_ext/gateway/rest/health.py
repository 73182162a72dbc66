"""`health`: whether this server's gateway works, and how it is."""

import os
import time
from dataclasses import dataclass
from importlib.metadata import version

from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Health


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthQuery:
    """Nothing."""


async def get_health(call: Call, asked: HealthQuery) -> Health:
    """How the gateway is."""
    ozzie = call.ozzie
    return Health(
        status="ok",
        version=version("jupyter-ozzie"),
        pid=os.getpid(),
        headless=call.state.headless,
        home=str(ozzie.home.root),
        project=str(ozzie.project),
        position=(await ozzie.log.head()).position,
        clients=call.state.clients,
        tasks_running=len(await ozzie.log.rows("tasks", where={"status": "RUNNING"})),
        model=ozzie.models.default,
        config_error=ozzie.config_error,
        log_warning=ozzie.log_warning,
        ignored_config=list(ozzie.config.ignored),
        uptime_s=round(time.monotonic() - ozzie.started_at, 1),
    )
