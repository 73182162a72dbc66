"""A JupyterLab of the tests' own: its home, its settings, its notebooks, and what its server says about itself."""

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from ozzie_server_ext.protocol.handshake import Handshake
from tests.rig import JUPYTER_TOKEN, GatewayHome, new_home, wait_for_attached

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LAB_START_S = 90.0
TURN_S = 40.0
_NEWS_OFF = {"@jupyterlab/apputils-extension:announcements": True}
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/(?=lab)")
KERNELSPEC = {"display_name": "Ozzie", "language": "markdown", "name": "ozzie"}


@dataclass(frozen=True)
class Lab:
    """`url` ends with a slash."""

    home: GatewayHome
    handshake: Handshake

    @property
    def url(self) -> str:
        return self.handshake.url

    def position(self) -> int:
        """How many events there are: where a turn was begun, this has grown."""
        return int(self._get("ozzie/api/health", self.handshake.token)["position"])

    def events(self, kind: str, after: int) -> list[dict[str, Any]]:
        """The events of this type since that position, the first one first."""
        found = self._get(f"ozzie/api/events?type={kind}&limit=500&after={after}", self.handshake.token)["items"]
        return sorted(found, key=lambda event: event["position"])

    def owner(self) -> int:
        """The process that owns the home now, as this server has it."""
        return int(self._get("ozzie/api/health", self.handshake.token)["pid"])

    def tasks(self) -> int:
        """How many turns there have been."""
        return len(self._get("ozzie/api/tasks?limit=500", self.handshake.token)["items"])

    def output(self, task_id: str) -> dict[str, Any]:
        """A turn as a cell shows it."""
        return self._get(f"ozzie/api/tasks/{task_id}/output", self.handshake.token)

    def wait_for_tasks_to_end(self) -> None:
        """Returns when no turn goes on. Raises TimeoutError."""
        end = time.monotonic() + TURN_S
        while any(task["finished_at"] is None for task in self._get("ozzie/api/tasks", self.handshake.token)["items"]):
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0.05)

    def write(self, name: str, sources: Sequence[str], metadata: Mapping[str, Any] | None = None) -> None:
        """A notebook of code cells that have not been run."""
        notebook = new_notebook(
            cells=[new_code_cell(source) for source in sources],
            metadata={"kernelspec": KERNELSPEC, **(metadata or {})},
        )
        nbformat.write(notebook, self.path(name))

    def path(self, name: str) -> Path:
        return self.home.project / name

    def saved(self, name: str) -> dict[str, Any]:
        """The notebook as it lies on the disk."""
        return json.loads(self.path(name).read_text())

    def end_kernels(self) -> None:
        """Shut down what the last test left running."""
        for session in self._get("api/sessions", JUPYTER_TOKEN):
            self._ask("DELETE", f"api/sessions/{session['id']}", JUPYTER_TOKEN)

    def _get(self, path: str, token: str) -> Any:
        return json.loads(self._ask("GET", path, token))

    def _ask(self, method: str, path: str, token: str) -> bytes:
        request = urllib.request.Request(self.url + path, method=method, headers={"Authorization": f"token {token}"})
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.read()


@contextmanager
def start_lab(
    folder: Path, provider_url: str, models: Mapping[str, str], *, env: Mapping[str, str] | None = None
) -> Iterator[Lab]:
    """JupyterLab on a home of its own below `folder`, as `lab_home` makes it."""
    with serve_lab(lab_home(folder, provider_url, models, env=env)) as (lab, _):
        yield lab


def lab_home(
    folder: Path, provider_url: str, models: Mapping[str, str], *, env: Mapping[str, str] | None = None
) -> GatewayHome:
    """A home for a JupyterLab, with a copy of the notebooks.

    The offline script answers, as on a machine without keys; `models` may be chosen with `%model`: what they are
    called here, and what by the provider. `env` is added to the environment: keys, for example.
    """
    folder.mkdir(exist_ok=True)
    home = new_home(folder)
    home = replace(home, env={**home.env, **(env or {})})
    shutil.copytree(NOTEBOOKS, home.project, dirs_exist_ok=True)
    _turn_off_news(Path(home.env["JUPYTER_CONFIG_DIR"]))
    providers = {
        name: {"driver": "openai", "model": model, "base_url": f"{provider_url}/v1", "auth": {"type": "none"}}
        for name, model in models.items()
    }
    home.configure({"models": {"default": "offline", "providers": providers}})
    return home


@contextmanager
def serve_lab(home: GatewayHome, *, port: int = 0) -> Iterator[tuple[Lab, "subprocess.Popen[bytes]"]]:
    """JupyterLab on that home, and its process."""
    with _process(home, home.home.parent, port) as (process, log):
        yield Lab(home, _wait_until_ready(home, process, log)), process


@contextmanager
def start_second_lab(first: Lab, root: Path | None = None) -> Iterator[Lab]:
    """Another JupyterLab on the same home; it is attached to the first. By default it has the same notebooks."""
    home, folder = replace(first.home, project=root or first.home.project), first.home.home.parent / "second"
    folder.mkdir()
    with _process(home, folder) as (process, log):
        server = wait_for_attached(home, process, log)
        its = replace(first.handshake, url=server.url, token=JUPYTER_TOKEN, pid=server.pid)
        yield Lab(home, its)


@contextmanager
def start_lab_without_ozzie(folder: Path) -> Iterator[tuple[str, Path]]:
    """JupyterLab as on a machine without Ozzie: without its page, its server and its kernel. Its address, which ends in
    a slash, and its folder."""
    home = lab_home(folder, "", {})
    config = Path(home.env["JUPYTER_CONFIG_DIR"])
    _write(config / "labconfig/page_config.json", {"disabledExtensions": {**_NEWS_OFF, "@ozzie/labextension": True}})
    server = {"jpserver_extensions": {"ozzie_server_ext": False, "jupyterlab": True}}
    none = {"allowed_kernelspecs": ["none"], "ensure_native_kernel": False}
    _write(config / "jupyter_server_config.json", {"ServerApp": server, "KernelSpecManager": none})
    with _process(home, folder) as (process, log):
        end = time.monotonic() + LAB_START_S
        while not (found := _ADDRESS.search(log.read_text())):
            assert process.poll() is None, log.read_text()
            if time.monotonic() > end:
                raise TimeoutError(log.read_text())
            time.sleep(0.05)
        try:
            yield found[0], home.project
        finally:
            # At its own end, Jupyter may wait for an idle thread for ever: see `release_idle_threads_at_exit`.
            process.kill()
            process.wait(30)


@contextmanager
def _process(home: GatewayHome, folder: Path, port: int = 0) -> "Iterator[tuple[subprocess.Popen[bytes], Path]]":
    """A Lab whose own files lie in `folder`, with its log; its exit status must be 0 unless the test killed it."""
    log = folder / "lab.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            _command(home, port),
            cwd=folder,  # where jupyter-collaboration keeps its database
            env=_environment(home, folder),
            stdout=output,
            stderr=output,
        )
    try:
        yield process, log
    finally:
        ended_before = process.poll() is not None
        process.terminate()
        status = process.wait(30)
        assert ended_before or status == 0, log.read_text()


def _turn_off_news(config: Path) -> None:
    """Lab asks whether it may fetch news, in a window over the page, unless the plugin that asks is off."""
    _write(config / "labconfig" / "page_config.json", {"disabledExtensions": _NEWS_OFF})


def _write(settings: Path, content: Mapping[str, Any]) -> None:
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps(content))


def _command(home: GatewayHome, port: int) -> list[str]:
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--ServerApp.port={port}"),
        f"--ServerApp.root_dir={home.project}",
        # Tests run cells by Lab's own commands, and wait for what its objects say.
        "--LabApp.expose_app_in_browser=True",
        "--JupyterNotebookApp.expose_app_in_browser=True",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]


def _environment(home: GatewayHome, folder: Path) -> dict[str, str]:
    folders = {f"JUPYTERLAB_{name}_DIR": str(folder / f"lab-{name.lower()}") for name in ("WORKSPACES", "SETTINGS")}
    return {**home.env, **folders, "JUPYTER_TOKEN": JUPYTER_TOKEN}


def _wait_until_ready(home: GatewayHome, process: "subprocess.Popen[bytes]", log: Path) -> Handshake:
    end = time.monotonic() + LAB_START_S
    while time.monotonic() < end:
        found = home.handshake()
        if found is not None and found.pid == process.pid:
            return found
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise TimeoutError(log.read_text())
