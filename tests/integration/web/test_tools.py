"""`fetch_url` and `web_search` as a model calls them: through the gate, over the real process, from real servers."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.ids import ArtifactId
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.embedding import open_gate
from ozzie_server_ext.embedding.gate import Gate
from ozzie_server_ext.observability.clock import FakeClock
from ozzie_server_ext.policy.decision import Reading, plain_address
from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry
from ozzie_server_ext.web.port import NoWeb, Web
from ozzie_server_ext.web.reach import DuckDuckGo, ErrandWeb
from tests.fakes.web_server import FakeWeb, answer, leads
from tests.unit.programs.test_web_hits import result, results_page, through
from tests.unit.tools.test_base import carried_out

REGISTRY = ToolRegistry(builtin_tools())


@pytest.fixture
def web(servers: FakeWeb) -> ErrandWeb:
    return ErrandWeb(engine=DuckDuckGo(servers.url("/html/")), allowance=servers.allowance())


@pytest.fixture
async def gate(web: ErrandWeb, tmp_path: Path) -> AsyncIterator[Gate]:
    async with open_gate(web=web, project=tmp_path) as gate:
        gate.add(*builtin_tools())
        yield gate


async def given(web: Web, name: str, *, typed: str = "", **args: Any) -> ToolResult:
    """What a call gives. `typed` is an address that the user gave."""
    tool = REGISTRY.find(name)
    assert tool is not None
    reading = Reading(typed=frozenset(filter(None, [plain_address(typed)])))
    return await carried_out(tool, args, ToolContext(Path("/"), FakeClock(), web=web, reading=reading))


async def test_a_page_is_told_with_what_a_rule_wants_to_know_of_it(servers: FakeWeb, web: ErrandWeb) -> None:
    servers.pages |= {
        "/": leads(servers.secure("/b", "www.site.example")),
        "/b": answer("<title>T</title><p>Hello <a href='/c'>there</a>"),
    }

    got = await given(web, "fetch_url", url=servers.url())

    there = servers.secure("/c", "www.site.example")
    assert got.data == {
        "url": servers.secure("/b", "www.site.example"),
        "status": 200,
        "type": "text/html",
        "title": "T",
        "cut": False,
        "text": f"Hello [there]({there})",
    }
    assert got.content == Content(labels=("web",), sources=("web:site.example", "web:www.site.example"))
    here = servers.secure("/b", "www.site.example")
    assert (got.links, got.summary, got.made) == ((here, there), "47 bytes", ())


async def test_of_a_redirect_to_another_host_the_model_hears_where_it_leads(servers: FakeWeb, web: ErrandWeb) -> None:
    servers.pages["/"] = leads(servers.url("/x", "other.example"))

    got = await given(web, "fetch_url", url=servers.url())

    assert isinstance(got.data, dict)
    assert (got.data["leads_to"], got.links) == (servers.url("/x", "other.example"), ())
    assert "separately" in str(got.data["note"])
    assert got.content == Content(labels=("web",), sources=("web:site.example",))


async def test_a_redirect_to_another_host_is_followed_where_somebody_gave_the_address(
    servers: FakeWeb, web: ErrandWeb
) -> None:
    servers.pages |= {"/": leads(servers.url("/x", "other.example")), "/x": answer("<p>there")}
    given_by_a_page = Reading(has_read=True, linked=frozenset({servers.url()}))
    tool = REGISTRY.find("fetch_url")
    assert tool is not None

    context = ToolContext(Path("/"), FakeClock(), web=web, reading=given_by_a_page)
    got = await carried_out(tool, {"url": servers.url()}, context)

    assert isinstance(got.data, dict)
    assert got.data["text"] == "there"
    assert got.content == Content(labels=("web",), sources=("web:other.example", "web:site.example"))


async def test_an_address_that_was_given_is_followed_over_hosts_up_to_a_bound(servers: FakeWeb, web: ErrandWeb) -> None:
    servers.pages |= {"/": leads(servers.url("/x", "other.example")), "/x": answer("<title>T</title><p>There.")}
    servers.pages["/loop"] = leads(servers.url("/pool", "other.example"))
    servers.pages["/pool"] = leads(servers.url("/loop"))

    got = await given(web, "fetch_url", url=servers.url(), typed=servers.url())

    assert isinstance(got.data, dict)
    assert got.data["title"] == "T"
    assert got.content == Content(labels=("web",), sources=("web:other.example", "web:site.example"))
    with pytest.raises(ToolFailed, match="redirects over more than 4 hosts"):
        await given(web, "fetch_url", url=servers.url("/loop"), typed=servers.url("/loop"))


@pytest.mark.parametrize("to", ["http://ignore-all-rules.example/", "http://inside.example/"])
async def test_where_somebody_else_leads_stands_in_no_error(servers: FakeWeb, to: str) -> None:
    """People read an error as Ozzie's own words, so a page must not speak through it."""
    servers.pages["/"] = leads(to)
    web = ErrandWeb(allowance=servers.allowance(inside_example=[["192.168.1.1"]]))

    with pytest.raises(ToolFailed, match="a page on another host that can't be fetched") as failed:
        await given(web, "fetch_url", url=servers.url(), typed=servers.url())

    assert ".example" not in str(failed.value)


async def test_a_search_brings_the_engines_label_and_its_hits_are_links(servers: FakeWeb, web: ErrandWeb) -> None:
    page = results_page(result("A", through("https://a.example/"), "s"), result("B", through("https://b.example/")))
    servers.pages["/html/?q=words"] = answer(page.body)

    got = await given(web, "web_search", query="words")

    assert got.data == {
        "engine": "DuckDuckGo",
        "query": "words",
        "results": [
            {"title": "A", "url": "https://a.example/", "snippet": "s"},
            {"title": "B", "url": "https://b.example/", "snippet": ""},
        ],
    }
    assert (got.links, got.summary) == (("https://a.example/", "https://b.example/"), "2 results")
    assert got.content == Content(labels=("web",), sources=("web:site.example",))


async def test_a_long_page_is_kept_and_read_on_page_by_page(servers: FakeWeb, gate: Gate) -> None:
    servers.pages["/long?x=1"] = answer("".join(f"<p>Paragraph {number}.</p>" for number in range(3000)))

    done = await gate.call("fetch_url", {"url": servers.url("/long?x=1"), "max_characters": 600})

    data: Any = done.data
    (kept,) = data["kept"]
    assert (done.status, data["text"]["cut"]) == ("done", True)
    assert kept["name"].startswith(f"web/site.example:{servers.port}/long-")
    assert kept["head"].startswith("Paragraph 0.\n\nParagraph 1.")
    assert kept["tail"].endswith("Paragraph 2999.")
    assert len(kept["head"]) + len(kept["tail"]) <= 600
    read = await gate.call("read_artifact", {"artifact_id": kept["artifact_id"], "first_line": 2001})
    page: Any = read.data
    assert page["text"].startswith("Paragraph 1000.")
    artifact, _ = await gate.artifacts.of(gate.session_id).open(ArtifactId(kept["artifact_id"]))
    assert (artifact.kind, artifact.mime) == ("markdown", "text/markdown")


async def test_the_largest_page_that_is_told_at_once_stays_whole(servers: FakeWeb, gate: Gate) -> None:
    servers.pages["/"] = answer('"\\\n' * 13_000, "text/plain")

    done = await gate.call("fetch_url", {"url": servers.url(), "max_characters": 40_000})

    data: Any = done.data
    assert data["text"] == '"\\\n' * 13_000


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        ("/none", "web.status", "site.example answered 404 Not Found. Check the address"),
        ("/pdf", "web.type", "a PDF of 5 bytes. Only text"),
    ],
)
async def test_what_fails_says_why_and_what_to_do_next(
    servers: FakeWeb, gate: Gate, path: str, code: str, says: str
) -> None:
    servers.pages["/pdf"] = answer(b"%PDF-", "application/pdf")

    done = await gate.call("fetch_url", {"url": servers.url(path)})

    assert done.status == "failed"
    assert (done.code, says in done.message) == (code, True)


async def test_a_rule_decides_by_the_host(servers: FakeWeb, gate: Gate) -> None:
    gate.set_policy(
        """{"rules": [{"id": "none-of-theirs", "decision": "deny", "reason": "Not theirs.",
        "when": {"hosts": ["site.example"]},
        "examples": {"match": [{"tool": "fetch_url", "args": {"url": "https://site.example/"}}]}}]}"""
    )
    servers.pages["/"] = answer("<p>x")

    done = await gate.call("fetch_url", {"url": servers.url("/", "other.example")})
    denied = await gate.call("fetch_url", {"url": servers.url()})

    assert (denied.status, done.status) == ("failed", "done")
    assert (denied.code, "not theirs" in denied.message) == ("policy.denied", True)
    assert [asked.headers["host"] for asked in servers.asked] == [f"other.example:{servers.port}"]


@pytest.mark.parametrize(
    ("name", "args"), [("fetch_url", {"url": "https://a.example/"}), ("web_search", {"query": "x"})]
)
async def test_where_there_is_no_web_that_is_said(name: str, args: dict[str, str]) -> None:
    with pytest.raises(ToolFailed, match=r"can't be reached from here. Continue without it") as failed:
        await given(NoWeb(), name, **args)

    assert failed.value.code == "web.unavailable"
