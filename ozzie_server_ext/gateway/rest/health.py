"""`health`: the state of this server's gateway."""

import asyncio
import os
import time
from importlib.metadata import version

import msgspec

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Attached, Health, ModelWorker, StoreHealth, VaultHealth
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.protocol.attached import attached_servers
from ozzie_server_ext.store.troubles import space_warning


class HealthQuery(msgspec.Struct, frozen=True, kw_only=True):
    """No parameters."""


async def get_health(call: Call, request: HealthQuery) -> Health:
    """Show the state of the gateway."""
    ozzie, project = call.ozzie, call.ozzie.projects.own
    vault, vault_warning = await ozzie.secrets.state()
    policy = await project.rules.refresh()
    log_warning, store = await ozzie.anchoring.warning(), await _store(ozzie)
    return Health(
        status="degraded" if log_warning or store.warnings or store.findings else "ok",
        version=version("jupyter-ozzie"),
        pid=os.getpid(),
        role="owner",
        server_pid=os.getpid(),
        headless=call.state.headless,
        temporary=call.state.temporary,
        attached=[
            Attached(pid=server.pid, url=server.url, headless=server.headless)
            for server in attached_servers(ozzie.home.root)
        ],
        home=str(ozzie.home.root),
        project=str(project.root),
        position=(await ozzie.log.head()).position,
        clients=call.state.clients,
        tasks_running=len(await ozzie.log.rows("tasks", where={"status": "RUNNING", "parent_id": None})),
        model=project.models.default,
        workers=[
            ModelWorker(pid=child.pid, ready=child.ready, calls=child.calls, share=child.share)
            for child in ozzie.workers.children
        ],
        config_error=project.configuration.error,
        log_warning=log_warning,
        store=store,
        ignored_config=list(project.config.ignored),
        policy_error=project.rules.problem,
        policy_warnings=[warning for file in policy.files for warning in file.warnings],
        ignored_policy=[str(path) for path in policy.ignored],
        vault=VaultHealth(opens_with=list(vault.ways), locked=vault.locked, secrets=vault.secrets) if vault else None,
        vault_warning=vault_warning,
        uptime_s=round(time.monotonic() - ozzie.started_at, 1),
    )


async def _store(ozzie: Services) -> StoreHealth:
    failed = [f"{error} {error.hint}".strip() for error in await ozzie.troubles.look()]
    little = await asyncio.to_thread(space_warning, ozzie.home)
    checked = ozzie.daily_check.last
    return StoreHealth(
        warnings=failed or ([little] if little else []),
        checked_at=checked.at.isoformat() if checked else None,
        findings=list(checked.findings) if checked else [],
    )


def as_attached(state: GatewayState, owners: JsonObject) -> JsonObject:
    """Return the owner's health as an attached server reports it."""
    return owners | {"role": "attached", "server_pid": os.getpid()}
