"""Notebooks that pages have open: which page is asked, what it answers, and what becomes of one that is gone."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway import page_notebooks
from ozzie_server_ext.gateway.page_notebooks import GONE_S, NotebookAnswer, PageError, PageHas, PageLink, PageNotebooks
from ozzie_server_ext.jupyter.cells import CellChanged, CellKind, Replace
from ozzie_server_ext.jupyter.documents import DocumentBusy, DocumentSilent, OpenNotebook

EDIT = Replace(cell_id="a", kind=CellKind.MARKDOWN, was="x", source="y")


def markdown(cell_id: str, source: str) -> JsonObject:
    return {"cell_type": "markdown", "id": cell_id, "metadata": {}, "source": source}


class Page:
    """A page that answers as ours do; `answers` says something else."""

    def __init__(self, *cells: JsonObject, dirty: bool = False) -> None:
        self.cells = list(cells)
        self.dirty = dirty
        self.asked: list[JsonObject] = []
        self.is_asked = asyncio.Event()
        self.answers: dict[str, Any] = {}
        self.link = PageLink(self._hear)

    async def _hear(self, text: str) -> None:
        payload = json.loads(text)["payload"]
        self.asked.append(payload)
        self.is_asked.set()
        ask = payload["ask"]
        if ask in self.answers:
            said = self.answers[ask]
            if said is None:
                return
            if isinstance(said, PageError):
                self.link.answered(NotebookAnswer(request_id=payload["request_id"], ok=False, error=said))
                return
        else:
            said = {
                "state": {"dirty": self.dirty},
                "read": {"cells": self.cells[payload.get("first", 0) :][:2], "count": len(self.cells)},
                "edit": {"notes": []},
                "reload": {"reloaded": True},
            }[ask]
        self.link.answered(NotebookAnswer(request_id=payload["request_id"], ok=True, answer=said))

    def heard(self) -> list[str]:
        return [str(payload["ask"]) for payload in self.asked]


class Now:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def pages(now: Now) -> PageNotebooks:
    return PageNotebooks(now)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path.resolve() / "work" / "a.ipynb"
    found.parent.mkdir()
    found.touch()
    return found


def has(path: Path) -> PageHas:
    return PageHas(path="work/a.ipynb", root=str(path.parent.parent))


async def open_in(pages: PageNotebooks, path: Path, *there: Page) -> OpenNotebook:
    for page in there:
        await pages.has_opened(page.link, has(path))
    found = await pages.opened(path)
    assert found is not None
    return found


async def test_a_notebook_is_read_in_its_page_part_by_part(pages: PageNotebooks, path: Path) -> None:
    page = Page(*(markdown(f"c{number}", f"{number}") for number in range(5)))

    notebook = await (await open_in(pages, path, page)).read()

    assert [cell.source for cell in notebook.cells] == ["0", "1", "2", "3", "4"]
    assert [payload.get("first") for payload in page.asked] == [0, 2, 4]
    assert {str(payload["path"]) for payload in page.asked} == {"work/a.ipynb"}


async def test_an_edit_is_made_in_the_page_and_what_it_notes_is_passed_on(pages: PageNotebooks, path: Path) -> None:
    page = Page(markdown("a", "x"))
    page.answers["edit"] = {"notes": ["It is not saved yet."]}

    done = await (await open_in(pages, path, page)).edit(EDIT)

    assert done.notes == ("It is not saved yet.",)
    assert page.asked[0]["edit"] == {
        "does": "replace",
        "cell_id": "a",
        "kind": "markdown",
        "was": "x",
        "source": "y",
        "made_from": [],
    }


@pytest.mark.parametrize(
    ("said", "error", "why"),
    [
        (PageError(code="changed", message="The cell a has changed."), CellChanged, "The cell a has changed"),
        (PageError(code="busy", message="Somebody is in it."), DocumentBusy, "Somebody is in it"),
        (PageError(code="failed", message=""), DocumentBusy, "could not do it"),
        ({"other": 1}, DocumentSilent, "not understood"),
    ],
)
async def test_what_a_page_refuses_was_not_done_and_what_is_not_understood_may_have_been(
    pages: PageNotebooks, path: Path, said: Any, error: type[OzzieError], why: str
) -> None:
    page = Page(markdown("a", "x"))
    page.answers["edit"] = said

    with pytest.raises(error, match=why):
        await (await open_in(pages, path, page)).edit(EDIT)


async def test_a_page_that_says_nothing_leaves_an_edit_in_doubt_and_a_look_undone(
    pages: PageNotebooks, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_notebooks, "ANSWER_S", 0.01)
    page = Page(markdown("a", "x"))
    page.answers = {"edit": None, "read": None}
    notebook = await open_in(pages, path, page)

    with pytest.raises(DocumentSilent, match="did not answer"):
        await notebook.edit(EDIT)
    with pytest.raises(DocumentBusy, match="Try again, or close the notebook there"):
        await notebook.read()


async def test_of_a_page_that_goes_in_the_middle_nothing_is_waited_for(pages: PageNotebooks, path: Path) -> None:
    page = Page(markdown("a", "x"))
    page.answers["edit"] = None
    notebook = await open_in(pages, path, page)
    editing = asyncio.ensure_future(notebook.edit(EDIT))
    await page.is_asked.wait()

    pages.has_gone(page.link, on_purpose=False)

    with pytest.raises(DocumentSilent):
        await editing


async def test_of_two_pages_the_one_with_text_of_its_own_is_edited_and_the_other_takes_it_up(
    pages: PageNotebooks, path: Path
) -> None:
    clean, typing = Page(markdown("a", "x")), Page(markdown("a", "x"), dirty=True)

    await (await open_in(pages, path, clean, typing)).edit(EDIT)

    assert (clean.heard(), typing.heard()) == (["state", "reload"], ["state", "edit"])


async def test_of_two_pages_with_text_of_their_own_none_is_edited(pages: PageNotebooks, path: Path) -> None:
    one, silent = Page(dirty=True), Page()
    silent.answers["state"] = PageError(code="failed", message="")

    with pytest.raises(DocumentBusy, match="open in two pages, both with text that is not saved"):
        await open_in(pages, path, one, silent)


async def test_what_no_page_has_open_is_for_the_file(pages: PageNotebooks, path: Path) -> None:
    page = Page()
    await open_in(pages, path, page)

    await pages.has_closed(page.link, has(path))
    closed = await pages.opened(path)
    await open_in(pages, path, page)
    pages.has_gone(page.link, on_purpose=True)

    assert closed is None
    assert await pages.opened(path) is None
    assert await pages.opened(path.parent / "b.ipynb") is None


async def test_a_page_whose_connection_broke_is_waited_for_and_its_file_left_alone(
    pages: PageNotebooks, path: Path, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page()
    await open_in(pages, path, page)
    pages.has_gone(page.link, on_purpose=False)

    waiting = asyncio.ensure_future(pages.opened(path))
    await asyncio.sleep(0)
    await pages.has_opened(page.link, has(path))
    assert await waiting is not None

    monkeypatch.setattr(page_notebooks, "WAIT_S", 0.01)
    pages.has_gone(page.link, on_purpose=False)
    with pytest.raises(DocumentBusy, match="lost its connection a moment ago"):
        await pages.opened(path)
    now.seconds += GONE_S
    assert await pages.opened(path) is None


async def test_what_was_open_before_a_restart_is_awaited_until_its_page_is_back(
    path: Path, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_notebooks, "WAIT_S", 0.01)
    noted = path.parent / "open-notebooks.json"
    first = PageNotebooks(now)
    first.remember_in(noted)
    page = Page()
    await open_in(first, path, page)
    first.has_gone(page.link, on_purpose=False)  # as the server closes its connections

    second = PageNotebooks(now)
    second.remember_in(noted)
    with pytest.raises(DocumentBusy, match="lost its connection a moment ago"):
        await second.opened(path)
    await open_in(second, path, page)
    await second.has_closed(page.link, has(path))

    third = PageNotebooks(now)
    third.remember_in(noted)
    assert await third.opened(path) is None
    assert noted.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("noted", ["", "{", '{"a": 1}', "[1, null]", "\0"])
async def test_a_note_that_is_none_is_none(pages: PageNotebooks, path: Path, noted: str) -> None:
    file = path.parent / "open-notebooks.json"
    file.write_text(noted)

    pages.remember_in(file)

    assert await pages.opened(path) is None


async def test_a_page_says_where_its_server_is_and_another_one_of_that_path_is_not_meant(
    pages: PageNotebooks, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(path.parents[1]))
    page = Page()

    await pages.has_opened(page.link, PageHas(path="work/a.ipynb", root=str(tmp_path / "elsewhere")))
    assert await pages.opened(path) is None
    await pages.has_opened(page.link, PageHas(path="a.ipynb", root="~/work"))
    assert await pages.opened(path) is not None
    await pages.has_opened(page.link, PageHas(path="a.ipynb", root="~nobody-of-that-name/x\0"))


async def test_a_page_that_never_comes_to_an_end_is_left(pages: PageNotebooks, path: Path) -> None:
    page = Page()
    page.answers["read"] = {"cells": [], "count": 7}

    with pytest.raises(DocumentBusy, match="does not come to an end"):
        await (await open_in(pages, path, page)).read()
