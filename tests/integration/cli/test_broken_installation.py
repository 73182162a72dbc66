"""An installation in which something is missing: a sentence of every program, and never a traceback."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig import GatewayHome

SAID = "Ozzie can't be loaded: "
HINT = "Install jupyter-ozzie again."


def without(home: GatewayHome, package: str, folder: Path) -> GatewayHome:
    """The home as one has it whose Python can't load a package."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(f"raise ImportError('{package} is broken')\n")
    path = os.pathsep.join([str(folder), *filter(None, [home.env.get("PYTHONPATH")])])
    return dataclasses.replace(home, env={**home.env, "PYTHONPATH": path})


def run(home: GatewayHome, module: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(command, env=dict(home.env), cwd=home.project, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("package", ["jupyter_server", "tornado", "msgspec", "dotenv"])
def test_a_gateway_says_what_it_can_not_load(home: GatewayHome, tmp_path: Path, package: str) -> None:
    done = run(without(home, package, tmp_path), "ozzie_server_ext.programs.gateway", "--port", "0")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [f"ozzie gateway: {SAID}{package} is broken.", HINT]


def test_a_worker_says_what_it_can_not_load(home: GatewayHome, tmp_path: Path) -> None:
    done = run(without(home, "dotenv", tmp_path), "ozzie_server_ext.programs.worker")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [f"ozzie worker: {SAID}dotenv is broken.", HINT]


@pytest.mark.parametrize("words", [["status"], ["secrets", "list"], ["events", "verify"]])
def test_a_command_says_what_it_can_not_load(home: GatewayHome, tmp_path: Path, words: list[str]) -> None:
    broken = without(home, "msgspec", tmp_path)

    done = run(broken, "ozzie_server_ext.cli.main", *words)
    as_json = run(broken, "ozzie_server_ext.cli.main", *words, "--json")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [f"ozzie: {SAID}msgspec is broken.", HINT]
    assert json.loads(as_json.stderr)["code"] == "install.incomplete"


def test_who_starts_a_gateway_is_told_what_it_can_not_load(home: GatewayHome, tmp_path: Path) -> None:
    broken = without(home, "dotenv", tmp_path)

    asked = run(broken, "ozzie_server_ext.cli.main", "ask", "hello")
    started = run(broken, "ozzie_server_ext.cli.main", "gateway", "--detach")

    assert (asked.returncode, started.returncode) == (1, 1)
    assert f"Ozzie's gateway could not be started: {SAID}dotenv is broken." in asked.stderr
    assert f"{SAID}dotenv is broken." in started.stderr
    assert HINT in asked.stderr
    assert "Traceback" not in asked.stderr + started.stderr


def test_a_gateway_does_not_depend_on_what_jupyters_configuration_loads(home: GatewayHome) -> None:
    """`jupyter server extension disable` writes it so, for servers that people start."""
    config = Path(home.env["JUPYTER_CONFIG_DIR"])
    config.mkdir()
    said = {"ServerApp": {"jpserver_extensions": {"ozzie_server_ext": False, "nobodys_extension": True}}}
    (config / "jupyter_server_config.json").write_text(json.dumps(said))

    done = run(home, "ozzie_server_ext.cli.main", "ask", "hello")
    home.stop_gateways()

    assert (done.returncode, done.stderr) == (0, "")
