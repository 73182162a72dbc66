"""The tasks in the sidebar, as a person sees and steers them."""

import asyncio
from collections.abc import Callable

import pytest
from playwright.async_api import Page, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.sidebar import Sidebar

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook = Callable[..., NotebookPage]
NARROW = 250


async def test_tasks_are_seen_as_they_go_and_stopped_from_the_list(notebook: NewNotebook, lab: Lab) -> None:
    it = notebook(
        *("%model echo", "Say what goes well.", "%model status-401", "Say what goes wrong."),
        *("%model endless", "Say what goes on."),
    )
    await it.open()
    sidebar = Sidebar(it.page)
    await sidebar.open()
    for index in range(5):
        await it.run(index)
    await it.begin(5)

    await expect(sidebar.task("goes well")).to_contain_text("Done · just now")
    await expect(sidebar.task("goes wrong")).to_contain_text("Failed · The model provider refused the key")
    await expect(sidebar.task("goes on")).to_contain_text("Working")
    await expect(sidebar.tasks.first).to_contain_text("goes on")
    await expect(it.page.locator(".jp-Ozzie-status")).to_contain_text("1 running")
    await _expect_no_overflow(it.page)

    await it.page.get_by_label("Filter tasks").fill("is:failed wrong")
    await expect(sidebar.tasks).to_have_count(1)
    await it.page.get_by_label("Filter tasks").fill("")
    await sidebar.stop("goes on")
    await expect(sidebar.task("goes on")).to_contain_text("Stopped")
    await it.ended(5)
    await expect(it.final(5)).to_contain_text("Stopped here by you.")


@pytest.mark.soak
async def test_the_list_is_worked_by_keys_alone(notebook: NewNotebook, page: Page) -> None:
    it = notebook("%model echo", "Tell of the first.", "Tell of the second.")
    await it.open()
    for index in range(3):
        await it.run(index)
    sidebar = Sidebar(page)
    await page.keyboard.press("Alt+Shift+O")
    await expect(sidebar.root).to_be_visible()

    await sidebar.task("the second").focus()
    await page.keyboard.press("ArrowDown")
    await expect(sidebar.task("the first")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(sidebar.root.get_by_role("heading", level=2)).to_have_text("Tell of the first.")
    await expect(sidebar.root.get_by_text("task.succeeded")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(sidebar.tasks.first).to_be_visible()

    await sidebar.task("the first").focus()
    await page.keyboard.press("Shift+F10")
    await expect(page.locator(".lm-Menu")).to_contain_text("Copy Id")
    await page.keyboard.press("Escape")


@pytest.mark.soak
async def test_the_palette_stops_the_turn_of_the_notebook_in_front(notebook: NewNotebook) -> None:
    it = notebook("%model endless", "Count until I press the keys.")
    await it.open()
    await it.run(0)
    await it.begin(1)
    await expect(it.live(1).locator(".oz-md")).to_contain_text("1 2 3 ")

    await it.command("ozzie:stop-turn")
    await it.ended(1)

    await expect(it.final(1)).to_contain_text("Stopped here by you.")


@pytest.mark.soak
async def test_the_first_notebook_is_put_into_a_folder_that_has_none(lab: Lab, notebook: NewNotebook) -> None:
    first, data = lab.path("01_first_turn.ipynb"), lab.path("data/sales.csv")
    kept, sales = first.read_bytes(), data.read_bytes()
    first.unlink()
    try:
        it = notebook("Hello.")
        await it.open()
        opening = asyncio.ensure_future(it.command("ozzie:open-first-notebook"))
        await it.page.get_by_role("button", name="Copy and Open").click()
        await opening
        await expect(it.page.get_by_role("tab", name="01_first_turn.ipynb")).to_be_visible()
        assert lab.saved("01_first_turn.ipynb")["cells"]
        assert data.read_bytes() == sales, "what is there already stays as it is"
    finally:
        first.write_bytes(kept)


async def _expect_no_overflow(page: Page) -> None:
    """At its narrowest, nothing is cut off but what says so by an ellipsis."""
    sizes = await page.evaluate(
        """width => {
            const panel = document.querySelector('#jp-ozzie-sidebar');
            const before = panel.style.cssText;
            panel.style.cssText += `width: ${width}px !important; max-width: ${width}px`;
            const found = [panel.clientWidth, panel.scrollWidth];
            panel.style.cssText = before;
            return found;
        }""",
        NARROW,
    )
    assert sizes[1] <= sizes[0] <= NARROW
