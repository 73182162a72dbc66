"""Connections to the trusted MCP servers: made when a tool is first called, kept while they are used, made again when
they were lost."""

import asyncio
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.plugins.installing import digest_of
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.servers import Server, SettledServer
from ozzie_server_ext.plugins.tool_host import Connection, ServerFailed, ToolHost
from ozzie_server_ext.protocol.tool_host import Remote, Started
from ozzie_server_ext.vault.scope import PluginReader
from ozzie_server_ext.vault.vault import Vault

log = logger(__name__)

CONNECT_S = 30.0
IDLE_S = 600.0
"""A server without calls for so long is ended."""
_PLACEHOLDER = re.compile(
    r"\$\{(?:folder:(?P<folder>project|home)|(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]{0,2000}))?|input:(?P<input>[^}]{1,64}))\}"
)


class Values(msgspec.Struct, frozen=True):
    """What stands for placeholders: `reveal` returns a secret or variable of this name, or None."""

    reveal: Callable[[str], str | None]
    project: Path

    def fill(self, text: str) -> str:
        """Replace the placeholders in a text. Raises ServerFailed for one that nothing stands for."""

        def found(match: re.Match[str]) -> str:
            if match["folder"] is not None:
                return str(self.project if match["folder"] == "project" else Path.home())
            if match["input"] is not None:
                words = f"It needs what VS Code would ask for ({match['input']})."
                raise ServerFailed(words, code="mcp.input", hint="Write ${NAME} there, the name of a secret.")
            value = self.reveal(match["name"])
            if value is None and match["default"] is not None:
                return match["default"]
            if value is None:
                name = match["name"]
                words = f"It needs ${name}, which is not set."
                raise ServerFailed(words, code="mcp.secret", hint=f"Set it: ozzie secrets set {name}")
            return value

        return _PLACEHOLDER.sub(found, text)


def names_in(how: McpText) -> tuple[str, ...]:
    """Return the names of secrets and variables that a server's listing asks for, those with a default too."""
    texts = [how.command or "", *how.args, *how.env.values(), *how.headers.values(), how.url or ""]
    found = (match["name"] for text in texts for match in _PLACEHOLDER.finditer(text))
    return tuple(dict.fromkeys(name for name in found if name))


def reached(how: McpText, settled: SettledServer, values: Values) -> Started | Remote:
    """Return how a server is reached, with all placeholders filled in. Raises ServerFailed."""
    if how.url is not None:
        headers = {name: values.fill(value) for name, value in how.headers.items()}
        return Remote(url=values.fill(how.url), headers=headers, is_sse=how.transport == "sse")
    return Started(
        argv=tuple(map(values.fill, settled.argv)),
        env={name: values.fill(value) for name, value in how.env.items()},
        access=settled.access,
    )


def secret_owner(slug: str) -> str:
    """Return the plugin to which a server's own secrets belong in the vault."""
    return f"mcp-{slug}"[:64]


def granted_values(
    slug: str, settled: SettledServer, vault: Vault, project: Path, note: Callable[[str], None] = lambda value: None
) -> Values:
    """Return what stands for a server's placeholders: the secrets and variables that a person granted it. `note` is
    told of each that is revealed."""
    granted = frozenset(settled.secrets)
    reader = PluginReader(plugin=secret_owner(slug), project=str(project), granted=granted)

    def reveal(name: str) -> str | None:
        if name not in granted:
            return None
        value = vault.reveal(name, reader).reveal() if vault.holds(name, reader) else os.environ.get(name)
        if value:
            note(value)
        return value or None

    return Values(reveal, project)


def checked_reach(how: McpText, settled: SettledServer, values: Values) -> Started | Remote:
    """Return how a server is reached, if what was installed for it is as it was. Raises ServerFailed."""
    if settled.packages and _digest(Path(settled.access.program[0])) != settled.packages:
        raise ServerFailed(
            "Its installed files are others than those that were trusted.",
            code="mcp.changed",
            hint="Remove it with ozzie mcp rm, and add it again.",
        )
    return reached(how, settled, values)


def _digest(folder: Path) -> str:
    try:
        return digest_of(folder)
    except OSError:
        return ""


class Connections:
    """The connections of one tool host. `values_of` returns what stands for a server's placeholders."""

    def __init__(
        self, host: ToolHost, values_of: Callable[[Server, SettledServer], Values], *, idle_s: float = IDLE_S
    ) -> None:
        self._host = host
        self._values_of = values_of
        self._idle_s = idle_s
        self._open: dict[str, tuple[str, Connection]] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._endings: dict[str, asyncio.TimerHandle] = {}

    async def to(self, server: Server) -> Connection:
        """Return a connection to a trusted server, as it was settled. Raises ServerFailed."""
        settled = server.settled
        assert settled is not None, "nobody connects to a server that was not trusted"
        form = f"{settled.form} {settled.access} {settled.packages} {settled.argv} {settled.secrets}"
        async with self._opening.setdefault(server.key, asyncio.Lock()):
            known = self._open.get(server.key)
            if known is not None and (known[0] != form or not known[1].is_open):
                self._end(server.key)
                known = None
            if known is None:
                known = self._open[server.key] = form, await self._connect(server, settled)
        self._postpone_end(server.key)
        return known[1]

    async def _connect(self, server: Server, settled: SettledServer) -> Connection:
        try:
            how = await asyncio.to_thread(checked_reach, server.listed.how, settled, self._values_of(server, settled))
        except ServerFailed:
            raise
        except OzzieError as error:  # of the vault
            raise ServerFailed(str(error), code=error.code, hint=error.hint) from None
        connection = await self._host.open(how, within_s=CONNECT_S)
        log.info("connected to the server %s %s", server.key, connection.info.era)
        return connection

    def _postpone_end(self, key: str) -> None:
        if (ending := self._endings.get(key)) is not None:
            ending.cancel()
        self._endings[key] = asyncio.get_running_loop().call_later(self._idle_s, partial(self._end_if_idle, key))

    def _end_if_idle(self, key: str) -> None:
        known = self._open.get(key)
        if known is not None and known[1].open_calls:
            self._postpone_end(key)
        else:
            self._end(key)

    def _end(self, key: str) -> None:
        if (ending := self._endings.pop(key, None)) is not None:
            ending.cancel()
        if (known := self._open.pop(key, None)) is not None:
            known[1].close()

    def end_all(self) -> None:
        for key in list(self._open):
            self._end(key)
