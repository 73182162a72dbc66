"""An approval in its cell and in the sidebar, answered while the cell runs (NB-3, UX §2.4)."""

import asyncio
from collections.abc import Callable

import pytest
from playwright.async_api import BrowserContext, Locator, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.sidebar import Sidebar

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook = Callable[..., NotebookPage]


def wants(name: str, lines: int = 2) -> str:
    """A message by which the offline script writes a file, which asks."""
    return f"Write a {lines}-line note to notes/{name}"


def card(it: NotebookPage, index: int) -> Locator:
    """The card below the cell, wherever it stands with its approval."""
    return it.output(index).locator(".jp-Ozzie-approval")


async def armed(found: Locator) -> None:
    """A card does nothing for half a second after it came."""
    await expect(found).to_have_attribute("data-armed", "true")


async def asked(it: NotebookPage, index: int) -> Locator:
    """The card of a cell, once it takes answers."""
    found = card(it, index)
    await armed(found)
    return found


@pytest.fixture(autouse=True)
def notes(lab: Lab) -> None:
    lab.path("notes").mkdir(exist_ok=True)


async def test_a_yes_in_the_cell_lets_the_turn_go_on_while_the_cell_runs(notebook: NewNotebook, lab: Lab) -> None:
    it = notebook(wants("first.md"))
    await it.open()
    await it.begin(0)
    found = await asked(it, 0)
    await expect(found).to_contain_text("Write a new file, notes/first.md, of 2 lines?")
    await expect(found).to_contain_text("Ozzie asks because it changes something of yours.")
    await expect(it.live(0).locator(".oz-status b")).to_have_text("Waiting for you")
    await expect(it.live(0).get_by_text("ozzie approvals approve").first).to_be_hidden()
    await expect(it.output(0).get_by_role("button", name="Approve once", exact=True)).to_have_count(1)
    await screenshot(it.page, "approval-in-cell")

    await found.get_by_role("button", name="Approve once").click()

    await it.ended(0)
    await expect(it.final(0)).to_contain_text("approved once by")
    assert lab.path("notes/first.md").read_text().startswith("Line 1 of 2")
    await screenshot(it.page, "approval-granted")
