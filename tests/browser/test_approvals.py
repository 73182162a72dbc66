"""An approval in its cell and in the sidebar, answered while the cell runs."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Locator, expect

from tests.browser.lab_server import Lab, lab_home, serve_lab
from tests.browser.notebook_page import NotebookPage
from tests.browser.run_skills import write
from tests.browser.screenshots import screenshot
from tests.browser.sidebar import Sidebar
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, ToolCall
from tests.integration.gateway.asked import DEPLOY, HIDDEN_COMMAND

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NewNotebook = Callable[..., NotebookPage]


def wants(name: str, lines: int = 2) -> str:
    """A message by which the offline script writes a file, which asks."""
    return f"Write a {lines}-line note to notes/{name}"


def card(it: NotebookPage, index: int) -> Locator:
    """The card below the cell, wherever it stands with its approval."""
    return it.output(index).locator(".jp-Ozzie-approval")


async def armed(found: Locator) -> None:
    """A card does nothing for half a second after it came."""
    await expect(found).to_have_attribute("data-armed", "true")


async def press(found: Locator, name: str) -> None:
    """Click a button of a card until the click counts: whatever is above the card may move it once more. A button that
    was pressed says "Sending…" at once, or is gone."""
    button = found.get_by_role("button", name=name, exact=True)
    for _ in range(20):
        await armed(found)
        await button.click()
        try:
            await expect(button).to_have_count(0, timeout=1_000)
        except AssertionError:
            continue
        return
    raise AssertionError(f"{name} was clicked in vain")


async def reject(found: Locator, why: str = "") -> None:
    """Open the line for a comment, click until that counts, and send it."""
    line = found.get_by_role("textbox")
    for _ in range(20):
        await armed(found)
        await found.get_by_role("button", name="Reject…").click()
        try:
            await expect(line).to_be_visible(timeout=1_000)
        except AssertionError:
            continue
        break
    await line.fill(why)
    await line.press("Enter")


async def asked(it: NotebookPage, index: int) -> Locator:
    """The card of a cell, once it takes answers."""
    found = card(it, index)
    await armed(found)
    return found


@pytest.fixture(autouse=True)
def notes(lab: Lab) -> None:
    lab.path("notes").mkdir(exist_ok=True)


async def test_a_yes_in_the_cell_lets_the_turn_go_on_while_the_cell_runs(notebook: NewNotebook, lab: Lab) -> None:
    it = notebook(wants("first.md"))
    await it.open()
    await it.begin(0)
    found = await asked(it, 0)
    await expect(found).to_contain_text("Write a new file, notes/first.md, of 2 lines?")
    await expect(found).to_contain_text("Ozzie asks because it changes something of yours.")
    await expect(it.live(0).locator(".oz-status b")).to_have_text("Waiting for you")
    await expect(it.live(0).get_by_text("ozzie approvals approve").first).to_be_hidden()
    await expect(it.output(0).get_by_role("button", name="Approve once", exact=True)).to_have_count(1)
    await screenshot(it.page, "approval-in-cell")

    await press(found, "Approve once")

    await it.ended(0)
    await expect(it.final(0)).to_contain_text("approved once by")
    assert lab.path("notes/first.md").read_text().startswith("Line 1 of 2")
    await screenshot(it.page, "approval-granted")


@pytest.mark.soak
async def test_a_reload_brings_the_card_back_and_the_kernel_going_does_not_take_it(
    notebook: NewNotebook, lab: Lab
) -> None:
    it = notebook(wants("reloaded.md"))
    await it.open()
    await it.begin(0)
    await asked(it, 0)
    await it.save()

    await it.open()
    await asked(it, 0)
    await screenshot(it.page, "approval-after-reload")
    await it.kill_kernel()
    found = await asked(it, 0)
    await press(found, "Approve once")

    await expect(it.final(0)).to_contain_text("approved once by")
    assert lab.path("notes/reloaded.md").exists()


@pytest.mark.soak
async def test_the_first_answer_counts_and_every_other_page_says_whose_it_was(
    notebook: NewNotebook, lab: Lab, browser: BrowserContext
) -> None:
    it = notebook(wants("twice.md"))
    await it.open()
    await it.save()
    await it.begin(0)
    first = await asked(it, 0)
    other = NotebookPage(lab, await browser.new_page(), it.name)
    await other.open(workspace="the-other-page")
    second = await asked(other, 0)
    await screenshot(other.page, "approval-second-page")

    await reject(second, "not that file")

    await it.ended(0)
    await expect(it.final(0)).to_contain_text("Rejected by")
    await expect(first).to_have_count(0)
    await expect(other.final(0)).to_contain_text("Rejected by")
    assert not lab.path("notes/twice.md").exists()
    sidebar = Sidebar(it.page)
    await sidebar.open()
    await expect(sidebar.root.locator(".jp-Ozzie-needs")).to_contain_text('"not that file"')
    await screenshot(it.page, "approval-rejected")
    await other.page.close()


@pytest.mark.soak
async def test_a_terminal_answers_what_a_cell_asks(notebook: NewNotebook, lab: Lab) -> None:
    it = notebook(wants("terminal.md"))
    await it.open()
    await it.begin(0)
    found = await asked(it, 0)
    approval_id = await found.get_attribute("data-approval-id")
    assert approval_id

    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "ozzie_server_ext.cli.main", "approvals", "approve", approval_id, "--session"],
        env=lab.home.env,
        cwd=lab.home.project,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    await it.ended(0)
    await expect(it.final(0)).to_contain_text("approved for the session by")


@pytest.mark.soak
async def test_keys_answer_in_the_card_and_nowhere_else(notebook: NewNotebook, lab: Lab) -> None:
    it = notebook(wants("keys.md"), "still here")
    await it.open()
    await it.begin(0)
    found = await asked(it, 0)
    await it.page.locator(".jp-Notebook").press("s")
    await expect(found).to_have_attribute("data-armed", "true")

    await found.get_by_role("button", name="Approve once").focus()
    await it.page.keyboard.press("s")

    await it.ended(0)
    await expect(it.final(0)).to_contain_text("approved for the session by")
    assert await it.page.locator(".jp-Notebook .jp-Cell").count() == 2, "Lab's own keys did nothing"


@pytest.mark.soak
async def test_the_sidebar_has_what_all_sessions_ask(notebook: NewNotebook, lab: Lab) -> None:
    it = notebook(wants("sidebar.md", lines=4))
    await it.open()
    await it.begin(0)
    await asked(it, 0)
    sidebar = Sidebar(it.page)
    await sidebar.open()
    row = sidebar.root.locator(".jp-Ozzie-needs > li").filter(has_text="notes/sidebar.md")
    if await row.locator(".jp-Ozzie-need").count():  # it opens by itself where it is the only one
        await row.locator(".jp-Ozzie-need").click()
    needs = row.locator(".jp-Ozzie-approval")
    await expect(needs).to_contain_text("Write a new file, notes/sidebar.md, of 4 lines?")
    await armed(needs)
    await screenshot(it.page, "approval-sidebar")

    await press(needs, "Approve once")

    await it.ended(0)
    await expect(it.final(0)).to_contain_text("approved once by")
    assert lab.path("notes/sidebar.md").exists()


@pytest.mark.soak
async def test_plain_buttons_answer_where_the_page_has_no_cards(
    browser: BrowserContext, provider: FakeOpenAI, tmp_path: Path
) -> None:
    home = lab_home(tmp_path / "bare", provider.url, {})
    settings = Path(home.env["JUPYTER_CONFIG_DIR"]) / "labconfig" / "page_config.json"
    found = json.loads(settings.read_text())
    found["disabledExtensions"]["@ozzie/labextension"] = True
    settings.write_text(json.dumps(found))
    page = await browser.new_page()
    with serve_lab(home) as (lab, _):
        lab.path("notes").mkdir()
        lab.write("bare.ipynb", [wants("plain.md")])
        it = NotebookPage(lab, page, "bare.ipynb")
        await it.open()
        await it.begin(0)
        await expect(it.live(0)).to_contain_text("Write a new file, notes/plain.md, of 2 lines?")
        await expect(it.live(0)).to_contain_text("ozzie approvals approve")
        once = it.output(0).get_by_role("button", name="Approve once", exact=True)
        await expect(once).to_be_visible()
        await screenshot(page, "approval-plain-buttons")
        await once.click()
        await it.ended(0)
        await expect(it.final(0)).to_contain_text("approved once by")
        assert lab.path("notes/plain.md").exists()
        await page.close()


@pytest.mark.soak
async def test_what_was_taken_out_of_a_question_is_read_on_its_card_alone(notebook: NewNotebook, lab: Lab) -> None:
    write(lab, DEPLOY)
    it = notebook("%run deploy")
    await it.open()
    await it.begin(0)
    found = await asked(it, 0)
    await expect(found.locator(".jp-Ozzie-proofText").first).to_contain_text(HIDDEN_COMMAND)
    await expect(found).to_contain_text("Something in it looks like a secret.")
    await found.get_by_text("Arguments, rule and key").click()
    await expect(found.locator(".jp-Ozzie-arguments")).to_contain_text(HIDDEN_COMMAND)
    await screenshot(it.page, "approval-redacted")
    await it.save()
    assert HIDDEN_COMMAND not in lab.path(it.name).read_text()

    await press(found, "Approve once")

    await it.ended(0)
    assert lab.path("run.sh").read_text() == f"{HIDDEN_COMMAND}\n"
    await it.save()
    assert HIDDEN_COMMAND not in lab.path(it.name).read_text()


@pytest.mark.soak
@pytest.mark.parametrize("way", ["together", "one by one"])
async def test_calls_of_the_same_tool_stand_on_one_card(
    notebook: NewNotebook, lab: Lab, provider: FakeOpenAI, way: str
) -> None:
    names = [f"{way.replace(' ', '-')}-{day}.md" for day in ("mon", "tue", "wed")]
    writes = [ToolCall("write_file", {"path": f"notes/{name}", "text": f"# {name}\n"}) for name in names]
    provider.queue(Answer(tool_calls=writes), Answer(pieces=["Three notes."]))
    it = notebook("%model scripted", "A note for each of the three days.")
    await it.open()
    await it.run(0)
    await it.begin(1)
    found = await asked(it, 1)
    await expect(found).to_have_count(1)
    await expect(found.get_by_role("listitem")).to_have_count(3)
    for name in names:
        await expect(found).to_contain_text(f"notes/{name}")
    await screenshot(it.page, "approval-alike")

    if way == "together":
        await press(found, "Approve these 3")
        await it.ended(1)
        assert all(lab.path(f"notes/{name}").exists() for name in names)
    else:
        await found.get_by_role("button", name="One by one").click()
        await expect(card(it, 1)).to_have_count(3)
        await screenshot(it.page, "approval-alike-apart")
        await reject(card(it, 1).nth(1), "Not on that day.")
        await press(card(it, 1).filter(has_text=names[0]), "Approve once")
        await press(card(it, 1).filter(has_text=names[2]), "Approve once")
        await it.ended(1)
        assert [lab.path(f"notes/{name}").exists() for name in names] == [True, False, True]
    await expect(it.final(1)).to_contain_text("Three notes.")
    assert len(provider.requests) == 2, "the model did not have to ask again"


@pytest.mark.soak
async def test_a_folder_is_not_asked_for_again_once_the_card_was_told_so(notebook: NewNotebook, lab: Lab) -> None:
    it = notebook("Write a 2-line note to diary/mon.md", "Write a 2-line note to diary/tue.md")
    lab.path("diary").mkdir(exist_ok=True)
    await it.open()
    await it.begin(0)
    found = await asked(it, 0)
    await found.get_by_role("button", name="Don’t ask again…").click()
    await expect(found).to_contain_text("From now on, write_file and edit_file in diary/ run without asking")
    await screenshot(it.page, "approval-standing")

    await press(found, "Approve, and don’t ask again")
    await it.ended(0)
    await expect(it.final(0)).to_contain_text("approved from now on by")
    await it.run(1)

    assert lab.path("diary/tue.md").exists()
    assert '"standing.diary"' in (lab.home.home / "standing.jsonc").read_text()
