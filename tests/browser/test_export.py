"""An exported session in JupyterLab: it reads whole, runs nothing, and is as recorded after Lab has saved it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, expect

from tests.browser.lab_server import LAB_START_S, Lab, start_lab_without_ozzie
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.test_approvals import asked, press, wants
from tests.rig import JUPYTER_TOKEN, ozzie

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

_TYPE = """() => {
    const panel = window.jupyterapp.shell.currentWidget;
    panel.content.widgets[1].model.sharedModel.updateSource(0, 0, '!');
}"""


def verified(lab: Lab, name: str) -> list[str]:
    """The verdict on each cell."""
    told = ozzie(lab.home, "sessions", "verify", str(lab.path(name)), "--json").stdout
    return [f"{cell['verdict']} {cell['note']}".strip() for cell in json.loads(told)["cells"]]


async def recorded(it: NotebookPage, lab: Lab) -> str:
    """Run two cells, of which the second asks; return the id of their session."""
    await it.open()
    await it.run(0)
    await it.begin(1)
    await press(await asked(it, 1), "Approve once")
    await it.ended(1)
    return json.loads(ozzie(lab.home, "sessions", "list", "--json").stdout)[0]["id"]


@pytest.mark.soak
async def test_lab_shows_and_saves_an_exported_session_as_it_was(
    notebook: Callable[..., NotebookPage], lab: Lab
) -> None:
    it = notebook("What is 17.5 % of 2,480? Use the calculator.", wants("exported.md"))
    session = await recorded(it, lab)
    written = ozzie(lab.home, "sessions", "export", session, "--to", str(lab.path("exported.ipynb")))
    assert written.returncode == 0, written.stderr
    tasks = lab.tasks()

    exported = NotebookPage(lab, it.page, "exported.ipynb")
    await exported.open()
    await expect(exported.cell(0)).to_contain_text("It shows what was recorded.")
    await expect(exported.output(1)).to_contain_text("434")
    await exported.output(2).locator("summary").first.click()
    await expect(exported.output(2)).to_contain_text("approved once by")
    await screenshot(it.page, "exported-session")
    before = lab.path("exported.ipynb").read_bytes()
    await exported.save()

    assert verified(lab, "exported.ipynb") == ["as recorded"] * 3
    assert lab.tasks() == tasks, "opening it ran something"
    assert lab.path("exported.ipynb").read_bytes() != before, "Lab did not save it in its own way"

    await it.page.evaluate(_TYPE)
    await exported.save()

    assert verified(lab, "exported.ipynb") == ["as recorded", "changed since its text", "as recorded"]


@pytest.mark.soak
@pytest.mark.timeout(240)  # another Lab starts
async def test_it_reads_whole_and_runs_nothing_in_a_lab_without_ozzie(
    browser: BrowserContext, notebook: Callable[..., NotebookPage], lab: Lab, tmp_path: Path
) -> None:
    it = notebook("What is 17.5 % of 2,480? Use the calculator.", wants("plainly.md"))
    session = await recorded(it, lab)
    tasks = lab.tasks()
    page = await browser.new_page()
    with start_lab_without_ozzie(tmp_path / "plain") as (url, folder):
        written = ozzie(lab.home, "sessions", "export", session, "--to", str(folder / "plain.ipynb"))
        assert written.returncode == 0, written.stderr

        await page.goto(f"{url}lab/tree/plain.ipynb?reset&token={JUPYTER_TOKEN}")
        await page.locator(".jp-Dialog").get_by_role("button", name="No Kernel").click(timeout=LAB_START_S * 1000)
        cells = page.locator(".jp-Notebook .jp-Cell")

        await expect(cells.nth(0)).to_contain_text("It shows what was recorded.")
        await expect(cells.nth(1)).to_contain_text("What is 17.5 % of 2,480? Use the calculator.")
        await expect(cells.nth(1).locator(".jp-Cell-outputArea")).to_contain_text("434")
        answer = cells.nth(2).locator(".jp-Cell-outputArea")
        await answer.locator("summary").first.click()
        await expect(answer).to_contain_text("approved once by")
        await screenshot(page, "exported-without-ozzie")
        await page.close()
    assert lab.tasks() == tasks
