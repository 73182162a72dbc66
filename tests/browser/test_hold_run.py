"""A run of a skill is held, let go on, stopped and tried again by hand."""

import threading
from collections.abc import Callable
from typing import TypeAlias

import pytest
from playwright.async_api import expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.run_skills import REVIEW, RunCell, write
from tests.browser.screenshots import screenshot
from tests.browser.sidebar import Sidebar
from tests.browser.test_approvals import armed, press
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, pieces_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook: TypeAlias = Callable[..., NotebookPage]
STEPS = ("sources", "web", "claims")
"""Those of the review that ask a model."""


@pytest.fixture
def held(lab: Lab, provider: FakeOpenAI) -> threading.Event:
    """Three steps of the review answer once it is set."""
    write(lab, REVIEW)
    go = threading.Event()
    provider.queue(*(Answer(pieces=pieces_of(f"Nothing new, {at}."), usage=(300, 40), held=go) for at in range(3)))
    return go


@pytest.mark.soak
async def test_a_run_is_held_and_let_go_on_in_its_cell_and_in_the_sidebar(
    notebook: NewNotebook, held: threading.Event
) -> None:
    it = notebook('%run weekly-review topic="milk"')
    await it.open()
    await it.begin(0)
    run, line = RunCell(it), RunCell(it).root.locator(".jp-Ozzie-stateLine")
    await armed(run.cards)
    await press(run.cards, "Approve once")
    await expect(run.node("publish")).to_have_attribute("data-state", "Done")
    await run.root.get_by_role("button", name="Pause").click()
    await expect(line).to_contain_text("Paused")
    await expect(line).to_contain_text("by you")
    await expect(run.root.get_by_role("button", name="Resume")).to_be_focused()
    await screenshot(it.page, "run-paused")

    await expect(run.node("claims")).to_have_attribute("data-state", "Working")
    held.set()
    for step in STEPS:  # the run has recorded nothing of their ends yet
        await expect(run.node(step)).to_have_attribute("data-state", "Done")
    await expect(run.node("report")).to_have_attribute("data-state", "Waiting")
    await expect(line).to_contain_text("Paused")
    await expect(line).not_to_contain_text("running")
    sidebar = Sidebar(it.page)
    await sidebar.open()
    await expect(sidebar.task("milk")).to_contain_text("Paused · by you")
    await sidebar.task("milk").click()
    await sidebar.root.get_by_role("button", name="Resume").click()
    await it.ended(0)
    await expect(sidebar.root.locator(".jp-Ozzie-meta")).to_contain_text("Done")
    await expect(sidebar.root.locator(".jp-Ozzie-acts button")).to_have_count(0)


@pytest.mark.soak
async def test_a_page_that_is_loaded_while_a_run_is_held_shows_its_steps_as_they_ended(
    notebook: NewNotebook, held: threading.Event
) -> None:
    it = notebook('%run weekly-review topic="bread"')
    await it.open()
    await it.save()
    await it.begin(0)
    run, line = RunCell(it), RunCell(it).root.locator(".jp-Ozzie-stateLine")
    await armed(run.cards)
    await press(run.cards, "Approve once")
    await expect(run.node("publish")).to_have_attribute("data-state", "Done")
    await run.root.get_by_role("button", name="Pause").click()
    await expect(line).to_contain_text("Paused")
    held.set()
    for step in STEPS:
        await expect(run.node(step)).to_have_attribute("data-state", "Done")
    took = await run.node("claims").inner_text()

    await it.open()
    await expect(line).to_contain_text("Paused")
    for step in STEPS:
        await expect(run.node(step)).to_have_attribute("data-state", "Done")
    await expect(run.node("report")).to_have_attribute("data-state", "Waiting")
    assert await run.node("claims").inner_text() == took
    await run.node("claims").click()
    await expect(run.detail).to_contain_text("Nothing new")
    await screenshot(it.page, "run-held-reloaded")

    await run.root.get_by_role("button", name="Resume").click()
    sidebar = Sidebar(it.page)
    await sidebar.open()
    await expect(sidebar.task("bread")).to_contain_text("Done")


@pytest.mark.soak
async def test_a_page_that_is_loaded_while_a_turn_is_about_to_pause_says_so(
    notebook: NewNotebook, provider: FakeOpenAI
) -> None:
    go = threading.Event()
    provider.queue(Answer(pieces=pieces_of("Here it is."), held=go))
    it = notebook("%model scripted", "Think about salt.")
    await it.open()
    await it.run(0)
    await it.save()
    await it.begin(1)
    sidebar = Sidebar(it.page)
    await sidebar.open()
    await expect(sidebar.task("salt")).to_contain_text("Working")
    await sidebar.task("salt").click()
    await sidebar.root.get_by_role("button", name="Pause").click()
    await expect(sidebar.root.get_by_role("button", name="Resume")).to_be_visible()

    await it.open()
    await expect(it.live(1)).to_contain_text("pausing")
    await sidebar.open()
    await expect(sidebar.task("salt")).to_contain_text("Working · pausing")
    await screenshot(it.page, "turn-pausing-reloaded")
    go.set()
    await expect(sidebar.task("salt")).to_contain_text("Paused · by you")
    await sidebar.task("salt").click()
    await sidebar.root.get_by_role("button", name="Resume").click()
    await expect(it.final(1)).to_contain_text("Here it is.")


@pytest.mark.soak
async def test_a_run_that_was_stopped_is_tried_again_from_the_menu_of_its_row(
    notebook: NewNotebook, held: threading.Event
) -> None:
    it = notebook('%run weekly-review topic="flour"')
    await it.open()
    await it.begin(0)
    run = RunCell(it)
    await armed(run.cards)
    await press(run.cards, "Approve once")
    await expect(run.node("publish")).to_have_attribute("data-state", "Done")
    await run.root.get_by_role("button", name="Stop", exact=True).click()
    await it.ended(0)
    held.set()
    sidebar = Sidebar(it.page)
    await sidebar.open()
    task = sidebar.task("flour")
    await expect(task).to_contain_text("Stopped")
    await task.click(button="right")
    menu = it.page.locator(".lm-Menu")
    await expect(menu.get_by_text("Retry", exact=True)).to_be_visible()
    await expect(menu.get_by_text("Pause", exact=True)).not_to_be_visible()
    await screenshot(it.page, "run-menu")
    await menu.get_by_text("Retry", exact=True).click()
    await expect(task).to_contain_text("Done")
