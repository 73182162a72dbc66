"""Markdown in its two inert forms: what it keeps, how they agree, where it gives up."""

import html
import re

import pytest
from markdown_it import MarkdownIt

from ozzie_server_ext.render.markdown import MAX_CHARS, MAX_INLINE_CHARS
from ozzie_server_ext.render.markdown_source import inert_html, inert_markdown, is_inert

ORDINARY = {
    "paragraphs": "One *two* **three** ***four*** __five__ _six_ ~~seven~~.\n\nNext\nline.  \nBroken\\\nagain.",
    "headings": "# One\n\nTwo\n===\n\n### Three #tag # ##\n\nFour\n---\n\n#hash",
    "lists": "- a\n- b\n  - c\n\n    para\n1. x\n2. y\n\n3) z\n4) w\n\n* other\n\n+ third\n- [ ] task",
    "numbered": "7. seven\n8. eight\n   ```python\n   x = 1\n   ```\n9. nine",
    "quotes": "> a\n> > b\n>\n> - c\n>\n> ```\n> code\n> ```",
    "table": "| a | b | c |\n|:--|:-:|--:|\n| `x` | **y** | 1 \\| 2 |\n|  | - | +5 % |",
    "code spans": "`a`, ``b ` c``, ` d `, `<b>`, `e|f`",
    "code": "```python\nprint(1 < 2)\n\n\n# done\n```\n\n    indented\n      more",
    "fences": "````\n```\ninner\n```\n````\n\n~~~c++\nint x;\n~~~",
    "links": '[a](https://e.org/x_(y)?a=1&b=2 "t") [b][r] <https://e.org> [c](notes/a.md)\n\n[r]: /x',
    "addresses": "See https://e.org/a_b_c*d. Or (http://e.org/x).",
    "escapes": "\\*not\\* 1\\. a_b_c 2*3*4 a\\_b \\[x\\] <b> & &copy; &lt;b&gt; \\\\",
    "marks": "` ~ | {x} $ ! ^ @me #1 : - + =",
    "starts": "1\\. one\n\\- two\n\\+ three\n\\# four\n\\> five\n\\: six\n\\=== seven",
    "formulas": "$x_1*y*z$ and $$a \\\\ b$$, \\(c_d\\), \\[e\\], \\begin{a}x_1 & y\\end{a}",
    "prices": "It cost $5 or $10, not $x$.",
    "rules": "a\n\n---\n\n***\n\n- ___",
    "unicode": "émigré 漢字 👩‍💻 — “quotes” … ½ ✓",
}


def shape(markup: str) -> list[str]:
    """The elements and the text of `markup`, without what the two forms write differently but show alike."""
    markup = re.sub(r"<(/?\w+)[^>]*>", r"<\1>", re.sub(r"</?span>", "", markup))
    pieces = [re.sub(r"\s+", " ", piece).strip() for piece in re.split(r"(</?\w+>)", markup)]
    return [html.unescape(piece) for piece in pieces if piece]


def as_html(source: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(source)


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in ORDINARY.items()])
def test_the_saved_form_shows_what_the_live_form_shows(text: str):
    assert shape(as_html(inert_markdown(text))) == shape(inert_html(text))


def test_ordinary_markdown_stays_readable_as_source():
    source = "# Title\n\nText with `code`, **bold** and snake_case.\n\n- one\n- two\n\n```python\nx = [1]\n```"
    assert inert_markdown(source) == source


def test_code_with_tags_stays_a_fence_where_nothing_can_free_it():
    assert inert_markdown("```html\n<b>x</b>\n```") == "```html\n<b>x</b>\n```"


@pytest.mark.parametrize("elsewhere", ["`$`", "```sh\n$HOME\n```", "`\\begin{x}`", "`\\\\(`", "`@@0@@`"])
def test_code_with_tags_is_written_with_entities_where_code_holds_a_delimiter_of_formulas(elsewhere: str):
    source = inert_markdown(f"```html\n<b>x</b>\n```\n\n{elsewhere}")
    assert "<pre><code>&#60;b&#62;x&#60;/b&#62;</code></pre>" in source


@pytest.mark.parametrize("opening", ["- ", "> ", "1. "])
def test_code_with_tags_inside_other_blocks_is_written_with_entities(opening: str):
    pad = " " * len(opening) if opening != "> " else "> "
    source = inert_markdown(f"{opening}```\n{pad}<b>\n{pad}```")
    assert "<pre><code>&#60;b&#62;</code></pre>" in source


@pytest.mark.parametrize("info", ["mermaid", "Mermaid", "mermaid-x"])
def test_a_diagram_is_plain_code_since_nbconvert_would_not_escape_it(info: str):
    assert inert_markdown(f"```{info}\ngraph\n```") == "```\ngraph\n```"
    assert inert_html(f"```{info}\ngraph\n```") == "<pre><code>graph\n</code></pre>\n"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("![alt](https://example.org/a.png)", "Image from example.org (not loaded)"),
        ("![alt](//example.org/a.png)", "Image from example.org (not loaded)"),
        ("![alt](plots/a.png?x#y)", "Image a.png (not loaded)"),
        ("![a][r]\n\n[r]: https://example.org/a.png", "Image from example.org (not loaded)"),
    ],
)
def test_an_image_is_a_link_that_says_where_it_comes_from(text: str, label: str):
    assert f">{label}</a>" in inert_html(text)
    assert f"[{label}](" in inert_markdown(text)


def test_a_link_shows_its_host_and_opens_apart():
    assert inert_html("[a](https://example.org/x)") == (
        '<p><a href="https://example.org/x" title="example.org" target="_blank"'
        ' rel="noopener noreferrer nofollow">a</a></p>\n'
    )


def test_an_escaped_mark_before_a_link_does_not_make_an_image_of_it():
    assert inert_markdown("See\\![a](https://e.org)") == "See&#33;[a](https://e.org)"


def test_prices_are_no_formula_and_a_formula_stays_one():
    assert inert_markdown("From $5 to $10.") == "From <span>&#36;</span>5 to <span>&#36;</span>10."
    assert inert_markdown("So $a_1 * b$.") == "So &#36;a_1 \\* b&#36;."


def test_a_text_beyond_the_limit_is_shown_as_it_is():
    text = "**a** <b>\n" * (MAX_CHARS // 10 + 1)
    assert inert_html(text).startswith('<pre class="oz-plain">**a** &lt;b&gt;\n')
    source = inert_markdown(text)
    assert source.startswith("<pre><code>&#42;&#42;a&#42;&#42; &#60;b&#62;&#10;")
    assert "\n" not in source


def test_a_paragraph_beyond_the_limit_is_text_without_marks():
    text = "*a* [b](c) " * (MAX_INLINE_CHARS // 11 + 1)
    assert "<em>" not in inert_html(text)
    assert "<em>" in inert_html(text[:1000])
    assert is_inert(inert_markdown(text))


@pytest.mark.parametrize(
    "text",
    [
        "> " * 200 + "deep",
        "\n".join("  " * depth + "- a" for depth in range(200)),
        "[" * 30_000,
        "![" * 30_000,
        "*a **b " * 15_000,
        "`" * 60_000,
        "".join("`" * count + " " for count in range(1, 400)),
        "[a](<b " * 15_000,
        "$" * 60_000,
        "\\begin{x}" * 10_000,
        "<a " * 30_000,
        "|" * 60_000,
        "- " * 30_000,
    ],
    ids=range(13),
)
def test_no_text_takes_unbounded_time_or_loses_its_words(text: str):
    live, source = inert_html(text), inert_markdown(text)
    words = set(re.findall(r"deep|begin", text))
    assert words <= set(re.findall(r"deep|begin", live)) & set(re.findall(r"deep|begin", source))
    assert is_inert(source)
