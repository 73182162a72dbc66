"""The plugins that count in a project, and what a person has settled for each: what it may do, what each of its tools
does, and whether it is on (docs/plugins.md, Plugins).

A plugin is a folder: one of the user's own, one that comes with Ozzie, or one in a project. It is inert until a person
grants what it asks for; that is recorded in `plugins.json` of Ozzie's folder, for the hash of its manifest and code.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from ozzie_server_ext.config.files import locked, replace_file
from ozzie_server_ext.config.home import Home, shipped
from ozzie_server_ext.config.jsonc import ConfigError, content_if_there
from ozzie_server_ext.domain.errors import NotFound, OzzieError
from ozzie_server_ext.domain.toolmeta import TargetKind
from ozzie_server_ext.plugins.capabilities import Wish
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.manifest import FILES, FoundPlugin, Manifest, find_plugin
from ozzie_server_ext.plugins.program_files import paths_to_watch
from ozzie_server_ext.plugins.requirements import unmet
from ozzie_server_ext.plugins.tool_names import slug_of
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode
from ozzie_server_ext.render.text import quoted

MOST = 200
"""Folders that are looked at in one place."""
OF_PROJECT = Path(".ozzie/plugins")
Origin: TypeAlias = Literal["yours", "shipped", "project"]

State: TypeAlias = Literal["on", "off", "new", "changed", "waits", "shadowed", "broken"]
"""`new`: nobody has granted it anything. `changed`: its manifest or code is another than that which was granted. `off`:
a person or Ozzie has turned it off. `waits`: something that it requires is missing, or it is a program, and programs
are off. `shadowed`: a plugin that counts more has its name. `broken`: it can't be read."""
PROGRAMS_ARE_OFF = "It is a program, and programs are off."
SWITCH = '"native_plugins": true'
HOW_TO_SWITCH = f"To turn them on, write {SWITCH} into config.jsonc in Ozzie's folder."


class SaidTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person says of a tool: what it does, and which arguments name what a call acts on."""

    effect: Effect | None = None
    targets: dict[str, TargetKind] = msgspec.field(default_factory=dict[str, TargetKind])


class SettledPlugin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person has settled for a plugin with this `digest`: `granted` are wishes (`capabilities.Wish`), `tools`
    what they say of its tools. `off_because` says why Ozzie turned it off; empty if a person did."""

    digest: str
    granted_at: datetime
    granted: tuple[str, ...] = ()
    tools: dict[str, SaidTool] = msgspec.field(default_factory=dict[str, SaidTool])
    is_on: bool = True
    off_because: str = ""


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin in a folder, with what was settled for it. `key` names it among all; `problem` says why it is `broken`,
    or what it `waits` for."""

    key: str
    name: str
    folder: Path
    origin: Origin
    state: State
    found: FoundPlugin | None = None
    settled: SettledPlugin | None = None
    problem: str = ""

    @property
    def slug(self) -> str:
        return slug_of(self.name)

    @property
    def is_program(self) -> bool:
        """Whether it is a program, and not WebAssembly."""
        return self.found is not None and self.found.manifest.provider == "native"

    @property
    def manifest(self) -> Manifest:
        """Its manifest. Raises ConfigError if it can't be read."""
        if self.found is None:
            raise ConfigError(self.problem)
        return self.found.manifest

    @property
    def missing(self) -> frozenset[Wish]:
        """What it asks for and nobody granted."""
        granted = self.settled.granted if self.settled is not None else ()
        return frozenset(wish for wish in self.manifest.wishes if str(wish) not in granted)


def effect_of(tool: str, settled: SettledPlugin) -> Effect | None:
    """Return what a tool of a plugin does: what a person says; else that it reads, if what was granted lets it do
    nothing else."""
    said = settled.tools.get(tool)
    if said is not None and said.effect is not None:
        return said.effect
    return Effect.READS if all(Wish.of(wish).only_reads for wish in settled.granted) else None


class Plugins(msgspec.Struct, frozen=True):
    """All plugins of a project: the user's own, those that come with Ozzie, and the project's."""

    plugins: tuple[Plugin, ...]

    def find(self, name: str) -> Plugin:
        """Return the plugin of this name that counts. Raises NotFound."""
        for plugin in self.plugins:
            if plugin.name == name and plugin.state != "shadowed":
                return plugin
        names = ", ".join(quoted(each.name) for each in self.plugins if each.state != "shadowed")
        raise NotFound(f"There is no plugin {quoted(name)}.", hint=f"There are: {names}.", code="plugin.unknown")


def plugins_of(home: Home, project: Path, *, programs: bool = False) -> Plugins:
    """Return the plugins of a project; `programs`: those that are programs may be used. Raises ConfigError if what was
    settled can't be read."""
    settled = _settled(home)
    found: list[Plugin] = []
    taken: set[str] = set()
    for origin, folder in _folders(home, project):
        plugin = _plugin(origin, folder, settled, project)
        if plugin.is_program and not programs:
            state = "waits" if plugin.state == "on" else plugin.state
            problem = f"{PROGRAMS_ARE_OFF} {HOW_TO_SWITCH}"
            plugin = msgspec.structs.replace(plugin, state=state, problem=problem)
        found.append(msgspec.structs.replace(plugin, state="shadowed") if plugin.slug in taken else plugin)
        taken.add(plugin.slug)
    waiting = unmet({each.key: each.manifest for each in found if each.state == "on"})
    return Plugins(
        tuple(
            msgspec.structs.replace(each, state="waits", problem=waiting[each.key]) if each.key in waiting else each
            for each in found
        )
    )


def files_of(home: Home, project: Path) -> tuple[Path, ...]:
    """Return the files and folders whose changes change the plugins of a project."""
    files: list[Path] = [home.plugins_file, home.plugins, project / OF_PROJECT]
    for _, folder in _folders(home, project):
        files += [folder, *(folder / name for name in FILES), *sorted(folder.glob("*.wasm"))[:10]]
        files += paths_to_watch(folder)
    return tuple(files)


def _folders(home: Home, project: Path) -> Iterator[tuple[Origin, Path]]:
    """Yield the folders of plugins, those that count more first."""
    places: tuple[tuple[Origin, Path], ...] = (
        ("yours", home.plugins),
        ("shipped", shipped("plugins")),
        ("project", project / OF_PROJECT),
    )
    for origin, place in places:
        try:
            names = sorted(os.listdir(place))[:MOST]
        except OSError:
            continue
        for name in names:
            if not name.startswith(".") and any((place / name / file).exists() for file in FILES):
                yield origin, place / name


def _plugin(origin: Origin, folder: Path, settled: Mapping[str, SettledPlugin], project: Path) -> Plugin:
    try:
        found = find_plugin(folder)
    except OzzieError as error:
        key = _key(origin, folder, folder.name, project)
        problem = " ".join(filter(None, [str(error), error.hint]))
        return Plugin(key=key, name=folder.name, folder=folder, origin=origin, state="broken", problem=problem)
    name = found.manifest.name
    key = _key(origin, folder, name, project)
    known = settled.get(key)
    state = _state(found, known)
    return Plugin(key=key, name=name, folder=folder, origin=origin, state=state, found=found, settled=known)


def _key(origin: Origin, folder: Path, name: str, project: Path) -> str:
    """Return the key of a plugin. Links inside a project are not followed, as for `config.trust`."""
    match origin:
        case "yours":
            return name
        case "shipped":
            return f"shipped:{name}"
        case "project":
            return f"{project.resolve() / OF_PROJECT / folder.name}"


def _state(found: FoundPlugin, known: SettledPlugin | None) -> State:
    if known is None:
        return "new"
    if known.digest != found.digest:
        return "changed"
    return "on" if known.is_on else "off"


# --- plugins.json -----------------------------------------------------------------------------------------------------


def resettle(home: Home, key: str, change: Callable[[SettledPlugin | None], SettledPlugin | None]) -> None:
    """Record a change of what was settled for a plugin, holding off others meanwhile; None forgets it. Raises
    ConfigError, and what `change` raises."""
    home.create()
    with locked(home.plugins_file):
        known = dict(_settled(home))
        settled = change(known.pop(key, None))
        if settled is not None:
            known[key] = settled
        document = {"plugins": {each: encode(known[each]) for each in sorted(known)}}
        replace_file(home.plugins_file, json.dumps(document, indent=1).encode())


def _settled(home: Home) -> Mapping[str, SettledPlugin]:
    """Read what was settled. A damaged file is not an empty one."""
    content = content_if_there(home.plugins_file)
    if content is None:
        return {}
    try:
        return decode(_Document, json.loads(content)).plugins
    except (ValueError, RecursionError, InvalidShape):
        raise ConfigError(
            f"{home.plugins_file}: what was settled for plugins can't be read: the file is damaged.",
            hint="Restore a backup of it, or move it away and grant your plugins again.",
        ) from None


class _Document(msgspec.Struct, frozen=True):
    plugins: dict[str, SettledPlugin]


def asked(plugin: Plugin) -> Iterable[Wish]:
    """Yield what a plugin asks for, in order."""
    return sorted(plugin.manifest.wishes)
