"""Keeps the tools of plugins up to date in a project's registry, and watches over plugins: grants, failures, health."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.loader import SYSTEM_FILE
from ozzie_server_ext.config.settings import Settings
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    Draft,
    EventBody,
    GrantGranted,
    GrantRevoked,
    PluginDisabled,
    PluginHealthChanged,
    PluginLoaded,
)
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.plugins.connections import OpenConnections
from ozzie_server_ext.plugins.loading import Loading
from ozzie_server_ext.plugins.plugin_list import (
    HOW_TO_SWITCH,
    PROGRAMS_ARE_OFF,
    Plugin,
    Plugins,
    SettledPlugin,
    files_of,
    plugins_of,
    resettle,
)
from ozzie_server_ext.plugins.plugin_tool import UsedPlugin, tools_of_plugin
from ozzie_server_ext.plugins.tool_host import Connection, ServerFailed, ToolHost
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object
from ozzie_server_ext.protocol.tool_host import HEALTH, Refused
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.configuration import Configuration
from ozzie_server_ext.tasks.incidents import Incidents
from ozzie_server_ext.tasks.watched_tools import ReadTools, WatchedTools
from ozzie_server_ext.tools.registry import ToolRegistry

log = logger(__name__)

STREAM = "plugins"
OF_PLUGINS = "plugin-facts"
"""The stream of what became of plugins; `STREAM` has only what a replay needs."""
BREAKS = 5
"""Failures in a row of a plugin's own making, after which it is turned off."""
_OWN_FAILURES = frozenset({"plugin.broke", "plugin.garbage", "plugin.timeout"})
"""Not the end of its process, which other plugins share."""
UNHEALTHY_AFTER = 2
HEALTH_S = 20.0


class PluginTools(WatchedTools):
    """The tools of the user's plugins, those that come with Ozzie, and a project's. `own` is the process for the first
    two, `host` that for those of the project alone; `configuration` has that of plugins, and says whether programs may
    be used."""

    def __init__(
        self,
        home: Home,
        project: Path,
        registry: ToolRegistry,
        loading: Loading,
        own: ToolHost,
        host: ToolHost,
        event_log: EventLog,
        blobs: BlobStore,
        incidents: Incidents,
        configuration: Configuration,
    ) -> None:
        super().__init__(project, registry, event_log, blobs, stream=STREAM, what="plugins")
        self._home = home
        self._loading = loading
        self._own = own
        self._host = host
        self._incidents = incidents
        self._configuration = configuration
        self._connections = OpenConnections()
        self._used: dict[str, Plugin] = {}
        self._known: Plugins | None = None
        self._failures: Counter[str] = Counter()
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._failed_checks: Counter[str] = Counter()
        self._unhealthy: dict[str, str] = {}
        self._healthy: set[str] = set()

    def files(self) -> tuple[Path, ...]:
        """See `WatchedTools`."""
        return (SYSTEM_FILE, self._home.config_file, *files_of(self._home, self.project))

    async def _settings(self) -> Settings:
        return (await self._configuration.refresh()).settings

    async def _found(self) -> Plugins:
        programs = (await self._settings()).native_plugins
        return await asyncio.to_thread(plugins_of, self._home, self.project, programs=programs)

    async def read(self) -> ReadTools:
        """See `WatchedTools`."""
        found = await self._found()
        on = {each.key: each for each in found.plugins if each.state == "on"}
        used = [(each, UsedPlugin.of(each)) for each in on.values()]
        record = recorded_form([each for _, each in used])
        if self._known is not None or await self.is_news(record):  # else it is as it was when a gateway last ran
            await self._note_changes(found, on)
        self._known, self._used = found, on
        self._connections.end_all(but=on)
        self._check_health()
        return ReadTools(
            tools=[
                tool
                for plugin, each in used
                for tool in tools_of_plugin(each, partial(self._to, plugin), _PluginWatch(self, plugin))
            ],
            record=record,
            names=tuple(each.name for _, each in used),
        )

    async def overview(self) -> tuple["PluginState", ...]:
        """Return all plugins, and what is known of those in use. Raises ConfigError."""
        found = await self._found()
        return tuple(
            PluginState(
                plugin=each,
                is_loaded=self._connections.is_open(each.key),
                problem=each.problem or self._unhealthy.get(each.key, "") or self._connections.state(each.key)[1],
            )
            for each in found.plugins
        )

    def end_connections(self) -> None:
        """See `WatchedTools`."""
        self._connections.end_all()

    async def close(self) -> None:
        """End the connections and the checks."""
        for check in self._checks.values():
            check.cancel()
        await asyncio.gather(*self._checks.values(), return_exceptions=True)
        self.end_connections()

    # --- connections ----------------------------------------------------------------------------------------------

    async def _to(self, plugin: Plugin) -> Connection:
        """Return the loaded plugin, if it is still the one that a call was decided for. Raises ServerFailed."""
        if (reason := self._unhealthy.get(plugin.key)) is not None:
            raise ServerFailed(f"It fails its health check: {reason}", code="plugin.unhealthy")
        now = self._used.get(plugin.key)
        if now is None or now.settled != plugin.settled:
            raise ServerFailed("It was changed since this call was decided.", code="plugin.changed")
        return await self.loaded(plugin.key)

    async def loaded(self, key: str) -> Connection:
        """Return a plugin that is on, loaded as it was granted. Raises ServerFailed."""
        plugin = self._used.get(key)
        if plugin is None or plugin.settled is None:
            raise ServerFailed("It is not used any more.", code="plugin.off")
        host = self._host if plugin.origin == "project" else self._own
        settings = await self._settings()
        if plugin.is_program and not settings.native_plugins:
            raise ServerFailed(PROGRAMS_ARE_OFF, code="plugin.off", hint=HOW_TO_SWITCH)
        config = settings.plugins.get(plugin.name, {})
        form = f"{plugin.settled.digest} {plugin.settled.granted} {canonical_bytes(config).decode()}"
        return await self._connections.open(key, form, lambda: self._loading.load(host, plugin, config))

    # --- what becomes of them -------------------------------------------------------------------------------------

    async def _note_changes(self, found: Plugins, on: Mapping[str, Plugin]) -> None:
        """Record which plugins are used now, which are not any more, and what was granted or taken back."""
        facts: list[EventBody] = []
        project = str(self.project)
        for key, plugin in on.items():
            before = self._used.get(key)
            settled = plugin.settled
            assert settled is not None, "a plugin that is on was settled"
            if before is not None and before.settled == settled:
                continue
            known = frozenset(before.settled.granted) if before is not None and before.settled else frozenset[str]()
            granted = frozenset(settled.granted)
            for kind, wishes in ((GrantGranted, granted - known), (GrantRevoked, known - granted)):
                if wishes and self._known is not None:  # not what was settled before this start
                    facts.append(kind(plugin=plugin.name, wishes=tuple(sorted(wishes)), project=project))
            facts.append(
                PluginLoaded(
                    plugin=plugin.name,
                    version=plugin.manifest.version,
                    digest=settled.digest,
                    granted=settled.granted,
                    project=project,
                )
            )
            self._failures.pop(key, None)
            await self._incidents.settle("refused", plugin.name, "granted", details=granted, project=project)
            await self._incidents.settle("turned_off", plugin.name, "turned_on", project=project)
        now = {each.key: each for each in found.plugins}
        for key, plugin in self._used.items():
            if key not in on:
                why = _why(now.get(key))
                facts.append(PluginDisabled(plugin=plugin.name, why=why, project=project))
                if why in ("gone", "revoked"):
                    for kind in ("refused", "turned_off", "unhealthy"):
                        await self._incidents.settle(kind, plugin.name, "gone", project=project)
        if facts:
            await self._log.append(OF_PLUGINS, [Draft(body=fact, actor="system", source="plugin") for fact in facts])

    async def refused(self, plugin: Plugin, refused: Refused) -> None:
        """Keep as an incident that a plugin asked for what nobody granted."""
        await self._incidents.open(
            "refused", plugin.name, detail=refused.wish, message=refused.words, project=str(self.project)
        )

    async def ended(self, plugin: Plugin, failure: ServerFailed | None) -> None:
        """Count failures of a plugin's own making, and turn it off after too many in a row."""
        if failure is None or failure.code not in _OWN_FAILURES:
            self._failures.pop(plugin.key, None)
            return
        self._failures[plugin.key] += 1
        if self._failures[plugin.key] >= BREAKS:
            await self._turn_off(plugin, f"It failed {BREAKS} times in a row, at last so: {failure}")

    async def _turn_off(self, plugin: Plugin, reason: str) -> None:
        def off(known: SettledPlugin | None) -> SettledPlugin | None:
            if known is None or known.digest != (plugin.settled and plugin.settled.digest):
                return known  # it is another one by now
            return msgspec.structs.replace(known, is_on=False, off_because=reason)

        try:
            await asyncio.to_thread(resettle, self._home, plugin.key, off)
        except OzzieError as error:
            log.warning("the plugin %s can't be turned off: %s", plugin.name, error)
            return
        log.warning("the plugin %s was turned off: %s", plugin.name, reason)
        words = f"{plugin.name} was turned off. {reason}"
        await self._incidents.open("turned_off", plugin.name, message=words, project=str(self.project))
        await self.refresh()

    # --- health ---------------------------------------------------------------------------------------------------

    def _check_health(self) -> None:
        """Begin to check plugins that say how, and stop for those that are gone or changed."""
        wanted = {
            f"{key} {plugin.settled}": plugin
            for key, plugin in self._used.items()
            if plugin.manifest.healthcheck is not None
        }
        for name in list(self._checks):
            if name not in wanted:
                self._checks.pop(name).cancel()
        for name, plugin in wanted.items():
            if name not in self._checks:
                self._checks[name] = asyncio.create_task(self._follow_health(plugin), name=f"health of {plugin.name}")
        self._unhealthy = {key: reason for key, reason in self._unhealthy.items() if key in self._used}

    async def _follow_health(self, plugin: Plugin) -> None:
        check = plugin.manifest.healthcheck
        assert check is not None, "only plugins that say how are checked"
        while True:
            try:
                await self.check_health(plugin.key)
            except Exception:
                log.exception("the health of the plugin %s can't be checked", plugin.name)
            await asyncio.sleep(check.every_s)

    async def check_health(self, key: str) -> None:
        """Check a plugin now. It is unhealthy after failing twice in a row, and healthy once it passes."""
        plugin = self._used[key]
        reason = await self._problem(plugin)
        self._failed_checks[key] = self._failed_checks[key] + 1 if reason else 0
        if self._failed_checks[key] >= UNHEALTHY_AFTER or not reason:
            await self._set_health(plugin, reason)

    async def _problem(self, plugin: Plugin) -> str:
        """Return why a plugin does not work, or ""."""
        try:
            connection = await self.loaded(plugin.key)
            output = await connection.call(HEALTH, {}, within_s=HEALTH_S)
        except ServerFailed as error:
            return str(error)
        return "\n".join(output.texts)[:500] or "It says that it does not work." if output.failed else ""

    async def _set_health(self, plugin: Plugin, reason: str) -> None:
        project = str(self.project)
        if not reason and plugin.key not in self._healthy:  # an incident of before this start is over
            self._healthy.add(plugin.key)
            await self._incidents.settle("unhealthy", plugin.name, "healthy", project=project)
        if bool(reason) == (plugin.key in self._unhealthy):
            return
        fact = PluginHealthChanged(plugin=plugin.name, healthy=not reason, reason=reason, project=project)
        await self._log.append(OF_PLUGINS, [Draft(body=fact, actor="system", source="plugin")])
        if reason:
            self._unhealthy[plugin.key] = reason
            words = f"{plugin.name} fails its health check. {reason}"
            await self._incidents.open("unhealthy", plugin.name, message=words, project=project)
        else:
            del self._unhealthy[plugin.key]
            await self._incidents.settle("unhealthy", plugin.name, "healthy", project=project)


class PluginState(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin, whether it is loaded now, and what is wrong with it, or ""."""

    plugin: Plugin
    is_loaded: bool
    problem: str


class _PluginWatch:
    """Tells `PluginTools` how the calls of one plugin went."""

    def __init__(self, tools: PluginTools, plugin: Plugin) -> None:
        self._tools = tools
        self._plugin = plugin

    async def refused(self, refused: Refused) -> None:
        await self._tools.refused(self._plugin, refused)

    async def ended(self, failure: ServerFailed | None) -> None:
        await self._tools.ended(self._plugin, failure)


def _why(plugin: Plugin | None) -> Literal["off", "broke", "revoked", "changed", "waits", "gone"]:
    match plugin:
        case Plugin(state="off", settled=SettledPlugin(off_because=reason)):
            return "broke" if reason else "off"
        case Plugin(state="new"):
            return "revoked"
        case Plugin(state="changed" | "broken"):
            return "changed"
        case Plugin(state="waits"):
            return "waits"
        case _:
            return "gone"


def recorded_form(used: Sequence[UsedPlugin]) -> bytes:
    """Return the plugins as they are recorded; see `from_record`."""
    return canonical_bytes({"plugins": [encode(each) for each in used]})


def from_record(content: bytes) -> tuple[UsedPlugin, ...]:
    """Return the plugins of a recorded form. Raises InvalidJson, InvalidShape."""
    return decode(_Recorded, loads_object(content, max_bytes=len(content))).plugins


class _Recorded(msgspec.Struct, frozen=True):
    plugins: tuple[UsedPlugin, ...]
