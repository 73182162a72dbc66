"""Pages as a model reads them: what people see, and nothing that is hidden from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.programs import web_pages
from ozzie_server_ext.programs.web_pages import ReadPage, page_of
from ozzie_server_ext.web.port import MAX_LINKS

URL = "https://example.org/docs/page?x=1"


def page(html: str) -> ReadPage:
    return page_of(html, URL)


def markdown(html: str) -> str:
    return page(html).markdown


def test_headings_lists_tables_code_and_quotes_become_markdown() -> None:
    text = markdown(
        "<h1>One</h1><h2>Two</h2><p>Some <em>soft</em> and <strong>hard</strong> words, a_b * c.</p>"
        "<ul><li>a</li><li>b<ol><li>c</li><li>d</li></ol></li></ul>"
        "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>"
        "<pre><code>x = [1]\n  y</code></pre><blockquote>said</blockquote><hr>"
    )

    assert text == (
        "# One\n\n## Two\n\nSome *soft* and **hard** words, a_b * c.\n\n- a\n- b\n  1. c\n  2. d\n\n"
        "| A | B |\n| --- | --- |\n| 1 | 2 |\n\n```\nx = [1]\n  y\n```\n\n> said\n\n---"
    )


def test_ends_that_an_author_left_out_are_added() -> None:
    text = markdown(
        "<head><title>T</title><body><p>one<p hidden>HIDDEN<p>two<ul><li>a<li>b<ul><li>c</ul><li>d</ul>"
        "<table><tr><td>1<td>2<tr><td>3<td>4</table><dl><dt>x<dd>y<dt>z</dl>"
    )

    assert text.startswith("one\n\ntwo\n\n- a\n- b\n  - c\n- d\n\n|  |  |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |\n\nx\n")
    assert "HIDDEN" not in text


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>SECRET</script>",
        "<style>SECRET</style>",
        "<template><p>SECRET</p></template>",
        "<noscript>SECRET</noscript>",
        "<iframe>SECRET</iframe>",
        "<object>SECRET</object>",
        "<svg><text>SECRET</text><title>SECRET</title></svg>",
        "<math><annotation>SECRET</annotation></math>",
        "<textarea>SECRET</textarea>",
        "<button>SECRET</button>",
        "<select><option>SECRET</select>",
        "<input value=SECRET>",
        "<audio>SECRET</audio><video>SECRET</video><canvas>SECRET</canvas>",
        "<dialog>SECRET</dialog>",
        "<!-- SECRET -->",
        "<!SECRET>",
        "<?php SECRET ?>",
        "<![CDATA[SECRET]]>",
        "<p hidden>SECRET</p>",
        "<p hidden=until-found>SECRET</p>",
        "<p HIDDEN=''><b>SECRET</b></p>",
        "<p aria-hidden=true>SECRET</p>",
        "<p aria-hidden=' TRUE '>SECRET</p>",
        "<p style='display:none'>SECRET</p>",
        "<p style='color:red;DISPLAY : None !important'>SECRET</p>",
        "<p style='display:/* x */none'>SECRET</p>",
        "<p style='d\\69 splay:n\\6fne'>SECRET</p>",
        "<p style='visibility:hidden'>SECRET</p>",
        "<p style='visibility: collapse;'>SECRET</p>",
        "<p style='font-size:0'>SECRET</p>",
        "<p style='font-size:0.0px'>SECRET</p>",
        "<p style='font-size: 1px'>SECRET</p>",
        "<p style='font-size:.01em'>SECRET</p>",
        "<p style='opacity:0'>SECRET</p>",
        "<p style='opacity:.01'>SECRET</p>",
        "<p style='opacity:0%'>SECRET</p>",
        "<p style='color:transparent'>SECRET</p>",
        "<div style='display:none'><div><p>SECRET <a href='/SECRET'>SECRET</a></p></div></div>",
        "<a href='/x' title=SECRET></a>",
        "<img alt='' title=SECRET src=SECRET.png>",
        "<p data-text=SECRET aria-label=SECRET title=SECRET></p>",
        "<meta name=description content=SECRET>",
        "<a href='javascript:SECRET()'></a>",
        "<noframes>SECRET</noframes><noembed>SECRET</noembed>",
    ],
)
def test_what_nobody_sees_is_not_told(hidden: str) -> None:
    got = page(f"<body><p>before</p>{hidden}<p>after</p></body>")

    assert "SECRET" not in f"{got.markdown}{got.title}{got.links}"
    assert got.markdown.split() == ["before", "after"]


def test_hidden_text_is_not_told_however_deep_it_is() -> None:
    deep = "<div>" * 400 + "seen <p style='display:none'>SECRET</p>" + "</div>" * 400

    assert markdown(deep) == "seen"


def test_what_is_only_small_or_pale_is_told() -> None:
    text = markdown("<p style='font-size:11px;opacity:.6;visibility:visible;display:block'>small print</p>")

    assert text == "small print"


def test_characters_that_nobody_sees_are_taken_out() -> None:
    """Zero-width, bidi, tag characters, variation selectors, controls; also as references."""
    tags = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")

    text = markdown(
        f"<p>a\u200bb\u202ec\u2066d\ufe0fe{tags}f&#x200b;g&#8238;h&zwnj;i&#1;j\u00adk\u3164l</p><pre>m\u200bn</pre>"
    )

    assert text == "abcdefghijkl\n\n```\nmn\n```"


def test_pictures_are_words_and_never_fetched() -> None:
    text = markdown(
        "<p>See <img src='https://evil.example/?leak=1' alt='a [red] cat'>, "
        "![typed](https://evil.example/b.png)! <a href='/c'><img src=x alt=logo></a> Wow!<a href='/d'>d</a></p>"
        "<td><img src=x alt=cell></td>"
    )

    assert "![" not in text
    assert "evil.example/?leak" not in text
    assert "[image: a (red) cat]" in text
    assert "[[image: logo]](https://example.org/c)" in text
    assert "[image: cell]" in text
    assert "Wow! [d](https://example.org/d)" in text


def test_the_main_part_of_a_page_is_told_alone_where_it_holds_most_of_the_text() -> None:
    around = "<header>HEAD <nav>NAV</nav></header>%s<aside>ASIDE</aside><footer>FOOT</footer>"
    long = "words " * 50

    with_title = markdown(around % f"<main><header>Title</header>{long}</main><p>beside</p>")
    assert with_title == "Title\n\n" + long.strip()
    assert markdown(around % f"<article>{long}</article><article>short</article>") == long.strip()
    assert markdown(around % f"<div role=main>{long}</div>") == long.strip()
    assert markdown(around % f"<main>little</main><div>{long}</div>").split() == ["little", *long.split()]
    assert markdown(around % f"<div>{long}</div>") == long.strip()
    assert markdown(around % "").split() == ["HEAD", "NAV", "ASIDE", "FOOT"]


def test_links_come_in_their_order_each_once_absolute_and_without_fragment() -> None:
    got = page(
        "<nav><a href='/home'>h</a></nav><main>" + "words " * 20 + "<a href='next#a'>n</a><a href='next#b'>m</a>"
        "<a href='//other.example/x'>o</a><a href='#top'>t</a><a href='mailto:a@b.c'>m</a><a href='javascript:x'>j</a>"
        "<a href='http://u:p@evil.example/'>u</a><a name=x>no</a><a hidden href='/hidden'>h</a></main>"
    )

    assert got.links == ("https://example.org/home", "https://example.org/docs/next", "https://other.example/x")
    assert "[n](https://example.org/docs/next)[m](https://example.org/docs/next)" in got.markdown
    assert "javascript" not in got.markdown
    assert "evil" not in got.markdown


def test_a_base_counts_for_links() -> None:
    assert page("<base href='/other/'><a href='x'>x</a>").links == ("https://example.org/other/x",)
    assert page("<base href='javascript:x'><a href='x'>x</a>").links == ("https://example.org/docs/x",)


def test_there_are_only_so_many_links_and_none_that_carries_much() -> None:
    got = page("".join(f"<a href='/{number}'>x</a>" for number in range(300)) + f"<a href='/{'y' * 600}'>y</a>")

    assert len(got.links) == MAX_LINKS
    assert "yyy" not in got.markdown


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<title> A &amp;\n B\u200b </title>", "A & B"),
        ("<svg><title>no</title></svg><title>yes</title>", "yes"),
        ("<p>none", ""),
        ("<title>" + "x" * 1000 + "</title>", "x" * 300),
    ],
)
def test_the_title_is_one_line(html: str, title: str) -> None:
    assert page(html).title == title


@pytest.mark.parametrize("levels", [10, 149, 150, 151, 1000, 10_000])
def test_no_depth_breaks_it(levels: int) -> None:
    for tag in ("div", "b", "blockquote", "ul", "table", "span"):
        got = page(f"<{tag}>" * levels + "<p>deep <a href='/x'>down</a></p>" + f"</{tag}>" * levels)

        assert "deep" in got.markdown
        assert got.links == ("https://example.org/x",)


@pytest.mark.parametrize(
    "html",
    [
        "<td colspan='²'>x</td>",
        "<td colspan=99999999>x</td>",
        "<h" + "9" * 5000 + ">x",
        "<ol start='" + "9" * 5000 + "'><li>x</ol>",
        "<ol start='²'><li>x</ol>",
        "<li>x",
        "x<![if foo",
        "x<![foo bar>",
        "x<!",
        "x<!DOCTYPE [<",
        "<x:y z:w='1'>x</x:y>",
        "x&#99999999999;",
        "<p style='" + "a:b;" * 10_000 + "'>x</p>",
        "<body><body><html><body>x",
        "</p></div></body>x",
    ],
)
def test_whatever_is_wrong_with_a_page_its_text_is_told(html: str) -> None:
    assert "x" in markdown(html)


def test_where_the_conversion_trips_the_text_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def trip(*args: object) -> str:
        raise ValueError("a case that nobody thought of")

    monkeypatch.setattr(web_pages, "markdown_of", trip)

    assert markdown("<h1>One</h1><p hidden>SECRET</p><p>two</p>") == "One\ntwo"


@given(st.text(alphabet="<>/!-[]=\"' abpdivtr&#;x0\n", max_size=200))
def test_no_page_is_too_odd_to_be_read(html: str) -> None:
    got = page(html)

    assert "![" not in got.markdown.replace("\\", "") or "`" in got.markdown or "![" in html


def test_of_a_page_with_too_many_tags_the_beginning_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_pages, "MAX_TAGS", 4)

    cut, whole = page("<p>one</p><p>two</p><p>three</p>"), page("<p>one</p><p>two")

    assert (cut.markdown, cut.cut) == ("one\n\ntwo", True)
    assert (whole.markdown, whole.cut) == ("one\n\ntwo", False)
