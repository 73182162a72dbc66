"""What a turn asks, in its cell and in the sidebar, and its answers."""

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest
from playwright.async_api import Locator, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.sidebar import Sidebar
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook = Callable[..., NotebookPage]
TWO_STEPS = (
    Answer(pieces=["I will add."], tool_calls=[ToolCall("calculator", {"expr": "1+1"})], usage=(9_000, 500)),
    Answer(pieces=["It is **two**."], usage=(9_000, 20)),
)


@pytest.fixture(autouse=True)
def budget(lab: Lab) -> Iterator[None]:
    """A turn may take 10,000 tokens, so the first of two steps uses it up."""
    file = lab.home.home / "config.jsonc"
    before = file.read_text()
    lab.home.configure({**json.loads(before), "budgets": {"task": {"max_tokens": 10_000}}})
    yield
    file.write_text(before)


def card(it: NotebookPage, index: int) -> Locator:
    return it.output(index).get_by_role("group", name="This task has used")


async def armed(found: Locator) -> None:
    """A card does nothing for half a second after it came: nobody answers by a click that was meant before it."""
    await expect(found).to_have_attribute("data-armed", "true")


async def test_a_turn_asks_in_its_cell_and_goes_on_when_it_may(
    notebook: NewNotebook, lab: Lab, provider: FakeOpenAI
) -> None:
    provider.queue(*TWO_STEPS)
    it = notebook("%model scripted", "Add one and one.")
    await it.open()
    await it.run(0)

    await it.begin(1)

    await expect(card(it, 1)).to_contain_text("This task has used 9,500 tokens of its 10,000 tokens.")
    await expect(card(it, 1)).to_contain_text('tokens at the most, with "scripted"')
    await expect(it.live(1).locator(".oz-status b")).to_have_text("Waiting for your answer")
    await expect(it.live(1).get_by_text("ozzie tasks answer").first).to_be_hidden()
    await expect(it.page.locator(".jp-Ozzie-status")).to_contain_text("1 needs you")
    badge = await it.page.locator(".jp-Ozzie-mod-badge .lm-TabBar-tabLabel").bounding_box()
    assert badge is not None
    assert (badge["width"], badge["height"]) == (16, 16), "the number on the tab can be read"
    left = "element => element.getBoundingClientRect().left"
    state = it.live(1).locator(".oz-status")
    assert await card(it, 1).evaluate(left) == await state.evaluate(left), "it stands below what the turn shows"
    await armed(card(it, 1))
    await card(it, 1).get_by_label("How much more").fill("50,000")
    await card(it, 1).get_by_role("button", name="Allow 50,000 tokens more").click()

    await it.ended(1)
    await expect(it.final(1)).to_contain_text("It is two.")
    await expect(card(it, 1)).to_have_count(0)
    assert len(provider.requests) == 2, "nothing was asked twice"
    await it.save()
    assert "has used" not in json.dumps(lab.saved(it.name)["cells"][1]["outputs"]), "the question is not saved"


@pytest.mark.soak
async def test_a_question_is_there_after_a_reload_and_answered_in_the_sidebar(
    notebook: NewNotebook, provider: FakeOpenAI
) -> None:
    provider.queue(*TWO_STEPS)
    it = notebook("%model scripted", "Add one and one, slowly.")
    await it.open()
    await it.run(0)
    await it.save()
    await it.begin(1)
    await expect(card(it, 1)).to_be_visible()

    await it.open()
    await expect(card(it, 1)).to_be_visible()
    sidebar = Sidebar(it.page)
    await sidebar.open()
    await sidebar.task("Add one and one, slowly.").click()
    await armed(sidebar.root.get_by_role("group", name="This task has used"))
    await sidebar.root.get_by_role("button", name="Allow", exact=False).click()

    await expect(it.final(1)).to_contain_text("It is two.")
    await expect(card(it, 1)).to_have_count(0)


@pytest.mark.soak
async def test_stop_here_ends_the_turn_and_keeps_what_it_said(notebook: NewNotebook, provider: FakeOpenAI) -> None:
    provider.queue(*TWO_STEPS)
    it = notebook("%model scripted", "Add one and one, or not.")
    await it.open()
    await it.run(0)
    await it.begin(1)
    await armed(card(it, 1))

    await card(it, 1).get_by_role("button", name="Stop here").click()

    await it.ended(1)
    await expect(it.final(1)).to_contain_text("I will add.")
    await expect(it.final(1)).to_contain_text("Stopped here by you.")


@pytest.mark.soak
async def test_a_waiting_cell_is_stopped_by_the_kernels_own_button(notebook: NewNotebook, provider: FakeOpenAI) -> None:
    provider.queue(*TWO_STEPS)
    it = notebook("%model scripted", "Add one and one, for a while.")
    await it.open()
    await it.run(0)
    await it.begin(1)
    await expect(card(it, 1)).to_be_visible()

    await asyncio.wait_for(it.command("notebook:interrupt-kernel"), 20)

    await it.ended(1)
    await expect(it.final(1)).to_contain_text("Stopped here by you.")
    await expect(card(it, 1)).to_have_count(0)
