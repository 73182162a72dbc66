"""What a person types and runs in a cell counts as their own words, and nothing else does."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

ANA = {"kind": "recipient", "value": "ana@firm.example"}
BEN = {"kind": "recipient", "value": "ben@firm.example"}
_PASTE = "text => navigator.clipboard.writeText(text)"
_SET = "text => window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.setSource(text)"


def said(lab: Lab, after: int) -> list[list[dict[str, Any]]]:
    """What the messages since then are known to name in a person's own words, the first one first."""
    events = lab.events("message.confirmed", after)
    return [event["payload"]["names"] for event in events]


async def run_by_key(it: NotebookPage, page: Page, index: int, key: str = "Control+Enter") -> None:
    """As a person does, to the cell's end."""
    await it.cell(index).locator(".cm-content").click()
    await page.keyboard.press(key)
    await expect(it.final(index)).to_be_visible()


async def test_what_is_typed_and_run_by_key_or_click_counts(
    notebook: Callable[..., NotebookPage], page: Page, lab: Lab
) -> None:
    it = notebook("", "")
    await it.open()
    before = lab.position()
    await it.cell(0).locator(".cm-content").click()
    await page.keyboard.type("Say hello to ana@firm.example.")
    await page.keyboard.press("Shift+Enter")
    await expect(it.final(0)).to_be_visible()
    await page.keyboard.press("Enter")
    await page.keyboard.type("And to ben@firm.example.")
    await page.get_by_role("button", name="Run this cell and advance").click()
    await expect(it.final(1)).to_be_visible()

    assert said(lab, before) == [[ANA], [BEN]]


async def test_what_stood_there_was_pasted_or_set_by_a_program_names_nothing(
    notebook: Callable[..., NotebookPage], page: Page, lab: Lab
) -> None:
    it = notebook("Say hello to ana@firm.example.", "", "")
    await it.open()
    before = lab.position()
    await run_by_key(it, page, 0)

    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.evaluate(_PASTE, "ana@firm.example")
    await it.cell(1).locator(".cm-content").click()
    await page.keyboard.type("Say hello to ben@firm.example and ")
    await page.keyboard.press("Control+V")
    await run_by_key(it, page, 1)

    await it.cell(2).locator(".cm-content").click()
    await page.evaluate(_SET, "Say hello to ana@firm.example")
    await page.keyboard.press("End")
    await page.keyboard.type("!")
    await run_by_key(it, page, 2)

    assert said(lab, before) == [[], [BEN], []]


async def test_run_all_and_a_program_confirm_nothing(
    notebook: Callable[..., NotebookPage], page: Page, lab: Lab
) -> None:
    it = notebook("", "")
    await it.open()
    before = lab.position()
    for index, name in enumerate(("ana", "ben")):
        await it.cell(index).locator(".cm-content").click()
        await page.keyboard.type(f"Say hello to {name}@firm.example.")
    await it.command("notebook:run-all-cells")
    await expect(it.final(1)).to_be_visible()
    await it.run(0)  # `commands.execute` by a program
    await page.get_by_role("menuitem", name="Run", exact=True).click()
    await page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    lab.wait_for_tasks_to_end()

    assert said(lab, before) == []
