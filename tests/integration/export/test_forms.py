"""A session as a notebook, a document, a page and lines: what stands in them, and that nothing in them acts."""

import json
import re
from html.parser import HTMLParser
from typing import Any, get_args

import nbconvert
import nbformat
import pytest

from ozzie_server_ext.domain.errors import Gone, NotFound
from ozzie_server_ext.domain.exports import Form
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.export.proof import PROOF
from ozzie_server_ext.render.markdown_source import is_inert
from ozzie_server_ext.render.static import TURN_MIME
from tests.hostile.samples import NAMES, render_sample
from tests.integration.export.recorded import AGAIN, FORK, SESSION, Home, answered
from tests.unit.render.test_hostile import assert_inert_source


def outputs(cell: dict[str, Any]) -> str:
    return "\n".join(output["data"].get("text/markdown", "") for output in cell["outputs"])


async def test_a_notebook_has_a_cell_for_each_message_with_what_came_of_it(home: Home) -> None:
    await home.tell()

    notebook = await home.notebook()
    nbformat.validate(notebook)
    head, *cells = notebook["cells"]

    assert notebook["metadata"]["kernelspec"]["name"] == "ozzie"
    assert "ozzie" not in notebook["metadata"], "a kernel would go on in the session"
    assert head["source"].startswith("# Notebook\n")
    assert "Messages: 6" in head["source"]
    assert [cell["source"] for cell in cells] == [
        "What is 6 * 7?",
        "Write a.md",
        "Go on",
        "And hurry",
        "Fail",
        "What is 6 * 7?",
    ]
    assert [cell["execution_count"] for cell in cells] == [1, 2, 3, 4, 5, 6]
    assert outputs(cells[0]).startswith("Ana, 2026-01-01 00:01 UTC")
    assert "It is **42**." in outputs(cells[0])
    assert "| approval |" in outputs(cells[1])
    assert re.search(r"approved once by Ana, \d\d:\d\d", outputs(cells[1]))
    assert "`write_file`" in outputs(cells[1])
    assert outputs(cells[3]) == "Ben, 2026-01-01 00:03 UTC, to the turn above."
    assert "**Failed.** No key. Give one." in outputs(cells[4])


async def test_nbconvert_shows_it_whole(home: Home) -> None:
    await home.tell()

    page, _ = nbconvert.HTMLExporter().from_notebook_node(nbformat.reads(await home.text(), as_version=4))

    for text in ("What is 6 * 7?", "<strong>42</strong>", "approved once by Ana", "And hurry", "No key. Give one."):
        assert text in page


async def test_a_turn_that_still_runs_is_exported_as_that_and_has_nothing_that_looks_for_its_rest(home: Home) -> None:
    await home.begin()
    await home.say("Wait", ends=False)

    cell = (await home.notebook())["cells"][1]

    assert "This turn was still running" in outputs(cell)
    assert not any(TURN_MIME in output["data"] for output in cell["outputs"])


async def test_markdown_and_page_show_the_same(home: Home) -> None:
    await home.tell()

    markdown, page = await home.text("md"), await home.text("html")

    for text in (markdown, page):
        assert "Written. größer 学习" in text
        assert re.search(r"approved once by Ana, \d\d:\d\d", text)
        assert (
            text.index("Go on") < text.index("Ben, 2026-01-01 00:03 UTC, to the turn above") < text.index("And hurry")
        )
        assert text.count("Ana, 2026-01-01") == 5
    assert "## Ana, 2026-01-01 00:01 UTC\n\n> What is 6 \\* 7?\n" in markdown


async def test_lines_are_the_events_of_the_session(home: Home) -> None:
    await home.tell()
    await home.begin(FORK)
    await home.say("Elsewhere", session_id=FORK)

    *lines, proof = [json.loads(line) for line in (await home.text("jsonl")).splitlines()]

    assert list(proof) == [PROOF]
    assert {line["session_id"] for line in lines} == {SESSION}
    assert lines[0]["type"] == "session.created"
    assert [line["position"] for line in lines] == sorted(line["position"] for line in lines)
    assert "What is 6 * 7?" in [line["payload"].get("text") for line in lines]


async def test_a_fork_begins_with_what_it_shares(home: Home) -> None:
    await home.begin()
    await home.say("one")
    await home.fork(SESSION, FORK)
    await home.say("two, not shared")
    await home.say("three", session_id=FORK)
    await home.fork(FORK, AGAIN)
    await home.say("four, not shared", session_id=FORK)
    await home.say("five", session_id=AGAIN)

    notebook = await home.notebook(AGAIN)

    assert [cell["source"] for cell in notebook["cells"][1:]] == ["one", "three", "five"]
    assert f"Forked from: {FORK}" in notebook["cells"][0]["source"].replace("\\_", "_")
    assert home.check(notebook, log=True).ok


async def test_what_was_erased_is_said_to_be(home: Home) -> None:
    await home.begin()
    await home.say("one")
    erased = await home.say("the planted words", *answered("1", "the planted answer"))
    await home.say("three")
    await home.fork(SESSION, FORK)
    await home.say("four", session_id=FORK)
    await home.erase(erased)

    for form in get_args(Form):
        assert "planted" not in await home.text(form)
    cells = (await home.notebook())["cells"]
    assert [cell["source"] for cell in cells[1:]] == [
        "one",
        "*A message and its turn were erased on 2026-01-01 by ana.*",
        "three",
    ]

    await home.erase()
    assert [cell["source"] for cell in (await home.notebook(FORK))["cells"][1:]] == [
        "*The session that this one was forked from was erased on 2026-01-01.*",
        "four",
    ]
    with pytest.raises(Gone):
        await home.text()
    with pytest.raises(NotFound):
        await home.text(session_id=SessionId("sess_01ZZZZZZZZZZZZZZZZZZZZZZZZ"))


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


async def test_nothing_of_a_hostile_session_acts_or_loads(home: Home) -> None:
    samples = [render_sample(name, "http://127.0.0.1:9/").encode("utf-8", "replace").decode() for name in NAMES]
    await home.begin()
    for number, sample in enumerate(samples):
        await home.say(sample, *answered(str(number), sample))

    for cell in (await home.notebook())["cells"]:
        assert is_inert(cell["source"]) or cell["cell_type"] == "code"
        for output in cell.get("outputs", []):
            assert set(output["data"]) <= {TURN_MIME, "text/markdown", "text/plain"}
            assert_inert_source(output["data"]["text/markdown"])
    assert_inert_source(await home.text("md"))
    page = Tags()
    page.feed(await home.text("html"))
    assert not page.tags & {"script", "iframe", "img", "object", "embed", "form", "link", "base", "video", "audio"}
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "srcset")]
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes
