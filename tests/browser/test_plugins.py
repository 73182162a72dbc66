"""A plugin from `ozzie plugins add` to a cell: what nobody granted is refused, and what it sends asks first."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.test_approvals import card, press
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall
from tests.rig import ozzie
from tests.wasm_rig import Wat, plugin_folder

pytestmark = [
    pytest.mark.browser,
    pytest.mark.soak,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(120),
]

TOOLS = [
    {"name": "weather", "description": "Degrees of a town", "parameters": {"town": {"description": "Its name"}}},
    {"name": "tell", "description": "Tells the team", "parameters": {"text": {"description": "What is told"}}},
]


@pytest.fixture
def weather(lab: Lab, tmp_path: Path) -> Iterator[None]:
    """The plugin of a person who has added and classified it in a terminal."""
    code = Wat().returns("weather", '{"degrees": 12}').returns("tell", '"told"').code
    capabilities = {"http": {"allowed_hosts": ["hooks.example.org"], "methods": ["POST"]}}
    folder = plugin_folder(tmp_path / "weather", code, name="weather", capabilities=capabilities, tools=TOOLS)
    added = ozzie(lab.home, "plugins", "add", str(folder), "--yes")
    assert added.returncode == 0, added.stderr
    said = ozzie(lab.home, "plugins", "classify", "weather", "weather=reads", "tell=sends")
    assert said.returncode == 0, said.stderr
    yield
    ozzie(lab.home, "plugins", "remove", "weather")


async def test_a_plugins_tools_read_at_once_and_ask_before_they_send(
    weather: None, notebook: Callable[..., NotebookPage], page: Page, provider: FakeOpenAI
) -> None:
    provider.queue(
        Answer(tool_calls=[ToolCall("weather__tell", {"text": "Frost tonight"})]),
        Answer(pieces=["The team knows of the frost."]),
    )
    it = notebook("%model scripted", "Tell the team that there is frost tonight.")
    await it.open()
    await it.run(0)
    await it.begin(1)
    asked = card(it, 1)
    await expect(asked).to_contain_text("Call tell of the plugin weather?")
    await expect(asked).to_contain_text("Frost tonight")
    await screenshot(page, "plugin-asks")

    await press(asked, "Approve once")

    await expect(it.final(1)).to_contain_text("knows of the frost")
    await screenshot(page, "plugin-done")
