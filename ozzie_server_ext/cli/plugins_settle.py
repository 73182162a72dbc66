"""`ozzie plugins list`, `show`, `add`, `grant`, `revoke`, `enable`, `disable`, `classify`, `remove`: what a person
settles about plugins.

No gateway is needed: a running one reads what was settled before its next turn.
"""

import argparse
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ozzie_server_ext.cli.parser import Misused
from ozzie_server_ext.cli.plugins import manifest_json, manifest_lines
from ozzie_server_ext.cli.settling import (
    effects_in,
    expect_programs,
    expect_someone,
    indented,
    programs_are_on,
    project_of,
    targets_in,
    vault_of,
    with_host,
)
from ozzie_server_ext.cli.terminal import agreed, print_json, print_notice, print_result
from ozzie_server_ext.config.home import Home, find_home
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound
from ozzie_server_ext.plugins.capabilities import Wish, sentences
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.loading import Loading, exports_of, notes_name
from ozzie_server_ext.plugins.manifest import FoundPlugin, find_plugin
from ozzie_server_ext.plugins.plugin_list import (
    Plugin,
    Plugins,
    SaidTool,
    SettledPlugin,
    effect_of,
    plugins_of,
    resettle,
)
from ozzie_server_ext.plugins.program_files import program_files
from ozzie_server_ext.plugins.tool_host import ToolHost
from ozzie_server_ext.plugins.tool_names import slug_of
from ozzie_server_ext.render.text import counted, quoted, visible_label

_STATES = {
    "on": "on",
    "off": "off",
    "new": "nothing granted",
    "changed": "changed since it was granted",
    "waits": "waits",
    "shadowed": "another plugin has its name",
    "broken": "can't be read",
}


def list_plugins(options: argparse.Namespace) -> int:
    """Print all plugins, and whether they are used. Raises ConfigError, NotFound."""
    found = _all(find_home(os.environ), project_of(options)).plugins
    if options.json:
        print_json([_as_json(each) for each in found])
        return 0
    for each in found:
        print(f"{visible_label(each.name)}: {_STATES[each.state]} ({each.origin})")
        for text in _notes(each):
            print(*indented(text), sep="\n")
    if not found:
        print("There are no plugins.")
    return 0


def _notes(plugin: Plugin) -> Iterator[str]:
    if plugin.problem:
        yield plugin.problem
    if plugin.found is not None and plugin.manifest.description:
        yield plugin.manifest.description
    if plugin.settled is not None and plugin.settled.off_because and plugin.state == "off":
        yield f"Ozzie turned it off: {plugin.settled.off_because}"
    if plugin.state in ("new", "changed"):
        yield f"To use it: ozzie plugins grant {plugin.name}"
    if plugin.state == "off":
        yield f"To use it: ozzie plugins enable {plugin.name}"


def show_plugin(options: argparse.Namespace) -> int:
    """Print what a plugin says of itself, what it was granted, and what its tools do. Raises OzzieError."""
    plugin = _all(find_home(os.environ), project_of(options)).find(options.name)
    lines = [f"{visible_label(plugin.name)}: {_STATES[plugin.state]} ({plugin.origin})"]
    lines += [line for text in _notes(plugin) for line in indented(text)]
    if plugin.found is not None:
        lines += [*manifest_lines(plugin.found), *_settled_lines(plugin)]
    return print_result(_as_json(plugin), *lines, as_json=options.json)


def _settled_lines(plugin: Plugin) -> Iterator[str]:
    settled = plugin.settled
    if settled is None or plugin.state == "changed":
        return
    yield "It was granted:" if settled.granted else "It was granted nothing."
    for sentence in sentences(map(Wish.of, settled.granted)):
        yield from indented(sentence)
    if plugin.missing:
        yield "It was not granted:"
        for sentence in sentences(plugin.missing):
            yield from indented(sentence)
    yield from _tool_lines(plugin, settled)


def _tool_lines(plugin: Plugin, settled: SettledPlugin) -> Iterator[str]:
    if plugin.manifest.tools:
        yield "What they do, by what you grant and say:"
    for tool in plugin.manifest.tools:
        effect = effect_of(tool.name, settled)
        yield f"  {visible_label(tool.name)}: {effect or 'not classified, so it is never called'}"


def add_plugin(options: argparse.Namespace) -> int:
    """Copy a plugin to the user's own, and grant what it asks for, after a person has seen it. Raises OzzieError."""
    home, project = find_home(os.environ), project_of(options)
    given = find_plugin(Path(options.folder).absolute())
    name = given.manifest.name
    _expect_runnable(home, given)
    expect_someone(options, "add", name)
    home.create()
    home.plugins.mkdir(mode=0o700, exist_ok=True)
    there = _all(home, project).plugins
    known = next((each for each in there if each.key == name), None)
    if any(each.slug == slug_of(name) and each.key != name and each.origin == "yours" for each in there):
        raise Conflict(f"A plugin of yours has a name that is too much like {quoted(name)}.", code="plugin.known")
    with tempfile.TemporaryDirectory(prefix=".new-", dir=home.plugins) as folder:
        copy = Path(folder) / "plugin"
        found = _copied(given, copy)
        plugin = Plugin(key=name, name=name, folder=copy, origin="yours", state="new", found=found)
        settled = _looked_at(home, project, options, plugin, None, known.settled if known else None)
        if settled is None:
            print_notice("Nothing was changed.")
            return 1

        def begin(now: SettledPlugin | None) -> None:
            _expect_as_seen(now, known.settled if known else None)

        resettle(home, name, begin)  # a plugin in the middle of a change is not used
        place = home.plugins / name
        if place.exists():
            os.replace(place, Path(folder) / "before")
        os.replace(copy, place)
        resettle(home, name, lambda _: settled)
    return _report(msgspec.structs.replace(plugin, settled=settled), "added", options)


def _all(home: Home, project: Path) -> Plugins:
    return plugins_of(home, project, programs=programs_are_on(home))


def _expect_runnable(home: Home, found: FoundPlugin) -> None:
    """Raise InputError for a plugin that is not run as one here."""
    name = quoted(found.manifest.name)
    match found.manifest.provider:
        case "mcp":
            raise InputError(f"{name} is an MCP server.", hint="Add it as one: ozzie mcp add", code="plugin.kind")
        case "native":
            expect_programs(home, found.manifest.name)
        case "extism":
            pass


def _copied(given: FoundPlugin, folder: Path) -> FoundPlugin:
    """Copy manifest and code into a new folder. Raises Conflict if they changed meanwhile."""
    folder.mkdir(mode=0o700)
    if given.manifest.provider == "native":
        for path, file in program_files(given.file.parent).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(file.content)
            (folder / path).chmod(0o755 if file.executable else 0o644)
    else:
        for file in (given.file, given.file.parent / given.manifest.wasm_file):
            shutil.copyfile(file, folder / file.name, follow_symlinks=False)
    found = find_plugin(folder)
    if found.digest != given.digest:
        raise Conflict(f"{visible_label(str(given.file.parent))} has just changed.", hint="Try again.")
    return found


def grant_plugin(options: argparse.Namespace) -> int:
    """Grant a plugin what it asks for, or the named wishes alone, after a person has seen them. Raises OzzieError."""
    home, project = find_home(os.environ), project_of(options)
    plugin = _all(home, project).find(options.name)
    if plugin.found is None:
        raise InputError(plugin.problem, code="plugin.broken")
    _expect_runnable(home, plugin.found)
    expect_someone(options, "grant", plugin.name)
    settled = _looked_at(home, project, options, plugin, _named(options, plugin), plugin.settled)
    if settled is None:
        print_notice("Nothing was changed.")
        return 1

    def change(known: SettledPlugin | None) -> SettledPlugin:
        _expect_as_seen(known, plugin.settled)
        return settled

    resettle(home, plugin.key, change)
    return _report(msgspec.structs.replace(plugin, settled=settled), "granted this", options)


def _named(options: argparse.Namespace, plugin: Plugin) -> frozenset[str] | None:
    """Return the wishes that were named; None if all are meant. Raises NotFound."""
    if not options.wishes:
        return None
    asked = {str(wish) for wish in plugin.manifest.wishes}
    for word in options.wishes:
        if word not in asked:
            listed = ", ".join(map(quoted, sorted(asked))) or "nothing"
            raise NotFound(f"It does not ask for {quoted(word)}.", hint=f"It asks for: {listed}.", code="plugin.wish")
    return frozenset(options.wishes)


def _looked_at(
    home: Home,
    project: Path,
    options: argparse.Namespace,
    plugin: Plugin,
    named: frozenset[str] | None,
    before: SettledPlugin | None,
) -> SettledPlugin | None:
    """Load a plugin without anything granted, show what it asks for, and return what a person settles; None if they
    say no."""
    assert plugin.found is not None, "only what can be read is shown"
    wishes = frozenset(str(wish) for wish in plugin.manifest.wishes)
    is_same = before is not None and before.digest == plugin.found.digest
    kept = frozenset(before.granted) & wishes if before is not None else frozenset[str]()
    granted = wishes if named is None else named | (kept if is_same else frozenset())
    settled = SettledPlugin(
        digest=plugin.found.digest,
        granted_at=datetime.now(UTC),
        granted=tuple(sorted(granted)),
        tools=_still_said(before, is_same),
    )
    _try(home, project, msgspec.structs.replace(plugin, settled=msgspec.structs.replace(settled, granted=())))
    new = granted - kept if before is not None else frozenset[str]()
    if not options.json:
        print(*manifest_lines(plugin.found), sep="\n")
        if before is not None and new:
            print("More than before:", *_sentences(new), sep="\n")
        if granted != wishes:
            print("You would grant this alone:", *_sentences(granted), sep="\n")
        print(*_tool_lines(plugin, settled), sep="\n", flush=True)
    question = "Grant this?" if granted else "Use it?"
    if not options.yes and not agreed(question, about=f"use the plugin {plugin.name}"):
        return None
    return settled


def _still_said(before: SettledPlugin | None, is_same: bool) -> dict[str, SaidTool]:
    """Return what a person said of tools, as far as it counts for this code: that a tool of other code only reads is to
    be said again."""
    said = before.tools if before is not None else {}
    return {name: tool for name, tool in said.items() if is_same or tool.effect is not Effect.READS}


def _expect_as_seen(known: SettledPlugin | None, before: SettledPlugin | None) -> None:
    """Raise Conflict if a plugin was settled anew while a person looked at it."""
    if known != before:
        raise Conflict("It was changed meanwhile.", hint="Look at it and try again.", code="plugin.changed")


def _sentences(wishes: Iterable[str]) -> Iterator[str]:
    return (line for sentence in sentences(map(Wish.of, wishes)) for line in indented(sentence))


def _try(home: Home, project: Path, plugin: Plugin) -> None:
    """Load a plugin, which also compiles it for later; of a program, nothing is run. Raises ServerFailed."""

    async def load(host: ToolHost) -> None:
        loading = Loading(home, project, vault_of(home), lambda value: None)
        connection = await loading.load(host, plugin, None)
        connection.close()

    if plugin.is_program or exports_of(plugin.manifest):
        with_host(home, load)


def _report(plugin: Plugin, done: str, options: argparse.Namespace) -> int:
    assert plugin.settled is not None, "it was just settled"
    settled = plugin.settled
    left = [tool.name for tool in plugin.manifest.tools if effect_of(tool.name, settled) is None]
    end = [f"{visible_label(plugin.name)} is {done}."]
    if left:
        can = "A tool" if len(left) == 1 else counted(len(left), "tool")
        end.append(f"{can} can't be used yet, as it could change or send something. Say what each does:")
        end.append(f"  ozzie plugins classify {shlex.quote(plugin.name)} {shlex.quote(left[0])}=sends …")
    secrets = [wish.removeprefix("secret:") for wish in settled.granted if wish.startswith("secret:")]
    if secrets:
        end.append("Store its secrets, if they are not there yet:")
        end += [f"  ozzie secrets set {name} --plugin {plugin.name}" for name in secrets]
    return print_result(_as_json(plugin), *end, as_json=options.json)


def revoke_plugin(options: argparse.Namespace) -> int:
    """Take back what was granted, or the named wishes alone. Raises OzzieError."""
    home, project = find_home(os.environ), project_of(options)
    plugin = _all(home, project).find(options.name)
    settled = _settled(plugin)
    wrong = [word for word in options.wishes if word not in settled.granted]
    if wrong:
        granted = ", ".join(map(quoted, settled.granted)) or "nothing"
        raise NotFound(f"It was not granted {quoted(wrong[0])}.", hint=f"It was granted: {granted}.")

    def change(known: SettledPlugin | None) -> SettledPlugin | None:
        if known is None or not options.wishes:
            return None
        return msgspec.structs.replace(known, granted=tuple(w for w in known.granted if w not in options.wishes))

    resettle(home, plugin.key, change)
    what = "has no grant any more" if not options.wishes else f"may not do this any more: {', '.join(options.wishes)}"
    return print_result({"name": plugin.name}, f"{visible_label(plugin.name)} {what}.", as_json=options.json)


def enable_plugin(options: argparse.Namespace) -> int:
    """Turn a granted plugin on. Raises OzzieError."""
    return _switch(options, True)


def disable_plugin(options: argparse.Namespace) -> int:
    """Turn a plugin off; what was granted stays. Raises OzzieError."""
    return _switch(options, False)


def _switch(options: argparse.Namespace, is_on: bool) -> int:
    home = find_home(os.environ)
    plugin = _all(home, project_of(options)).find(options.name)
    _settled(plugin)
    _change(home, plugin, lambda known: msgspec.structs.replace(known, is_on=is_on, off_because=""))
    word = "on" if is_on else "off"
    return print_result(
        {"name": plugin.name, "on": is_on}, f"{visible_label(plugin.name)} is {word}.", as_json=options.json
    )


def classify_plugin(options: argparse.Namespace) -> int:
    """Say what tools of a plugin do. Raises OzzieError."""
    home = find_home(os.environ)
    plugin = _all(home, project_of(options)).find(options.name)
    _settled(plugin)
    if not options.tools and not options.target:
        hint = f"As in: ozzie plugins classify {plugin.name} TOOL=reads"
        raise Misused("Say what at least one tool does.", hint=hint)
    names = [tool.name for tool in plugin.manifest.tools]
    effects = effects_in(options.tools, names, plugin.name)
    targets = targets_in(options.target, {each.name: [*each.parameters] for each in plugin.manifest.tools}, plugin.name)

    def change(known: SettledPlugin) -> SettledPlugin:
        tools = dict(known.tools)
        for name in {*effects, *targets}:
            said = tools.get(name, SaidTool())
            tools[name] = SaidTool(effect=effects.get(name, said.effect), targets=said.targets | targets.get(name, {}))
        return msgspec.structs.replace(known, tools=tools)

    changed = _change(home, plugin, change)
    plugin = msgspec.structs.replace(plugin, settled=changed)
    return print_result(_as_json(plugin), *_tool_lines(plugin, changed), as_json=options.json)


def remove_plugin(options: argparse.Namespace) -> int:
    """Remove a plugin of the user's own with its notes; of another, what was granted. Raises OzzieError."""
    home = find_home(os.environ)
    plugin = _all(home, project_of(options)).find(options.name)
    resettle(home, plugin.key, lambda _: None)
    for ending in (".db", ".db-journal"):
        with suppress(FileNotFoundError):
            (home.plugin_data / f"{notes_name(plugin)}{ending}").unlink()
    name = visible_label(plugin.name)
    if plugin.origin == "yours":
        shutil.rmtree(plugin.folder)
        words = f"{name} is gone, with its notes."
    else:
        place = visible_label(str(plugin.folder))
        words = f"{name} has no grant any more, and its notes are gone. It is still in {place}."
    return print_result({"removed": plugin.name}, words, as_json=options.json)


# --- what was settled -------------------------------------------------------------------------------------------------


def _settled(plugin: Plugin) -> SettledPlugin:
    """Return what was settled for a plugin as it is. Raises Conflict."""
    if plugin.settled is None or plugin.state == "changed":
        why = "has changed since it was granted" if plugin.settled else "was granted nothing yet"
        hint = f"Look at it: ozzie plugins grant {plugin.name}"
        raise Conflict(f"{visible_label(plugin.name)} {why}.", hint=hint, code="plugin.not_granted")
    return plugin.settled


def _change(home: Home, plugin: Plugin, change: Callable[[SettledPlugin], SettledPlugin]) -> SettledPlugin:
    """Change what was settled, unless it was settled anew meanwhile. Raises Conflict."""
    found: list[SettledPlugin] = []

    def checked(known: SettledPlugin | None) -> SettledPlugin:
        if known is None or plugin.settled is None or known.digest != plugin.settled.digest:
            raise Conflict(f"{visible_label(plugin.name)} was changed meanwhile.", hint="Look at it and try again.")
        found.append(change(known))
        return found[-1]

    resettle(home, plugin.key, checked)
    return found[-1]


def _as_json(plugin: Plugin) -> dict[str, Any]:
    settled = plugin.settled
    about = manifest_json(plugin.found) if plugin.found is not None else {"name": plugin.name}
    tools = plugin.manifest.tools if plugin.found is not None else ()
    return about | {
        "state": plugin.state,
        "origin": plugin.origin,
        "folder": str(plugin.folder),
        "problem": plugin.problem,
        "granted": [*settled.granted] if settled else [],
        "on": settled.is_on if settled else False,
        "effects": {tool.name: effect_of(tool.name, settled) for tool in tools} if settled else {},
    }
