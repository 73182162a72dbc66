"""Completion and inspection as Lab shows them, also while a cell runs."""

from collections.abc import Callable

import pytest
from playwright.async_api import Page, expect

from tests.browser.notebook_page import NotebookPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


async def type_into(it: NotebookPage, index: int, text: str) -> None:
    await it.cell(index).locator(".cm-content").click()
    await it.page.keyboard.type(text)


@pytest.mark.soak
async def test_tab_completes_commands_sessions_and_paths(notebook: Callable[..., NotebookPage], page: Page) -> None:
    it = notebook("%session title Plans for May", "%session new", "", "")
    await it.open()
    await it.run(0)
    await it.run(1)
    completer = page.locator(".jp-Completer:visible")

    await type_into(it, 2, "%session resume pl")
    await page.keyboard.press("Tab")
    await expect(completer).to_contain_text("Plans for May")
    await expect(completer).to_contain_text("session")
    await page.keyboard.press("Enter")
    await expect(it.cell(2).locator(".cm-content")).to_have_text("%session resume Plans for May")

    await type_into(it, 3, "How many rows has @data/s")
    await page.keyboard.press("Tab")
    await expect(completer).to_contain_text("@data/sales.csv")
    await page.keyboard.press("Enter")
    await expect(it.cell(3).locator(".cm-content")).to_have_text("How many rows has @data/sales.csv")


@pytest.mark.soak
async def test_shift_tab_tells_a_tools_contract_and_a_files_first_lines(
    notebook: Callable[..., NotebookPage], page: Page
) -> None:
    it = notebook("%help", "", "")
    await it.open()
    await it.run(0)
    tooltip = page.locator(".jp-Tooltip")

    await type_into(it, 1, "use read_file")
    await page.keyboard.press("Shift+Tab")
    await expect(tooltip).to_contain_text("Side effect: none: it changes nothing")
    await page.keyboard.press("Escape")

    await type_into(it, 2, "sum up @data/sales.csv")
    await page.keyboard.press("Shift+Tab")
    await expect(tooltip.locator("pre")).to_contain_text("region")
