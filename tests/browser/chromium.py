"""The machine's own Chromium, with a fresh profile."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import BrowserContext, async_playwright, expect

MISSING = "There is no Chromium for the browser tests. On Debian or Ubuntu:\napt-get install -y chromium"
SHOWN_MS = 45_000
"""How long a page has to show what is expected of it."""
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


def find_chromium() -> str | None:
    return shutil.which("chromium")


@asynccontextmanager
async def open_chromium(executable: str, profile: Path) -> AsyncIterator[BrowserContext]:
    """A Chromium without a window; all its pages share the cache of `profile`."""
    expect.set_options(timeout=SHOWN_MS)
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            profile, executable_path=executable, args=ARGUMENTS, viewport={"width": 1280, "height": 900}
        )
        yield context
        await context.close()
