"""Sixty replies that would run code or call home, in freshly run cells of a real Lab."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import nbconvert
import pytest
from playwright.async_api import BrowserContext, Page, expect

from ozzie_server_ext.render.static import TURN_MIME
from tests.browser.canary import Canary
from tests.browser.chromium import SHOWN_MS
from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall, pieces_of
from tests.hostile.samples import BROWSER_TWELVE, NAMES, render_sample

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

NewNotebook = Callable[..., NotebookPage]
WATCH = Path(__file__).parent / "watch_outputs.js"
A_TURN = 20
"""Replies of one turn: each asks for a tool, so that the turn goes on with the next."""
LAST_WORD = "That was the last of them."
TURNS = [NAMES[start : start + A_TURN] for start in range(0, len(NAMES), A_TURN)]


@pytest.fixture
def canary() -> Iterator[Canary]:
    with Canary() as server:
        yield server


@pytest.mark.soak
async def test_no_hostile_reply_runs_or_calls_anybody(
    notebook: NewNotebook, lab: Lab, provider: FakeOpenAI, canary: Canary, page: Page, browser: BrowserContext
) -> None:
    await page.add_init_script(path=WATCH)
    await page.set_viewport_size({"width": 1280, "height": 4000})
    it = notebook("%model scripted", *(f"Show {', '.join(names)}." for names in TURNS))
    await it.open()
    await it.run(0)

    for index, names in enumerate(TURNS, start=1):
        provider.queue(*_replies(names, canary.url))
        await it.run(index)
        await expect(it.final(index)).to_contain_text(LAST_WORD)
        await it.outlined(index)
        await _expect_nothing_happened(page, canary)
    assert (await page.evaluate("window.watched()"))["parts"] >= A_TURN, "the replies were not seen live"

    await it.save()
    for index, names in enumerate(TURNS, start=1):
        assert _texts(lab, it.name, index) == len(names) + 1
    await _expect_nothing_happens_when_opened_again(it, canary, at=len(TURNS))

    exported = await asyncio.to_thread(_as_html, lab, it.name)
    reader = await browser.new_page()
    await reader.route(lambda url: not url.startswith(("file:", canary.url)), lambda route: route.abort())
    await reader.goto(exported.as_uri())
    await expect(reader.get_by_text(LAST_WORD).first).to_be_visible()
    assert await reader.evaluate("window.__pwned") is None
    assert canary.calls == []
    await reader.close()


@pytest.mark.soak
async def test_no_hostile_reply_that_stands_alone_runs_or_calls_anybody(
    notebook: NewNotebook, lab: Lab, provider: FakeOpenAI, canary: Canary, page: Page
) -> None:
    """With nothing after it that would close what it has opened."""
    await page.add_init_script(path=WATCH)
    await page.set_viewport_size({"width": 1280, "height": 4000})
    it = notebook("%model scripted", *(f"Show {name}." for name in BROWSER_TWELVE))
    await it.open()
    await it.run(0)

    for index, name in enumerate(BROWSER_TWELVE, start=1):
        provider.queue(Answer(pieces=["## Shown\n\n", *pieces_of(render_sample(name, canary.url))], gap_s=0.02))
        await it.run(index)
        await expect(it.final(index)).to_contain_text("Ozzie: Done")
        await it.outlined(index)
        await _expect_nothing_happened(page, canary)
    assert (await page.evaluate("window.watched()"))["turns"] == len(BROWSER_TWELVE)

    await it.save()
    await _expect_nothing_happens_when_opened_again(it, canary, at=len(BROWSER_TWELVE))


@pytest.mark.soak
async def test_the_watch_and_the_canary_notice_what_the_users_own_code_shows(
    notebook: NewNotebook, canary: Canary, page: Page, strangers: list[str]
) -> None:
    """What the tests above stand on: this page runs what is put into it, and nothing hides that."""
    await page.add_init_script(path=WATCH)
    shown = f'<h2>Shown</h2><img src="{canary.url}/picture" onerror="window.__pwned=1">'
    it = notebook(f"%%python\nfrom IPython.display import HTML, display\ndisplay(HTML({shown!r}))")
    await it.open()

    await it.run(0)

    await page.wait_for_function("window.__pwned === 1", timeout=SHOWN_MS)
    assert (await page.evaluate("window.watched()"))["found"] == ["<img>", "onerror of <img>"]
    await it.outlined(0)
    await asyncio.to_thread(canary.wait_for_calls, 2)
    assert canary.calls == ["GET /picture"] * 2, "once for the output, once for the table of contents"
    assert strangers == [f"{canary.url}/picture"] * 2
    strangers.clear()


def _replies(names: tuple[str, ...], canary_url: str) -> list[Answer]:
    hostile = [
        Answer(
            pieces=pieces_of(render_sample(name, canary_url)),
            gap_s=0.005,
            tool_calls=[ToolCall("calculator", {"expr": f"{number}+1"})],
        )
        for number, name in enumerate(names)
    ]
    return [*hostile, Answer(pieces=["## The end\n\n", LAST_WORD], first_s=0.3)]


async def _expect_nothing_happened(page: Page, canary: Canary) -> None:
    assert await page.evaluate("window.__pwned") is None
    assert (await page.evaluate("window.watched()"))["found"] == []
    assert canary.calls == []


async def _expect_nothing_happens_when_opened_again(it: NotebookPage, canary: Canary, *, at: int) -> None:
    for again in ("once", "twice"):
        await it.open(workspace=f"opened-{again}")
        await expect(it.final(at)).to_contain_text("Ozzie: Done")
        await it.outlined(at)
        await _expect_nothing_happened(it.page, canary)


def _texts(lab: Lab, name: str, at: int) -> int:
    (output,) = lab.saved(name)["cells"][at]["outputs"]
    return sum(part["type"] == "text" for part in output["data"][TURN_MIME]["parts"])


def _as_html(lab: Lab, name: str) -> Path:
    body, _ = nbconvert.HTMLExporter().from_filename(str(lab.path(name)))
    path = lab.home.home.parent / f"{name}.html"
    path.write_text(body)
    return path
