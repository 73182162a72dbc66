"""One JupyterLab and one Chromium for all browser tests; each test has a page and a notebook of its own."""

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page

from tests.browser.chromium import MISSING, find_chromium, open_chromium
from tests.browser.lab_server import Lab, start_lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.fakes.openai_server import FakeOpenAI

MODELS = ("echo", "tools", "endless", "silence", "status-401", "paced-100-150-40", "scripted", "eyes")
"""What the fake provider does with a request follows from the model's name."""

_REPORT = pytest.StashKey[pytest.TestReport]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.when == "call":
        item.stash[_REPORT] = report
    return report


# Package scope: nothing of this runs on beside the tests that come after.


@pytest.fixture(scope="package")
def chromium() -> str:
    """The browser's path. Without one the tests skip, or fail where OZZIE_REQUIRE_BROWSER is set."""
    found = find_chromium()
    if found is None:
        (pytest.fail if os.environ.get("OZZIE_REQUIRE_BROWSER") else pytest.skip)(MISSING)
    return found


@pytest.fixture(scope="package")
def provider() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture(scope="package")
def lab(chromium: str, provider: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with start_lab(tmp_path_factory.mktemp("lab"), provider.url, {name: name for name in MODELS}) as running:
        yield running


# Playwright's synchronous interface keeps an event loop running in this thread, in which no other asynchronous test
# could run; so the asynchronous one, on the session's loop.


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BrowserContext]:
    """A Chromium with a fresh profile."""
    async with open_chromium(chromium, tmp_path_factory.mktemp("profile")) as context:
        yield context


@pytest.fixture
def strangers() -> list[str]:
    """Whom the page called besides Lab, by address. A test that means it empties the list."""
    return []


@pytest_asyncio.fixture(loop_scope="session")
async def page(
    browser: BrowserContext, lab: Lab, provider: FakeOpenAI, strangers: list[str], request: pytest.FixtureRequest
) -> AsyncIterator[Page]:
    """A new page, which may call nobody but Lab; where its test fails, a picture of it is kept."""
    provider.forget()
    page = await browser.new_page()
    page.on("request", lambda sent: None if _is_known(lab, sent.url) else strangers.append(sent.url))
    yield page
    report = request.node.stash.get(_REPORT, None)
    if report is None or report.failed:
        await screenshot(page, request.node.name)
    await page.close()
    lab.end_kernels()
    assert strangers == []


def _is_known(lab: Lab, url: str) -> bool:
    return url.startswith((lab.url, "data:", "blob:"))


@pytest.fixture
def notebook(lab: Lab, page: Page, request: pytest.FixtureRequest) -> Callable[..., NotebookPage]:
    """Writes a notebook with these cells, named after the test, and gives its page, which is yet to be opened."""

    def write(*sources: str) -> NotebookPage:
        name = re.sub(r"\W+", "-", request.node.name).strip("-") + ".ipynb"
        lab.write(name, sources)
        return NotebookPage(lab, page, name)

    return write
