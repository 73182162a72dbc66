"""The REST handlers under `/ozzie/api` (GW-3)."""

import os
import time
from dataclasses import dataclass
from importlib.metadata import version

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.gateway.base import OzzieHandler
from ozzie_server_ext.protocol.codec import decode

MAX_PAGE = 500


class HealthHandler(OzzieHandler):
    """`GET health`: whether this server's gateway works, and how it is."""

    @authenticated
    @authorized
    async def get(self) -> None:
        ozzie = self.state.require()
        head = await ozzie.log.head()
        self.finish(
            {
                "status": "ok",
                "version": version("jupyter-ozzie"),
                "pid": os.getpid(),
                "home": str(ozzie.home.root),
                "project": str(ozzie.project),
                "position": head.position,
                "clients": self.state.clients,
                "tasks_running": len(await ozzie.log.rows("tasks", where={"status": "RUNNING"})),
                "model": ozzie.models.default,
                "config_error": ozzie.config_error,
                "log_warning": ozzie.log_warning,
                "ignored_config": list(ozzie.config.ignored),
                "uptime_s": round(time.monotonic() - ozzie.started_at, 1),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """`session_name`: what finds the kernel's session again, usually the notebook's path. `session_id` puts another
    session in its place, `new` a fresh one."""

    session_name: str = ""
    session_id: str = ""
    new: bool = False


class KernelTokenHandler(OzzieHandler):
    """`POST kernels/{kernel_id}/token`: a token for one kernel and one session."""

    @authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        ozzie = self.state.require()
        asked = decode(TokenRequest, self.body_object())
        name = asked.session_name or f"kernel {kernel_id}"
        key = f"notebook:{asked.session_name}" if asked.session_name else f"kernel:{kernel_id}"
        if asked.session_id:
            info = await ozzie.sessions.resume(SessionId(asked.session_id), key)
        elif asked.new:
            info = await ozzie.sessions.begin(key, channel="notebook")
        else:
            info = await ozzie.sessions.open(key, title=os.path.basename(name), channel="notebook")
        await ozzie.models.warm_up(info)
        token = self.state.access.issue_kernel_token(kernel_id, info.session_id)
        self.finish({"token": token, "session_id": info.session_id})


class TasksHandler(OzzieHandler):
    """`GET tasks`: the newest first."""

    @authenticated
    @authorized
    async def get(self) -> None:
        ozzie = self.state.require()
        limit = _limit(self.get_query_argument("limit", "50"))
        session = self.get_query_argument("session_id", "")
        rows = await ozzie.tasks.list(limit=limit, session_id=SessionId(session) if session else None)
        self.finish({"items": rows, "next": None})


class TaskHandler(OzzieHandler):
    """`GET tasks/{id}`."""

    @authenticated
    @authorized
    async def get(self, task_id: str) -> None:
        self.finish(await self.state.require().tasks.get(TaskId(task_id)))


class TaskCancelHandler(OzzieHandler):
    """`POST tasks/{id}/cancel`."""

    @authenticated
    @authorized
    async def post(self, task_id: str) -> None:
        reason = self.body_object().get("reason", "")
        if not isinstance(reason, str):
            raise InputError("reason must be text.")
        await self.state.require().tasks.cancel(TaskId(task_id), by=self.principal.name, reason=reason)
        self.finish({})


def _limit(text: str) -> int:
    if not text.isdecimal() or len(text) > 4 or not 1 <= int(text) <= MAX_PAGE:
        raise InputError(f"limit must be a number from 1 to {MAX_PAGE}.")
    return int(text)
