"""A turn hands work over to skills: their runs are drawn below its cell, and what their steps ask is answered there."""

import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest
from playwright.async_api import Page, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.run_skills import LETTER, OUTER, REVIEW, RunCell, Skill, write
from tests.browser.screenshots import screenshot
from tests.browser.sidebar import Sidebar
from tests.browser.test_approvals import armed, press
from tests.browser.test_run_graph import in_state
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall, pieces_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook: TypeAlias = Callable[..., NotebookPage]
REVIEWED = ToolCall("skill_weekly-review", {"topic": "unit prices"}, id="review")
SENT = ToolCall("skill_letter", {}, id="letter")
NESTED = ToolCall("skill_outer", {}, id="outer")
SCRIBED = ToolCall("skill_scribe", {"input": "the unit prices"}, id="scribe")
WRITTEN = ToolCall("write_file", {"path": "notes/scribed.md", "text": "Noted."}, id="scribed")
NOTED = ToolCall("write_file", {"path": "notes/handed.md", "text": "Handed over."}, id="note")
SCRIBE: Skill = {
    "name": "scribe",
    "description": "Writes a note.",
    "instruction": "Write a note.",
    "model": "scripted",
    "tools": ["write_file"],
}
SAID = "Post the weekly-review, send the letter, and run outer, please."


@pytest.fixture(autouse=True)
def errors(page: Page) -> Iterator[list[str]]:
    """What the page did not see to itself."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    yield found
    assert found == []


def scripted(
    provider: FakeOpenAI, *calls: ToolCall, steps: int = 0, said: str = "All of it is done."
) -> threading.Event:
    """The turn makes these calls and then says that; so many steps between answer once the event is set."""
    go = threading.Event()
    held = (Answer(pieces=pieces_of(f"Nothing new, {at}."), usage=(300, 40), held=go) for at in range(steps))
    provider.queue(Answer(tool_calls=calls), *held, Answer(pieces=pieces_of(said)))
    return go


async def begun(it: NotebookPage) -> None:
    """Run the second cell of the notebook, whose first chooses the model."""
    await it.open()
    await it.run(0)
    await it.save()
    await it.begin(1)


@pytest.mark.soak
async def test_a_run_that_a_turn_hands_over_to_is_drawn_and_answered_below_the_turn(
    notebook: NewNotebook, lab: Lab, provider: FakeOpenAI
) -> None:
    write(lab, REVIEW)
    go = scripted(provider, REVIEWED, steps=3, said="The weekly-review is posted.")
    it = notebook("%model scripted", SAID)
    await begun(it)
    run = RunCell(it, 1)
    line = run.root.locator(".jp-Ozzie-stateLine")
    for step in ("sources", "web", "claims"):
        await in_state(run.node(step), "Working")
    await in_state(run.node("publish"), "Waiting for you")
    await expect(line).to_contain_text("weekly-review")
    await expect(line).to_contain_text("Waiting for you")
    await expect(run.cards).to_contain_text("Approval needed by step “publish”")
    await armed(run.cards)
    await expect(it.live(1)).to_be_visible()
    await expect(it.output(1).locator(".jp-Ozzie-approval")).to_have_count(1)
    await screenshot(it.page, "handed-over")
    await it.command("apputils:change-theme", theme="JupyterLab Dark")
    try:
        await expect(it.page.locator("#jupyterlab-splash")).to_have_count(0)
        await armed(run.cards)
        await screenshot(it.page, "handed-over-dark")
    finally:
        await it.command("apputils:change-theme", theme="JupyterLab Light")

    await it.save()
    await it.page.reload()
    await it.is_ready()
    await in_state(run.node("web"), "Working")
    await in_state(run.node("publish"), "Waiting for you")
    await expect(it.live(1).filter(visible=True)).to_have_count(1)
    await armed(run.cards)
    await screenshot(it.page, "handed-over-reloaded")
    await it.page.keyboard.press("Alt+Shift+A")
    await expect(run.cards.locator(".jp-Ozzie-sentence")).to_be_focused()
    await press(run.cards, "Approve once")
    await in_state(run.node("publish"), "Done")
    await expect(line).to_contain_text("Working")

    go.set()
    await in_state(run.node("report"), "Done")
    await expect(line).to_contain_text("Done")
    await screenshot(it.page, "handed-over-ended")
    await expect(it.final(1)).to_contain_text("The weekly-review is posted.")
    await expect(run.root).to_have_count(0)
    await expect(it.final(1)).to_be_in_viewport()
    await expect(run.cell.locator("img[src^='data:image/svg+xml']")).to_have_count(0)
    await screenshot(it.page, "handed-over-done")


@pytest.mark.soak
async def test_several_runs_stand_one_below_the_other_and_what_the_turn_itself_asks_below_them(
    notebook: NewNotebook, lab: Lab, provider: FakeOpenAI
) -> None:
    write(lab, LETTER, OUTER)
    scripted(provider, SENT, NESTED, NOTED)
    it = notebook("%model scripted", SAID)
    await begun(it)
    runs, asked = it.output(1).locator(".jp-Ozzie-cellRun"), it.output(1).locator(".jp-Ozzie-approval")
    await expect(runs.locator(".jp-Ozzie-runName")).to_have_text(["letter", "outer"])
    letter, outer = runs.nth(0), runs.nth(1)
    await expect(letter.locator(".jp-Ozzie-kicker")).to_contain_text("by step “review”")
    await expect(outer.locator(".jp-Ozzie-kicker")).to_contain_text("by step “review” of letter")
    await expect(asked).to_have_count(2)
    for index in range(2):
        await it.page.keyboard.press("Alt+Shift+A")
        await expect(asked.nth(index).locator(".jp-Ozzie-sentence")).to_be_focused()
    await expect(outer.locator("[data-pick^='inner ']")).to_have_attribute("data-state", "Waiting for you")
    await screenshot(it.page, "handed-over-several")
    await it.page.keyboard.press("Escape")
    await expect(it.page.locator(".jp-Ozzie-cellRun :focus")).to_have_count(0)
    await expect(it.page.locator(".jp-Notebook.jp-mod-commandMode")).to_have_count(1)

    await letter.get_by_role("button", name="Stop", exact=True).click()
    await expect(letter.locator(".jp-Ozzie-stateLine")).to_contain_text("Stopped")
    await expect(runs.locator(".jp-Ozzie-runName")).to_have_text(["outer"])
    await expect(runs.locator(".jp-Ozzie-stateLine")).to_contain_text("Waiting for you")
    await press(runs.locator(".jp-Ozzie-approval"), "Approve once")
    own = it.output(1).locator(":scope > .jp-Ozzie-inCell:not(.jp-Ozzie-cellRun)")
    await expect(own).to_contain_text("Write a new file, notes/handed.md")
    await expect(it.output(1).get_by_role("button", name="Approve once", exact=True)).to_have_count(1)
    await expect(it.live(1).locator(".oz-ask-card")).to_be_hidden()
    await screenshot(it.page, "handed-over-turn-asks")
    await press(own.locator(".jp-Ozzie-approval"), "Approve once")
    await expect(it.final(1)).to_contain_text("All of it is done.")
    await expect(runs).to_have_count(0)
    assert lab.path("notes/handed.md").exists()


@pytest.mark.soak
async def test_what_an_agent_asks_that_was_handed_work_is_answered_in_the_cell(
    notebook: NewNotebook, lab: Lab, provider: FakeOpenAI
) -> None:
    write(lab, SCRIBE)
    noted, done = Answer(pieces=pieces_of("It is noted.")), Answer(pieces=pieces_of("The scribe has noted it."))
    provider.queue(Answer(tool_calls=(SCRIBED,)), Answer(tool_calls=(WRITTEN,)), noted, done)
    it = notebook("%model scripted", "Have the scribe note the unit prices.")
    await begun(it)
    asked = it.output(1).locator(".jp-Ozzie-approval")
    await expect(asked).to_have_count(1)
    await expect(asked.locator(".jp-Ozzie-kicker")).to_contain_text("Approval needed by “scribe”")
    await expect(asked).to_contain_text("notes/scribed.md")
    await expect(it.live(1)).to_be_visible()
    sidebar = Sidebar(it.page)
    await sidebar.open()
    await expect(sidebar.root.locator(".jp-Ozzie-needs")).to_contain_text("“scribe” for Have the scribe note")
    await screenshot(it.page, "handed-over-agent-asks")
    await it.save()
    await it.page.reload()
    await it.is_ready()
    await expect(asked).to_have_count(1)
    await press(asked, "Approve once")
    await expect(it.final(1)).to_contain_text("The scribe has noted it.")
    await expect(asked).to_have_count(0)
    assert lab.path("notes/scribed.md").exists()


@pytest.mark.soak
async def test_a_cell_that_is_run_again_has_nothing_left_of_what_it_had_handed_over(
    notebook: NewNotebook, lab: Lab, provider: FakeOpenAI
) -> None:
    write(lab, LETTER)
    scripted(provider, SENT)
    it = notebook("%model scripted", SAID)
    await begun(it)
    run = RunCell(it, 1)
    await in_state(run.node("review"), "Waiting for you")
    await it.command("notebook:interrupt-kernel")
    await it.ended(1)
    provider.forget()
    go = threading.Event()
    provider.queue(Answer(pieces=pieces_of("Nothing to hand over."), held=go))
    await it.begin(1)
    await expect(run.root).to_have_count(0)
    await expect(it.live(1)).to_be_visible()
    go.set()
    await it.ended(1)
    await expect(it.final(1)).to_contain_text("Nothing to hand over.")
