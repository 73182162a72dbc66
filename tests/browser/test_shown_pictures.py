"""A picture of the project that a cell names: completed, inspected, and shown to the model."""

from collections.abc import Callable

import pytest
from playwright.async_api import Page, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.fakes.pictures import png

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]


@pytest.mark.soak
async def test_a_picture_is_found_by_tab_explained_by_shift_tab_and_shown_to_the_model(
    notebook: Callable[..., NotebookPage], lab: Lab, page: Page
) -> None:
    lab.path("skyline.png").write_bytes(png(40, 30))
    it = notebook("%model eyes", "", "What is in @skylin.png?")
    await it.open()
    await it.run(0)

    await it.cell(1).locator(".cm-content").click()
    await page.keyboard.type("What is in @skyl")
    await page.keyboard.press("Tab")
    await expect(page.locator(".jp-Completer:visible")).to_contain_text("@skyline.png")
    await page.keyboard.press("Enter")
    await expect(it.cell(1).locator(".cm-content")).to_have_text("What is in @skyline.png")
    await expect(page.locator(".jp-mod-completer-active")).to_have_count(0)  # until then the keys are the completer's
    await page.keyboard.press("Shift+Tab")
    await expect(page.locator(".jp-Tooltip")).to_contain_text("PNG picture; a message that names it shows it")
    await page.keyboard.press("Escape")
    await it.run(1)
    await it.run(2)

    await expect(it.final(1)).to_contain_text("With skyline.png.")
    await expect(it.final(1)).to_contain_text(f"Seen: {len(png(40, 30))} bytes")
    await expect(it.final(2)).to_contain_text("There is no skylin.png.")
