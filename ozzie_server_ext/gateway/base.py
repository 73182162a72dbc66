"""What all handlers share: who asks, JSON only, no token in a URL, and errors in one shape (THREATS 11)."""

from http.client import responses
from typing import TYPE_CHECKING, Any

from jupyter_server.auth import IdentityProvider, User
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from tornado.web import HTTPError

from ozzie_server_ext.domain.errors import (
    Conflict,
    InputError,
    NotFound,
    OzzieError,
    PolicyError,
    RetryLater,
    Unavailable,
)
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.frames import ErrorInfo
from ozzie_server_ext.protocol.jsontext import loads_object

if TYPE_CHECKING:
    from ozzie_server_ext.gateway.state import GatewayState

log = logger(__name__)

RESOURCE = "ozzie"
"""The resource that Jupyter's authorizer is asked about."""

_STATUS: tuple[tuple[type[OzzieError], int], ...] = (
    (NotFound, 404),
    (InputError, 400),
    (PolicyError, 403),
    (Conflict, 409),
    (RetryLater, 429),
    (Unavailable, 503),
    (OzzieError, 500),
)


def error_info(error: BaseException) -> tuple[int, ErrorInfo]:
    """Status and body for an error. What nobody foresaw is logged and told without its insides."""
    if isinstance(error, OzzieError):
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        return status, ErrorInfo(code=error.code, message=str(error), hint=error.hint)
    if isinstance(error, HTTPError):
        said = error.reason or responses.get(error.status_code, "Error")
        return error.status_code, ErrorInfo(code=f"http.{error.status_code}", message=f"{said}.")
    log.error("a request broke", exc_info=error)
    return 500, ErrorInfo(
        code="bug",
        message="Ozzie made a mistake of its own.",
        hint="The folder logs/app has the details for a bug report.",
    )


class _Granted(IdentityProvider):
    """Stands in for Jupyter's identity provider where the caller holds a token of Ozzie's own."""

    def __init__(self, principal: Principal, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._user = User(username=principal.name, name=principal.name)

    def get_user(self, handler: Any) -> User:
        return self._user

    def is_token_authenticated(self, handler: Any) -> bool:
        # The header can't be sent by a foreign page without a preflight, so no XSRF token is asked for.
        return True


class Caller(JupyterHandler):
    """Finds out who asks. Jupyter's own rules for Host, Origin, cookies and XSRF hold unchanged."""

    @property
    def state(self) -> "GatewayState":
        return self.settings["ozzie"]

    @property
    def granted(self) -> Principal | None:
        if "ozzie_granted" not in self.__dict__:
            header = self.request.headers.get("Authorization", "")
            self.__dict__["ozzie_granted"] = self.state.access.holder(header)
        return self.__dict__["ozzie_granted"]

    @property
    def identity_provider(self) -> IdentityProvider:
        inherited = super().identity_provider
        return _Granted(self.granted, parent=inherited.parent) if self.granted else inherited

    @property
    def principal(self) -> Principal:
        """Who asks, once authenticated."""
        return self.granted or Principal(kind="user", name=self.current_user.username)

    def skip_check_origin(self) -> bool:
        """A page of another origin has no business with Ozzie's own tokens, though Jupyter trusts any token."""
        return self.granted is None and super().skip_check_origin()

    async def prepare(self, **kwargs: Any) -> None:
        if "token" in self.request.query_arguments:
            raise HTTPError(403, reason="A token in a URL is never accepted here, send it in the Authorization header")
        await super().prepare(**kwargs)


class OzzieHandler(Caller, APIHandler):
    """Base of the REST handlers, which are the user's alone: a kernel has the WebSocket."""

    auth_resource = RESOURCE

    async def prepare(self, **kwargs: Any) -> None:
        await super().prepare(**kwargs)
        if self.granted is not None and self.granted.kind == "kernel":
            raise HTTPError(403, reason="A kernel's token is not enough for this")
        if self.request.method == "POST" and self.request.headers.get("Content-Type", "").split(";")[0].strip() != (
            "application/json"
        ):
            raise HTTPError(415, reason="Send JSON, with the Content-Type application/json")

    def body_object(self) -> JsonObject:
        """The request's JSON object; empty where there is no body. Raises InvalidJson."""
        return loads_object(self.request.body) if self.request.body else {}

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs["exc_info"][1] if "exc_info" in kwargs else HTTPError(status_code)
        status, info = error_info(error)
        self.set_status(status)
        self.finish({"code": info.code, "message": info.message, "hint": info.hint})

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """`error_info` logs what deserves it; a foreseen error needs no traceback in the server's terminal."""
        if not isinstance(value, OzzieError | HTTPError):
            super().log_exception(typ, value, tb)
