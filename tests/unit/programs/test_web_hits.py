"""DuckDuckGo's page, read: results, nothing, a challenge, and a page that is another one than it was."""

from urllib.parse import quote

import pytest

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.programs.web_pages import duckduckgo
from ozzie_server_ext.programs.web_text import Downloaded
from ozzie_server_ext.web.port import Challenged, Hit, NotAnswered


def downloaded(body: bytes, status: int = 200, *, leads_to: str = "") -> Downloaded:
    return Downloaded(
        url="https://html.duckduckgo.com/html/?q=x",
        status=status,
        hosts=(),
        type="text/html",
        charset="utf-8",
        body=body,
        leads_to=leads_to,
    )


def result(title: str, href: str, snippet: str = "", *, more: str = "") -> str:
    """One result in the shape of the page's."""
    return f"""
    <div class="result results_links results_links_deep web-result {more}">
      <div class="links_main links_deep result__body">
        <h2 class="result__title"><a rel="nofollow" class="result__a" href="{href}">{title}</a></h2>
        <div class="result__extras"><a class="result__url" href="{href}"> shown.example </a></div>
        <a class="result__snippet" href="{href}">{snippet}</a>
      </div>
    </div>"""


def through(url: str) -> str:
    return f"//duckduckgo.com/l/?uddg={quote(url, safe='')}&amp;rut=0123abcd"


def results_page(*results: str) -> Downloaded:
    return downloaded(f'<html><body><div id="links" class="results">{"".join(results)}</div></body></html>'.encode())


def hits(got: Downloaded) -> tuple[Hit, ...]:
    return duckduckgo(got, "DuckDuckGo")


def refused(got: Downloaded) -> OzzieError:
    with pytest.raises(OzzieError) as failed:
        hits(got)
    assert failed.value.hint
    return failed.value


def test_results_come_with_title_address_and_snippet() -> None:
    got = results_page(
        result("First &amp; <b>best</b>", through("https://one.example/a?b=c&d=ü#e"), "Some <b>bold</b>\n words"),
        result("Second", through("http://two.example/")),
        result("Straight", "https://three.example/x"),
    )

    assert hits(got) == (
        Hit(title="First & best", url="https://one.example/a?b=c&d=%C3%BC", snippet="Some bold words"),
        Hit(title="Second", url="http://two.example/"),
        Hit(title="Straight", url="https://three.example/x"),
    )


def test_advertisements_and_what_is_no_address_are_left_out() -> None:
    way = "https://duckduckgo.com/y.js?ad_domain=shop.example&amp;u3=x"
    got = results_page(
        result("Ad", way),
        result("Ad", through("https://shop.example/"), more="result--ad"),
        result("Ad", through("https://duckduckgo.com/y.js?ad_domain=a")),
        result("Script", through("javascript:alert(1)")),
        result("Inside", through("http://2130706433/")),
        result("User", through("http://a@b.example/")),
        result("", through("https://untitled.example/")),
        result("Real", through("https://real.example/")),
        result("Again", through("https://real.example/")),
        '<div class="result">nothing</div>',
    )

    assert hits(got) == (Hit(title="Real", url="https://real.example/"),)


def test_what_nobody_sees_is_taken_out_and_what_is_long_is_cut() -> None:
    got = results_page(result("a\u200bb\u202e" + "c" * 500, through("https://one.example/"), "d\u2066" * 1000))

    (hit,) = hits(got)

    assert (hit.title, len(hit.snippet)) == ("ab" + "c" * 198, 500)
    assert set(hit.snippet) == {"d"}


@pytest.mark.parametrize(
    "page",
    [
        '<div class="no-results">No results found for x</div>',
        '<div class="result result--no-result"><div class="no-results">No results.</div></div>',
    ],
)
def test_nothing_found_is_a_result(page: str) -> None:
    assert hits(downloaded(page.encode())) == ()


@pytest.mark.parametrize(
    "got",
    [
        downloaded(b'<form id="challenge-form" action="//duckduckgo.com/anomaly.js?x" method="POST"></form>', 202),
        downloaded(b'<div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div>'),
        downloaded(b"<p>Please wait", 202),
    ],
)
def test_a_page_that_asks_for_a_person_is_told_as_that(got: Downloaded) -> None:
    failed = refused(got)

    assert isinstance(failed, Challenged)
    assert str(failed) == "DuckDuckGo refuses for now: it wants to know whether a person is searching."
    assert "in some minutes" in failed.hint


@pytest.mark.parametrize(
    "got",
    [
        downloaded(b""),
        downloaded(b"<html><body><p>Welcome to the new DuckDuckGo</p></body></html>"),
        downloaded(b'<ol class="react-results"><li><a href="https://a.example/">x</a></ol>'),
        downloaded(b"", 302, leads_to="https://elsewhere.example/"),
    ],
)
def test_a_page_that_is_not_what_it_was_is_told_as_that(got: Downloaded) -> None:
    failed = refused(got)

    assert isinstance(failed, NotAnswered)
    assert failed.code == "web.changed"
