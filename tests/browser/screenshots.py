"""Pictures of what a test has on its page, for a person to look at; they lie beside the tests and are not kept."""

from pathlib import Path

from playwright.async_api import Page

ARTIFACTS = Path(__file__).parent / "artifacts"


async def screenshot(page: Page, name: str) -> None:
    """Write what `page` shows now to artifacts/`name`.png."""
    ARTIFACTS.mkdir(exist_ok=True)
    await page.screenshot(path=ARTIFACTS / f"{name}.png")
