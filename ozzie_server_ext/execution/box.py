"""The sandbox of one job: what it uses of this machine, the arguments of bubblewrap, and the script that runs inside.

Nothing of the machine is mounted writable, so no path trick can change anything outside; the job's results are taken
out afterwards (`sandbox_files`). A job has no network but its own loopback, sees no foreign process, no home, no socket
and no file of a running gateway, and has no privileges and no way to gain any.
"""

import fcntl
import math
import os
import shlex
import shutil
import site
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ozzie_server_ext.domain.errors import InputError, Unavailable
from ozzie_server_ext.execution.runner import MIB, JobLimits, JobSpec, ProgramInput
from ozzie_server_ext.execution.sandbox_files import open_folder
from ozzie_server_ext.execution.seccomp import machine

_SEARCHED = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_INSIDE = ("sh", "tar", "nice")


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
            hint="On Debian and Ubuntu: apt-get install bubblewrap. Then run the cell again.",
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


_LISTEN = "/ozzie/listen.py"
_LISTENER = Path(__file__).parents[1] / "programs" / "box_listener.py"
_PORT = 3128
"""Where the listener listens."""


def proxy_mounts(descriptors: "JobDescriptors") -> list[str]:
    """Return bubblewrap's arguments for what a sandbox with a proxy needs."""
    words = ["--ro-bind-try", "/etc/ssl", "/etc/ssl", *folders("/ozzie")]
    return [*words, "--perms", "0444", "--ro-bind-data", str(descriptors.readable(_LISTENER.read_bytes())), _LISTEN]


def proxy_variables() -> dict[str, str]:
    """Return the variables by which programs find the proxy."""
    proxy = f"http://127.0.0.1:{_PORT}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {each: proxy for name in names for each in (name, name.lower())} | {"NODE_USE_ENV_PROXY": "1"}


def listener(network: int) -> list[str]:
    """Return the command that hands out the proxy's socket by this descriptor, and becomes the command behind it."""
    return [own_interpreter().executable, "-I", _LISTEN, str(network), str(_PORT)]


_F_ADD_SEALS, _F_SEAL_SEAL, _F_SEAL_SHRINK, _F_SEAL_GROW, _F_SEAL_WRITE = 1033, 1, 2, 4, 8


class JobDescriptors:
    """Descriptors that live as long as one job."""

    def __init__(self) -> None:
        self._open: list[int] = []

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(self._open)

    def add(self, descriptor: int) -> int:
        """Take over a descriptor, to be closed here."""
        self._open.append(descriptor)
        return descriptor

    def readable(self, content: bytes) -> int:
        """Return a descriptor that reads `content` from its beginning, and can't be written to."""
        descriptor = self.add(os.memfd_create("ozzie-given", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        seals = _F_SEAL_SEAL | _F_SEAL_SHRINK | _F_SEAL_GROW | _F_SEAL_WRITE
        fcntl.fcntl(descriptor, _F_ADD_SEALS, seals)
        return descriptor

    def writable(self, size: int) -> int:
        """Return a descriptor of `size` zero bytes to write to; the size is sealed."""
        descriptor = self.add(os.memfd_create("ozzie-told", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, _F_ADD_SEALS, _F_SEAL_SEAL | _F_SEAL_SHRINK | _F_SEAL_GROW)
        return descriptor

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())


PROJECT = "/project"
OUT = "/tmp/out"
_HOME = "/tmp/home"
_JOB = "/job"
_NICE = 10
_MOST_OPEN = 1024
MAX_TOP = 1000
_TAR_ROOM = 16 * MIB
"""For the names and padding of an archive, beside its contents."""
STATUS_BYTES = 64

# As root, each job has its own user, so that limits and keyrings are not shared. No system assigns these numbers.
_FIRST_UID = 2_000_000_000
_UIDS = 100_000

# Shells have two letters for the limit of processes. `1<>`, unlike `>`, keeps the size of the memory file. What is left
# of the job is killed before its files are collected: all but the sandbox's first process and this script.
_SCRIPT = r"""
status=$1 where=$2 copied=$3 folder=$4 out=$5 changed=$6; shift 6
data=$1 size=$2 open=$3 cpu=$4 processes=$5; shift 5
echo 1000 2>/dev/null >/proc/self/oom_score_adj
ulimit -c 0 && ulimit -d $data && ulimit -f $size && ulimit -n $open && ulimit -t $cpu || exit 125
ulimit -p $processes 2>/dev/null || ulimit -u $processes || exit 125
if [ -n "$copied" ]; then tar -xf "/proc/self/fd/$copied" -C "$folder" || exit 125; fi
cd "$where" || exit 125
echo begun 1<>"/proc/self/fd/$status"
"$@"
code=$?
kill -KILL -1 2>/dev/null
cd /
pack="tar --format=gnu --hard-dereference -cf -"
$pack -C /tmp/out . 2>/dev/null 1<>"/proc/self/fd/$out"
if [ -n "$copied" ]; then $pack -C "$folder" . 2>/dev/null 1<>"/proc/self/fd/$changed"; fi
echo "begun $code $?" 1<>"/proc/self/fd/$status"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Everything needed to start a job: the command, its descriptors, and the files through which it reports."""

    argv: list[str]
    descriptors: JobDescriptors
    status: int
    out: int
    changed: int | None
    writable: tuple[str, ...]
    stdin: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """What all jobs of a runner share. `is_root`: root starts them; `private` folders are hidden from all."""

    programs: Programs
    interpreter: Interpreter
    seccomp: bytes
    is_root: bool
    private: tuple[Path, ...] = ()


def box(
    spec: JobSpec,
    walls: Walls,
    project: int,
    archive: bytes | None,
    number: int,
    descriptors: JobDescriptors,
    top: Path | None = None,
) -> Box:
    """Build the sandbox of the `number`-th job. `project` is the open project folder; `archive` is the content of the
    copied folder; `top`, if listing is watched, is an empty folder where the project's top entries are mounted."""
    programs, limits = walls.programs, spec.limits
    uid = _FIRST_UID + number % _UIDS if walls.is_root else os.getuid()
    status = descriptors.writable(STATUS_BYTES)
    out = descriptors.writable(limits.disk + _TAR_ROOM)
    changed = descriptors.writable(limits.disk + _TAR_ROOM) if archive is not None else None
    copied = descriptors.readable(archive) if archive is not None else None
    target = f"{PROJECT}/{spec.copied}".rstrip("/") if archive is not None else ""

    argv = [programs.bwrap, *_namespaces(walls), "--die-with-parent", "--new-session"]
    argv += ["--seccomp", str(descriptors.readable(walls.seccomp)), "--hostname", "ozzie"]
    argv += [*folders("/etc", _JOB), *system_mounts(), *users(uid, descriptors)]
    argv += ["--proc", "/proc", "--dev", "/dev", *_scratch("/dev/shm", limits), "--remount-ro", "/dev"]
    argv += [*_scratch("/tmp", limits), *folders(OUT, _HOME, mode="1777")]
    argv += _interpreter(walls.interpreter)  # possibly below /tmp
    if spec.program is None or "." in spec.program.shown:
        argv += _project(spec.project, project, target, walls, limits, top)
    else:
        argv += _folders_of_project(spec.project, project, spec.program.shown, walls)
    argv += _files(spec, descriptors)
    argv += proxy_mounts(descriptors) if spec.program is not None and spec.program.network is not None else []
    argv += ["--remount-ro", PROJECT] if top is not None and target != PROJECT else []
    argv += ["--chdir", "/", "--remount-ro", "/", *_environment(walls, spec.program, descriptors)]
    argv += ["--", *_inside(walls, uid), programs.inside["sh"], "-c", _SCRIPT, "sh"]
    argv += [str(status), f"{PROJECT}/{spec.folder}".rstrip("/"), "" if copied is None else str(copied), target]
    argv += [str(out), "" if changed is None else str(changed), *_limits(limits)]
    argv += listener(spec.program.network) if spec.program is not None and spec.program.network is not None else []
    argv += spec.argv
    return Box(
        argv=argv,
        stdin=None if spec.program is None else descriptors.readable(spec.program.stdin),
        descriptors=descriptors,
        status=status,
        out=out,
        changed=changed,
        writable=("/tmp", "/dev/shm", *([target] if target else [])),
    )


def _namespaces(walls: Walls) -> list[str]:
    """Root needs no user namespace to make the others, and would be root outside in one. Everybody else keeps their
    identity in it and can't make another."""
    spaces = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if walls.is_root:
        kept = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")  # until the job's own user is set, see `_inside`
        return [*spaces, *(word for capability in kept for word in ("--cap-add", capability))]
    return ["--unshare-user", "--disable-userns", *spaces, "--cap-drop", "ALL"]


def _inside(walls: Walls, uid: int) -> list[str]:
    """Drop the remaining privileges, the user's own first."""
    argv: list[str] = []
    if walls.is_root:
        argv += [walls.programs.setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        argv += ["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
    return [*argv, walls.programs.inside["nice"], "-n", str(_NICE)]


def _limits(limits: JobLimits) -> list[str]:
    """The limits for `ulimit`, which counts memory in KiB and files in blocks of 512 bytes."""
    figures = (limits.memory // 1024, (limits.disk + _TAR_ROOM) // 512, _MOST_OPEN, math.ceil(limits.cpu_s))
    return [str(figure) for figure in (*figures, limits.processes)]


def _interpreter(interpreter: Interpreter) -> list[str]:
    arguments: list[str] = []
    for folder in interpreter.folders:
        arguments += folders(*(str(parent) for parent in reversed(folder.parents[:-1])))
        arguments += ["--ro-bind", str(folder), str(folder)]
    return arguments


def folders(*paths: str, mode: str = "0755") -> list[str]:
    """Make folders that everybody may enter: those that bubblewrap makes implicitly are private to its user."""
    return [word for path in paths for word in ("--perms", mode, "--dir", path)]


def users(uid: int, descriptors: JobDescriptors) -> list[str]:
    """Provide the user's name and home and the host's name, which programs ask for."""
    arguments: list[str] = []
    for path, line in (
        ("/etc/passwd", f"ozzie:x:{uid}:{uid}::{_HOME}:/bin/sh"),
        ("/etc/group", f"ozzie:x:{uid}:"),
        ("/etc/hosts", "127.0.0.1 localhost"),
    ):
        arguments += ["--perms", "0444", "--ro-bind-data", str(descriptors.readable(f"{line}\n".encode())), path]
    return arguments


def _scratch(path: str, limits: JobLimits) -> list[str]:
    return ["--perms", "1777", "--size", str(limits.disk), "--tmpfs", path]


def _project(project: Path, opened: int, copied: str, walls: Walls, limits: JobLimits, top: Path | None) -> list[str]:
    """Mount each visible entry of the project's top by itself: so files that appear or are replaced there meanwhile
    stay out, and the folder's own rights do not matter. Raises InputError for too many or no readable entries."""
    if copied == PROJECT:
        return _scratch(PROJECT, limits)
    arguments = folders(PROJECT) if top is None else ["--bind", str(top), PROJECT]
    with os.scandir(opened) as entries:
        shown = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    if len(shown) > MAX_TOP:
        raise InputError(
            f"The project's top has more than {MAX_TOP:,} files and folders, which is too many for a command.",
            hint="Put them into folders.",
        )
    if walls.is_root:
        _expect_readable(project, shown)
    for entry in shown:
        where = f"{PROJECT}/{entry.name}"
        if entry.is_symlink():
            arguments += ["--symlink", os.readlink(entry.name, dir_fd=opened), where]
        elif entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
            arguments += ["--ro-bind-try", str(project / entry.name), where]
    for folder in _private_in(project, walls):
        if copied and f"{PROJECT}/{folder}".startswith(f"{copied}/"):
            raise InputError(f"{folder} is a folder of running servers: a folder that holds it can't be edited here.")
        arguments += ["--perms", "0755", "--size", "4096", "--tmpfs", f"{PROJECT}/{folder}"]
    return [*arguments, *(_scratch(copied, limits) if copied else [])]


def _folders_of_project(project: Path, opened: int, shown: Sequence[str], walls: Walls) -> list[str]:
    """Mount these folders of the project, read-only, at their places. Raises InputError for one that is missing or
    leads through a link."""
    arguments = folders(PROJECT)
    hidden = tuple(_private_in(project, walls))
    for folder in sorted(shown):
        if any(part.startswith(".") for part in PurePosixPath(folder).parts) or any(
            Path(folder).is_relative_to(private) for private in hidden
        ):
            raise InputError(f"The folder {folder} of the project is hidden from programs.")
        os.close(open_folder(opened, folder))
        above = reversed(PurePosixPath(folder).parents[:-1])
        arguments += folders(*(f"{PROJECT}/{path}" for path in above))
        arguments += ["--ro-bind", str(project / folder), f"{PROJECT}/{folder}"]
    for private in hidden:
        if any(private.is_relative_to(folder) for folder in shown):
            arguments += ["--perms", "0755", "--size", "4096", "--tmpfs", f"{PROJECT}/{private}"]
    return arguments


def _files(spec: JobSpec, descriptors: JobDescriptors) -> list[str]:
    above = {str(folder) for name in spec.files for folder in PurePosixPath(name).parents[:-1]}
    arguments = folders(*(f"{_JOB}/{folder}" for folder in sorted(above)))
    executable = spec.program.executable if spec.program is not None else frozenset[str]()
    for name, content in spec.files.items():
        mode = "0555" if name in executable else "0444"
        arguments += ["--perms", mode, "--ro-bind-data", str(descriptors.readable(content)), f"{_JOB}/{name}"]
    return arguments


def _private_in(project: Path, walls: Walls) -> Iterator[Path]:
    """Yield the private folders that a job would see, relative to the project."""
    root = project.resolve()
    for folder in map(Path.resolve, walls.private):
        below = folder.relative_to(root).parts if folder.is_relative_to(root) and folder.is_dir() else ()
        if below and not below[0].startswith("."):
            yield Path(*below)


def _expect_readable(project: Path, shown: Sequence[os.DirEntry[str]]) -> None:
    """As root, a job is another user. Raises InputError if that user may read nothing in the project."""
    modes = [entry.stat(follow_symlinks=False).st_mode for entry in shown if not entry.is_symlink()]
    if modes and not any(mode & stat.S_IROTH and (stat.S_ISREG(mode) or mode & stat.S_IXOTH) for mode in modes):
        raise InputError(
            "Commands run as another user here, who may read nothing in the project.",
            hint=f"Run chmod -R o+rX {shlex.quote(str(project))}, or Jupyter as an ordinary user.",
        )


def _environment(walls: Walls, program: ProgramInput | None, descriptors: JobDescriptors) -> list[str]:
    """The environment: nothing of the gateway's own. What a program is given goes through a descriptor, as the system
    shows every user the arguments of a command, and can't replace what every job has."""
    beside = os.path.dirname(walls.interpreter.executable)
    variables: Mapping[str, str] = {
        "PATH": f"{beside}:/usr/local/bin:/usr/bin:/bin",
        "HOME": _HOME,
        "USER": "ozzie",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        "OUT": OUT,
        "MPLBACKEND": "agg",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUSERBASE": walls.interpreter.user_base,
        "TZ": time_zone(),
    }
    if program is not None and program.network is not None:
        variables = {**variables, **proxy_variables()}
    words = ["--clearenv"]
    if program is not None:
        if any("\0" in f"{name}{value}" for name, value in program.env.items()):
            raise InputError("A variable or secret has a zero byte in it.")  # it would begin another argument
        given = "".join(f"--setenv\0{name}\0{value}\0" for name, value in program.env.items())
        words += ["--args", str(descriptors.readable(given.encode(errors="surrogateescape")))]
    return [*words, *(word for name, value in variables.items() if value for word in ("--setenv", name, value))]
