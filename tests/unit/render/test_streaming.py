"""Markdown while it is being written."""

from ozzie_server_ext.render.markdown import CARET, MAX_OPEN_CHARS, MAX_SHOWN, StreamingMarkdown
from ozzie_server_ext.render.markdown_source import inert_html

TEXT = """\
# Prices

Two *orders* explain it:

- one
- two

  more

| a | b |
|---|--:|
| 1 | 2 |

```python
for x in range(3):

    print(x)
```

> quoted
lazily

1. last
"""


def streamed(text: str, step: int = 1) -> list[str]:
    stream = StreamingMarkdown()
    return [stream.html(text[:end], caret=False) for end in range(step, len(text) + step, step)]


def test_the_end_of_a_stream_is_what_the_whole_text_gives():
    for step in (1, 3, 7, 50):
        assert streamed(TEXT, step)[-1] == inert_html(TEXT)


def test_what_is_closed_stays_as_it_was_drawn():
    drawn = streamed(TEXT)
    heading = "<h1>Prices</h1>\n<p>Two <em>orders</em> explain it:</p>\n"
    first = next(index for index, html in enumerate(drawn) if html.startswith(heading))
    assert all(html.startswith(heading) for html in drawn[first:])


def test_an_open_fence_is_code():
    assert StreamingMarkdown().html("```python\nx = '<b>'") == (
        f'<pre><code class="language-python">x = &#x27;&lt;b&gt;&#x27;{CARET}</code></pre>\n'
    )


def test_an_open_table_is_text_until_it_has_a_row():
    stream = StreamingMarkdown()
    assert "<table" not in stream.html("Intro\n\n| a | b |\n")
    assert "<table" not in stream.html("Intro\n\n| a | b |\n|---|---|\n")
    assert "<table" in stream.html("Intro\n\n| a | b |\n|---|---|\n| 1 |")


def test_the_caret_stands_at_the_live_end():
    assert (
        StreamingMarkdown().html("a\n\n- b **c**") == f"<p>a</p>\n<ul><li>b <strong>c{CARET}</strong>\n</li>\n</ul>\n"
    )


def test_a_line_that_is_not_finished_closes_nothing():
    stream = StreamingMarkdown()
    stream.html("a paragraph\n1")  # may become "1. item", or go on
    assert stream.html("a paragraph\n1 more", caret=False) == "<p>a paragraph\n1 more</p>\n"


def test_a_text_that_began_anew_is_drawn_anew():
    stream = StreamingMarkdown()
    stream.html("# One\n\nTwo\n\nThree")
    assert stream.html("# Other\n\nText", caret=False) == "<h1>Other</h1>\n<p>Text</p>\n"


def test_a_definition_serves_the_blocks_after_it():
    stream = StreamingMarkdown()
    stream.html("[r]: https://example.org/\n\nText\n\nMore\n")
    assert 'href="https://example.org/"' in stream.html("[r]: https://example.org/\n\nText\n\nMore\n\n[a][r]")


def test_a_long_open_block_is_shown_as_it_is_until_it_closes():
    stream = StreamingMarkdown()
    code = "```\n" + "line of code\n" * (MAX_OPEN_CHARS // 8)
    assert stream.html(code, caret=False).startswith('<pre class="oz-plain">```\n')
    closed = stream.html(code + "```\n\n" + "Text\n\n" * (len(code) // 20), caret=False)
    assert closed.startswith("<pre><code>line of code\n")
    assert closed.endswith("<p>Text</p>\n<p>Text</p>\n")


def test_a_very_long_reply_shows_its_end_while_it_streams():
    stream = StreamingMarkdown()
    text = html = ""
    for number in range(400):
        text += f"Paragraph {number} " + "word " * 200 + "\n\n"
        html = stream.html(text)
    assert len(html) < MAX_SHOWN + MAX_OPEN_CHARS
    assert html.startswith('<p class="oz-note">')
    assert "Paragraph 399" in html
