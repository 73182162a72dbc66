"""A command in the sandbox, as a person sees it: what it prints while it runs, and what is left of it."""

from collections.abc import Callable

import pytest
from playwright.async_api import expect

from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook = Callable[..., NotebookPage]
COMMAND = "for i in 1 2 3 4; do echo line $i; sleep 0.7; done; ls data; echo kept > $OUT/kept.txt"


@pytest.mark.soak
async def test_a_command_prints_as_it_goes_and_asks_for_nothing(notebook: NewNotebook) -> None:
    it = notebook(f"Run `{COMMAND}`")
    await it.open()

    await it.begin(0)
    row = it.live(0).locator(".oz-row")
    await expect(row).to_contain_text("shell")
    await expect(it.live(0)).to_contain_text("line 2")
    await screenshot(it.page, "sandbox-running")
    await it.ended(0)

    await expect(it.final(0).locator("summary")).to_contain_text("1 step: shell")
    await expect(it.final(0)).to_contain_text("line 4")
    await expect(it.final(0)).to_contain_text("sales.csv")
    await it.final(0).locator("summary").click()
    await expect(it.final(0).locator("details")).to_contain_text("1 file")
    await screenshot(it.page, "sandbox-done")


@pytest.mark.soak
async def test_one_that_fails_says_so_in_its_row(notebook: NewNotebook) -> None:
    it = notebook("Run `cat /etc/shadow; curl -s http://127.0.0.1:1/`")
    await it.open()
    await it.run(0)

    await expect(it.final(0)).to_contain_text("No such file or directory")
    await it.final(0).locator("summary").click()
    await expect(it.final(0).locator("details")).to_contain_text("exit 7")
    await expect(it.final(0).locator("details")).to_contain_text("failed")
    await screenshot(it.page, "sandbox-failed")
