"""The parts of this machine that the sandbox uses: programs, and files that every job may read."""

import os
import shutil
import site
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.execution.seccomp import machine

_SEARCHED = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_INSIDE = ("sh", "tar", "nice")
INSTALL = "On Debian and Ubuntu: apt-get install bubblewrap. Then run the cell again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Absolute paths. `inside` are the programs run in the sandbox, by name; `setpriv` is set only for root."""

    bwrap: str
    setpriv: str
    inside: dict[str, str]


def find_programs(*, root: bool) -> Programs:
    """Find the programs. Raises Unavailable with a hint about what to install."""
    if sys.platform != "linux" or machine() is None:
        raise Unavailable(
            "Commands can't run here: the sandbox needs Linux on x86_64 or aarch64.",
            hint="Everything else works; you can still run code in a notebook with its own kernel.",
            code="sandbox.unavailable",
        )
    bwrap = shutil.which("bwrap", path=_SEARCHED)
    if bwrap is None:
        raise Unavailable(
            "Commands can't run here: the program that keeps them apart from your files, bubblewrap, is not installed.",
            hint=INSTALL,
            code="sandbox.unavailable",
        )
    wanted = (*_INSIDE, "setpriv") if root else _INSIDE
    found = {name: shutil.which(name, path=_SEARCHED) for name in wanted}
    if missing := [name for name, path in found.items() if path is None]:
        raise Unavailable(
            f"Commands can't run here: {', '.join(missing)} can't be found in {_SEARCHED.replace(':', ', ')}.",
            hint="They belong to the packages coreutils, util-linux, tar and dash of your system.",
            code="sandbox.unavailable",
        )
    paths = {name: path for name, path in found.items() if path is not None}
    return Programs(bwrap=bwrap, setpriv=paths.pop("setpriv", ""), inside=paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The Python of the user's notebooks: `executable`, and the folders with its library and packages."""

    executable: str
    folders: tuple[Path, ...]
    user_base: str = ""


def own_interpreter() -> Interpreter:
    """Return this process's Python, so that a job can import what a notebook can."""
    folders = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix), Path(sys.base_exec_prefix)}
    user_base = ""
    if site.ENABLE_USER_SITE and site.USER_SITE and os.path.isdir(site.USER_SITE):
        folders.add(Path(site.USER_SITE))
        user_base = site.USER_BASE or ""
    return Interpreter(executable=sys.executable, folders=_outermost(folders), user_base=user_base)


def _outermost(folders: set[Path]) -> tuple[Path, ...]:
    """Drop folders below others, and those below `/usr`, which every job sees."""
    seen: list[Path] = [Path("/usr")]
    for folder in sorted(folders, key=lambda path: len(path.parts)):
        if not any(folder.is_relative_to(above) for above in seen):
            seen.append(folder)
    return tuple(seen[1:])


_TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = ("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache")
"""What programs need to find each other, fonts and libraries. Each slows a job's start a little."""
_ZONES = "/usr/share/zoneinfo/"


def system_mounts() -> Sequence[str]:
    """Return bubblewrap's arguments for the read-only system folders."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for top in _TOP:
        if os.path.islink(top):
            arguments += ["--symlink", os.readlink(top), top]
        elif os.path.isdir(top):
            arguments += ["--ro-bind", top, top]
    for path in _SETTINGS:
        arguments += ["--ro-bind-try", path, path]
    return arguments


def time_zone() -> str:
    """Return this machine's time zone for TZ, or ""."""
    path = os.path.realpath("/etc/localtime")
    return path.removeprefix(_ZONES) if path.startswith(_ZONES) else ""
