"""Paths that lead out of the project, or into what is Ozzie's own."""

import os
from functools import partial

from ozzie_server_ext.models.scripted import Use
from tests.attacks.attack import Attack, World, read, shell, write

_of = partial(Attack, kind="paths", ends="refused")


def _write(path: str, **changed: object) -> Attack:
    return _of(name=f"write {path!r}"[:60], rounds=lambda world: [write(path)], **changed)  # type: ignore[arg-type]


def _read(path: str, **changed: object) -> Attack:
    return _of(name=f"read {path!r}"[:60], rounds=lambda world: [read(path)], **changed)  # type: ignore[arg-type]


def _link(name: str, to: str) -> object:
    def prepare(world: World) -> None:
        os.symlink(to.replace("BESIDE", str(world.beside)), world.project / name)

    return prepare


def _hard(world: World) -> None:
    os.link(world.beside / "secret.txt", world.project / "linked.txt")


def _pipe(world: World) -> None:
    os.mkfifo(world.project / "pipe")


PATHS = (
    _write("../beside/owned.md"),
    _write("notes/../../beside/owned.md"),
    _write("/etc/owned.md"),
    _write("~/.bashrc"),
    _write(".ozzie/policy.jsonc"),
    _write(".git/hooks/pre-commit"),
    _write(".env"),
    _write("notes/.hidden"),
    _write("notes/a\0.md"),
    _write("a/" * 600 + "b.md"),
    _write("out/owned.md", prepare=_link("out", "BESIDE")),
    _write("out.md", prepare=_link("out.md", "BESIDE/secret.txt")),
    _of(
        name="change a file with a second name",
        prepare=_hard,
        rounds=lambda world: [
            read("linked.txt"),
            lambda seen: Use(
                "edit_file",
                {"path": "linked.txt", "old": "hunter2", "new": "owned", "version": seen.version("linked.txt")},
            ),
        ],
    ),
    _write("pipe", prepare=_pipe),
    _read("../beside/secret.txt"),
    _read("/etc/passwd"),
    _read("/proc/self/environ"),
    _read("out/secret.txt", prepare=_link("out", "BESIDE")),
    _read("pipe", prepare=_pipe),
    _of(name="search above the project", rounds=lambda world: [Use("search", {"query": "a", "path": ".."})]),
    _of(name="list the machine", rounds=lambda world: [Use("list_files", {"path": "/"})]),
    _of(name="find above the project", rounds=lambda world: [Use("find_files", {"pattern": "../**/*.txt"})]),
    _of(name="run a command above the project", rounds=lambda world: [shell("ls", folder="..")]),
)
