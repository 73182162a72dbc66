"""Keeps the tools of MCP servers up to date in a project's registry."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.plugins.connections import Connections, Values, granted_values
from ozzie_server_ext.plugins.server_words import all_tools_of
from ozzie_server_ext.plugins.servers import Server, Servers, SettledServer, UsedServer, files_of, servers_of
from ozzie_server_ext.plugins.sign_ins import SignIns, is_signed_in
from ozzie_server_ext.plugins.tool_host import Connection, ToolHost
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object
from ozzie_server_ext.protocol.tool_host import ServerResource
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.watched_tools import ReadTools, WatchedTools
from ozzie_server_ext.tools.registry import ToolRegistry
from ozzie_server_ext.vault.vault import Vault

log = logger(__name__)


STREAM = "servers"


LISTED_S = 20.0
"""How long a list of resources counts as that of now."""
_LIST_S = 20.0


class _Known(msgspec.Struct, frozen=True):
    """The resources that a server listed at a moment."""

    at: float
    resources: tuple[ServerResource, ...]


class ListedState(msgspec.Struct, frozen=True):
    """A listed server and its connection: `era` of the protocol while it is open, else ""; `problem` is why the last
    try to connect failed, or "". `signed_in`: a person has signed in to it. `resources` are those that it
    was last known to list."""

    server: Server
    era: str
    problem: str
    signed_in: bool
    resources: tuple[ServerResource, ...] = ()


class ServerTools(WatchedTools):
    """The tools of the user's servers and of a project's. `own` connects to the user's, which all projects share;
    `host` is the process for those of the project alone."""

    def __init__(
        self,
        home: Home,
        project: Path,
        registry: ToolRegistry,
        own: "OwnServers",
        host: ToolHost,
        event_log: EventLog,
        blobs: BlobStore,
    ) -> None:
        super().__init__(project, registry, event_log, blobs, stream=STREAM, what="MCP servers")
        self._home = home
        self._own = own
        values_of = partial(own.values_of, project=project)
        self._theirs = Connections(host, values_of, own.sign_ins_of(host))
        self._lists: dict[str, _Known] = {}
        self._listing: dict[str, asyncio.Task[None]] = {}

    def files(self) -> tuple[Path, ...]:
        """See `WatchedTools`."""
        return files_of(self._home, self.project)

    async def read(self) -> ReadTools:
        """See `WatchedTools`. The servers' commands are not recorded: an argument may be a key."""
        found = await asyncio.to_thread(servers_of, self._home, self.project)
        for problem in found.problems:
            log.warning("MCP servers are left out: %s", problem)
        used = [(server, each) for server in found.servers if (each := server.used) is not None]
        self._keep({server.key for server, _ in used})
        return ReadTools(
            tools=[
                tool
                for server, each in used
                for tool in all_tools_of(each, partial(self._connections(server).to, server))
            ],
            record=recorded_form([each for _, each in used]),
            names=tuple(each.name for _, each in used),
        )

    async def listed(self) -> Servers:
        """Return all servers as they are settled now, after taking over what has changed. Raises ConfigError."""
        await self.refresh()
        return await asyncio.to_thread(servers_of, self._home, self.project)

    async def overview(self) -> tuple[tuple[ListedState, ...], tuple[str, ...]]:
        """Return all servers with the state of their connections, and why files can't be read. Raises ConfigError."""
        found = await asyncio.to_thread(servers_of, self._home, self.project)
        signed_in = await asyncio.to_thread(lambda: [self._own.is_signed_in(server) for server in found.servers])
        states = (self._connections(server).state(server.key) for server in found.servers)
        listed = zip(found.servers, states, signed_in, strict=True)
        states_of = tuple(
            ListedState(server, *state, signed, self.known_resources(server)) for server, state, signed in listed
        )
        return states_of, found.problems

    async def connection(self, server: Server) -> Connection:
        """Return a connection to a trusted server. Raises ServerFailed."""
        return await self._connections(server).to(server)

    async def resources(self, server: Server, *, wait_s: float) -> tuple[ServerResource, ...]:
        """Return what a trusted server lists now, or was last known to list if it does not answer in time. It is asked
        once in `LISTED_S`."""
        assert server.settled is not None, "it is trusted"
        known = self._lists.get(server.key)
        if known is None or time.monotonic() - known.at > LISTED_S:
            listing = self._listing.get(server.key)
            if listing is None:
                listing = self._listing[server.key] = asyncio.create_task(self._list(server))
                listing.add_done_callback(lambda _: self._listing.pop(server.key, None))
            await asyncio.wait({listing}, timeout=wait_s)
        return self.known_resources(server)

    def known_resources(self, server: Server) -> tuple[ServerResource, ...]:
        """Return the resources that a server was last known to list."""
        if (known := self._lists.get(server.key)) is not None:
            return known.resources
        return () if server.settled is None else server.settled.resources

    async def _list(self, server: Server) -> None:
        try:
            found = await (await self.connection(server)).resources(within_s=_LIST_S)
        except OzzieError as error:
            log.info("the resources of %s can't be listed: %s", server.key, error)
        else:
            self._lists[server.key] = _Known(time.monotonic(), found.resources)

    def _keep(self, keys: set[str]) -> None:
        """End the connections to all other servers: nobody trusts them any more."""
        for key in [*self._lists]:
            if key not in keys:
                del self._lists[key]
        for connections in (self._theirs, self._own.at(self.project)):
            connections.end_all(but=keys)

    def end_connections(self) -> None:
        """End all connections of this project; the next call makes a new one, with the secrets of then."""
        self._keep(set())

    def _connections(self, server: Server) -> Connections:
        return self._own.at(self.project) if server.is_own else self._theirs

    async def close(self) -> None:
        for each in self._listing.values():
            each.cancel()
        self.end_connections()


def recorded_form(used: Sequence[UsedServer]) -> bytes:
    """Return the servers as they are recorded; see `from_record`."""
    plain = [
        msgspec.structs.replace(
            each, settled=msgspec.structs.replace(each.settled, argv=(), resources=(), more_resources=False)
        )
        for each in used
    ]
    return canonical_bytes({"servers": [encode(each) for each in plain]})


def from_record(content: bytes) -> tuple[UsedServer, ...]:
    """Return the servers of a recorded form. Raises InvalidJson, InvalidShape."""
    return decode(_Recorded, loads_object(content, max_bytes=len(content))).servers


class _Recorded(msgspec.Struct, frozen=True):
    servers: tuple[UsedServer, ...]


class OwnServers:
    """The connections to the user's own servers, by project: a server that is told of its project's folder is another
    one in each. They share one process."""

    def __init__(self, home: Home, host: ToolHost, vault: Vault, note: Callable[[str], None]) -> None:
        """`note` remembers a secret that goes to a server, so that it is removed from what comes back."""
        self._home = home
        self._host = host
        self._vault = vault
        self._note = note
        self._sign_ins = self.sign_ins_of(host)
        self._connections: dict[Path, Connections] = {}

    def at(self, project: Path) -> Connections:
        """Return the connections of a project."""
        if project not in self._connections:
            values_of = partial(self.values_of, project=project)
            self._connections[project] = Connections(self._host, values_of, self._sign_ins)
        return self._connections[project]

    def sign_ins_of(self, host: ToolHost) -> SignIns:
        """Return the user's sign-ins, renewed by this process."""
        return SignIns(self._home, self._vault, host, self._note)

    def is_signed_in(self, server: Server) -> bool:
        """Return whether a person has signed in to a server at an address, also in a locked vault; no, if the vault
        can't be read."""
        try:
            return server.listed.how.url is not None and is_signed_in(self._vault, server.key, server.name)
        except OzzieError:
            return False

    def values_of(self, server: Server, settled: SettledServer, project: Path) -> Values:
        """Return what stands for a server's placeholders."""
        return granted_values(server.slug, settled, self._vault, project, self._note)

    async def close(self) -> None:
        for each in self._connections.values():
            each.end_all()
