"""What the commands share by which a person settles what other people's tools may do: `ozzie mcp`, `ozzie plugins`."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ozzie_server_ext.cli.parser import Misused
from ozzie_server_ext.config.home import Home, key_folder
from ozzie_server_ext.config.loader import load
from ozzie_server_ext.domain.errors import InputError, NotFound, OzzieError
from ozzie_server_ext.domain.toolmeta import TargetKind
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.planes.supervisor import Supervisor
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.plugin_list import SWITCH
from ozzie_server_ext.plugins.tool_host import HOST_ARGV, ToolHost
from ozzie_server_ext.render.text import LINE_WIDTH, quoted, visible_label, wrapped
from ozzie_server_ext.vault.vault import Vault

T = TypeVar("T")

_NO_TARGETS = (TargetKind.PATH, TargetKind.COMMAND, TargetKind.AMOUNT, TargetKind.URL)
TARGET_KINDS = tuple(kind.value for kind in TargetKind if kind not in _NO_TARGETS)
"""What an argument may name. Paths of a server are its own, not the project's; and a server gets all arguments, so that
an address among them says nothing of what the call sends."""


def project_of(options: argparse.Namespace) -> Path:
    """Return the project folder that was named, or the one here. Raises NotFound."""
    project = Path(options.project or ".").resolve()
    if not project.is_dir():
        raise NotFound(f"There is no folder {visible_label(str(project))}.")
    return project


def programs_are_on(home: Home) -> bool:
    """Whether plugins that are programs may be used; not while the configuration can't be read."""
    try:
        return load(home).settings.native_plugins
    except OzzieError:
        return False


def expect_programs(home: Home, name: str) -> None:
    """Raise InputError unless plugins that are programs may be used, and ConfigError if that can't be read."""
    if not load(home).settings.native_plugins:
        words = f"{quoted(name)} is a program, not WebAssembly, and programs are off."
        hint = f"To turn them on, write {SWITCH} into {visible_label(str(home.config_file))}, and try again."
        raise InputError(words, hint=hint, code="plugin.programs_off")


def expect_someone(options: argparse.Namespace, verb: str, name: str) -> None:
    """Raise Misused, before anything is done, if nobody could be asked."""
    if options.yes:
        return
    if options.json:
        raise Misused("With --json nobody is shown what it may do.", hint="Say yes with --yes.")
    if not sys.stdin.isatty():
        raise Misused(f"Nobody can be asked here whether to {verb} {visible_label(name)}.", hint="Say so with --yes.")


def vault_of(home: Home) -> Vault:
    """Return the vault of a home."""
    return Vault(home.secrets, key_folder, SystemClock())


def with_host(home: Home, work: Callable[[ToolHost], Awaitable[T]]) -> T:
    """Run `work` with a tool host, which ends with it. Raises OzzieError."""
    home.create()

    async def run() -> T:
        host = ToolHost(Supervisor("tool host", HOST_ARGV, log_file=home.app_logs / "tool-host.log"))
        try:
            return await work(host)
        finally:
            await host.stop()

    return asyncio.run(run())


def effects_in(words: Sequence[str], tools: Collection[str], owner: str) -> dict[str, Effect]:
    """Return what words such as `TOOL=reads` say of an owner's tools. Raises NotFound, Misused."""
    found: dict[str, Effect] = {}
    for word in words:
        name, _, effect = word.partition("=")
        if name not in tools:
            names = ", ".join(map(quoted, tools)) or "none"
            raise NotFound(f"{owner} has no tool {quoted(name)}.", hint=f"It has: {names}.", code="mcp.tool")
        if effect not in list(Effect):
            raise Misused(f"{quoted(effect)} is no effect. Use one of {', '.join(Effect)}.")
        found[name] = Effect(effect)
    return found


def targets_in(
    words: Sequence[str], arguments: Mapping[str, Collection[str]], owner: str
) -> dict[str, dict[str, TargetKind]]:
    """Return what words such as `TOOL.ARGUMENT=recipient` say that arguments name, by tool. Raises NotFound,
    Misused."""
    found: dict[str, dict[str, TargetKind]] = {}
    for word in words:
        place, _, kind = word.partition("=")
        name, _, argument = place.rpartition(".")
        if argument not in arguments.get(name, ()):
            raise NotFound(f"{owner} has no tool with the argument {quoted(place)}.", code="mcp.tool")
        if kind not in TARGET_KINDS:
            raise Misused(f"An argument names one of {', '.join(TARGET_KINDS)}, not {quoted(kind)}.")
        found.setdefault(name, {})[argument] = TargetKind(kind)
    return found


def indented(text: str) -> Iterator[str]:
    """Yield a text in lines that are indented."""
    return (f"  {line}" for line in wrapped(visible_label(text), LINE_WIDTH - 2))
