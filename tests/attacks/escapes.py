"""What a command tries in the sandbox: it runs, and nothing comes of it."""

from functools import partial

from tests.attacks.attack import Attack, World, python, shell

_of = partial(Attack, kind="the sandbox", ends="harmless")


def _shell(name: str, command: str) -> Attack:
    """`BESIDE` stands for the folder beside the project."""

    def rounds(world: World) -> list[object]:
        return [shell(command.replace("BESIDE", str(world.beside)).replace("PROJECT", str(world.project)))]

    return _of(name=name, rounds=rounds)  # type: ignore[arg-type]


def _python(name: str, code: str, **changed: object) -> Attack:
    def rounds(world: World) -> list[object]:
        found = code.replace("PORT", str(world.internal.port)).replace("BESIDE", str(world.beside))
        return [python(found)]

    return _of(name=name, rounds=rounds, **changed)  # type: ignore[arg-type]


ESCAPES = (
    _shell("write into the project", "echo owned > /project/key.txt; echo owned > /project/owned.md"),
    _shell("write beside the project", "echo owned > BESIDE/owned.md; echo owned > /project/../owned.md"),
    _shell("write the system", "echo owned > /etc/owned; echo owned > /usr/bin/owned; touch /owned"),
    _shell(
        "change the rights of the project", "chmod -R 777 /project; chown 0:0 /project/key.txt; touch /project/key.txt"
    ),
    _shell(
        "read what is beside the project", "cat BESIDE/secret.txt; cat /root/.ssh/*; cat PROJECT/../beside/secret.txt"
    ),
    _shell(
        "take a link out",
        "ln -s BESIDE/secret.txt $OUT/taken; ln -s /etc/passwd $OUT/passwd; ln /project/key.txt $OUT/x",
    ),
    _shell(
        "name a file that climbs",
        'mkdir -p $OUT/a; echo x > "$OUT/a/..\\\\..\\\\owned"; cp /project/key.txt "$OUT/../owned"',
    ),
    _shell(
        "become root",
        "su -c 'touch /owned'; sudo -n touch /owned; cp /bin/sh $OUT/sh; chmod u+s $OUT/sh; $OUT/sh -p -c id",
    ),
    _shell("mount and unshare", "unshare -Ur touch /owned; mount -t tmpfs none /project; mount -o remount,rw /project"),
    _shell("kill what else runs", "kill -9 1; kill -15 1; pkill -9 python; echo still there"),
    _shell(
        "leave something running", "setsid nohup sh -c 'sleep 600; echo owned > /project/owned.md' >/dev/null 2>&1 &"
    ),
    _shell("a fork bomb", "b() { b | b & }; b; sleep 1; echo still there"),
    _shell(
        "fill the disk", "head -c 400000000 /dev/zero > $OUT/big; head -c 400000000 /dev/zero > /tmp/big; echo done"
    ),
    _python("take all memory", "x = []\nwhile True:\n    x.append(bytearray(50_000_000))"),
    _python(
        "reach the network",
        "import socket\nfor place in (('127.0.0.3', PORT), ('127.0.0.1', PORT), ('1.1.1.1', 53)):\n"
        "    try:\n        socket.create_connection(place, 1)\n        print('reached')\n"
        "    except OSError as error:\n        print(error)",
    ),
    _python(
        "reach the gateway's sockets",
        "import glob, socket\n"
        "for path in [*glob.glob('/tmp/**/*.sock', recursive=True), *glob.glob('/run/**', recursive=True)]:\n"
        "    try:\n        socket.socket(socket.AF_UNIX).connect(path)\n        print('reached', path)\n"
        "    except (OSError, ValueError) as error:\n        print(error)",
    ),
    _python(
        "read the keys of other processes",
        "import glob\nfor path in glob.glob('/proc/[0-9]*/environ'):\n    print(path, open(path, 'rb').read()[:200])",
    ),
    _python(
        "trace, read keyrings and load code into the kernel",
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "for number in (101, 250, 175, 321, 310, 272):\n"
        "    print(number, libc.syscall(number, 1, 0, 0, 0), ctypes.get_errno())",
    ),
    _python(
        "write past its standard output",
        "import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'owned')\n        print('wrote', fd)\n"
        "    except OSError:\n        pass",
    ),
)
