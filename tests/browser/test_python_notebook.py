"""`%ozzie` and `%%ozzie` in a Python notebook in JupyterLab: approved in the cell, stopped by Lab's button."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.test_approvals import asked, press, wants

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
CELLS = (
    "%load_ext ozzie_kernel",
    "import pandas as pd\n\nprices = pd.DataFrame({'tea': ['Green', 'Black'], 'price': [3.85, 4.35]})\nprices",
    "%%ozzie --out found\nWhat is 17.5 % of 2,480? Use the calculator.",
    f"answer = %ozzie {wants('from-python.md')}",
    "print(found.task != answer.task, 'from-python.md' in answer.text)",
    "for word in ('tea', 'coffee'):\n    %ozzie Ask me whether I want {word} or water.",
    "print('after the stop')",
)


async def test_a_python_notebook_asks_ozzie(page: Page, lab: Lab) -> None:
    name = "python.ipynb"
    lab.write(name, CELLS, PYTHON)
    it = NotebookPage(lab, page, name)
    await it.open()
    for index in range(3):
        await it.run(index)
    await expect(it.output(2)).to_contain_text("434")

    await it.begin(3)
    card = await asked(it, 3)
    await screenshot(page, "python-asks")
    await press(card, "Approve once")
    await it.ended(3)
    await expect(it.output(3)).to_contain_text("The note stands in notes/from-python.md.")
    assert lab.path("notes/from-python.md").exists()
    await it.run(4)
    await expect(it.output(4)).to_contain_text("True True")

    await it.begin(5)
    await expect(it.output(5)).to_contain_text("Tea or water?")
    await screenshot(page, "python-question")
    await it.command("notebook:interrupt-kernel")
    await it.ended(5)
    await expect(it.output(5)).to_contain_text("Stopped")
    await expect(it.output(5)).not_to_contain_text("coffee")
    await expect(it.output(5)).not_to_contain_text("Traceback")
    await it.run(6)
    await expect(it.output(6)).to_contain_text("after the stop")
    await screenshot(page, "python-stopped")
