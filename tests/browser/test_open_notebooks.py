"""A notebook that is open in a page, edited by an agent while a person types in it (ADR 36)."""

import asyncio
import itertools
import json
import random
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4
from playwright.async_api import BrowserContext, Page, expect

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.cells import CellKind, Notebook, version_of
from tests.browser.lab_server import KERNELSPEC, Lab, lab_home, serve_lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.test_approvals import asked, press
from tests.collaboration import with_collaboration
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall
from tests.integration.jupyter.interleaving import TYPED_IN, Story
from tests.results import result_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

NAME = "work.ipynb"
STEPS = 200
EDITS = ["insert_cell", "edit_cell", "move_cell", "delete_cell"]
CALL = {"tool": "insert_cell", "args": {"path": NAME, "kind": "markdown", "source": "x"}}
RULES = {
    "rules": [
        {
            "id": "cells",
            "decision": "allow",
            "reason": "The test's own notebook.",
            "when": {"tools": EDITS},
            "examples": {"match": [CALL]},
        }
    ]
}
_CELLS = """() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.map(
    cell => ({id: cell.id, cell_type: cell.cell_type, source: cell.getSource(), metadata: {}}))"""
_INTO = """id => {
    const { content } = window.jupyterapp.shell.currentWidget;
    content.activeCellIndex = content.widgets.findIndex(cell => cell.model.id === id);
    content.mode = 'edit';
}"""
_END = """() => { const { editor } = window.jupyterapp.shell.currentWidget.content.activeCell;
    editor.setCursorPosition(editor.getPositionAt(editor.model.sharedModel.getSource().length)); }"""
_WHERE = """() => { const { content } = window.jupyterapp.shell.currentWidget;
    return [content.mode, content.activeCell.model.id, content.activeCell.editor.hasFocus()]; }"""

_OVERWRITES = """() => new MutationObserver(() => {
    const dialog = document.querySelector('.jp-Dialog');
    const buttons = dialog?.textContent.startsWith('File Changed') ? [...dialog.querySelectorAll('button')] : [];
    buttons.find(button => button.textContent === 'Overwrite')?.click();
}).observe(document.body, { childList: true, subtree: true })"""
"""A person who answers Lab at once. On a busy machine, saving a shared document may find the file newer than the page
knows, because the server has just saved it, and Lab asks which to keep (jupyter-collaboration issue 312): both have the
same text."""


def write(lab: Lab, cells: Mapping[str, str]) -> None:
    made = []
    for cell_id, source in cells.items():
        cell = v4.new_code_cell(source) if cell_id == TYPED_IN else v4.new_markdown_cell(source)
        cell["id"] = cell_id
        made.append(cell)
    nbformat.write(v4.new_notebook(cells=made, metadata={"kernelspec": KERNELSPEC}), lab.path(NAME))


class Agent:
    """A model that calls what it is told to, in real turns."""

    def __init__(self, lab: Lab, provider: FakeOpenAI) -> None:
        self._lab = lab
        self._provider = provider
        self._turns = itertools.count()

    async def calls(self, name: str, **args: Any) -> dict[str, Any]:
        """What the model read of a call about the notebook."""
        return await self.looks(name, {"path": NAME, **args})

    async def looks(
        self, name: str, args: JsonObject, *, says_yes: Callable[[], Awaitable[None]] | None = None
    ) -> dict[str, Any]:
        """The call's data as the model read it, or its `error` in words. `says_yes` answers where it asks, and returns
        at the turn's end."""
        self._provider.queue(Answer(pieces=[], tool_calls=[ToolCall(name, args)]), Answer(pieces=["Done."]))
        status = await asyncio.to_thread(self._asks)
        assert status == ("SUCCEEDED" if says_yes is None else "WAITING_APPROVAL")
        if says_yes is not None:
            await says_yes()
        body: Any = self._provider.requests[-1].body
        result = result_of(body["messages"][-1]["content"])
        return result.data if result.ok else {"error": result.error["message"]}

    def _asks(self) -> str:
        """How the turn came to rest. Sessions are kept short: summarizing one would take an answer of the queue."""
        session = f"agent {next(self._turns) // 20}"
        body = {"content": "Go on.", "session_name": session, "model": "scripted", "wait": True}
        request = urllib.request.Request(
            f"{self._lab.url}ozzie/api/message",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"token {self._lab.handshake.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.loads(response.read())["status"]

    async def insert(self, cell_id: str, source: str, after: str) -> tuple[str, str]:
        read = await self.calls("insert_cell", kind="markdown", source=source, after=after or "top")
        return str(read.get("cell")), _refused(read)

    async def edit(self, cell_id: str, was: str, source: str) -> str:
        version = version_of(CellKind.MARKDOWN, was)
        return _refused(await self.calls("edit_cell", cell=cell_id, version=version, source=source))

    async def move(self, cell_id: str, was: str, was_after: str, after: str) -> str:
        version = version_of(CellKind.MARKDOWN, was)
        return _refused(await self.calls("move_cell", cell=cell_id, version=version, after=after or "top"))

    async def delete(self, cell_id: str, was: str, was_after: str) -> str:
        return _refused(await self.calls("delete_cell", cell=cell_id, version=version_of(CellKind.MARKDOWN, was)))


def _refused(read: Mapping[str, Any]) -> str:
    return str(read.get("error") or "")


class Typist:
    """A person at the keyboard of the page. `typed` is all of it, in its order."""

    def __init__(self, it: NotebookPage) -> None:
        self._it = it
        self._keyboard = asyncio.Lock()
        self.typed = ""

    async def type(self, text: str) -> None:
        text = text.replace("\n", "-")  # behind a line break, the editor adds spaces of its own
        async with self._keyboard:
            self.typed += text
            await self._it.page.keyboard.type(text)

    async def sync(self) -> None:
        await self._it.save()


async def cells(page: Page) -> Notebook:
    return Notebook.of(await page.evaluate(_CELLS))


@asynccontextmanager
async def opened(
    browser: BrowserContext,
    provider: FakeOpenAI,
    folder: Path,
    sources: Mapping[str, str],
    *,
    shared: bool,
    kind: str = "markdown",
) -> AsyncIterator[tuple[Lab, NotebookPage, Agent]]:
    home = lab_home(folder, provider.url, {"scripted": "scripted"})
    if shared:
        home = replace(home, env=with_collaboration(home.env))
    (home.home / "policy.jsonc").write_text(json.dumps(RULES))
    page = await browser.new_page()
    with serve_lab(home) as (lab, _):
        write(lab, sources)
        it = NotebookPage(lab, page, NAME)
        await it.open(workspace="edited")
        if shared:
            await page.evaluate(_OVERWRITES)
        try:
            yield lab, it, Agent(lab, provider)
        finally:
            await page.close()


async def shows(it: NotebookPage, story: Story) -> None:
    """Wait until the page has all edits: that of a shared document hears of the last one after the agent does."""
    for _ in range(100):
        if story.fits((await cells(it.page)).cells):
            return
        await it.page.wait_for_timeout(100)
    story.expect((await cells(it.page)).cells)


@pytest.mark.soak
@pytest.mark.timeout(600)  # so many edits take minutes, on a slow machine more than four
@pytest.mark.parametrize("shared", [False, True], ids=["in the page", "as a shared document"])
async def test_whoever_types_loses_nothing_and_no_edit_is_lost(
    browser: BrowserContext, provider: FakeOpenAI, tmp_path: Path, shared: bool
) -> None:
    story = Story(random.Random(7))
    async with opened(browser, provider, tmp_path / "lab", story.sources, shared=shared) as (lab, it, agent):
        read = await agent.calls("read_notebook")
        assert (read["read_from"], read["count"]) == ("shared document" if shared else "page", 5)
        await it.page.evaluate(_INTO, TYPED_IN)
        await it.page.evaluate(_END)
        person = Typist(it)

        for _ in range(STEPS):
            meanwhile = person.type(story.random.choice(["", "k", "lm", "no p"]))
            await asyncio.gather(story.goes_on(agent, person), meanwhile)
        story.typed = person.typed

        assert story.refused == []
        await shows(it, story)
        assert await it.page.evaluate(_WHERE) == ["edit", TYPED_IN, True], "the cursor never left"
        assert await it.page.locator(".jp-Dialog").count() == 0
        await screenshot(it.page, f"notebook-edited-{'shared' if shared else 'page'}")
        await it.save()
        story.expect(Notebook.of(lab.saved(NAME)["cells"]).cells)
        assert story.made > STEPS // 4


@pytest.mark.soak
@pytest.mark.parametrize("shared", [False, True], ids=["in the page", "as a shared document"])
async def test_a_cell_that_somebody_types_in_is_left_to_them_and_the_agent_is_told(
    browser: BrowserContext, provider: FakeOpenAI, tmp_path: Path, shared: bool
) -> None:
    async with opened(browser, provider, tmp_path / "lab", {"a": "one", "b": "two"}, shared=shared) as (_, it, agent):
        assert (await agent.calls("read_notebook"))["cells"][0]["source"] == "one"
        await it.page.evaluate(_INTO, "a")
        await it.page.evaluate(_END)
        await it.page.keyboard.type(" and mine")
        if shared:  # a key is on its way for a moment
            await it.save()

        refused = [
            await agent.edit("a", "one", "another"),
            await agent.delete("a", "one", ""),
            await agent.move("a", "one", "", "b"),
        ]

        assert refused == ["The cell a has changed since it was read; read it again."] * 3
        assert [(cell.cell_id, cell.source) for cell in (await cells(it.page)).cells] == [
            ("a", "one and mine"),
            ("b", "two"),
        ]
        assert (await agent.calls("read_notebook"))["cells"][0]["source"] == "one and mine"


@pytest.mark.soak
async def test_the_second_notebook_shows_an_edit_of_another_notebook_before_it_is_made(lab: Lab, page: Page) -> None:
    name, data = "02_tools_and_approvals.ipynb", lab.path("data/analysis.ipynb")
    before = data.read_bytes()
    sources = ["".join(cell["source"]) for cell in lab.saved(name)["cells"]]
    index = next(number for number, source in enumerate(sources) if source.startswith("Add a Markdown cell"))
    try:
        it = NotebookPage(lab, page, name)
        await it.open()
        await it.begin(index)
        found = await asked(it, index)
        await expect(found).to_contain_text("Add a Markdown cell of 1 line to data/analysis.ipynb, at its end?")
        await screenshot(page, "notebook-approval")
        assert data.read_bytes() == before
        await press(found, "Approve once")
        await it.ended(index)
        await expect(it.final(index)).to_contain_text("The cell stands in data/analysis.ipynb")
        await screenshot(page, "notebook-second")
        assert "Checked against the books." in str(json.loads(data.read_bytes())["cells"][-1]["source"])
    finally:
        data.write_bytes(before)
