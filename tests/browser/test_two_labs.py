"""Two JupyterLabs on one home: a page of the second one works as any, and goes on when the first is killed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page, expect

from tests.browser.lab_server import start_lab, start_second_lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.sidebar import Sidebar
from tests.browser.test_approvals import press
from tests.fakes.openai_server import FakeOpenAI

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

SLOW = "paced-100-100-60"


@pytest_asyncio.fixture(loop_scope="session")
async def own_page(browser: BrowserContext) -> AsyncIterator[Page]:
    page = await browser.new_page()
    yield page
    await page.close()


@pytest.mark.soak
async def test_a_notebook_of_an_attached_lab_works_in_its_own_folder_and_its_questions_say_so(
    provider: FakeOpenAI, own_page: Page, tmp_path: Path
) -> None:
    root = tmp_path / "another project"
    root.mkdir()
    (root / "where.txt").write_text("In the folder of the second Lab.\n")
    with start_lab(tmp_path / "labs", provider.url, {}) as first, start_second_lab(first, root) as second:
        it = NotebookPage(second, own_page, "second.ipynb")
        second.write(it.name, ["%session", "Read where.txt", "Write a 2-line note to notes/a.md"])
        await it.open()
        await it.run(0)
        await expect(it.output(0)).to_contain_text(str(root))
        await it.run(1)
        await expect(it.output(1)).to_contain_text("In the folder of the second Lab.")
        await it.begin(2)
        card = it.output(2).locator(".jp-Ozzie-approval")
        await expect(card).to_contain_text(f"In {root}: ")
        await screenshot(own_page, "two-labs-another-project")
        await press(card, "Approve once")
        await it.ended(2)

    assert (root / "notes/a.md").exists()
    assert not (first.home.project / "notes/a.md").exists()


@pytest.mark.soak
async def test_a_page_of_the_attached_lab_sees_its_turn_to_the_end_though_the_owner_is_killed(
    provider: FakeOpenAI, own_page: Page, tmp_path: Path
) -> None:
    with start_lab(tmp_path / "labs", provider.url, {"slow": SLOW}) as first, start_second_lab(first) as second:
        it = NotebookPage(second, own_page, "second.ipynb")
        second.write(it.name, ["%model slow", "Count to sixty."])
        await it.open()
        sidebar = Sidebar(own_page)
        await sidebar.open()
        await it.run(0)
        await it.begin(1)
        await expect(it.live(1).locator(".oz-md")).to_contain_text("w5 ")
        await expect(sidebar.task("Count to")).to_contain_text("Working")
        await screenshot(own_page, "two-labs-attached")
        tasks_of_the_first = first.tasks()

        os.kill(first.handshake.pid, signal.SIGKILL)
        await expect(it.live(1)).to_contain_text("continued after a restart")
        await expect(sidebar.task("Count to")).to_contain_text("Working")
        await screenshot(own_page, "two-labs-taken-over")
        await it.ended(1)
        await expect(sidebar.task("Count to")).to_contain_text("Done")
        await expect(sidebar.banner).to_have_count(0)
        await screenshot(own_page, "two-labs-ended")
        text = await it.final(1).first.inner_text()
        owner = await asyncio.to_thread(second.owner)
        tasks = await asyncio.to_thread(second.tasks)

    assert [word for word in text.split() if word.startswith("w") and word[1:].isdecimal()] == [
        f"w{number}" for number in range(60)
    ]
    assert (owner, tasks_of_the_first, tasks) == (second.handshake.pid, 1, 1)
