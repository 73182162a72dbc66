"""One notebook in one page of JupyterLab: running its cells and finding what they show."""

import psutil
from playwright.async_api import Locator, Page

from tests.browser.chromium import SHOWN_MS
from tests.browser.lab_server import Lab
from tests.rig import JUPYTER_TOKEN

READY_MS = 40_000

# A page says "idle" before its connection to the kernel carries messages: wait for Lab's own word.
_READY = """async () => {
    const panel = window.jupyterapp.shell.currentWidget;
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session?.kernel?.info;
}"""
_OPENED = "() => window.jupyterapp?.shell?.currentWidget?.context?.isReady ?? false"
_RUN = """index => {
    const panel = window.jupyterapp.shell.currentWidget;
    panel.content.activeCellIndex = index;
    panel.content.deselectAll();
    (window.testRuns ??= {})[index] = window.jupyterapp.commands.execute('notebook:run-cell');
}"""
_OUTLINED = """index => {
    const cell = window.jupyterapp.shell.currentWidget?.content?.widgets?.[index];
    return (cell?.headings ?? []).length > 0;
}"""
_KERNEL = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"
_COMMAND = "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => undefined)"


class NotebookPage:
    """A notebook that is open in `page`. Cells are counted from 0."""

    def __init__(self, lab: Lab, page: Page, name: str) -> None:
        self.lab = lab
        self.page = page
        self.name = name

    async def open(self, *, workspace: str = "") -> None:
        """Load Lab with nothing but this notebook; returns when its kernel takes cells."""
        stem = workspace or self.name.removesuffix(".ipynb")
        address = f"{self.lab.url}lab/workspaces/{stem}/tree/{self.name}?reset&token={JUPYTER_TOKEN}"
        await self.page.goto(address)
        await self.is_ready()

    async def is_ready(self) -> None:
        """Wait until the notebook's kernel takes cells."""
        await self.page.wait_for_function(_OPENED, timeout=READY_MS)
        await self.page.evaluate(_READY)

    async def begin(self, index: int) -> None:
        """Run a cell and go on while it runs."""
        await self.page.evaluate(_RUN, index)

    async def ended(self, index: int) -> None:
        """Returns when the cell that was begun has come to its end."""
        await self.page.evaluate("index => window.testRuns[index].then(() => undefined)", index)

    async def outlined(self, index: int) -> None:
        """Returns when Lab has read the cell's output for its table of contents; there must be a heading in it.

        Lab does so 200 ms after the notebook's last change, whether the table is shown or not, and for HTML in an
        element of its own: what loads there is asked for once more.
        """
        await self.page.wait_for_function(_OUTLINED, arg=index, timeout=SHOWN_MS)

    async def run(self, index: int) -> None:
        await self.begin(index)
        await self.ended(index)

    async def command(self, name: str, **args: str) -> None:
        """One of Lab's commands, to its end."""
        await self.page.evaluate(_COMMAND, [name, args])

    async def save(self) -> None:
        await self.command("docmanager:save")

    async def kill_kernel(self) -> None:
        """Kill the notebook's kernel, and read what Lab says of that."""
        kernel = await self.page.evaluate(_KERNEL)
        (process,) = (
            found
            for found in psutil.Process(self.lab.handshake.pid).children()
            if any(kernel in argument for argument in found.cmdline())
        )
        process.kill()
        await self.page.locator(".jp-Dialog").get_by_role("button", name="Ok", exact=True).click()

    def cell(self, index: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Locator:
        """All that stands below the cell's input."""
        return self.cell(index).locator(".jp-Cell-outputArea")

    def live(self, index: int) -> Locator:
        """The widget of a turn that runs."""
        return self.output(index).locator(".oz")

    def final(self, index: int) -> Locator:
        """The static form of a turn that has ended."""
        return self.output(index).locator(".jp-RenderedMarkdown[data-mime-type='text/markdown']")
