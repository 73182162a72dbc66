"""Draw the pictures of the README and docs/providers.md anew: `python -m tests.browser.pictures docs/images`."""

import argparse
import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from playwright.async_api import BrowserContext, expect

from tests.browser.chromium import MISSING, find_chromium, open_chromium
from tests.browser.lab_server import Lab, start_lab
from tests.browser.notebook_page import NotebookPage
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.provider_server import FakeProvider
from tests.fakes.providers import all_providers
from tests.fakes.replies import Answer, ToolCall, pieces_of

WIDTH = 1100
THEMES = {"JupyterLab Light": "", "JupyterLab Dark": "-dark"}
QUESTION = "Which region slipped most in October? Use @data/sales.csv and the calculator."
ANSWER = """**South** slipped most: its revenue fell by 13,818, or 28 %. East fell too; the other two grew.

| Region | September | October | Change |
|---|---:|---:|---:|
| North | 18,354 | 22,860 | +25 % |
| South | 48,888 | 35,070 | −28 % |
| East | 36,285 | 30,680 | −15 % |
| West | 26,433 | 44,770 | +69 % |

South sold 54 units fewer in October, and each for less: `35070/334` is 105 a unit, after 126 in September.
"""
CONVERSATION = (
    Answer(
        pieces=pieces_of("I will read the table, then compare the two months."),
        tool_calls=[ToolCall("read_file", {"path": "data/sales.csv"})],
        usage=(412, 38),
    ),
    Answer(tool_calls=[ToolCall("calculator", {"expr": "48888-35070"})], usage=(1240, 27), first_s=0.8),
    Answer(pieces=pieces_of(ANSWER), first_s=1.0, gap_s=0.08, usage=(1289, 164)),
)
# What the README says for each wire format, and where the environment may name the provider's address.
CONNECTING = {
    "anthropic": ("%model anthropic/claude-sonnet-4-6", "ANTHROPIC_BASE_URL"),
    "openai": ("%model openai/gpt-4o-mini", "OPENAI_BASE_URL"),
    "gemini": ("%model gemini/gemini-2.5-flash", "GEMINI_API_BASE"),
    "ollama": ("%model ollama/llama3.2", "OLLAMA_HOST"),
}
FIRST_QUESTION = "How much is 17.5 % of 2,480? Use the calculator."
FIRST_ANSWER = (
    Answer(tool_calls=[ToolCall("calculator", {"expr": "17.5/100*2480"})], usage=(398, 21)),
    Answer(pieces=pieces_of("17.5 % of 2,480 is **434**."), usage=(441, 15)),
)


async def draw(folder: Path) -> None:
    """A cell while it streams and when it is done, in Lab's light and dark themes; a first turn with each provider."""
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit(MISSING)
    with (
        tempfile.TemporaryDirectory() as scratch,
        FakeOpenAI() as provider,
        all_providers() as providers,
        start_lab(Path(scratch, "lab"), provider.url, {"main": "scripted"}, env=_keys(providers)) as lab,
    ):
        async with open_chromium(chromium, Path(scratch, "profile")) as browser:
            for theme, suffix in THEMES.items():
                await _draw(browser, lab, provider, theme=theme, folder=folder, suffix=suffix)
            for name, fake in providers.items():
                await _draw_first_turn(browser, lab, fake, name=name, folder=folder)


def _keys(providers: Mapping[str, FakeProvider]) -> dict[str, str]:
    """What the environment says where these providers' keys are set; they stand at other addresses."""
    keys = {f"{name.upper()}_API_KEY": "a-key-of-the-pictures" for name in providers if name != "ollama"}
    return keys | {CONNECTING[name][1]: fake.base_url for name, fake in providers.items()}


async def _draw(
    browser: BrowserContext, lab: Lab, provider: FakeOpenAI, *, theme: str, folder: Path, suffix: str
) -> None:
    page = await browser.new_page()
    await page.set_viewport_size({"width": WIDTH, "height": 900})
    lab.write(f"sales{suffix}.ipynb", ["%model main", "Hello.", QUESTION, ""])
    it = NotebookPage(lab, page, f"sales{suffix}.ipynb")
    await it.open()
    await it.command("apputils:change-theme", theme=theme)
    await it.command("application:toggle-left-area")
    # The first turn of all waits for the model worker to start, which is not what the pictures are about.
    for first in range(2):
        await it.run(first)
    for _ in range(2):
        await page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
        await it.command("notebook:delete-cell")
    provider.queue(*CONVERSATION)
    await it.begin(0)
    await page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1")
    await expect(it.live(0)).to_contain_text("30,680")
    await _picture(it, folder / f"cell-streaming{suffix}.png")
    await it.ended(0)
    await it.final(0).locator("summary").click()
    await page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1")
    await _picture(it, folder / f"cell-done{suffix}.png")
    await page.close()
    lab.end_kernels()


async def _draw_first_turn(
    browser: BrowserContext, lab: Lab, provider: FakeProvider, *, name: str, folder: Path
) -> None:
    connect, _ = CONNECTING[name]
    page = await browser.new_page()
    await page.set_viewport_size({"width": WIDTH, "height": 900})
    # A turn before, because the worker loads a provider's code with its first call.
    for notebook, cells in (("before", [connect, "Hello."]), ("first", [connect, FIRST_QUESTION, ""])):
        lab.write(f"{notebook}-{name}.ipynb", cells)
        it = NotebookPage(lab, page, f"{notebook}-{name}.ipynb")
        await it.open()
        await it.run(0)
        if notebook == "first":
            provider.queue(*FIRST_ANSWER)
        await it.run(1)
    await it.command("apputils:change-theme", theme=next(iter(THEMES)))
    await it.command("application:toggle-left-area")
    await it.final(1).locator("summary").click()
    await page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2")
    await _picture(it, folder / f"first-turn-{name}.png", last=1)
    await page.close()
    lab.end_kernels()


async def _picture(it: NotebookPage, path: Path, *, last: int = 0) -> None:
    """The notebook from its toolbar to the end of the cell `last`."""
    panel = await it.page.locator(".jp-NotebookPanel").bounding_box()
    cell = await it.cell(last).bounding_box()
    assert panel is not None
    assert cell is not None
    height = cell["y"] + cell["height"] - 2 - panel["y"]
    await it.page.screenshot(path=path, clip={**panel, "height": height})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(draw(folder))


if __name__ == "__main__":
    main()
