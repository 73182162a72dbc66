"""One request over the WebSocket, with who sends it."""

from dataclasses import dataclass

from ozzie_server_ext.domain.errors import InputError, PolicyError
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.services import Services


@dataclass(frozen=True, slots=True)
class Call:
    """A request with its caller."""

    ozzie: Services
    principal: Principal
    params: JsonObject

    def session(self, asked: str) -> SessionId:
        """The session meant. Raises PolicyError where it is not the caller's, InputError where none is named."""
        own = self.principal.session_id
        if own is not None and asked and asked != own:
            raise PolicyError("This kernel may use its own session only.", code="policy.session")
        if not (own or asked):
            raise InputError("Which session? The parameter session_id is missing.", code="input.session")
        return own or SessionId(asked)

    def expect_all_sessions(self) -> None:
        """Raises PolicyError for a caller who may know of its own session only (THREATS 6)."""
        if self.principal.session_id is not None:
            raise PolicyError("This kernel may use its own session only.", code="policy.session")

    async def expect_own(self, task_id: TaskId, to: str) -> None:
        """Raises PolicyError for a kernel and a task of another session; NotFound."""
        row = await self.ozzie.tasks.get(task_id)
        if self.principal.session_id not in (None, row["session_id"]):
            raise PolicyError(f"This kernel may {to} tasks of its own session only.", code="policy.session")
