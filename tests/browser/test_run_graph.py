"""A run of a skill as it goes on in its cell: its graph, what its steps ask, and what is left of it (TK-4, NB-4)."""

import threading
from collections.abc import Callable
from typing import TypeAlias

import pytest
from playwright.async_api import Locator, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.run_skills import FAILING, LETTER, ONE, REVIEW, STACK, RunCell, many, write
from tests.browser.screenshots import screenshot
from tests.browser.test_approvals import armed, press
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, pieces_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook: TypeAlias = Callable[..., NotebookPage]


@pytest.fixture
def held(lab: Lab, provider: FakeOpenAI) -> threading.Event:
    """Three steps of the review answer once it is set."""
    write(lab, REVIEW, FAILING, LETTER, STACK, ONE, many())
    go = threading.Event()
    provider.queue(*(Answer(pieces=pieces_of(f"Nothing new, {at}."), usage=(300, 40), held=go) for at in range(3)))
    return go


async def in_state(found: Locator, state: str) -> None:
    await expect(found).to_have_attribute("data-state", state)


async def test_steps_run_side_by_side_while_one_is_approved_in_the_cell(
    notebook: NewNotebook, held: threading.Event, lab: Lab
) -> None:
    it = notebook('%run weekly-review topic="unit prices"')
    await it.open()
    await it.begin(0)
    run = RunCell(it)
    for step in ("sources", "web", "claims"):
        await in_state(run.node(step), "Working")
    await in_state(run.node("plan"), "Done")
    await in_state(run.node("publish"), "Waiting for you")
    await in_state(run.node("report"), "Waiting")
    await expect(run.root.locator(".jp-Ozzie-stateLine")).to_contain_text("Waiting for you")
    await expect(run.root.locator(".jp-Ozzie-stateLine")).to_contain_text("3 running")
    await expect(run.cards).to_contain_text("Approval needed by step “publish”")
    await expect(run.cards).to_contain_text("The other steps go on meanwhile.")
    await armed(run.cards)
    await expect(it.live(0)).not_to_be_visible()
    await screenshot(it.page, "run-parallel")

    await it.page.keyboard.press("Alt+Shift+A")
    await expect(run.cards.locator(".jp-Ozzie-sentence")).to_be_focused()
    await press(run.cards, "Approve once")
    await in_state(run.node("publish"), "Done")
    await in_state(run.node("web"), "Working")
    await expect(run.root.locator(".jp-Ozzie-stateLine")).to_contain_text("Working")
    await screenshot(it.page, "run-approved")

    held.set()
    await it.ended(0)
    await expect(run.root).to_have_count(0)
    await expect(it.final(0).first).to_be_visible()
    await expect(run.cell.locator("img[src^='data:image/svg+xml']")).to_be_visible()
    await screenshot(it.page, "run-done")
    await it.save()
    outputs = lab.saved(it.name)["cells"][0]["outputs"]
    assert [*map(sorted, (output["data"] for output in outputs))][-1] == ["image/svg+xml", "text/plain"]
