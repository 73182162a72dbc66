"""Searching the web: what is asked of the engine, and what becomes of its answers."""

import pytest

from ozzie_server_ext.domain.errors import InputError, OzzieError
from ozzie_server_ext.web.port import Challenged, Hit, NotAnswered, NotFetchable
from ozzie_server_ext.web.reach import DuckDuckGo, ErrandWeb
from tests.fakes.web_server import FakeWeb, answer, leads
from tests.unit.programs.test_web_hits import result, results_page, through

FOUND = results_page(*(result(f"Title {n}", through(f"https://found.example/{n}"), "words") for n in range(30))).body


def searching(servers: FakeWeb) -> ErrandWeb:
    return ErrandWeb(engine=DuckDuckGo(servers.secure("/html/")), allowance=servers.allowance())


async def test_a_query_is_asked_as_a_browser_asks_it(servers: FakeWeb) -> None:
    servers.pages["/html/?q=a%26b+%C3%BC+%22c%22"] = answer(FOUND)

    got = await searching(servers).search('a&b ü "c"', 2)

    assert (got.engine, got.hosts) == ("DuckDuckGo", ("site.example",))
    assert got.hits == (
        Hit(title="Title 0", url="https://found.example/0", snippet="words"),
        Hit(title="Title 1", url="https://found.example/1", snippet="words"),
    )


async def test_there_are_at_most_twenty(servers: FakeWeb) -> None:
    servers.pages["/html/?q=x"] = answer(FOUND)

    assert [len((await searching(servers).search("x", most)).hits) for most in (20, 99)] == [20, 20]


async def test_nothing_found_is_a_result(servers: FakeWeb) -> None:
    servers.pages["/html/?q=x"] = answer('<div class="no-results">No results.</div>')

    assert (await searching(servers).search("x", 5)).hits == ()


@pytest.mark.parametrize(
    ("page", "kind", "code"),
    [
        (answer('<form id="challenge-form">', status="202 Accepted"), Challenged, "web.challenged"),
        (answer("new", status="200 OK"), NotAnswered, "web.changed"),
        (answer("", status="200 OK"), NotAnswered, "web.changed"),
        (answer("", status="403 Forbidden"), Challenged, "web.challenged"),
        (answer("", status="429 Too Many Requests"), Challenged, "web.challenged"),
        (answer("", status="500 Oh"), NotAnswered, "web.status"),
        (leads("https://other.example/"), NotFetchable, "web.refused"),
        (answer(b"%PDF-1.7", "application/pdf"), NotFetchable, "web.type"),
    ],
)
async def test_each_way_to_fail_has_its_own_words(
    servers: FakeWeb, page: bytes, kind: type[OzzieError], code: str
) -> None:
    servers.pages["/html/?q=x"] = page.replace(b"https://other.example/", b"http://127.0.0.2/")

    with pytest.raises(kind) as failed:
        await searching(servers).search("x", 5)

    assert (failed.value.code, bool(failed.value.hint)) == (code, True)


async def test_a_redirect_to_another_host_is_a_changed_page(servers: FakeWeb) -> None:
    servers.pages["/html/?q=x"] = leads(servers.secure("/y", "other.example"))

    with pytest.raises(NotAnswered) as failed:
        await searching(servers).search("x", 5)

    assert (failed.value.code, len(servers.asked)) == ("web.changed", 1)


@pytest.mark.parametrize("query", ["", "  \n", "x" * 401])
async def test_a_query_that_is_none_is_refused_and_nobody_is_asked(servers: FakeWeb, query: str) -> None:
    with pytest.raises(InputError):
        await searching(servers).search(query, 5)

    assert servers.asked == []
