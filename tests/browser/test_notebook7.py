"""Notebook 7: another front end on the same server, with the same kernel."""

from collections.abc import Callable

import pytest
from playwright.async_api import Page, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.run_skills import LETTER, RunCell, write
from tests.browser.screenshots import screenshot
from tests.browser.test_approvals import asked, press
from tests.rig import JUPYTER_TOKEN

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(150)]


async def opened(lab: Lab, page: Page, notebook: NotebookPage) -> None:
    """Load the notebook by itself, and wait until its kernel answers."""
    await page.goto(f"{lab.url}notebooks/{notebook.name}?token={JUPYTER_TOKEN}")
    await notebook.is_ready()


@pytest.mark.soak
async def test_a_cell_streams_and_is_saved_in_notebook_7(
    lab: Lab, page: Page, notebook: Callable[..., NotebookPage]
) -> None:
    one = notebook("What is 17.5 % of 2,480? Use the calculator.")
    await opened(lab, page, one)

    await one.cell(0).locator(".cm-content").click()
    await page.keyboard.press("Shift+Enter")

    await expect(one.final(0)).to_contain_text("Ozzie: Done")
    await expect(one.final(0)).to_contain_text("434")
    await expect(one.live(0)).to_have_count(0)
    await page.keyboard.press("Control+s")
    await expect(page.locator(".jp-NotebookCheckpoint")).to_contain_text("Last Checkpoint")


@pytest.mark.soak
async def test_a_turn_is_stopped_with_the_keys_of_notebook_7(
    lab: Lab, page: Page, notebook: Callable[..., NotebookPage]
) -> None:
    one = notebook("%model endless", "go on")
    await opened(lab, page, one)
    await one.cell(0).locator(".cm-content").click()
    await page.keyboard.press("Shift+Enter")
    await expect(one.output(0)).to_contain_text("endless")

    await page.keyboard.press("Shift+Enter")
    await expect(one.live(1)).to_contain_text("Working")
    await page.keyboard.press("Escape")
    await page.keyboard.press("i")
    await page.keyboard.press("i")

    await expect(one.final(1)).to_contain_text("Stopped here by you.")


@pytest.mark.soak
async def test_an_approval_is_answered_on_its_card_in_notebook_7(
    lab: Lab, page: Page, notebook: Callable[..., NotebookPage]
) -> None:
    one = notebook("Write a 2-line note to notes/seven.md")
    await opened(lab, page, one)
    await one.cell(0).locator(".cm-content").click()
    await page.keyboard.press("Shift+Enter")
    found = await asked(one, 0)
    await expect(found).to_contain_text("Write a new file, notes/seven.md, of 2 lines?")
    await screenshot(page, "approval-notebook-7")

    await press(found, "Approve once")

    await expect(one.final(0)).to_contain_text("approved once by")
    assert lab.path("notes/seven.md").read_text().startswith("Line 1 of 2")


@pytest.mark.soak
async def test_a_run_of_a_skill_is_drawn_in_notebook_7(
    lab: Lab, page: Page, notebook: Callable[..., NotebookPage]
) -> None:
    write(lab, LETTER)
    one = notebook("%run letter")
    await opened(lab, page, one)
    await one.cell(0).locator(".cm-content").click()
    await page.keyboard.press("Shift+Enter")
    run = RunCell(one)

    await expect(run.node("review")).to_have_attribute("data-state", "Waiting for you")
    await screenshot(page, "run-notebook7")
    await press(run.cards, "Approve once")
    await expect(run.root).to_have_count(0)
    await expect(one.cell(0).locator("img[src^='data:image/svg+xml']")).to_be_visible()
