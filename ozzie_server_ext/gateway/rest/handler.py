"""Tornado's end of the REST interface: one handler class for every path, told its operations."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from jupyter_server.auth.decorator import allow_unauthenticated, authorized
from tornado.web import authenticated

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.gateway.base import OzzieHandler, Refusal
from ozzie_server_ext.gateway.relay import Forwarded, Relay
from ozzie_server_ext.gateway.rest.artifact_shapes import Download
from ozzie_server_ext.gateway.rest.operation import Call, Operation
from ozzie_server_ext.gateway.rest.reading import read
from ozzie_server_ext.gateway.rest.relayed import Collected, Passed
from ozzie_server_ext.protocol.jsontext import dumps


class RestHandler(OzzieHandler):
    """Answers the operations of one path, by method. HEAD is GET without the body; OPTIONS says what there is."""

    def initialize(self, operations: Mapping[str, Operation]) -> None:
        self._operations = operations
        self._gone = asyncio.Event()

    @authenticated
    @authorized
    async def get(self, **path: str) -> None:
        await self._answer("GET", path)

    @authenticated
    @authorized
    async def head(self, **path: str) -> None:
        await self._answer("GET", path)

    @authenticated
    @authorized
    async def post(self, **path: str) -> None:
        await self._answer("POST", path)

    @authenticated
    @authorized
    async def put(self, **path: str) -> None:
        raise self._unsupported()

    @authenticated
    @authorized
    async def patch(self, **path: str) -> None:
        raise self._unsupported()

    @authenticated
    @authorized
    async def delete(self, **path: str) -> None:
        await self._answer("DELETE", path)

    @allow_unauthenticated
    def options(self, *args: Any, **path: str) -> None:
        """What a browser asks before it sends a request for a page elsewhere: Jupyter's own answer, without a body."""
        super().options(*args, **path)
        self.set_header("Allow", self.allowed)
        self.set_status(204)

    @property
    def allowed(self) -> str:
        """The methods of this path, as the header Allow lists them."""
        return ", ".join([*self._operations, *(["HEAD"] if "GET" in self._operations else []), "OPTIONS"])

    def on_connection_close(self) -> None:
        self._gone.set()
        super().on_connection_close()

    async def _answer(self, method: str, path: Mapping[str, str]) -> None:
        operation = self._operations.get(method)
        if operation is None:
            raise self._unsupported()
        body = self.body_object() if method == "POST" else {}
        if operation.downloads:
            self._forbid_to_run()
        if self.state.relay is not None and await self._handed_on(self.state.relay, operation):
            return
        asked = read(operation, path, self.request.query_arguments, body)
        answer = await operation.run(Call(self.state, self.services, self.principal, self._gone), asked)
        self.set_status(operation.status_of(type(answer)))
        if isinstance(answer, Download):
            self.set_header("Content-Disposition", answer.disposition)
            self.finish(answer.content, set_content_type=answer.media_type)
            return
        self.finish(None if answer is None else msgspec.json.encode(answer))

    async def _handed_on(self, relay: Relay, operation: Operation) -> bool:
        """Have the owner answer; False where this server has become the owner meanwhile. Raises Unavailable."""
        forwarded = Forwarded(
            # What is to be changed has to be there, also to tell its size.
            method=operation.method if operation.attached else str(self.request.method),
            path=str(self.request.uri).removeprefix(self.base_url),
            user=self.principal.name,
            body=self.body,
            waits_s=operation.waits_s,
        )
        if operation.attached is not None:
            collected = Collected()
            if not await relay.exchange(forwarded, collected, self._gone):
                return False
            said = collected.object()
            self.set_status(collected.status)
            self.finish(dumps(operation.attached(self.state, said) if collected.status == 200 else said))
            return True
        passed = Passed(self, self._gone)
        try:
            if not await relay.exchange(forwarded, passed, self._gone):
                return False
        except Unavailable:
            if not passed.began:
                raise
            self.detach().close()  # a part must not look like the whole
        else:
            self.finish(set_content_type=passed.content_type)
        return True

    def _forbid_to_run(self) -> None:
        """Whatever the content is, it is not Jupyter's page, and nothing of it runs, also where a browser shows it."""
        self.set_header("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
        self.set_header("X-Content-Type-Options", "nosniff")

    def _unsupported(self) -> Refusal:
        return Refusal(
            405,
            f"{self.request.method} is not possible here.",
            hint=f"Possible are: {self.allowed}.",
            code="http.405",
            allow=self.allowed,
        )

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if status_code == 405:  # a method that tornado itself does not know
            kwargs["exc_info"] = (Refusal, self._unsupported(), None)
        super().write_error(status_code, **kwargs)


class NothingHandler(OzzieHandler):
    """Whatever else lies below the prefix: nothing, in the same shape as every refusal."""

    @authenticated
    @authorized
    async def get(self, rest: str) -> None:
        raise Refusal(
            404,
            "There is nothing at this address.",
            hint="GET /ozzie/api/openapi.json says what there is.",
            code="http.404",
        )

    head = post = put = patch = delete = get

    @allow_unauthenticated
    def options(self, *args: Any, **path: str) -> None:
        """Nothing to say of what there is not."""
        self.set_status(404)
