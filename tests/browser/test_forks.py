"""A fork in JupyterLab: its notebook opens with the cells up to there, and goes on in the fork."""

import json
from collections.abc import Callable

import pytest
from playwright.async_api import expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.test_approvals import asked, press, wants
from tests.rig import ozzie

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

_TYPE = """() => {
    const cells = window.jupyterapp.shell.currentWidget.content.widgets;
    cells[cells.length - 1].model.sharedModel.setSource('And what now?');
}"""


@pytest.mark.soak
async def test_a_fork_goes_on_in_a_notebook_of_its_own(notebook: Callable[..., NotebookPage], lab: Lab) -> None:
    it = notebook("What is 17.5 % of 2,480? Use the calculator.", wants("forked.md"), "%session fork 1")
    await it.open()
    await it.run(0)
    await it.begin(1)
    await press(await asked(it, 1), "Approve once")
    await it.ended(1)
    await it.run(2)
    await expect(it.output(2)).to_contain_text("What was done since then is not undone:")
    await expect(it.output(2)).to_contain_text("turn 2: write_file notes/forked.md")
    await screenshot(it.page, "fork-made")
    name = f"{lab.path(it.name).stem}-from-turn-1.ipynb"
    made = json.loads(lab.path(name).read_text())["metadata"]["ozzie"]["session"]
    tasks = lab.tasks()

    fork = NotebookPage(lab, it.page, name)
    await fork.open()
    await expect(fork.cell(0)).to_contain_text("Forked after turn 1 of another session.")
    await expect(fork.cell(0)).to_contain_text("A call made since then is not undone: write_file.")
    await expect(fork.output(1)).to_contain_text("434")
    assert lab.tasks() == tasks, "opening it ran something"
    await it.page.evaluate(_TYPE)
    await fork.run(2)
    await screenshot(it.page, "fork-goes-on")

    shown = ozzie(lab.home, "sessions", "show", made).stdout
    assert [line.split(",")[0] for line in shown.splitlines() if line.startswith("Turn ")] == ["Turn 1", "Turn 2"]
    assert "> And what now?" in shown
    assert lab.path("notes/forked.md").exists()
