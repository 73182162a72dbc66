"""What commands answer: as Markdown that is inert, and as text for 80 columns."""

import re

import pytest
from markdown_it import MarkdownIt

from ozzie_server_ext.render.page import (
    Block,
    Bullets,
    Command,
    Facts,
    Sample,
    Strong,
    Table,
    page_bundle,
    page_markdown,
    page_text,
    paragraph,
)
from ozzie_server_ext.render.text import columns
from tests.hostile.markup import SAVED, intruders
from tests.hostile.samples import NAMES, render_sample
from tests.unit.render.test_hostile import assert_inert_source

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)


def page_with(text: str) -> list[Block]:
    """A page with `text` in every place that a value can come to."""
    return [
        paragraph(text, Strong(text), Command(text), f" and {text} "),
        Bullets([(text, Command(text)), (Strong(text),)]),
        Facts([(text, text)]),
        Table(heads=(text, ""), rows=[(text, Command(text)), (Strong(text), "")], flexible=frozenset({0, 1})),
        Sample(text),
    ]


def test_a_page_reads_well_in_both_forms() -> None:
    page: list[Block] = [
        paragraph("The session ", Strong("Prices * in May"), " goes on. See ", Command("%help"), "."),
        Table(heads=("Title", "In"), rows=[("日本", "1,200"), ("a|b", "3")], right=frozenset({1})),
        Facts([("Id", "x"), ("Messages", "3")]),
        Bullets([("One: ", Command("%model a"))]),
        Sample("a,b\n\t1\n"),
    ]

    assert page_text(page).split("\n") == [
        "The session Prices * in May goes on. See %help.",
        "",
        "Title     In",
        "日本   1,200",
        "a|b        3",
        "",
        "Id        x",
        "Messages  3",
        "",
        "- One: %model a",
        "",
        "  a,b",
        "          1",
        "  ",
    ]
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(page_markdown(page))
    assert "<strong>Prices * in May</strong> goes on. See <code>%help</code>." in html
    assert "<td>a|b</td>" in html
    assert "<pre><code>a,b&#10;&#9;1&#10;</code></pre>" in html
    assert html.count("<ul>") == 2


def test_a_table_gives_way_where_it_may_until_it_fits() -> None:
    table = Table(
        heads=("Title", "Path"), rows=[("t" * 90, "p" * 90)], flexible=frozenset({0, 1}), paths=frozenset({1})
    )

    row = page_text([table]).split("\n")[1]

    assert columns(row) == 80
    assert re.fullmatch(r"t+…  p+…p+", row)


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_value_is_only_text_in_any_place(name: str) -> None:
    text = render_sample(name, "http://127.0.0.1:9")
    bundle = page_bundle(page_with(text))

    assert set(bundle) == {"text/markdown", "text/plain"}
    assert_inert_source(bundle["text/markdown"])
    assert not UNSAFE.search(bundle["text/plain"])


@pytest.mark.parametrize("text", ["# x", "- x", "1. x", "> x", "---", "===", "    x", "```", "| a |", ": x", "[x]: y"])
def test_a_value_at_the_start_of_a_line_begins_nothing(text: str) -> None:
    html = MarkdownIt("commonmark").enable("table").render(page_markdown([paragraph(text, "!")]))

    assert re.fullmatch(r"<p>[^<]*</p>\n", html)


def test_the_check_would_find_what_is_not_escaped() -> None:
    assert intruders(MarkdownIt("commonmark", {"html": True}).render("<img src=x onerror=1>"), SAVED)
