"""Finds or installs the program of an MCP server.

`npx` and `uvx` would fetch whatever is newest at each start. Ozzie installs the package once, without running any code
of it, and starts what was installed; its hash is part of what a person trusts.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ozzie_server_ext.domain.errors import InputError, Unavailable
from ozzie_server_ext.domain.paths import path_parts
from ozzie_server_ext.execution.box import own_interpreter
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.render.text import quoted

INSTALL_S = 300
MAX_FILES = 50_000
_LAUNCHER = "ozzie_run.py"
_PARTS = ("bin", "lib", "lib64", "libexec", "include", "pyvenv.cfg")
"""What is shown of an installation. Beside these, as in `~/.local`, may be what others keep there."""
_NPM_NAME = re.compile(r"(?P<name>(?:@[a-z0-9~][\w.~-]*/)?[a-z0-9~][\w.~-]*)(?:@(?P<version>[\w.^~*<>=| -]+))?", re.I)
_PIP_NAME = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[\w,.-]+\])?(?:(?:@|==)(?P<version>[\w.+!-]+))?")
_MAX_WORDS = 600


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A server's program: `argv` is its command with arguments, `folders` what the sandbox has to show it. Of what was
    installed: its `package` with the version, and the hash of all its files (`digest`)."""

    argv: tuple[str, ...]
    folders: tuple[str, ...] = ()
    package: str = ""
    digest: str = ""


def program_of(how: McpText, folder: Path, note: Callable[[str], None] = lambda line: None) -> Program:
    """Return the program of a server that is started, after installing it below `folder` if need be. `note` is told
    what is done. Raises InputError, Unavailable."""
    assert how.command is not None
    name = Path(how.command).name
    if name == "npx":
        return _from_npm(*_npx(how.args), folder, note)
    if name == "uvx" or (name == "uv" and how.args[:2] == ("tool", "run")):
        return _from_pypi(*_uvx(how.args if name == "uvx" else how.args[2:]), folder, note)
    path = shutil.which(os.path.expanduser(how.command))
    if path is None:
        raise Unavailable(
            f"The program {quoted(how.command)} can't be found.",
            hint="Install it, or give its whole path.",
            code="mcp.program",
        )
    path = os.path.abspath(path)
    if _installation(path) is None:  # else, as in a virtual environment, the link itself says which libraries count
        path = os.path.realpath(path)
    return Program(argv=(path, *how.args), folders=visible_for(path))


def visible_for(path: str) -> tuple[str, ...]:
    """Return what a sandbox has to show for a program outside of the system's: the file alone, or the programs and
    libraries of its installation."""
    shown = ("/usr", "/bin", "/lib", *(str(folder) for folder in own_interpreter().folders))
    found: list[str] = []
    for each in dict.fromkeys((path, os.path.realpath(path))):
        if any(Path(each).is_relative_to(folder) for folder in shown):
            continue
        top = _installation(each)
        parts = [top / name for name in _PARTS if (top / name).exists()] if top else [Path(each)]
        found += [os.path.realpath(part) for part in parts]
    return tuple(dict.fromkeys(found))


def _installation(path: str) -> Path | None:
    """Return the folder with `bin` and `lib` that a program is installed in; None if that is no folder of its own."""
    parent = Path(path).parent
    top = parent.parent
    is_one = parent.name == "bin" and (top / "lib").is_dir() and not Path.home().is_relative_to(top)
    return top if is_one else None


# --- npm --------------------------------------------------------------------------------------------------------------


def _npx(args: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    """Return the package, the command and its arguments. Raises InputError."""
    package = ""
    at = 0
    while at < len(args) and args[at].startswith("-"):
        option, _, value = args[at].partition("=")
        if option in ("-p", "--package"):
            if not value:
                at += 1
                value = args[at] if at < len(args) else ""
            package = value
        elif option not in ("-y", "--yes", "-q", "--quiet"):
            raise InputError(f"npx's option {quoted(option)} is not known here.", code="mcp.program")
        at += 1
    if at >= len(args):
        raise InputError("npx names no package.", code="mcp.program")
    return package or args[at], args[at] if package else "", tuple(args[at + 1 :])


def _from_npm(package: str, command: str, args: tuple[str, ...], folder: Path, note: Callable[[str], None]) -> Program:
    found = _NPM_NAME.fullmatch(package)
    if found is None:
        raise InputError(f"{quoted(package)} is no package of npm.", code="mcp.program")
    npm, node = _tool("npm", "Node.js"), _tool("node", "Node.js")
    note(f"Installing {package} with npm, without running its scripts …")
    # A repository that a package depends on could run what it likes: npm reads settings in it.
    options = ["--ignore-scripts", f"--git={shutil.which('false') or '/nonexistent'}"]
    options += ["--no-audit", "--no-fund", "--install-links", "--loglevel=error"]
    _run([npm, "install", "--prefix", str(folder), *options, "--", package])
    home = folder / "node_modules" / found["name"]
    about = _json(home / "package.json")
    script = _script(about, command, found["name"])
    return Program(
        argv=(node, str(home / script), *args),
        folders=(str(folder), *visible_for(node)),
        package=f"{found['name']} {about.get('version', '')}".strip(),
        digest=digest_of(folder),
    )


def _script(about: dict[str, Any], command: str, package: str) -> str:
    named = about.get("bin")
    own = package.rpartition("/")[2]
    scripts: dict[str, Any] = named if isinstance(named, dict) else {own: named} if named else {}
    wanted = command or own
    script = scripts.get(wanted)
    if script is None and not command and len(scripts) == 1:
        script = next(iter(scripts.values()))
    if not isinstance(script, str) or path_parts(script) is None:
        hint = f"It has: {', '.join(scripts)}." if scripts else "It has none."
        raise InputError(f"{package} has no command {quoted(wanted)}.", hint=hint, code="mcp.program")
    return os.path.normpath(script)


# --- PyPI -------------------------------------------------------------------------------------------------------------


def _uvx(args: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    """Return the package, the command and its arguments. Raises InputError."""
    package = ""
    at = 0
    while at < len(args) and args[at].startswith("-"):
        option, _, value = args[at].partition("=")
        if option != "--from":
            raise InputError(f"uvx's option {quoted(option)} is not known here.", code="mcp.program")
        if not value:
            at += 1
            value = args[at] if at < len(args) else ""
        package = value
        at += 1
    if at >= len(args):
        raise InputError("uvx names no package.", code="mcp.program")
    found = _PIP_NAME.fullmatch(args[at])
    return package or args[at], found["name"] if found else args[at], tuple(args[at + 1 :])


def _from_pypi(package: str, command: str, args: tuple[str, ...], folder: Path, note: Callable[[str], None]) -> Program:
    found = _PIP_NAME.fullmatch(package)
    is_wheel = os.path.isabs(package) and package.endswith(".whl") and os.path.isfile(package)
    if not is_wheel and (found is None or package.endswith((".whl", ".gz", ".zip"))):
        raise InputError(f"{quoted(package)} is no package of PyPI.", code="mcp.program")
    note(f"Installing {package} with pip, from wheels alone …")
    wanted = package.replace("@", "==").removesuffix("==latest")
    options = ["--target", str(folder), "--only-binary", ":all:", "--", wanted]
    if shutil.which("uv") is not None:
        _run([_tool("uv", "uv"), "pip", "install", "--quiet", "--python", sys.executable, *options])
    else:
        _run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", *options])
    module, attribute, installed = _entry(folder, command)
    launcher = folder / _LAUNCHER
    launcher.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(folder)!r})\n"
        f"sys.argv[0] = {command!r}\n"
        f"from {module} import {attribute.partition('.')[0]}\n"
        f"sys.exit({attribute}())\n"
    )
    return Program(
        argv=(sys.executable, "-I", str(launcher), *args),
        folders=(str(folder),),
        package=installed,
        digest=digest_of(folder),
    )


def _entry(folder: Path, command: str) -> tuple[str, str, str]:
    """Return module and attribute of a command, and its package with the version. Raises InputError."""
    names: list[str] = []
    for file in sorted(folder.glob("*.dist-info/entry_points.txt")):
        for name, target in _console_scripts(file):
            names.append(name)
            module, _, attribute = target.partition("[")[0].strip().partition(":")
            is_plain = re.fullmatch(r"[\w.]+", module) and re.fullmatch(r"[\w.]+", attribute)
            if name.lower().replace("_", "-") == command.lower().replace("_", "-") and is_plain:
                name, _, version = file.parent.name.removesuffix(".dist-info").rpartition("-")
                return module, attribute, f"{name.replace('_', '-')} {version}"
    raise InputError(
        f"The package has no command {quoted(command)}.",
        hint=f"It has: {', '.join(names[:10])}. Name one: uvx --from PACKAGE COMMAND" if names else "",
        code="mcp.program",
    )


def _console_scripts(file: Path) -> list[tuple[str, str]]:
    """Return the commands in a package's entry points; none of a file that can't be read."""
    import configparser  # only this needs it

    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=False)
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    try:
        parser.read_string(file.read_text())
    except (configparser.Error, UnicodeDecodeError):
        return []
    return list(parser["console_scripts"].items()) if parser.has_section("console_scripts") else []


# --- both -------------------------------------------------------------------------------------------------------------


def digest_of(folder: Path) -> str:
    """Return the hash of all files below a folder, of their paths and of links' targets. Raises Unavailable for too
    many."""
    whole = hashlib.sha256()
    count = 0
    for root, folders, files in os.walk(folder):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(root, name))]
        for name in sorted([*files, *links]):
            count += 1
            if count > MAX_FILES:
                raise Unavailable(f"It has more than {MAX_FILES:,} files.", code="mcp.program")
            path = os.path.join(root, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                content = hashlib.sha256(os.fsencode(os.readlink(path))).digest()
            elif not stat.S_ISREG(mode):
                raise Unavailable(f"{path} is no file.", code="mcp.program")
            else:
                with open(path, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").digest()
            whole.update(f"{os.path.relpath(path, folder)}\0{stat.S_IFMT(mode)}\0".encode(errors="surrogateescape"))
            whole.update(content)
    return whole.hexdigest()


def _tool(name: str, product: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise Unavailable(
            f"{name} is not installed, which this server needs.", hint=f"Install {product}.", code="mcp.program"
        )
    return path


def _run(argv: list[str]) -> None:
    """Run an installer with the user's own settings, such as their registry. Raises Unavailable."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=INSTALL_S, cwd="/")
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{Path(argv[0]).name} took more than {INSTALL_S} s.", code="mcp.program") from None
    except OSError as error:
        raise Unavailable(f"{argv[0]} can't be started: {error.strerror}.", code="mcp.program") from None
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()[-_MAX_WORDS:]
        raise Unavailable(f"It can't be installed. {words}", code="mcp.program")


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        raise Unavailable(f"{file.name} of the package can't be read.", code="mcp.program") from None
    return found if isinstance(found, dict) else {}
