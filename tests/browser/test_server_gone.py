"""The server dies under an open page, and another takes its place: the page says so, and loses nothing."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import BrowserContext, expect

from ozzie_server_ext.render.static import TURN_MIME
from tests.browser.lab_server import Lab, lab_home, serve_lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.sidebar import Sidebar
from tests.browser.test_approvals import asked, card, press
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, pieces_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

QUESTION = "Answer although I die."
ANSWER = "This is the answer of the second attempt."


@pytest.mark.soak
async def test_a_page_survives_the_death_of_its_server(
    browser: BrowserContext, provider: FakeOpenAI, tmp_path: Path
) -> None:
    provider.forget()
    home = lab_home(tmp_path / "mortal", provider.url, {"scripted": "scripted"})
    page = await browser.new_page()
    sidebar = Sidebar(page)
    with serve_lab(home) as (lab, process):
        port = int(urlsplit(lab.url).port or 0)
        lab.write("mortal.ipynb", ["%model scripted", QUESTION])
        it = NotebookPage(lab, page, "mortal.ipynb")
        await it.open()
        await it.run(0)
        await it.save()
        await sidebar.open()
        provider.queue(Answer(pieces=["This", " was", " the", " first"], gap_s=0.2, endless=True))
        provider.queue(Answer(pieces=pieces_of(ANSWER)))
        await it.begin(1)
        await expect(it.live(1)).to_contain_text("This was")
        await expect(sidebar.task(QUESTION)).to_contain_text("Working")
        process.kill()
        await asyncio.to_thread(process.wait, 20)

        await expect(sidebar.banner).to_contain_text("Reconnecting. Shown as of")
        await expect(page.locator(".jp-Ozzie-status")).to_have_text("Reconnecting…")
        await expect(sidebar.task(QUESTION)).to_contain_text("Working")
        await screenshot(page, "gateway-killed")

    with serve_lab(home, port=port) as (again, _):
        await expect(sidebar.banner).to_have_count(0)
        await expect(sidebar.task(QUESTION)).to_contain_text("Done")
        await expect(it.final(1)).to_contain_text(ANSWER)
        await _expect_its_end_once(it, again)
        await screenshot(page, "gateway-back")
        await page.close()


@pytest.mark.soak
async def test_a_card_outlives_the_death_of_its_server_and_is_answered_to_the_next(
    browser: BrowserContext, provider: FakeOpenAI, tmp_path: Path
) -> None:
    home = lab_home(tmp_path / "asking", provider.url, {"scripted": "scripted"})
    page = await browser.new_page()
    with serve_lab(home) as (lab, process):
        port = int(urlsplit(lab.url).port or 0)
        lab.write("asking.ipynb", ["Write a 2-line note to notes/kept.md"])
        it = NotebookPage(lab, page, "asking.ipynb")
        await it.open()
        await it.save()
        await it.begin(0)
        await asked(it, 0)
        # Lab's own word about it lies over the page, at a moment of its choice.
        close = page.locator(".jp-Dialog").get_by_role("button", name="Close")
        await page.add_locator_handler(close, lambda: close.click())
        process.kill()
        await asyncio.to_thread(process.wait, 20)

        await expect(page.locator(".jp-Ozzie-status")).to_have_text("Reconnecting…")
        once = card(it, 0).get_by_role("button", name="Approve once", exact=True)
        await expect(once).to_have_attribute("aria-disabled", "true")
        await expect(card(it, 0)).to_contain_text("when reconnected")
        await screenshot(page, "card-without-gateway")
        assert not lab.path("notes/kept.md").exists()

    with serve_lab(home, port=port):
        await expect(page.locator(".jp-Ozzie-status")).to_contain_text("1 needs you")
        await press(card(it, 0), "Approve once")
        await expect(it.final(0)).to_contain_text("approved once by")
        assert lab.path("notes/kept.md").read_text().startswith("Line 1 of 2")
        await page.close()


async def _expect_its_end_once(it: NotebookPage, lab: Lab) -> None:
    (output,) = await it.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.model.cells.get(1).outputs.toJSON()"
    )
    told = lab.output(output["data"][TURN_MIME]["task"])
    assert (output["data"], output["metadata"]) == (told["data"], told["metadata"])
