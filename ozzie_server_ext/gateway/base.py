"""Base classes of all handlers: authentication, bodies, and errors in one shape."""

import asyncio
import contextlib
import os
import re
import socket
import sys
from asyncio import Future
from http.client import responses
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.auth import IdentityProvider, User
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from tornado.web import HTTPError, stream_request_body

from ozzie_server_ext.domain.errors import (
    Conflict,
    Gone,
    InputError,
    NotFound,
    OzzieError,
    PolicyError,
    RetryLater,
    Unavailable,
)
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.access import ON_BEHALF_OF, ROOT, Principal
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.frames import ErrorInfo
from ozzie_server_ext.protocol.jsontext import loads_object

if TYPE_CHECKING:
    from tornado.http1connection import HTTP1Connection

    from ozzie_server_ext.gateway.state import GatewayState


MAX_BYTES = 8 << 20
MAX_S = 10.0
MAX_CLIENTS = 32
_CHUNK = 64 << 10

_lingering: set[asyncio.Task[None]] = set()


def hold(connection: socket.socket) -> socket.socket | None:
    """Return another handle on `connection` for `linger`; None if too many connections linger already."""
    if len(_lingering) >= MAX_CLIENTS:
        return None
    return socket.socket(fileno=os.dup(connection.fileno()))  # dup() of a socket with TLS refuses


def linger(held: socket.socket) -> None:
    """Close a connection whose answer is written, once the client has sent the rest of its body.

    A connection that is closed while data arrives is reset, and a client that still sends its body sees the reset
    instead of the answer. The data is dropped, within bounds.
    """
    with contextlib.suppress(OSError):
        held.shutdown(socket.SHUT_WR)
    task = asyncio.create_task(_drop(held), name="ozzie linger")
    _lingering.add(task)
    task.add_done_callback(_lingering.discard)


async def _drop(held: socket.socket) -> None:
    loop, buffer, left = asyncio.get_running_loop(), bytearray(_CHUNK), MAX_BYTES
    with held, contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(MAX_S):
            while left > 0 and (count := await loop.sock_recv_into(held, buffer)):
                left -= count


log = logger(__name__)

RESOURCE = "ozzie"
"""The resource name that Jupyter's authorizer gets."""

_STATUS: tuple[tuple[type[OzzieError], int], ...] = (
    (Gone, 410),
    (NotFound, 404),
    (InputError, 400),
    (PolicyError, 403),
    (Conflict, 409),
    (RetryLater, 429),
    (Unavailable, 503),
    (OzzieError, 500),
)


MAX_BODY_BYTES = 1 << 20

_FORBIDDEN = ErrorInfo(
    code="http.403",
    message="It is not known who asks, or it is not allowed.",
    hint="Send a token of this Jupyter Server in the Authorization header.",
)


class Refusal(OzzieError):
    """A refusal with its own HTTP status."""

    def __init__(self, status: int, message: str, *, hint: str, code: str, allow: str = "") -> None:
        super().__init__(message, hint=hint, code=code)
        self.status = status
        self.allow = allow


def error_info(error: BaseException) -> tuple[int, ErrorInfo]:
    """Return the status and body for an error. Log unexpected errors, and answer them without internal details."""
    if isinstance(error, Refusal):
        return error.status, ErrorInfo(code=error.code, message=str(error), hint=error.hint)
    if isinstance(error, OzzieError):
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        return status, ErrorInfo(code=error.code, message=str(error), hint=error.hint)
    if isinstance(error, HTTPError):
        if error.status_code == 403 and error.reason is None:
            return 403, _FORBIDDEN
        said = error.reason or responses.get(error.status_code, "Error")
        return error.status_code, ErrorInfo(code=f"http.{error.status_code}", message=f"{said}.")
    log.error("a request broke", exc_info=error)
    return 500, ErrorInfo(
        code="bug",
        message="Ozzie made a mistake of its own.",
        hint="The folder logs/app has the details for a bug report.",
    )


class _Granted(IdentityProvider):
    """Replaces Jupyter's identity provider if the caller holds one of Ozzie's own tokens."""

    def __init__(self, principal: Principal, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._user = User(username=principal.name, name=principal.name)

    def get_user(self, handler: Any) -> User:
        return self._user

    def is_token_authenticated(self, handler: Any) -> bool:
        # A foreign page can't send the header without a preflight, so no XSRF token is needed.
        return True


_MADE_UP = re.compile(r"[0-9a-f]{32}")


def is_made_up(user: User) -> bool:
    """Whether Jupyter gave a random name to whoever has its token: another one in each request without a cookie."""
    return _MADE_UP.fullmatch(user.username) is not None


def name_of(user: User) -> str:
    """Return the user's name. For Jupyter's own token the user name is a random number, so return the display name."""
    return user.display_name or user.username if is_made_up(user) else user.username


@stream_request_body
class AuthenticatedHandler(JupyterHandler):
    """Authenticates the caller, and reads a body only from callers who may send one. Jupyter's own checks of Host,
    Origin, cookies and XSRF stay in force."""

    max_body_bytes = 0
    _is_cut_off = False
    """Whether an unwanted body may still arrive."""

    @property
    def state(self) -> "GatewayState":
        return self.settings["ozzie"]

    @property
    def granted(self) -> Principal | None:
        if "ozzie_granted" not in self.__dict__:
            headers = self.request.headers
            self.__dict__["ozzie_granted"] = self.state.access.holder(
                headers.get("Authorization", ""),
                on_behalf_of=headers.get(ON_BEHALF_OF, ""),
                root=headers.get(ROOT, ""),
            )
        return self.__dict__["ozzie_granted"]

    @property
    def identity_provider(self) -> IdentityProvider:
        inherited = super().identity_provider
        return _Granted(self.granted, parent=inherited.parent) if self.granted else inherited

    @property
    def principal(self) -> Principal:
        """The authenticated caller."""
        return self.granted or Principal(kind="user", name=name_of(self.current_user))

    @property
    def services(self) -> Services:
        """Return Ozzie. Raises Refusal with status 503 if this server doesn't have it, no fault of the request."""
        try:
            return self.state.require()
        except OzzieError as error:
            raise Refusal(503, str(error), hint=error.hint, code=error.code) from error

    def skip_check_origin(self) -> bool:
        """Refuse pages of other origins with one of Ozzie's own tokens, although Jupyter trusts any token."""
        return self.granted is None and super().skip_check_origin()

    async def prepare(self, **kwargs: Any) -> None:
        """Check the caller before the body is read."""
        # The server's own limit would close the connection without an answer.
        cast("HTTP1Connection", self.request.connection).set_max_body_size(sys.maxsize)
        self._body = bytearray()
        try:
            await self._let_in(**kwargs)
            if self._brings_body:
                if self.current_user is None:
                    raise HTTPError(403)
                await self._expect_body()
        except Exception:
            self._is_cut_off = self._brings_body
            raise

    def data_received(self, chunk: bytes) -> None:
        self._body += chunk
        if len(self._body) > self.max_body_bytes:  # the length was not announced
            self._body.clear()
            self._is_cut_off = True
            self.send_error(413, exc_info=(Refusal, self._too_large(), None))

    @property
    def body(self) -> bytes:
        return bytes(self._body)

    async def _let_in(self, **kwargs: Any) -> None:
        """Raise if the caller may not make this request."""
        if "token" in self.request.query_arguments:
            raise Refusal(
                403,
                "A token in a URL is never accepted here.",
                hint="Send it in the Authorization header.",
                code="http.token_in_url",
            )
        await super().prepare(**kwargs)

    @property
    def _brings_body(self) -> bool:
        headers = self.request.headers
        return "Transfer-Encoding" in headers or headers.get("Content-Length", "0") != "0"

    @property
    def _announced_length(self) -> int:
        """The announced length of the body in bytes; 0 if unknown."""
        told = self.request.headers.get("Content-Length", "")
        return int(told[:20]) if told.isascii() and told.isdecimal() else 0

    @authorized
    async def _expect_body(self) -> None:
        if self._announced_length > self.max_body_bytes:
            raise self._too_large()

    def _too_large(self) -> Refusal:
        has = f"{self._announced_length:,}" if self._announced_length else "too many"
        return Refusal(
            413,
            f"The body has {has} bytes; at most {self.max_body_bytes:,} are taken.",
            hint="Put the text into a file of the project and name the file.",
            code="http.413",
        )

    def finish(self, *args: Any, **kwargs: Any) -> "Future[None]":
        stream = cast("HTTP1Connection", self.request.connection).stream
        held = hold(stream.socket) if self._is_cut_off and stream and stream.socket else None
        finished = super().finish(*args, **kwargs)
        if held is not None:
            linger(held)
        return finished

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs["exc_info"][1] if "exc_info" in kwargs else HTTPError(status_code)
        status, info = error_info(error)
        self.set_status(status)
        if isinstance(error, Refusal) and error.allow:
            self.set_header("Allow", error.allow)
        self.finish({"code": info.code, "message": info.message, "hint": info.hint})

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Skip expected errors: they need no traceback in the terminal, and `error_info` logs the others."""
        if not isinstance(value, OzzieError | HTTPError):
            super().log_exception(typ, value, tb)


class OzzieHandler(AuthenticatedHandler, APIHandler):
    """Base of the REST handlers. Kernels are refused: they use the WebSocket."""

    auth_resource = RESOURCE
    max_body_bytes = MAX_BODY_BYTES

    async def _let_in(self, **kwargs: Any) -> None:
        await super()._let_in(**kwargs)
        if self.granted is not None and self.granted.kind == "kernel":
            raise Refusal(
                403, "A kernel's token is not enough for this.", hint="It opens the WebSocket.", code="policy.kernel"
            )

    def compute_etag(self) -> None:
        """None: every answer is current."""

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Cache-Control", "no-store")

    def body_object(self) -> JsonObject:
        """Return the request's JSON object, or an empty one without a body. Raises Refusal for another media type,
        InvalidJson."""
        kind = self.request.headers.get("Content-Type", "")
        if kind.split(";")[0].strip().lower() != "application/json":
            # Also guards against foreign forms: no HTML form can send this type.
            raise Refusal(415, "Only JSON is taken here.", hint="Send it as application/json.", code="http.415")
        return loads_object(self.body, max_bytes=MAX_BODY_BYTES) if self._body else {}
