"""Ozzie's tool host as the client that the MCP's conformance tests start: `python -m tests.conformance.client URL`.

Calls each tool that the server lists, as its schema wants it, once; the tests look at what was sent.
"""

import asyncio
import json
import os
import sys
import tempfile
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.plugins.tool_host import Connection, ServerFailed, ToolHost
from ozzie_server_ext.protocol.tool_host import Client, Elicit, Given, Grant, Output, Remote, SignIn
from tests.mcp_rig import tool_host

WITHIN_S = 20
REDIRECT = "http://127.0.0.1:9/callback"
"""Nobody listens there: the client looks where it would be led."""
DOCUMENT = "https://conformance-test.local/client-metadata.json"


def arguments(schema: JsonObject) -> JsonObject:
    """Arguments that fit a schema of plain properties."""
    properties = schema.get("properties")
    return {name: _value(each) for name, each in properties.items()} if isinstance(properties, dict) else {}


def _value(schema: Json) -> Json:
    if not isinstance(schema, dict):
        return "x"
    if "default" in schema:
        return schema["default"]
    match schema.get("type"):
        case "number" | "integer":
            return 5
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return arguments(schema)
        case "null":
            return None
        case _:
            return "x"


class SignedIn:
    """A server at an address, to which the client signs in when that is wanted."""

    def __init__(self, host: ToolHost, url: str, context: JsonObject) -> None:
        self._host = host
        self._remote = Remote(url=url)
        self._context = context
        self._grant: Grant | None = None
        self._times = 0

    async def connection(self) -> Connection:
        """Connect, and sign in before if the server wants that. Raises ServerFailed."""
        while True:
            try:
                return await self._host.open(self._remote, within_s=WITHIN_S, renew=self._renew)
            except ServerFailed as error:
                await self.sign_in(error)

    async def sign_in(self, error: ServerFailed) -> None:
        """Sign in if that is why something failed, as a person does whom the error tells so; at most three times.
        Raises ServerFailed."""
        self._times += 1
        if error.code not in ("mcp.sign_in", "mcp.signed_out") or self._times > 3:
            raise error
        known = self._grant
        rights = dict.fromkeys([*(known.scope.split() if known else ()), *error.scope.split()])
        client = known.client if known else _given_client(self._context)
        request = SignIn(
            id="sign-in",
            url=self._remote.url,
            redirect=REDIRECT,
            within_s=WITHIN_S,
            client=client,
            scope=" ".join(rights) if error.scope else "",
        )
        self._grant = await self._host.sign_in(request, meet=_agreed, visit=_visited)
        self._remote = Remote(url=self._remote.url, token=self._grant.access_token)

    async def _renew(self, rejected: str) -> str:
        if self._grant is None or not self._grant.refresh_token:
            return ""
        self._grant = await self._host.refresh(self._grant, within_s=WITHIN_S)
        return self._grant.access_token


def _given_client(context: JsonObject) -> Client | None:
    """The client of the test: one that it names, or a document about it."""
    match context:
        case {"client_id": str(name)}:
            return Client(id=name, secret=str(context.get("client_secret", "")))
        case _:
            return Client(id=DOCUMENT) if os.environ.get("MCP_CONFORMANCE_SCENARIO") == "auth/basic-cimd" else None


async def _elicited(question: Elicit) -> Given:
    """Fill in a form as somebody does who takes what is offered."""
    offered = {field.name: "x" if field.default is None else field.default for field in question.fields}
    return Given(action="accept", values=offered)


async def _agreed(host: str) -> bool:
    return True


async def _visited(url: str) -> str:
    """Open an address as a browser does in which somebody is signed in; return where it leads."""

    def visit() -> str:
        parts = urlsplit(url)
        connection = HTTPConnection(parts.netloc, timeout=WITHIN_S)
        try:
            connection.request("GET", f"{parts.path}?{parts.query}")
            return connection.getresponse().headers["Location"] or ""
        finally:
            connection.close()

    return await asyncio.to_thread(visit)


async def main(url: str) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    calls = context.get("toolCalls")
    with tempfile.TemporaryDirectory() as folder:
        # The host ends with this block, and with it the session, at which the harness looks.
        async with tool_host(Path(folder)) as host:
            server = SignedIn(host, url, context)
            connection = await server.connection()
            chosen = [(tool.name, arguments(tool.schema)) for tool in connection.tools]
            if calls:
                chosen = [(call["name"], call["arguments"]) for call in calls]
            for name, args in chosen:
                if "schema" in args:  # it wants to see what came of another tool's schema
                    args["schema"] = next(tool.schema for tool in connection.tools if tool.name != name)
                try:
                    output = await _called(server, connection, name, args)
                    sys.stdout.write(f"{name}: {output}\n")
                except ServerFailed as error:
                    sys.stdout.write(f"{name}: {error.code} {error}\n")


async def _called(server: SignedIn, connection: Connection, name: str, args: JsonObject) -> Output:
    while True:
        try:
            return await connection.call(name, args, within_s=WITHIN_S, on_elicit=_elicited)
        except ServerFailed as error:
            await server.sign_in(error)
            connection = await server.connection()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
