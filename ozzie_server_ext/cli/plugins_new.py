"""`ozzie plugins new`: a folder to write a plugin in, from a shipped template (docs/writing-plugins.md)."""

import argparse
import shutil
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ozzie_server_ext.cli.terminal import print_result
from ozzie_server_ext.config.home import shipped
from ozzie_server_ext.domain.errors import Conflict, InputError, Unavailable
from ozzie_server_ext.plugins.manifest import PluginName
from ozzie_server_ext.plugins.plugin_list import SWITCH
from ozzie_server_ext.render.text import quoted

BUILD_LINES = {
    "assemblyscript": "npm ci && npm run build",
    "c": "clang --target=wasm32 -O2 -nostdlib -fno-builtin -Wall -Wl,--no-entry,--strip-all -o plugin.wasm plugin.c",
    "python": "",
}
"""What builds a plugin in each language; empty for a program, which needs no building."""
_NAMED = ("manifest.jsonc", "README.md")
"""Files with the plugin's name in them."""
_PLACEHOLDER = "my-plugin"
_BUILT = shutil.ignore_patterns("node_modules", "*.wasm")
"""What somebody may have built in a template's folder."""


def new_plugin(options: argparse.Namespace) -> int:
    """Make the folder, and say what to do next. Raises InputError, Conflict, Unavailable."""
    name = _checked(options.name)
    folder = Path(options.folder or name).absolute()
    templates = shipped("plugins")
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise Conflict(f"{quoted(str(folder))} exists.", hint="Name another folder: --folder FOLDER.") from None
    except OSError as error:
        raise _not_made(folder, error) from None
    try:
        _copy(templates / "templates" / options.lang, folder)
        if options.lang == "assemblyscript":
            _copy(templates / "sdk", folder / "sdk")
        for file in (folder / each for each in _NAMED):
            file.write_text(file.read_text("utf-8").replace(_PLACEHOLDER, name), "utf-8")
    except (OSError, shutil.Error) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise _not_made(folder, error) from None
    build, test = BUILD_LINES[options.lang], "ozzie plugins test ."
    lines = (
        [f"  Build it: {build}"] if build else [f"  Let Ozzie run programs, if it does not: {SWITCH} in config.jsonc"]
    )
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    return print_result(
        {"name": name, "folder": str(folder), "files": files, "build": build, "test": test},
        f"The plugin {name} is in {quoted(str(folder))}. There:",
        *lines,
        f"  Try its examples: {test}",
        as_json=options.json,
    )


def _not_made(folder: Path, error: OSError) -> Unavailable:
    # copytree's own error is a list of what failed, without a reason of its own.
    why = error.strerror or "a file can't be copied"
    return Unavailable(f"The folder {quoted(str(folder))} can't be made: {why}.", hint="Name another: --folder FOLDER.")


def _copy(template: Path, folder: Path) -> None:
    # Contents alone: an installation may be read-only.
    shutil.copytree(template, folder, ignore=_BUILT, copy_function=shutil.copyfile, dirs_exist_ok=True)


def _checked(name: str) -> str:
    """Return the name of a plugin. Raises InputError for anything else."""
    try:
        return TypeAdapter[str](PluginName).validate_python(name)
    except ValidationError as error:
        raise InputError(
            f"{quoted(name)} is no name for a plugin: it {error.errors()[0]['msg']}.",
            hint="Take a name such as word-count.",
        ) from None
