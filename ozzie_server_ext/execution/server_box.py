"""The sandbox of a program that serves tools over its standard streams, for as long as it is used.

It sees the system's programs, its own files and the folders that a person granted, each at its real path; everything
else of the machine is not there. It runs under the user's own id, so that files it makes are theirs, without any
privilege, and has no network but what a proxy lets through (`programs.mcp_network`).
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.execution.box import (
    JobDescriptors,
    Programs,
    find_programs,
    folders,
    listener,
    own_interpreter,
    proxy_mounts,
    proxy_variables,
    system_mounts,
    time_zone,
    users,
)
from ozzie_server_ext.execution.runner import MIB
from ozzie_server_ext.execution.seccomp import machine, program
from ozzie_server_ext.protocol.tool_host import ServerAccess

MEMORY = 2048 * MIB
PROCESSES = 200
_DISK = 256 * MIB
_OPEN = 1024
_DATA_KIB = 8192 * 1024
"""More than `MEMORY`: V8 and allocators reserve what they do not use. What is used is watched."""
_HOME = "/tmp/home"

_SCRIPT = 'ulimit -c 0; ulimit -n "$1" && ulimit -d "$2" || exit 125; shift 2; exec "$@"'


def server_box(
    argv: Iterable[str],
    env: Mapping[str, str],
    access: ServerAccess,
    descriptors: JobDescriptors,
    network: int | None = None,
) -> list[str]:
    """Return the command that starts a server in its sandbox. Its variables and paths go through a descriptor: the
    system shows every user the arguments of a command. `network` is the descriptor by which it hands out the socket
    of its proxy (`programs.box_listener`). Raises Unavailable."""
    programs = find_programs(root=False)
    kind = machine()
    assert kind is not None, "find_programs looked"
    words = ["--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    words += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--die-with-parent", "--new-session", "--hostname", "ozzie"]
    words += ["--seccomp", str(descriptors.readable(program(kind)))]
    words += [*folders("/etc"), *system_mounts(), *users(os.getuid(), descriptors)]
    words += ["--proc", "/proc", "--dev", "/dev", "--size", str(_DISK), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    # A root without privileges may still write the system's settings there, which are the whole machine's.
    words += ["--remount-ro", "/proc"]
    words += ["--perms", "1777", "--size", str(_DISK), "--tmpfs", "/tmp", *folders(_HOME, mode="0700")]
    words += _mounts(access)
    if network is not None:
        words += proxy_mounts(descriptors)
    words += ["--chdir", _start(access), "--remount-ro", "/", "--clearenv"]
    words += [word for name, value in (_environment(network) | dict(env)).items() for word in ("--setenv", name, value)]
    listed = descriptors.readable("\0".join(words).encode() + b"\0")
    listening = [] if network is None else listener(network)
    return [programs.bwrap, "--args", str(listed), "--", *_inside(programs), *listening, *argv]


def _inside(programs: Programs) -> list[str]:
    limits = (str(_OPEN), str(_DATA_KIB))
    return [programs.inside["nice"], "-n", "5", programs.inside["sh"], "-c", _SCRIPT, "sh", *limits]


def _mounts(access: ServerAccess) -> list[str]:
    """Mount folders above before those below them, so that each has the rights that it was granted."""
    own = {str(folder): "--ro-bind" for folder in own_interpreter().folders}
    found = own | dict.fromkeys((*access.program, *access.reads), "--ro-bind")
    found |= dict.fromkeys(access.writes, "--bind")
    words: list[str] = []
    for path in sorted(found, key=lambda path: Path(path).parts):
        if is_of_system(path):
            raise Unavailable(f"{path} is the system's own: no server may see it.", code="sandbox.unavailable")
        if os.path.realpath(path) != path:
            raise Unavailable(
                f"{path} is not what it was when it was granted: it is missing, or leads through a link.",
                hint="Look at it, and grant it again.",
                code="sandbox.unavailable",
            )
        if Path(path).is_relative_to("/usr") and found[path] == "--ro-bind":
            continue  # there anyway
        words += folders(*(str(above) for above in reversed(Path(path).parents[:-1])))
        words += [found[path], path, path]
    return words


def is_of_system(path: str) -> bool:
    """Return whether a path holds the system's settings, devices or sockets, or all of them."""
    return path == "/" or any(Path(path).is_relative_to(each) for each in ("/proc", "/sys", "/dev", "/run", "/var/run"))


def _start(access: ServerAccess) -> str:
    """Return the folder to start in: the first that it was granted."""
    granted = [path for path in (*access.writes, *access.reads) if os.path.isdir(path)]
    return granted[0] if granted else "/tmp"


def _environment(network: int | None) -> dict[str, str]:
    """The environment: nothing of the gateway's own."""
    beside = os.path.dirname(own_interpreter().executable)
    found = {
        "PATH": f"{beside}:/usr/local/bin:/usr/bin:/bin",
        "HOME": _HOME,
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "TZ": time_zone(),
    }
    if network is not None:
        found |= proxy_variables()
    return {name: value for name, value in found.items() if value}
