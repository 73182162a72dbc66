"""Notebooks that are shared documents, with the real jupyter_ydoc: edited beside what somebody types elsewhere."""

import random
from typing import Any

import pytest

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.jupyter_server import SharedNotebook
from ozzie_server_ext.jupyter.cells import CellChanged, CellKind, Delete, Edit, Insert, Move, Replace, Show
from tests.collaboration import importable
from tests.integration.jupyter.interleaving import TYPED_IN, Story

importable()
from jupyter_ydoc import YNotebook  # noqa: E402  # pyright: ignore[reportMissingImports]
from pycrdt import Doc  # noqa: E402  # pyright: ignore[reportMissingImports]

SEEDS = range(200)
STEPS = 40


def markdown(cell_id: str, source: str) -> JsonObject:
    return {"cell_type": "markdown", "id": cell_id, "metadata": {}, "source": source}


def code(cell_id: str, source: str, *outputs: JsonObject) -> JsonObject:
    return {
        "cell_type": "code",
        "id": cell_id,
        "metadata": {},
        "source": source,
        "outputs": [*outputs],
        "execution_count": None,
    }


def shared(*cells: JsonObject) -> Any:
    document: Any = YNotebook()
    document.set({"cells": [*cells], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    return document


class Page:
    """A person's page: a copy of the document, which hears of changes, and tells of its own, when it gets to it."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.document: Any = YNotebook(Doc())
        self.document.ydoc.apply_update(server.ydoc.get_update())

    async def type(self, text: str) -> None:
        source = next(each for each in self.document.ycells if each["id"] == TYPED_IN)["source"]
        source.insert(len(source), text)

    async def sync(self) -> None:
        mine = self.document.ydoc.get_update(self._server.ydoc.get_state())
        theirs = self._server.ydoc.get_update(self.document.ydoc.get_state())
        self._server.ydoc.apply_update(mine)
        self.document.ydoc.apply_update(theirs)


class Hand:
    """The agent's."""

    def __init__(self, document: Any) -> None:
        self.notebook = SharedNotebook(document)

    async def insert(self, cell_id: str, source: str, after: str) -> tuple[str, str]:
        return cell_id, await self._done(Insert(cell=markdown(cell_id, source), after=after))

    async def edit(self, cell_id: str, was: str, source: str) -> str:
        return await self._done(Replace(cell_id=cell_id, kind=CellKind.MARKDOWN, was=was, source=source))

    async def move(self, cell_id: str, was: str, was_after: str, after: str) -> str:
        return await self._done(Move(cell_id=cell_id, was=was, was_after=was_after, after=after))

    async def delete(self, cell_id: str, was: str, was_after: str) -> str:
        return await self._done(Delete(cell_id=cell_id, was=was, was_outputs=(), was_after=was_after))

    async def _done(self, edit: Edit) -> str:
        try:
            await self.notebook.edit(edit)
        except CellChanged as error:
            return str(error)
        return ""


@pytest.mark.parametrize("seed", SEEDS)
async def test_whoever_types_loses_nothing_and_no_edit_is_lost(seed: int) -> None:
    story = Story(random.Random(seed))
    server = shared(*(markdown(each, story.sources[each]) for each in story.order))
    page, hand = Page(server), Hand(server)

    for _ in range(STEPS):
        await story.goes_on(hand, page)
    await page.sync()

    story.expect((await hand.notebook.read()).cells)
    story.expect((await SharedNotebook(page.document).read()).cells)
    assert story.refused == []
    assert story.made > 0


async def test_what_is_read_is_what_stands_there_with_its_outputs() -> None:
    stream: JsonObject = {"output_type": "stream", "name": "stdout", "text": "1\n"}
    notebook = await SharedNotebook(shared(code("a", "print(1)", stream), markdown("b", "text"))).read()

    assert [(each.cell_id, each.kind, each.source, each.printed) for each in notebook.cells] == [
        ("a", CellKind.CODE, "print(1)", "1"),
        ("b", CellKind.MARKDOWN, "text", ""),
    ]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Replace(cell_id="a", kind=CellKind.CODE, was="y", source="z"), "has changed since"),
        (Replace(cell_id="q", kind=CellKind.CODE, was="x", source="z"), "There is no cell q"),
        (Insert(cell=markdown("a", "x"), after=""), "There is a cell a already"),
        (Move(cell_id="a", was="x", was_after="b", after=""), "was moved since"),
        (Delete(cell_id="a", was="x", was_outputs=(), was_after=""), "other outputs"),
    ],
    ids=["changed", "gone", "there", "moved", "outputs"],
)
async def test_an_edit_that_is_not_about_what_is_there_changes_nothing(edit: Edit, why: str) -> None:
    document = shared(code("a", "x", {"output_type": "stream", "name": "stdout", "text": "1"}), markdown("b", "y"))
    before = document.get()

    with pytest.raises(CellChanged, match=why):
        await SharedNotebook(document).edit(edit)

    assert document.get() == before


async def test_a_cell_goes_only_with_the_outputs_that_were_seen_and_comes_back_without_what_acts() -> None:
    html: JsonObject = {"output_type": "display_data", "metadata": {}, "data": {"text/plain": "t", "text/html": "<b>"}}
    document = shared(code("a", "x", html), markdown("b", "y"))
    notebook = SharedNotebook(document)
    whole = (await notebook.read()).cells[0]

    await notebook.edit(Delete(cell_id="a", was="x", was_outputs=whole.outputs, was_after=""))
    await notebook.edit(Insert(cell=whole.whole, after="b"))

    cells = document.get()["cells"]
    assert [cell["id"] for cell in cells] == ["b", "a"]
    assert cells[1]["outputs"] == [{"output_type": "display_data", "metadata": {}, "data": {"text/plain": "t"}}]


async def test_what_a_cell_put_out_is_shown_to_all_and_its_mark_stands_in_it() -> None:
    document = shared(code("a", "x", {"output_type": "stream", "name": "stdout", "text": "old"}))
    notebook = SharedNotebook(document)
    new: JsonObject = {"output_type": "stream", "name": "stdout", "text": ["a\n", "b"]}

    await notebook.edit(Show(cell_id="a", was="x", outputs=(new,), execution_count=3))
    await notebook.edit(Replace(cell_id="a", kind=CellKind.CODE, was="x", source="y", made_from=("web:example.org",)))

    (cell,) = document.get()["cells"]
    assert (cell["outputs"], cell["execution_count"]) == ([{**new, "text": "a\nb"}], 3)
    assert cell["metadata"] == {"ozzie": {"made_from": ["web:example.org"]}}


async def test_what_others_type_in_the_same_cell_at_the_same_time_stays_too() -> None:
    """Where their keys are still on the way, nobody can refuse the edit; and a shared text keeps both."""
    document = shared(markdown(TYPED_IN, "Hello world"), markdown("b", "y"))
    page = Page(document)
    await page.type(", good morning")

    await SharedNotebook(document).edit(
        Replace(cell_id=TYPED_IN, kind=CellKind.MARKDOWN, was="Hello world", source="Hallo world")
    )
    await page.sync()

    assert document.get()["cells"][0]["source"] == "Hallo world, good morning"
