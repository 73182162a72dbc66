"""A run of a skill as it goes on in its cell: its graph, what its steps ask, and what is left of it."""

import re
import threading
from collections.abc import Callable
from typing import TypeAlias

import pytest
from playwright.async_api import Locator, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.run_skills import FAILING, LETTER, ONE, OUTER, REVIEW, STACK, RunCell, many, write
from tests.browser.screenshots import screenshot
from tests.browser.sidebar import Sidebar
from tests.browser.test_approvals import armed, press, reject
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, pieces_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook: TypeAlias = Callable[..., NotebookPage]


@pytest.fixture
def held(lab: Lab, provider: FakeOpenAI) -> threading.Event:
    """Three steps of the review answer once it is set."""
    write(lab, REVIEW, FAILING, LETTER, OUTER, STACK, ONE, many())
    go = threading.Event()
    provider.queue(*(Answer(pieces=pieces_of(f"Nothing new, {at}."), usage=(300, 40), held=go) for at in range(3)))
    return go


async def in_state(found: Locator, state: str) -> None:
    await expect(found).to_have_attribute("data-state", state)


@pytest.mark.soak
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


@pytest.mark.soak
async def test_a_reload_in_mid_run_shows_the_graph_again(notebook: NewNotebook, held: threading.Event) -> None:
    it = notebook('%run weekly-review topic="tea"')
    await it.open()
    await it.begin(0)
    run = RunCell(it)
    await in_state(run.node("publish"), "Waiting for you")
    await it.save()
    await it.page.reload()
    await it.is_ready()
    await in_state(run.node("web"), "Working")
    await in_state(run.node("publish"), "Waiting for you")
    await armed(run.cards)
    await screenshot(it.page, "run-reloaded")
    await press(run.cards, "Approve once")
    await in_state(run.node("publish"), "Done")
    held.set()
    await expect(run.root).to_have_count(0)
    await expect(it.final(0).first).to_be_visible()
    await expect(run.cell.locator("img[src^='data:image/svg+xml']")).to_have_count(1)


@pytest.mark.soak
async def test_the_graph_is_walked_by_keys(notebook: NewNotebook, held: threading.Event) -> None:
    it = notebook('%run weekly-review topic="tea"')
    await it.open()
    await it.begin(0)
    run = RunCell(it)
    keys = it.page.keyboard
    await in_state(run.node("publish"), "Waiting for you")
    await in_state(run.node("claims"), "Working")
    assert await run.picture.locator("[tabindex='0']").count() == 1
    await run.picture.locator("[tabindex='0']").focus()
    for key, at in (
        ("Home", "plan"),
        ("ArrowRight", "web"),
        ("ArrowDown", "claims"),
        ("w", "publish"),
        ("ArrowRight", "report"),
        ("ArrowRight", "report"),
        ("ArrowLeft", "web"),
        ("End", "report"),
        ("ArrowLeft", "web"),
    ):
        await keys.press(key)
        await expect(run.node(at)).to_be_focused()
    await keys.press("Enter")
    await expect(run.detail.get_by_role("heading")).to_be_focused()
    await expect(run.detail).to_contain_text("Search the web for tea.")
    await screenshot(it.page, "run-keys")
    await keys.press("Escape")
    await expect(run.node("web")).to_be_focused()
    await expect(run.detail).to_have_attribute("data-step", "web")
    await keys.press("Escape")  # gives it back: the newest one that runs is shown again
    await expect(run.node("web")).to_have_attribute("aria-pressed", "false")
    held.set()
    await it.page.evaluate("window.jupyterapp.commands.execute('ozzie:stop-turn')")
    await it.ended(0)


@pytest.mark.soak
async def test_what_failed_is_said_and_a_question_is_answered_in_the_cell(
    notebook: NewNotebook, held: threading.Event
) -> None:
    it = notebook("%run tender")
    await it.open()
    await it.begin(0)
    run = RunCell(it)
    await in_state(run.node("score"), "Failed")
    await in_state(run.node("group"), "Done")
    await in_state(run.node("skipped"), "Skipped")
    await in_state(run.node("which"), "Waiting for your answer")
    await run.node("score").click()
    await expect(run.detail).to_contain_text("1 / 0")
    question = run.root.locator(".jp-Ozzie-question")
    await expect(question).to_contain_text("Which year?")
    await expect(run.root).to_contain_text("Question from step “which year”")
    await screenshot(it.page, "run-failed")
    await run.form("List").click()
    await in_state(run.row("score"), "Failed")
    await screenshot(it.page, "run-list")
    await armed(question)
    await question.get_by_label("2026").click()
    await question.get_by_role("button", name="Answer").click()
    await it.ended(0)
    await expect(run.root).to_have_count(0)
    await screenshot(it.page, "run-failed-done")


@pytest.mark.soak
async def test_a_state_machine_shows_where_it_is_and_how_often_it_was_there(
    notebook: NewNotebook, held: threading.Event
) -> None:
    it = notebook("%run letter")
    await it.open()
    await it.begin(0)
    run = RunCell(it)
    await in_state(run.node("review"), "Waiting for you")
    await expect(run.node("review")).to_have_class("jp-Ozzie-node jp-Ozzie-mod-waits jp-Ozzie-mod-current")
    await reject(run.cards)
    await expect(run.node("review")).to_contain_text("review × 2")
    await expect(run.detail).to_have_attribute("data-step", "review")
    await in_state(run.node("review"), "Waiting for you")
    await screenshot(it.page, "run-machine")
    await press(run.cards.last, "Approve once")
    await it.ended(0)


@pytest.mark.soak
async def test_two_hundred_steps_are_a_list_or_dots(notebook: NewNotebook, held: threading.Event) -> None:
    it = notebook("%run tender-scan")
    await it.open()
    await it.begin(0)
    run = RunCell(it)
    await expect(run.root).to_contain_text("of 200")
    await expect(run.row("gate")).to_be_attached()
    await run.form("Graph").click()
    await expect(run.picture.locator(".jp-Ozzie-dot")).to_have_count(200)
    await screenshot(it.page, "run-many-running")
    await in_state(run.node("gate"), "Waiting for you")
    await in_state(run.node("read-50"), "Failed")
    await in_state(run.node("read-100"), "Failed")
    await in_state(run.node("read-139"), "Done")
    await in_state(run.node("read-61"), "Working")
    await expect(run.row("read-50")).to_be_visible()
    await run.node("gate").focus()
    await it.page.keyboard.press("f")
    await expect(run.node("read-50")).to_be_focused()
    await screenshot(it.page, "run-many")
    await run.form("List").click()
    await screenshot(it.page, "run-many-list")
    held.set()
    await press(run.cards, "Approve once")
    await it.ended(0)
    await expect(run.root).to_have_count(0)
    await screenshot(it.page, "run-many-done")


@pytest.mark.soak
async def test_what_a_step_of_a_skill_within_asks_stands_in_the_cell_of_the_whole_run_in_each_page(
    notebook: NewNotebook, held: threading.Event, lab: Lab
) -> None:
    it = notebook("%run outer")
    await it.open()
    await it.begin(0)
    run = RunCell(it)
    await in_state(run.node("inner"), "Waiting for you")
    await expect(run.cards).to_contain_text("Approval needed by step “review” of letter")
    await it.save()  # what nobody has saved, Lab does not trust in another page: there it shows no pictures
    page = await it.page.context.new_page()
    other = NotebookPage(lab, page, it.name)
    await other.open(workspace="other")
    there = RunCell(other)
    await in_state(there.node("inner"), "Waiting for you")
    await screenshot(page, "run-second-page")
    await press(there.cards, "Approve once")
    await it.ended(0)
    await expect(run.root).to_have_count(0)
    await expect(there.root).to_have_count(0)
    await expect(there.cell.locator("img[src^='data:image/svg+xml']")).to_have_count(1)
    await page.close()


@pytest.mark.soak
async def test_dark_and_narrow(notebook: NewNotebook, held: threading.Event) -> None:
    it = notebook('%run weekly-review topic="tea"', "%run stack")
    await it.open()
    await it.command("apputils:change-theme", theme="JupyterLab Dark")
    try:
        await it.begin(0)
        run = RunCell(it)
        await in_state(run.node("publish"), "Waiting for you")
        await in_state(run.node("claims"), "Working")
        await armed(run.cards)
        await screenshot(it.page, "run-dark")
        await it.page.set_viewport_size({"width": 690, "height": 900})
        await expect(run.picture.locator(".jp-Ozzie-canvas")).to_have_attribute("style", re_scaled())
        assert not await scrolls_sideways(run.root)
        assert await is_whole(run.root)
        await screenshot(it.page, "run-narrow")
    finally:
        await it.page.set_viewport_size({"width": 1280, "height": 900})
        await it.command("apputils:change-theme", theme="JupyterLab Light")
    await press(run.cards, "Approve once")
    held.set()
    await it.ended(0)
    await it.begin(1)
    stack = RunCell(it, 1)
    await in_state(stack.node("gate"), "Waiting for you")
    await expect(stack.node("part-0")).to_contain_text("one × 8")
    await stack.node("part-0").click()
    await expect(stack.row("part-7")).to_be_visible()
    await screenshot(it.page, "run-stack")
    await press(stack.cards, "Approve once")
    await it.ended(1)


@pytest.mark.soak
async def test_the_sidebar_has_runs_and_not_their_steps(notebook: NewNotebook, held: threading.Event) -> None:
    it = notebook('%run weekly-review topic="tea"')
    await it.open()
    await it.begin(0)
    run = RunCell(it)
    await in_state(run.node("publish"), "Waiting for you")
    sidebar = Sidebar(it.page)
    await sidebar.open()
    task = sidebar.task("weekly-review").first
    await expect(task).to_contain_text("Waiting for you · step “publish”")
    await expect(sidebar.task("weekly-review:")).to_have_count(0)
    await expect(sidebar.root.locator(".jp-Ozzie-needs")).to_contain_text("Step “publish” of %run weekly-review")
    await screenshot(it.page, "run-sidebar")
    await task.click()
    detail = sidebar.root.locator(".jp-Ozzie-runPart")
    await expect(detail.get_by_role("application")).to_be_visible()
    assert not await scrolls_sideways(detail)
    assert await is_whole(detail)
    await screenshot(it.page, "run-sidebar-detail")
    held.set()
    await press(run.cards, "Approve once")
    await it.ended(0)
    await expect(detail.locator("[data-pick^='report ']")).to_have_attribute("data-state", "Done")
    assert await it.output(0).locator(".jp-Ozzie-cellRun").count() == 0, "it goes as soon as its picture is there"
    await screenshot(it.page, "run-sidebar-done")
    await detail.locator("[data-pick^='sources ']").click()
    await detail.get_by_role("button", name="Open in task").click()
    await expect(sidebar.root.get_by_role("heading", name="weekly-review: read sources")).to_be_visible()
    await expect(sidebar.root.locator(".jp-Ozzie-meta")).to_contain_text("340 tokens")
    await screenshot(it.page, "run-sidebar-step")
    await sidebar.root.get_by_role("button", name="Back to the tasks").click()
    await expect(sidebar.root.get_by_role("heading", name="%run weekly-review")).to_be_visible()


def re_scaled() -> re.Pattern[str]:
    return re.compile(r"scale\(0\.\d+\)|width: 320px|width: \d{3}px")


async def scrolls_sideways(found: Locator) -> bool:
    return bool(await found.evaluate("node => node.scrollWidth > node.clientWidth + 1"))


async def is_whole(found: Locator) -> bool:
    """Whether every node stands within the picture."""
    return bool(
        await found.evaluate(
            """node => {
                const within = node.querySelector('.jp-Ozzie-picture').getBoundingClientRect().right;
                const all = [...node.querySelectorAll('.jp-Ozzie-node')];
                return all.every(each => each.getBoundingClientRect().right <= within + 0.5);
            }"""
        )
    )


@pytest.mark.soak
async def test_a_page_without_the_extension_sees_the_picture_in_the_kernels_widget(
    notebook: NewNotebook, held: threading.Event
) -> None:
    it = notebook('%run weekly-review topic="tea"')
    await it.page.route("**/lab/extensions/@ozzie/**", lambda route: route.abort())
    await it.open()
    await it.begin(0)
    picture = it.output(0).locator(".oz-graph svg")
    await expect(picture).to_contain_text("search web, Working")
    await expect(it.live(0)).to_contain_text('the step "publish" waits for your yes')
    await screenshot(it.page, "run-without-extension")
    await expect(it.output(0).locator(".jp-Ozzie-cellRun")).to_have_count(0)
    held.set()
    await it.command("notebook:interrupt-kernel")
    await it.ended(0)
    await expect(picture).to_have_count(0)
