"""Ozzie's sidebar in a page of JupyterLab."""

from playwright.async_api import Locator, Page


class Sidebar:
    """The tab "Ozzie" on the left. `open` brings it to the front."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.root = page.locator("#jp-ozzie-sidebar")

    async def open(self) -> None:
        if not await self.root.is_visible():
            await self.page.evaluate("window.jupyterapp.commands.execute('ozzie:show-tasks')")

    @property
    def banner(self) -> Locator:
        return self.root.locator(".jp-Ozzie-banner")

    @property
    def tasks(self) -> Locator:
        return self.root.get_by_role("treeitem")

    def task(self, title: str) -> Locator:
        return self.tasks.filter(has_text=title)

    async def stop(self, title: str) -> None:
        """Press the button that a running task shows under the mouse."""
        await self.task(title).hover()
        await self.task(title).get_by_role("button").click()
