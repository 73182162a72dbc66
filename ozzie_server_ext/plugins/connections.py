"""Connections to the trusted MCP servers, and loaded plugins: made when a tool is first called, kept while they are
used, made again when they were lost."""

import asyncio
import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.redaction import redact_text
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.plugins.installing import digest_of
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.servers import Server, SettledServer
from ozzie_server_ext.plugins.sign_ins import SignIns, with_way
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
    told of each secret."""
    granted = frozenset(settled.secrets)
    reader = PluginReader(plugin=secret_owner(slug), project=str(project), granted=granted)

    def reveal(name: str) -> str | None:
        if name not in granted:
            return None
        if not vault.holds(name, reader):
            return os.environ.get(name) or None
        value = vault.reveal(name, reader).reveal()
        note(value)
        return value

    return Values(reveal, project)


def checked_reach(how: McpText, settled: SettledServer, values: Values) -> Started | Remote:
    """Return how a server is reached, if what was installed for it is as it was. Raises ServerFailed."""
    if settled.packages and _digest(Path(settled.access.program[0])) != settled.packages:
        raise ServerFailed(
            "Its installed files are others than those that were trusted.",
            code="mcp.changed",
            hint="Remove it with ozzie mcp rm, and add it again.",
        )
    for path, digest in settled.files.items():
        if file_digest(path) != digest:
            raise ServerFailed(
                f"{path} is another file than the one that was trusted.",
                code="mcp.changed",
                hint="Look at it, and trust the server again.",
            )
    return reached(how, settled, values)


def file_digest(path: str) -> str:
    """Return the hash of a file, "" if it can't be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _digest(folder: Path) -> str:
    try:
        return digest_of(folder)
    except OSError:
        return ""


def without_secrets(text: str, settled: SettledServer, values: Values) -> str:
    """Remove from a text what a server was given, which it may have quoted, and what looks like a key."""
    for name in settled.secrets:
        with suppress(OzzieError):
            text = text.replace(values.reveal(name) or "\0", "***")
    return redact_text(text)


class OpenConnections:
    """Connections by the keys of what they lead to."""

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._open: dict[str, tuple[str, Connection]] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._problems: dict[str, str] = {}
        self._endings: dict[str, asyncio.TimerHandle] = {}

    async def open(
        self,
        key: str,
        form: str,
        make: Callable[[], Awaitable[Connection]],
        told: Callable[[ServerFailed], str] = str,
    ) -> Connection:
        """Return the open connection of this key and form, or make one; one of another form ends with its last call.
        `told` returns what is kept of a failure, without secrets; it is called in a thread. Raises ServerFailed."""
        async with self._opening.setdefault(key, asyncio.Lock()):
            known = self._open.get(key)
            if known is not None and (known[0] != form or not known[1].is_open):
                self._forget(key)
                known[1].retire()
                known = None
            if known is None:
                try:
                    known = self._open[key] = form, await make()
                except ServerFailed as error:
                    self._problems[key] = await asyncio.to_thread(told, error)
                    raise
                self._problems.pop(key, None)
        self._postpone_end(key)
        return known[1]

    def is_open(self, key: str) -> bool:
        """Whether there is an open connection of this key."""
        known = self._open.get(key)
        return known is not None and known[1].is_open

    def state(self, key: str) -> tuple[str, str]:
        """Return the era of a server's open connection, or "", and why the last try to connect failed, or ""."""
        era = self._open[key][1].info.era if self.is_open(key) else ""
        return era, self._problems.get(key, "")

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

    def _forget(self, key: str) -> None:
        if (ending := self._endings.pop(key, None)) is not None:
            ending.cancel()
        self._open.pop(key, None)

    def _end(self, key: str) -> None:
        known = self._open.get(key)
        self._forget(key)
        if known is not None:
            known[1].close()

    def end_all(self, *, but: Collection[str] = ()) -> None:
        """End all connections but those with these keys."""
        for key in list(self._open):
            if key not in but:
                self._end(key)


class Connections(OpenConnections):
    """The connections of one tool host to servers. `values_of` returns what stands for a server's placeholders."""

    def __init__(
        self,
        host: ToolHost,
        values_of: Callable[[Server, SettledServer], Values],
        sign_ins: SignIns,
        *,
        idle_s: float = IDLE_S,
    ) -> None:
        super().__init__(idle_s=idle_s)
        self._host = host
        self._values_of = values_of
        self._sign_ins = sign_ins

    async def to(self, server: Server) -> Connection:
        """Return a connection to a trusted server, as it was settled. Raises ServerFailed."""
        settled = server.settled
        assert settled is not None, "nobody connects to a server that was not trusted"
        form = f"{settled.form} {settled.access} {settled.packages} {settled.argv} {settled.secrets}"

        def told(error: ServerFailed) -> str:
            words = with_way(error, server.name, secrets=settled.secrets)
            return without_secrets(words, settled, self._values_of(server, settled))

        return await self.open(server.key, form, partial(self._connect, server, settled), told)

    async def _connect(self, server: Server, settled: SettledServer) -> Connection:
        try:
            how = await asyncio.to_thread(checked_reach, server.listed.how, settled, self._values_of(server, settled))
        except ServerFailed:
            raise
        except OzzieError as error:  # of the vault
            raise ServerFailed(str(error), code=error.code, hint=error.hint) from None
        renew = None
        if isinstance(how, Remote):
            how, renew = await self._sign_ins.signed(server.key, server.name, how)
        connection = await self._host.open(how, within_s=CONNECT_S, renew=renew)
        log.info("connected to the server %s %s", server.key, connection.info.era)
        return connection
