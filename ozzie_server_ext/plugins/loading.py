"""How a granted plugin is loaded: its code as it was granted, with the secrets, variables and configuration that it may
have."""

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ozzie_server_ext.agent.structured_output import Fitting, check_schema
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.plugins.capabilities import Wish
from ozzie_server_ext.plugins.manifest import Manifest
from ozzie_server_ext.plugins.plugin_list import Plugin
from ozzie_server_ext.plugins.tool_host import Connection, ServerFailed, ToolHost
from ozzie_server_ext.protocol.tool_host import Module, Program
from ozzie_server_ext.vault.scope import PluginReader
from ozzie_server_ext.vault.vault import Vault

LOAD_S = 60.0
"""A large plugin takes half a minute to be compiled the first time."""
EXPORTS_OF_CHANNELS = ("poll_events", "send_message")
"""What a plugin of the level `communication` must have; `react` and `get_history` are optional (S0, section 7)."""


class Loading:
    """Loads plugins of one project. `note` remembers a secret that goes to a plugin, so that it is removed from what
    comes back; `private` are folders that a program must not see."""

    def __init__(
        self, home: Home, project: Path, vault: Vault, note: Callable[[str], None], private: tuple[Path, ...] = ()
    ) -> None:
        self._home = home
        self._project = project
        self._vault = vault
        self._note = note
        self._private = private

    async def load(self, host: ToolHost, plugin: Plugin, config: Mapping[str, Json] | None) -> Connection:
        """Load a plugin in a tool host; without a configuration, only to see whether it can be. Raises
        ServerFailed."""
        make = self.program_of if plugin.is_program else self.module_of
        try:
            reach = await asyncio.to_thread(make, plugin, config)
        except ServerFailed:
            raise
        except (OzzieError, OSError) as error:  # of the vault, or the folder of notes
            hint = error.hint if isinstance(error, OzzieError) else ""
            raise ServerFailed(str(error), code="plugin.start", hint=hint) from None
        return await host.open(reach, within_s=LOAD_S)

    def module_of(self, plugin: Plugin, config: Mapping[str, Json] | None) -> Module:
        """Return what is loaded. Raises ServerFailed, OzzieError, OSError."""
        settled, found = plugin.settled, plugin.found
        assert settled is not None, "only granted plugins are loaded"
        assert found is not None, "only what can be read is granted"
        manifest = found.manifest
        wishes = [Wish.of(text) for text in settled.granted]
        data = self._home.plugin_data
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Module(
            name=plugin.name,
            wasm=str(plugin.folder / manifest.wasm_file),
            digest=found.code,
            exports=exports_of(manifest),
            granted=settled.granted,
            secrets=self._secrets(plugin.name, [each.value for each in wishes if each.kind == "secret"]),
            env={each.value: os.environ.get(each.value, "") for each in wishes if each.kind == "env"},
            config={} if config is None else _config(manifest, config, wishes),
            notes=str(data / f"{notes_name(plugin)}.db"),
            compiled=str(data / "compiled"),
            project=str(self._project),
            health_url=_health_url(manifest),
        )

    def program_of(self, plugin: Plugin, config: Mapping[str, Json] | None) -> Program:
        """The same for a program."""
        settled, found = plugin.settled, plugin.found
        assert settled is not None, "only granted plugins are loaded"
        assert found is not None, "only what can be read is granted"
        manifest = found.manifest
        wishes = [Wish.of(text) for text in settled.granted]
        env = {each.value: os.environ.get(each.value) for each in wishes if each.kind == "env"}
        return Program(
            name=plugin.name,
            folder=str(plugin.folder),
            program=manifest.program_file,
            digest=found.code,
            granted=settled.granted,
            secrets=self._secrets(plugin.name, [each.value for each in wishes if each.kind == "secret"]),
            env={name: value for name, value in env.items() if value is not None},
            config={} if config is None else _config(manifest, config, wishes),
            project=str(self._project),
            health_url=_health_url(manifest),
            private=tuple(map(str, self._private)),
        )

    def _secrets(self, name: str, names: list[str]) -> dict[str, str]:
        """Return those of the granted secrets that are set."""
        reader = PluginReader(plugin=name, project=str(self._project), granted=frozenset(names))
        found: dict[str, str] = {}
        for each in names:
            if self._vault.holds(each, reader):
                found[each] = self._vault.reveal(each, reader).reveal()
                self._note(found[each])
        return found


def exports_of(manifest: Manifest) -> tuple[str, ...]:
    """Return the functions that a plugin's code must have."""
    if manifest.level == "communication":
        return EXPORTS_OF_CHANNELS
    return tuple(tool.name for tool in manifest.tools)


def notes_name(plugin: Plugin) -> str:
    """Return the name under which a plugin's notes are kept: those of plugins with the same name are apart."""
    return f"{plugin.slug}-{hashlib.sha256(plugin.key.encode()).hexdigest()[:8]}"


def _health_url(manifest: Manifest) -> str:
    """Return the address of a plugin's health check, or "". Raises ServerFailed for one that can't be asked."""
    url = manifest.healthcheck.url if manifest.healthcheck is not None else None
    if url is None:
        return ""
    try:
        if urlsplit(url).hostname and urlsplit(url).port != 0:
            return url
    except ValueError:
        pass
    raise ServerFailed("The address of its health check is none.", code="plugin.start")


def _config(manifest: Manifest, config: Mapping[str, Json], wishes: list[Wish]) -> JsonObject:
    """Return the granted part of a plugin's configuration. Raises ServerFailed if it does not fit the plugin's
    schema."""
    if manifest.config_schema is not None:
        check_schema(manifest.config_schema)
        if problem := Fitting(manifest.config_schema).misfit({**config}):
            raise ServerFailed(
                f"Its configuration does not fit: {problem}",
                code="plugin.config",
                hint=f'Correct "plugins.{manifest.name}" in config.jsonc.',
            )
    granted = {each.value for each in wishes if each.kind == "config"}
    return {name: value for name, value in config.items() if "" in granted or name in granted}
