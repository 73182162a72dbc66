"""What the repository promises of itself: light imports, short files, and nothing of anybody's machine in it."""

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ozzie_server_ext", "ozzie_kernel")
MAX_LINES = 600
"""In a longer file, the second paragraph of its docstring says why it is one."""

SHARED_FOLDERS = ("/", "/data", "/home", "/mnt", "/opt", "/root", "/src", "/srv", "/tmp", "/usr", "/var")
"""Folders that are on every machine: that a checkout lies right below one tells nothing of whose it is."""

SERVER_ONLY = (
    "jupyter_server",
    "pydantic",
    "litellm",
    "sqlite3",
    "cryptography",
    "keyring",
    *(
        f"ozzie_server_ext.{name}"
        for name in (
            "app",
            "embedding",
            "extension",
            "gateway",
            "tasks",
            "agent",
            "tools",
            "artifacts",
            "models",
            "store",
            "vault",
            "planes",
        )
    ),
    "ozzie_server_ext.config",
)


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def loaded_by(statement: str, *, after: str = "") -> set[str]:
    """The modules that `statement` loads in a fresh interpreter, in which `after` ran before."""
    code = (
        f"{after}\nimport json, sys\nbefore = set(sys.modules)\n{statement}\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    return set(json.loads(done.stdout.splitlines()[-1]))


def of(loaded: set[str], *names: str) -> list[str]:
    return sorted(module for module in loaded if any(module == name or module.startswith(f"{name}.") for name in names))


def test_importing_the_server_package_loads_nothing_of_it() -> None:
    assert of(loaded_by("import ozzie_server_ext"), "ozzie_server_ext") == ["ozzie_server_ext"]


def test_a_kernel_loads_nothing_of_the_server() -> None:
    """`sqlite3` is IPython's own, for its history."""
    loaded = loaded_by("import ozzie_kernel.kernel, ozzie_kernel.runner")

    assert of(loaded, *(set(SERVER_ONLY) - {"sqlite3"})) == []


def test_a_kernel_that_is_ready_has_loaded_nothing_that_only_a_cell_needs() -> None:
    """Its start is measured against ipykernel's."""
    loaded = loaded_by("import ozzie_kernel.ahead, ozzie_kernel.kernel")

    assert of(loaded, "ipywidgets", "markdown_it", "msgspec") == []
    assert of(loaded, "ozzie_kernel", "ozzie_server_ext") == [
        "ozzie_kernel",
        "ozzie_kernel.ahead",
        "ozzie_kernel.cells",
        "ozzie_kernel.front_end",
        "ozzie_kernel.history",
        "ozzie_kernel.interrupt",
        "ozzie_kernel.kernel",
        "ozzie_server_ext",
        "ozzie_server_ext.domain",
        "ozzie_server_ext.domain.errors",
        "ozzie_server_ext.domain.paths",
        "ozzie_server_ext.protocol",
        "ozzie_server_ext.protocol.owner",
    ]


def test_what_the_kernel_shares_with_the_server_needs_no_web_server() -> None:
    shared = [
        named(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for part in ("domain", "protocol", "render")
        for path in sorted((ROOT / "ozzie_server_ext" / part).glob("*.py"))
    ]

    loaded = loaded_by(f"import {', '.join(shared)}")

    assert of(loaded, *SERVER_ONLY, "tornado", "asyncio", "IPython") == []


@cache
def added_to_a_server() -> set[str]:
    jupyter = "import jupyter_server.serverapp, jupyter_server.services.contents.largefilemanager"
    return loaded_by("import ozzie_server_ext.extension", after=jupyter)


def test_a_server_loads_only_these_libraries_for_ozzie() -> None:
    """Each takes memory of every server, also where nobody ever asks anything. pydantic checks settings, rules and
    skills; msgspec holds the records."""
    added = {module.partition(".")[0] for module in added_to_a_server() if not module.startswith("_")}

    ours, pydantic = {"ozzie_server_ext"}, {"annotated_types", "pydantic", "pydantic_core", "typing_inspection"}
    others = added - ours - {"jupyter_server", "tornado"}
    assert others - sys.stdlib_module_names == {"dotenv", "msgspec", "sqlite_fts4", *pydantic}
    small = {"ctypes", "difflib", "graphlib", "grp", "pwd", "secrets", "shlex", "tarfile"}
    assert others & sys.stdlib_module_names <= small


def test_what_runs_tasks_is_loaded_with_the_first_task() -> None:
    later = ["agent.turn", "agent.model_call", "tasks.turn_runner", "tasks.workflows.runner", "tools.broker"]

    assert of(added_to_a_server(), *(f"ozzie_server_ext.{name}" for name in later)) == []
    assert of(added_to_a_server(), "ozzie_server_ext.tasks.projects") != [], "these are not just renamed"


def test_what_draws_graphs_is_loaded_with_the_first_graph() -> None:
    assert of(added_to_a_server(), *(f"ozzie_server_ext.render.graph.{name}" for name in ("layered", "output"))) == []


def test_a_gateway_without_a_vault_loads_none_of_its_cryptography() -> None:
    assert of(loaded_by("import ozzie_server_ext.app"), "cryptography", "keyring") == []


def test_a_gateway_loads_nothing_that_reaches_the_web_or_reads_its_pages() -> None:
    loaded = loaded_by("import ozzie_server_ext.app, ozzie_server_ext.web.reach")

    assert of(loaded, "httpx", "httpcore", "bs4", "markdownify", "ozzie_server_ext.programs") == []


def test_the_command_lines_help_loads_none_of_what_its_verbs_need() -> None:
    loaded = loaded_by("import ozzie_server_ext.cli.main")

    assert of(loaded, *SERVER_ONLY, "tornado", "ozzie_kernel") == []


def test_a_module_is_short_and_begins_by_saying_what_it_is() -> None:
    for path in modules():
        text = path.read_text()
        first = (ast.get_docstring(ast.parse(text)) or "").splitlines()[:1]

        assert first, f"{named(path)} begins with a docstring"
        assert first[0].rstrip().endswith((".", ":")) or len(first[0]) > 60, f"{named(path)} begins with a sentence"
        assert len(text.splitlines()) <= MAX_LINES or "One file, though it is long: " in text[:400], named(path)


@cache
def tracked() -> tuple[Path, ...]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=50).stdout
    return tuple(ROOT / os.fsdecode(name) for name in listed.split(b"\0") if name)


def files_with(text: str) -> list[str]:
    return [named(path) for path in tracked() if path.is_file() and text.encode() in path.read_bytes()]


def registry_hosts() -> set[str]:
    """The hosts of the package registries that this machine is set up for, asked of the clients themselves."""
    said = [os.environ.get(name, "") for name in ("PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX")]
    for question in (
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        [sys.executable, "-m", "pip", "config", "get", "install.index-url"],
        ["npm", "config", "get", "registry"],
    ):
        try:
            asked = subprocess.run(question, cwd=ROOT, capture_output=True, text=True, check=False, timeout=50)
        except FileNotFoundError:
            continue
        said.append(asked.stdout)
    found = {match[1] for text in said for match in re.finditer(r"^[a-z]+://(?:[^/@\s]*@)?([^/:\s]+)", text, re.M)}
    return found


def test_no_file_names_a_package_registry() -> None:
    hits = {host: files_with(host) for host in registry_hosts()}

    assert not any(hits.values()), hits


def test_no_file_names_the_folder_that_this_checkout_lies_in() -> None:
    own = ROOT if str(ROOT.parent) in SHARED_FOLDERS else ROOT.parent
    path = re.compile(rb"(?<![\w.~-])" + re.escape(os.fsencode(own)) + rb"/")

    assert [named(file) for file in tracked() if file.is_file() and path.search(file.read_bytes())] == []


def test_nothing_that_was_built_or_fetched_is_tracked() -> None:
    odd = [named(path) for path in tracked() if {".venv", "node_modules", "__pycache__", "dist"} & set(path.parts)]

    assert odd == []
