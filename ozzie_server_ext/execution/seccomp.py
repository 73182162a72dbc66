"""The seccomp filter: system calls that a job in the sandbox is refused (seccomp(2), bpf(4)).

Refused calls reach around the sandbox (other namespaces, other processes, keyrings), take memory that no limit counts,
or serve to run the machine and have a history of holes. Calls newer than this list do not exist for a job.
"""

import errno
import platform
import struct

_NUMBERS = {
    # Inspecting or steering other processes.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    # The kernel's keyrings belong to users, not namespaces.
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    # Namespaces and mounts; opening files by handle.
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "open_tree": (428, 428), "move_mount": (429, 429), "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # Memory that is mapped nowhere and so can't be counted.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    # Kernel internals.
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18), "syslog": (103, 116), "move_pages": (279, 239), "migrate_pages": (256, 238),
    # Running the machine.
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "vhangup": (153, 58), "ioperm": (173, None), "iopl": (172, None), "modify_ldt": (154, None),
}  # fmt: skip
"""Refused with EPERM; the numbers on x86_64 and aarch64."""

_ABSENT = {"io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
           "clone3": (435, 435)}  # fmt: skip
"""Answered as if the kernel had none: programs then do without, or use `clone`, whose flags can be checked."""

_CLONE = (56, 220)
_SOCKET = (41, 198)
_IOCTL = (16, 29)
_PERSONALITY = (135, 92)
_FCNTL = (72, 25)

_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_FAMILIES = (2, 10)
"""AF_INET and AF_INET6: each sandbox has a network of its own, without a way out. AF_UNIX is not among them, because a
socket in the project could be connected to through a read-only mount. Socket pairs are allowed."""
_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: typing for the user."""
_LEASES = (1024, 1026)
"""F_SETLEASE and F_NOTIFY: a lease on a project file blocks everybody outside who opens it."""
_PLAIN = (0, 0xFFFFFFFF)
"""Querying the personality, and the default one."""

_NEWEST = 450
"""Of Linux 5.17; since 424, numbers are the same on all machines. Each newer call has an older alternative."""

_LOAD, _EQUAL, _GREATER, _HAS_BITS, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_ERRNO = 0x00050000
_NUMBER_AT, _MACHINE_AT = 0, 4
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


def machine() -> str | None:
    """Return this machine's key for `program`; None if no filter is known for it."""
    name = platform.machine()
    return name if name in _MACHINES else None


def program(machine: str) -> bytes:
    """Return the filter for `machine` ("x86_64" or "aarch64") as an array of `struct sock_filter`."""
    audited, column = _MACHINES[machine]
    code = [
        _op(_LOAD, _MACHINE_AT),
        _op(_EQUAL, audited, 1, 0),
        _op(_RETURN, _KILL),  # calls of another machine's numbers, such as 32-bit ones
        _op(_LOAD, _NUMBER_AT),
        *_answer_if(_GREATER, _NEWEST, errno.ENOSYS),  # x32's numbers, too
    ]
    for numbers in _ABSENT.values():
        code += _answer_if(_EQUAL, numbers[column], errno.ENOSYS)
    for numbers in _NUMBERS.values():
        if (number := numbers[column]) is not None:
            code += _answer_if(_EQUAL, number, errno.EPERM)
    code += _look_at(_CLONE[column], 0, _answer_if(_HAS_BITS, _NEW_NAMESPACES, errno.EPERM))
    code += _look_at(_IOCTL[column], 1, _refusing(_TERMINAL_INPUT))
    code += _look_at(_FCNTL[column], 1, _refusing(_LEASES))
    code += _look_at(_SOCKET[column], 0, _unless(_FAMILIES, errno.EAFNOSUPPORT))
    code += _look_at(_PERSONALITY[column], 0, _unless(_PLAIN, errno.EPERM))
    code.append(_op(_RETURN, _ALLOW))
    return b"".join(code)


def _op(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def _answer_if(condition: int, value: int, error: int) -> list[bytes]:
    return [_op(condition, value, 0, 1), _op(_RETURN, _ERRNO | error)]


def _refusing(values: tuple[int, ...]) -> list[bytes]:
    return [line for value in values for line in _answer_if(_EQUAL, value, errno.EPERM)]


def _unless(allowed: tuple[int, ...], error: int) -> list[bytes]:
    checks = [_op(_EQUAL, value, len(allowed) - index, 0) for index, value in enumerate(allowed)]
    return [*checks, _op(_RETURN, _ERRNO | error)]


def _look_at(number: int, argument: int, checks: list[bytes]) -> list[bytes]:
    """Check one call's argument by its lower 32 bits: the kernel looks at no more."""
    inside = [_op(_LOAD, 16 + 8 * argument), *checks, _op(_RETURN, _ALLOW)]
    return [_op(_EQUAL, number, 0, len(inside)), *inside]
