"""A turn as a person sees it: a cell of a real notebook, in a real JupyterLab, in a real browser."""

import asyncio
import json
from collections.abc import Callable

import pytest
from playwright.async_api import expect

from ozzie_server_ext.render.static import TURN_MIME
from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import screenshot
from tests.browser.test_approvals import asked, press, reject
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall, pieces_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook = Callable[..., NotebookPage]
ERROR_OUTPUT = ".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']"


async def test_a_cell_streams_and_ends_as_static_markdown(notebook: NewNotebook) -> None:
    it = notebook("%model paced-100-150-40", "Count.")
    await it.open()
    await it.run(0)

    await it.begin(1)
    await expect(it.live(1).locator(".oz-status b")).to_have_text("Working")
    text = it.live(1).locator(".oz-md")
    seen: list[str] = []
    for word in ("w1 ", "w10 ", "w20 "):
        await expect(text).to_contain_text(word)
        seen.append(await text.inner_text())
    await screenshot(it.page, "turn-streaming")
    await it.ended(1)

    assert len(seen[0]) < len(seen[1]) < len(seen[2])
    assert "w39" not in seen[2], "the text came all at once"
    await expect(it.final(1)).to_contain_text("w39")
    await expect(it.final(1)).to_contain_text("Ozzie: Done")
    await expect(it.output(1).locator(".jupyter-widgets, .oz")).to_have_count(0)


@pytest.mark.soak
async def test_the_state_line_is_there_before_the_model_has_said_anything(notebook: NewNotebook) -> None:
    it = notebook("%model silence", "Anybody there?")
    await it.open()
    await it.run(0)

    await it.begin(1)
    await expect(it.live(1).locator(".oz-status b")).to_have_text("Working")
    await expect(it.live(1).locator(".oz-model")).to_have_text("silence")

    await expect(it.live(1).locator(".oz-md")).to_have_count(0)
    await it.command("notebook:interrupt-kernel")
    await it.ended(1)


@pytest.mark.soak
async def test_a_tool_row_is_shown_while_the_turn_works_and_a_table_at_its_end(
    notebook: NewNotebook, lab: Lab, provider: FakeOpenAI
) -> None:
    provider.queue(
        Answer(pieces=["I will ", "calculate."], tool_calls=[ToolCall("calculator", {"expr": "17.5/100*2480"})]),
        Answer(pieces=pieces_of("That is **434**."), first_s=1.0, gap_s=0.1),
    )
    it = notebook("%model scripted", "What is 17.5 % of 2,480?")
    await it.open()
    await it.run(0)

    await it.begin(1)
    row = it.live(1).locator(".oz-row")
    await expect(row).to_contain_text("calculator")
    await expect(row).to_contain_text("17.5/100*2480")
    await expect(it.live(1).locator(".oz-status b")).to_have_text("Working")
    await screenshot(it.page, "turn-tool-row")
    await it.ended(1)

    await expect(it.final(1).locator("summary")).to_contain_text("1 step: calculator")
    await it.final(1).locator("summary").click()
    await expect(it.final(1).locator("details td").first).to_have_text("calculator")
    await expect(it.final(1).locator("strong")).to_have_text("434")
    await screenshot(it.page, "turn-tool-table")
    await it.save()
    _expect_only_the_static_form(lab, it.name, at=1)


def _expect_only_the_static_form(lab: Lab, name: str, *, at: int) -> None:
    saved = lab.saved(name)
    (output,) = saved["cells"][at]["outputs"]
    assert output["output_type"] == "display_data"
    assert set(output["data"]) == {TURN_MIME, "text/markdown", "text/plain"}
    assert "widgets" not in saved["metadata"]
    assert "Traceback" not in json.dumps(saved)


@pytest.mark.parametrize("way", ["button", pytest.param("keys", marks=pytest.mark.soak)])
async def test_a_stop_keeps_the_text_and_the_next_cell_works(
    notebook: NewNotebook, provider: FakeOpenAI, way: str
) -> None:
    it = notebook("%model endless", "Go on for ever.", "%model echo", "Still there?")
    await it.open()
    await it.run(0)
    await it.begin(1)
    await expect(it.live(1).locator(".oz-md")).to_contain_text("1 2 3 4 5 ")

    if way == "button":
        await it.page.locator(".jp-NotebookPanel-toolbar [data-jp-item-name='interrupt']").click()
    else:
        await it.cell(1).locator(".jp-InputPrompt").click()
        await it.page.keyboard.press("i")
        await it.page.keyboard.press("i")
    await it.ended(1)

    await expect(it.final(1)).to_contain_text("1 2 3 4 5 ")
    await expect(it.final(1)).to_contain_text("Stopped here by you.")
    await expect(it.output(1).locator(ERROR_OUTPUT)).to_have_count(0)
    await screenshot(it.page, f"turn-stopped-by-{way}")
    await asyncio.to_thread(provider.wait_for, lambda fake: "endless" in fake.disconnects)
    await it.run(2)
    await it.run(3)
    await expect(it.final(3)).to_contain_text("Still there?")


@pytest.mark.soak
async def test_a_refused_key_is_a_sentence_and_no_traceback(notebook: NewNotebook, lab: Lab) -> None:
    it = notebook("%model status-401", "Hello.")
    await it.open()
    await it.run(0)

    await it.run(1)

    await expect(it.final(1)).to_contain_text('The model provider refused the key for "status-401".')
    await expect(it.final(1)).to_contain_text("Your message is kept.")
    await expect(it.output(1).locator(ERROR_OUTPUT)).to_have_count(0)
    await it.save()
    _expect_only_the_static_form(lab, it.name, at=1)


@pytest.mark.soak
async def test_the_first_notebook_runs_from_top_to_bottom_without_a_key(lab: Lab, notebook: NewNotebook) -> None:
    it = notebook()
    lab.path(it.name).write_bytes(lab.path("01_first_turn.ipynb").read_bytes())
    cells = lab.saved(it.name)["cells"]
    at = {cell["id"]: index for index, cell in enumerate(cells)}
    await it.open()

    running = asyncio.create_task(it.command("notebook:run-all-cells"))

    await expect(it.final(at["hello"])).to_contain_text("not a language model")
    await expect(it.final(at["calculator"])).to_contain_text("434")
    await expect(it.final(at["rows"])).to_contain_text("48 rows")
    await press(await asked(it, at["note"]), "Approve once")
    await expect(it.final(at["note"])).to_contain_text("approved once by")
    assert lab.path("notes/hello.md").read_text().count("\n") == 2
    again = await asked(it, at["again"])
    await expect(again).to_contain_text("For this session: write_file in notes/")
    await screenshot(it.page, "first-notebook-again")
    await reject(again, "Two lines are enough.")
    await expect(it.final(at["again"])).to_contain_text("Two lines are enough.")
    assert lab.path("notes/hello.md").read_text().count("\n") == 2
    of_step = await asked(it, at["facts"])
    await expect(of_step).to_contain_text("Approval needed by step")
    await screenshot(it.page, "first-notebook-facts")
    await press(of_step, "Approve once")
    await expect(it.output(at["facts"]).locator(".jp-RenderedSVG")).to_be_visible()
    assert "tea" in lab.path("notes/three-facts.md").read_text().lower()
    await running
    await expect(it.output(at["model"])).to_contain_text("%model")
    await expect(it.page.locator(ERROR_OUTPUT)).to_have_count(0)
    await expect(it.page.locator(".jp-OutputArea .oz")).to_have_count(0)
