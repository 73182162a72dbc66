"""What a live kernel shows when an agent runs a cell in it: sixty samples that would run code or call home, in each
form that an output can have, in an open page, in the saved notebook, and in what is told of a frame."""

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4
from playwright.async_api import BrowserContext, expect

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.cells import CellKind, version_of
from tests.browser.canary import Canary
from tests.browser.lab_server import Lab, lab_home, serve_lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.test_open_notebooks import NAME, Agent
from tests.fakes.openai_server import FakeOpenAI
from tests.hostile.samples import NAMES, render_sample

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

WATCH = Path(__file__).parent / "watch_outputs.js"
FORMS = ("text/html", "text/markdown", "image/svg+xml", "application/javascript", "text/latex", "text/plain")
INERT = {"text/plain"}
SHOWS = f"""import json
import pandas
from IPython.display import display

samples = json.load(open("samples.json"))
frame = pandas.DataFrame({{"said": samples, samples[0]: samples}})
for sample in samples:
    print(sample)
    display({{form: sample for form in {FORMS!r}}}, raw=True)
frame"""
PYTHON = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


@pytest.fixture
def canary() -> Iterator[Canary]:
    with Canary() as server:
        yield server


def sample(name: str, url: str) -> str:
    """As a kernel can print it: half of a pair of surrogates ends ipykernel's own output for good."""
    return render_sample(name, url).encode("utf-8", "replace").decode()


async def all_shown(it: NotebookPage) -> None:
    """Lab shows the first fifty outputs, and the others by a button."""
    await it.output(0).get_by_role("button", name="Show more outputs").click()
    await expect(it.output(0)).to_contain_text("said")


class Person:
    """Says yes to what is asked, by the command line's way."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    async def approves(self) -> None:
        """What is asked; returns at the turn's end."""
        (found,) = (await asyncio.to_thread(self._ask, "approvals?status=pending"))["items"]
        await asyncio.to_thread(self._ask, f"approvals/{found['approval_id']}/approve", {"binds": found["binds"]})
        await asyncio.to_thread(self._lab.wait_for_tasks_to_end)

    def _ask(self, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self._lab.url}ozzie/api/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self._lab.handshake.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read())


@pytest.mark.soak
async def test_nothing_that_a_kernel_shows_runs_or_calls_anybody(
    browser: BrowserContext, provider: FakeOpenAI, canary: Canary, tmp_path: Path
) -> None:
    home = lab_home(tmp_path / "lab", provider.url, {"scripted": "scripted"})
    (home.project / "samples.json").write_text(json.dumps([sample(name, canary.url) for name in NAMES]))
    cell = v4.new_code_cell(SHOWS)
    cell["id"] = "a"
    nbformat.write(v4.new_notebook(cells=[cell], metadata={"kernelspec": PYTHON}), home.project / NAME)
    page = await browser.new_page()
    await page.add_init_script(path=WATCH)
    with serve_lab(home) as (lab, _):
        try:
            it = NotebookPage(lab, page, NAME)
            await it.open()
            agent, person = Agent(lab, provider), Person(lab)

            cell_a: JsonObject = {"path": NAME, "cell": "a", "version": version_of(CellKind.CODE, SHOWS)}
            ran = await agent.looks("run_cell", cell_a, says_yes=person.approves)
            looked = await agent.looks("inspect_kernel", {"kernel": NAME, "name": "frame"})

            assert set(ran["left_out"]) == set(FORMS) - INERT | {"text/html"}
            assert looked["variable"]["rows"] == len(NAMES)
            await all_shown(it)
            assert await page.evaluate("window.__pwned") is None
            # Lab's own: the button for further outputs, and addresses in plain text, which are followed by a click.
            found: list[str] = (await page.evaluate("window.watched()"))["found"]
            assert [each for each in found if each != "<button>" and not each.startswith("href=")] == []
            await screenshot(page, "notebook-hostile-outputs")
            saved = lab.saved(NAME)
            forms = {form for output in saved["cells"][0]["outputs"] for form in output.get("data", {})}
            assert forms == INERT
            assert "widgets" not in saved["metadata"]
            assert not saved["cells"][0]["metadata"].get("trusted")

            await it.open(workspace="again")
            await all_shown(it)
            assert await page.evaluate("window.__pwned") is None
            assert canary.calls == []
        finally:
            await page.close()
