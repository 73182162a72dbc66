"""Stepping through a recorded session in JupyterLab: nothing runs, and each event shows what the page showed then."""

from collections.abc import Callable

import pytest
from playwright.async_api import Locator, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.test_approvals import asked, press, wants

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]


def button(output: Locator, name: str) -> Locator:
    return output.get_by_role("button", name=name, exact=True)


async def test_a_session_is_stepped_through_in_a_cell(notebook: Callable[..., NotebookPage], lab: Lab) -> None:
    asks = wants("replayed.md")
    it = notebook("What is 17.5 % of 2,480? Use the calculator.", asks, "Say hello.", "%replay", "%replay --check")
    await it.open()
    await it.run(0)
    await it.begin(1)
    await press(await asked(it, 1), "Approve once")
    await it.ended(1)
    await it.run(2)
    await it.run(3)
    tasks, shown = lab.tasks(), it.output(3)
    await expect(shown).to_contain_text("Event 1 of 15 in turn 1 of 3")
    await expect(shown).to_contain_text("17.5 % of 2,480")
    await expect(shown).not_to_contain_text("434")
    await screenshot(it.page, "replay-begins")

    await shown.locator("select").nth(1).select_option(label=f"Turn 2: {asks}")
    await expect(shown).to_contain_text("in turn 2 of 3")
    await shown.locator(".noUi-handle").focus()
    for number in range(2, 12):
        await it.page.keyboard.press("ArrowRight")
        await expect(shown).to_contain_text(f"Event {number} of ")
    await expect(shown).to_contain_text("Write a new file, notes/replayed.md, of 2 lines?")
    await expect(shown.get_by_role("button", name="Approve once")).to_have_count(0)
    await screenshot(it.page, "replay-asks")
    await button(shown, "Turn →").click()
    await expect(shown).to_contain_text("Event 1 of 9 in turn 3 of 3")  # not its end, though it has less than 11
    await shown.locator("select").nth(1).select_option(label="Turn 1: What is 17.5 % of 2,480? Use the calculator.")
    await expect(shown).to_contain_text("Event 1 of 15 in turn 1 of 3")
    await button(shown, "Turn →").click()
    await expect(shown).to_contain_text("Event 1 of 21 in turn 2 of 3")
    await button(shown, "← Event").click()
    await expect(shown).to_contain_text("Event 15 of 15 in turn 1 of 3")
    await expect(shown).to_contain_text("434")
    await shown.locator("select").nth(0).select_option("16×")
    await button(shown, "Play").click()
    await expect(shown).to_contain_text("Event 9 of 9 in turn 3 of 3", timeout=30_000)
    await expect(button(shown, "Play")).to_be_visible(timeout=30_000)
    await expect(shown).to_contain_text("Done")
    await expect(shown).not_to_contain_text("later event")
    await screenshot(it.page, "replay-ends")

    await it.run(4)
    await expect(it.output(4)).to_contain_text("Same for all ")
    assert lab.tasks() == tasks, "stepping through it ran something"

    await it.save()
    await it.page.reload()
    await it.is_ready()
    await button(it.output(3), "← Event").click()
    await expect(it.output(3)).to_contain_text("1 later event of this turn is not shown yet.")
    lab.end_kernels()
    await it.page.reload()
    await it.is_ready()
    await expect(it.output(3).get_by_text(", 3 turns. Run this cell to step through it.")).to_be_visible()
    await expect(it.output(3).get_by_text("Error displaying widget")).to_be_hidden()
    await screenshot(it.page, "replay-saved")
