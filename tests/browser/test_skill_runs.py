"""A skill that is run in a cell: how far it is, which step waits, and its result."""

import json
from collections.abc import Callable
from typing import TypeAlias

import pytest
from playwright.async_api import expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.sidebar import Sidebar
from tests.browser.test_approvals import armed, press

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook: TypeAlias = Callable[..., NotebookPage]
SUMS = {
    "name": "sums",
    "description": "Two sums side by side, a yes, and what they come to.",
    "type": "workflow",
    "vars": {"n": {"type": "integer", "required": True}},
    "steps": [
        {"id": "double", "call": {"tool": "calculator", "args": {"expr": "{{n}} * 2"}}},
        {"id": "square", "call": {"tool": "calculator", "args": {"expr": "{{n}} ** 2"}}},
        {
            "id": "gate",
            "approve": {"question": "Are these right?", "show": "{{steps.double.output.value}}"},
            "needs": ["double", "square"],
        },
        {
            "id": "sum",
            "call": {
                "tool": "calculator",
                "args": {"expr": "{{steps.double.output.value}} + {{steps.square.output.value}}"},
            },
            "needs": ["gate"],
        },
    ],
}


@pytest.fixture
def skill(lab: Lab) -> None:
    (lab.home.home / "skills" / "sums.jsonc").write_text(json.dumps(SUMS))


@pytest.mark.soak
@pytest.mark.usefixtures("skill")
async def test_a_run_says_which_step_waits_and_ends_with_its_result(notebook: NewNotebook, lab: Lab) -> None:
    it = notebook("%run sums n=4", "%skills", "%run sums", "%run smus n=4")
    await it.open()
    await it.begin(0)
    cell = it.page.locator(".jp-Cell").first
    await expect(cell.locator(".jp-Ozzie-stateLine")).to_contain_text("Waiting for you")
    await expect(cell.locator(".jp-Ozzie-approval")).to_contain_text("Approval needed by step “gate”")
    await screenshot(it.page, "skill-waiting")
    sidebar = Sidebar(it.page)
    await sidebar.open()
    row = sidebar.root.locator(".jp-Ozzie-needs > li").filter(has_text="Are these right?")
    if await row.locator(".jp-Ozzie-need").count():  # it opens by itself where it is the only one
        await row.locator(".jp-Ozzie-need").click()
    card = row.locator(".jp-Ozzie-approval")
    await armed(card)
    await expect(card.get_by_role("button", name="Approve for this session")).to_have_count(0)
    await screenshot(it.page, "skill-waiting-sidebar")
    await press(card, "Approve once")
    await it.ended(0)
    await expect(cell).to_contain_text('{"value":"24"}')
    await expect(cell).to_contain_text("Done")
    picture = cell.locator("img[src^='data:image/svg+xml']")
    await expect(picture).to_be_visible()
    box = await picture.bounding_box()
    assert box is not None
    assert box["width"] > 300
    await it.save()
    outputs = lab.saved(it.name)["cells"][0]["outputs"]
    assert "[done] gate" in "".join(outputs[-1]["data"]["text/plain"])
    assert "<details><summary>4 steps of sums: 4 done" in "".join(outputs[-2]["data"]["text/markdown"])

    await it.run(1)
    await expect(it.page.locator(".jp-Cell").nth(1)).to_contain_text("%run sums n=…")
    await it.run(2)
    await expect(it.page.locator(".jp-Cell").nth(2)).to_contain_text('sums needs "n".')
    await it.run(3)
    await expect(it.page.locator(".jp-Cell").nth(3)).to_contain_text('Did you mean "sums"?')
    await it.save()
    await screenshot(it.page, "skill-done")
