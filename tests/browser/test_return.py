"""A page that was away comes back to its turns: reloaded, closed, cut off, or only a second one."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import BrowserContext, expect

from ozzie_server_ext.render.static import TURN_MIME
from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.sidebar import Sidebar
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, pieces_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook = Callable[..., NotebookPage]


async def test_a_page_reloaded_in_mid_turn_follows_it_and_shows_its_end_once(notebook: NewNotebook, lab: Lab) -> None:
    it = notebook("%model endless", "Count for me, please.")
    await it.open()
    await it.run(0)
    await it.save()
    await it.begin(1)
    await expect(it.live(1).locator(".oz-md")).to_contain_text("1 2 3 ")

    await it.open()
    await expect(it.live(1).locator(".oz-status b")).to_have_text("Working")
    seen = len(await it.live(1).locator(".oz-md").inner_text())
    await it.page.wait_for_function(
        "before => document.querySelector('.jp-Ozzie-live .oz-md').innerText.length > before", arg=seen
    )
    assert await _dirty(it) is False, "following a turn changes nothing in the notebook"
    overhang = "oz => oz.parentElement.clientWidth - oz.offsetWidth"
    assert await it.live(1).evaluate(overhang) == 0, "its figures are not cut off at the right"
    await screenshot(it.page, "reloaded-in-mid-turn")

    sidebar = Sidebar(it.page)
    await sidebar.open()
    await expect(sidebar.task("Count for me, please.")).to_contain_text("Working")
    await sidebar.stop("Count for me, please.")
    await expect(sidebar.task("Count for me, please.")).to_contain_text("Stopped")
    await expect(it.final(1)).to_contain_text("Stopped here by you.")
    await _expect_the_end_once(it, lab, at=1)
    await screenshot(it.page, "reloaded-ended")


@pytest.mark.soak
async def test_a_turn_that_ended_while_no_page_was_there_is_in_its_cell_when_one_is(
    notebook: NewNotebook, lab: Lab, browser: BrowserContext, provider: FakeOpenAI
) -> None:
    provider.queue(Answer(pieces=pieces_of("Every word of **it** is there."), gap_s=0.1))
    it = notebook("%model scripted", "Answer while I am away.")
    await it.open()
    await it.run(0)
    await it.save()
    await it.begin(1)
    await expect(it.live(1)).to_contain_text("Every")
    # Away in the middle: nobody is there to write the end into the cell.
    await it.page.goto("about:blank")
    await asyncio.to_thread(lab.wait_for_tasks_to_end)

    await it.open()
    await expect(it.final(1)).to_contain_text("Every word of it is there.")
    await _expect_the_end_once(it, lab, at=1)
    assert await _dirty(it) is True, "what nobody has saved is to be saved"
    await it.save()
    assert lab.saved(it.name)["metadata"]["ozzie"]["session"].startswith("sess_")

    await it.open(workspace="opened-again")
    await _expect_the_end_once(it, lab, at=1)


@pytest.mark.soak
async def test_a_turn_goes_on_in_its_cell_when_its_kernel_dies(notebook: NewNotebook, lab: Lab) -> None:
    it = notebook("%model endless", "Count though my kernel dies.")
    await it.open()
    await it.run(0)
    await it.begin(1)
    await expect(it.live(1).locator(".oz-md")).to_contain_text("1 2 3 ")

    await it.kill_kernel()
    live = it.output(1).locator(".jp-Ozzie-live .oz-md")
    await expect(live).to_contain_text("1 2 3 ")
    await expect(it.live(1).locator("visible=true")).to_have_count(1)
    seen = len(await live.inner_text())
    await it.page.wait_for_function(
        "before => document.querySelector('.jp-Ozzie-live .oz-md').innerText.length > before", arg=seen
    )

    await it.command("ozzie:stop-turn")
    await expect(it.final(1)).to_contain_text("Stopped here by you.")
    await _expect_the_end_once(it, lab, at=1)


@pytest.mark.soak
async def test_what_running_a_cell_again_repeats_is_read_above_its_turn_that_is_followed(
    notebook: NewNotebook, lab: Lab
) -> None:
    it = notebook("%model echo", "Say this again.", "%model endless")
    await it.open()
    for index in range(3):
        await it.run(index)
    await it.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    await it.is_ready()
    await it.begin(1)
    await expect(it.live(1).locator(".oz-md")).to_contain_text("1 2 3 ")
    said = it.output(1).get_by_text("Cells of this notebook ran once before")
    await expect(said).to_be_visible()
    await it.save()

    await it.open()
    await expect(it.output(1).locator(".jp-Ozzie-live .oz-md")).to_contain_text("1 2 3 ")
    await expect(said).to_be_visible()
    await expect(it.output(1).get_by_text("still running when the notebook was saved")).to_be_hidden()
    await it.command("ozzie:stop-turn")
    await expect(it.final(1).last).to_contain_text("Stopped here by you.")
    await expect(said).to_be_visible()
    assert len(await _outputs(it, 1)) == 2


@pytest.mark.soak
async def test_an_output_that_was_cleared_and_saved_does_not_come_back(notebook: NewNotebook, lab: Lab) -> None:
    it = notebook("%model echo", "Say what I will clear.")
    await it.open()
    await it.run(0)
    await it.run(1)
    await it.command("notebook:clear-all-cell-outputs")
    await it.save()

    async with it.page.expect_response(lambda answer: "tasks?notebook=" in answer.url):
        await it.open()
    await it.page.evaluate("new Promise(requestAnimationFrame)")

    assert await _outputs(it, 1) == []


@pytest.mark.soak
async def test_two_pages_show_the_same_and_only_one_has_it_to_save(
    notebook: NewNotebook, lab: Lab, browser: BrowserContext, provider: FakeOpenAI
) -> None:
    provider.queue(Answer(pieces=pieces_of("One answer for all of them."), gap_s=0.3))
    it = notebook("%model scripted", "Answer two pages.")
    await it.open()
    await it.run(0)
    await it.save()
    second = NotebookPage(lab, await browser.new_page(), it.name)
    await second.open(workspace="the-second-page")
    assert await _dirty(second) is False

    await it.begin(1)
    await expect(second.live(1).locator(".oz-status b")).to_have_text("Working")
    await screenshot(second.page, "two-pages-second-follows")
    await it.ended(1)
    await expect(second.final(1)).to_contain_text("One answer for all of them.")
    await screenshot(it.page, "two-pages-first-ended")
    await screenshot(second.page, "two-pages-second-ended")
    assert await _outputs(second, 1) == await _outputs(it, 1)
    assert (await _dirty(it), await _dirty(second)) == (True, False)

    await it.save()
    await second.page.bring_to_front()
    await expect(second.page.locator(".jp-Dialog")).to_have_count(0)
    await second.page.close()
    await it.open(workspace="the-first-page-again")
    await _expect_the_end_once(it, lab, at=1)


@pytest.mark.soak
async def test_a_page_that_the_network_left_catches_up(
    notebook: NewNotebook, lab: Lab, browser: BrowserContext, provider: FakeOpenAI
) -> None:
    provider.queue(Answer(pieces=pieces_of("This was said while nobody listened."), gap_s=0.4))
    it = notebook("%model scripted", "Answer behind a cut.")
    await it.open()
    await it.run(0)
    sidebar = Sidebar(it.page)
    await sidebar.open()
    await it.begin(1)
    await expect(it.live(1)).to_contain_text("This")
    await expect(sidebar.task("Answer behind a cut.")).to_contain_text("Working")

    await browser.set_offline(True)
    try:
        await expect(sidebar.banner).to_contain_text("Reconnecting. Shown as of")
        await expect(it.page.locator(".jp-Ozzie-status")).to_have_text("Reconnecting…")
        await screenshot(it.page, "cut-off")
        await expect(sidebar.task("Answer behind a cut.")).to_contain_text("Working")
        await asyncio.to_thread(lab.wait_for_tasks_to_end)
    finally:
        await browser.set_offline(False)

    await expect(sidebar.banner).to_have_count(0)
    await expect(sidebar.task("Answer behind a cut.")).to_contain_text("Done")
    await expect(it.final(1)).to_contain_text("This was said while nobody listened.")
    await _expect_the_end_once(it, lab, at=1)


async def _expect_the_end_once(it: NotebookPage, lab: Lab, *, at: int) -> None:
    """The cell holds what its kernel would have written, and nothing else."""
    await expect(it.output(at).locator(".oz")).to_have_count(0)
    (output,) = await _outputs(it, at)
    task_id = output["data"][TURN_MIME]["task"]
    told = lab.output(task_id)
    assert {"data": output["data"], "metadata": output["metadata"]} == {
        "data": told["data"],
        "metadata": told["metadata"],
    }
    assert "still running" not in json.dumps(output)


async def _outputs(it: NotebookPage, at: int) -> list[dict[str, Any]]:
    return await it.page.evaluate(
        "at => window.jupyterapp.shell.currentWidget.content.model.cells.get(at).outputs.toJSON()", at
    )


async def _dirty(it: NotebookPage) -> bool:
    return await it.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.model.dirty")
