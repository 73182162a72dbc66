"""Which link targets a reply may carry."""

import pytest

from ozzie_server_ext.render.markdown import safe_target


@pytest.mark.parametrize(
    ("url", "href", "host"),
    [
        ("https://example.org/a?b=1&c=2#d", "https://example.org/a?b=1&c=2#d", "example.org"),
        ("HTTP://Example.org", "http://Example.org", "example.org"),
        ("//example.org/x", "https://example.org/x", "example.org"),
        ("\\\\example.org\\x", "https://example.org/x", "example.org"),
        ("mailto:a@example.org", "mailto:a@example.org", ""),
        ("notes/a.md", "notes/a.md", ""),
        ("../a.md#part", "../a.md#part", ""),
        ("#part", "#part", ""),
        ("a?q=x:y", "a?q=x:y", ""),
        ("https://e.org/(a)'\"<b>`$\\", "https://e.org/%28a%29%27%22%3Cb%3E%60%24/", "e.org"),
        ("https://e.org/?a=1&copy;&#58;x", "https://e.org/?a=1%26copy;%26#58;x", "e.org"),
        ("https://münchen.example/", "https://m%C3%BCnchen.example/", "xn--mnchen-3ya.example"),
        ("https://user:pw@evil.example/", "https://user:pw@evil.example/", "evil.example"),
        ("https://e.org/@@0@@", "https://e.org/@%400@%40", "e.org"),
    ],
)
def test_these_targets_are_written(url: str, href: str, host: str):
    assert safe_target(url) == (href, host)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " javascript:alert(1)",
        "java\tscript:alert(1)",
        "\x01javascript:alert(1)",
        "javascript%3Aalert(1)",
        "javascript&colon;alert(1)",
        "vbscript:x",
        "data:text/html,x",
        "data:image/png;base64,AA",
        "file:///etc/passwd",
        "blob:https://e.org/1",
        "ftp://e.org/",
        "view-source:https://e.org",
        "x:y",
        "https:",
        "https:e.org",
        "https:///",
        "https://[",
        "",
        "https://e.org/" + "a" * 3000,
        "https://e.org/\ud800",
        "https://e.org/a b",
    ],
)
def test_these_targets_are_not(url: str):
    assert safe_target(url) is None
