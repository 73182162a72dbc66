"""What the model asks, below its cell and in the sidebar, and its answers."""

from collections.abc import Callable

import pytest
from playwright.async_api import Locator, expect

from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.sidebar import Sidebar
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall
from tests.results import short

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook = Callable[..., NotebookPage]
ASKS = Answer(
    pieces=["The table has two years."],
    tool_calls=[
        ToolCall(
            "ask_user",
            {
                "question": "Which year should the report cover?",
                "options": [
                    {"label": "2025", "help": "The last full one."},
                    {"label": "2026", "help": "Until October."},
                    {"label": "Both"},
                ],
            },
        )
    ],
)
SAYS = Answer(pieces=["The report covers **what you said**."])


def card(place: Locator) -> Locator:
    return place.get_by_role("group", name="Which year should")


async def waiting(notebook: NewNotebook, provider: FakeOpenAI, text: str) -> NotebookPage:
    """A notebook whose second cell waits for an answer."""
    provider.queue(ASKS, SAYS)
    it = notebook("%model scripted", text)
    await it.open()
    await it.run(0)
    await it.save()
    await it.begin(1)
    await expect(it.live(1)).to_contain_text("ask_user")  # the last that pushes the card down
    await expect(card(it.output(1))).to_have_attribute("data-armed", "true")
    return it


def told(provider: FakeOpenAI) -> str:
    """What the model read as the result of its call."""
    return short(provider.requests[-1].body["messages"][-1]["content"])


@pytest.mark.soak
async def test_a_choice_is_made_in_the_cell_while_it_runs(notebook: NewNotebook, provider: FakeOpenAI) -> None:
    it = await waiting(notebook, provider, "Write the report.")
    found = card(it.output(1))
    await expect(it.live(1).locator(".oz-status b")).to_have_text("Waiting for your answer")
    await expect(it.live(1).get_by_text("ozzie tasks answer").first).to_be_hidden()
    await found.get_by_label("2026").check()
    await screenshot(it.page, "question-in-cell")

    await found.get_by_role("button", name="Answer").click()

    await it.ended(1)
    await expect(it.final(1)).to_contain_text("what you said")
    assert told(provider) == '{"answer":"2026"}'
    await expect(card(it.output(1))).to_have_count(0)


@pytest.mark.soak
async def test_words_of_ones_own_are_written_by_keys_alone_and_run_no_cell(
    notebook: NewNotebook, provider: FakeOpenAI
) -> None:
    """`Shift Enter` runs a cell in Lab, `2` and `b` are commands of its notebook."""
    it = await waiting(notebook, provider, "Write the report, please.")
    found = card(it.output(1))
    cells = await it.page.locator(".jp-Cell").count()
    await found.get_by_label("Something else…").check()
    field = found.get_by_label("Your answer")
    await expect(field).to_be_focused()
    await it.page.keyboard.type("2019\nor before b")
    await screenshot(it.page, "question-own-words")
    await it.page.keyboard.press("Shift+Enter")

    await it.ended(1)
    assert told(provider) == '{"answer":"2019\\nor before b"}'
    assert await it.page.locator(".jp-Cell").count() == cells
    assert len(provider.requests) == 2


@pytest.mark.soak
async def test_a_question_outlives_a_reload_and_is_answered_in_the_sidebar(
    notebook: NewNotebook, provider: FakeOpenAI
) -> None:
    it = await waiting(notebook, provider, "Write the report, slowly.")

    await it.open()
    await expect(card(it.output(1))).to_be_visible()
    sidebar = Sidebar(it.page)
    await sidebar.open()
    await sidebar.task("Write the report, slowly.").click()
    narrow = card(sidebar.root)
    await expect(narrow).to_have_attribute("data-armed", "true")
    await screenshot(it.page, "question-in-sidebar")
    await narrow.get_by_role("button", name="Skip").click()

    await expect(it.final(1)).to_contain_text("what you said")
    assert "The user skipped the question." in told(provider)
    await expect(card(it.output(1))).to_have_count(0)
