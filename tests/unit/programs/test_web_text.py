"""Which text bytes are: by header, mark, or their own first lines; and addresses that stand in text."""

import pytest

from ozzie_server_ext.programs.web_text import Declared, Downloaded, links_in, text_of, type_of


def html(body: bytes, charset: str = "", *, cut: bool = False) -> Downloaded:
    return Downloaded(
        url="https://site.example/", status=200, hosts=(), type="text/html", charset=charset, body=body, cut=cut
    )


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("ü".encode(), "", "ü"),
        ("ü".encode(), "UTF-8", "ü"),
        (b"\xfc", "latin1", "ü"),
        (b"\x80", "iso-8859-1", "€"),
        (b"\x80", "us-ascii", "€"),
        (b"\xfc", "windows-1252", "ü"),
        (b"\xe0", "koi8-r", "Ю"),
        ("日本".encode("shift_jis"), "x-sjis", "日本"),
        ("日本".encode("euc-jp"), "EUC-JP", "日本"),
        ("中文".encode("gb18030"), "gb2312", "中文"),
        ("한".encode("euc-kr"), "euc-kr", "한"),
        ("ü".encode("utf-16"), "latin1", "ü"),
        ("ü".encode("utf-8-sig"), "latin1", "ü"),
        (b'<meta charset="latin1">\xfc', "", '<meta charset="latin1">ü'),
        (b"<meta charset='latin1'>" + "ü".encode(), "utf-8", "<meta charset='latin1'>ü"),
        (
            b'<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-15">\xa4',
            "",
            '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-15">€',
        ),
        (b"<meta charset=utf-16>x", "", "<meta charset=utf-16>x"),
        (b"<meta charset=rot13>x", "", "<meta charset=rot13>x"),
        (b" " * 2000 + b"<meta charset=latin1>\xfc", "", " " * 2000 + "<meta charset=latin1>\ufffd"),
    ],
)
def test_a_body_is_read_in_its_charset(body: bytes, charset: str, text: str) -> None:
    assert text_of(html(body, charset)) == text


def test_half_a_character_at_a_cut_is_left_out() -> None:
    assert text_of(html("aü".encode()[:-1], cut=True)) == "a"
    assert text_of(html("aü".encode()[:-1])) == "a\ufffd"


@pytest.mark.parametrize(
    ("header", "declared"),
    [
        ("text/html; charset=utf-8", Declared("text/html", "utf-8", -1)),
        ('TEXT/HTML;Charset = "UTF-8"', Declared("text/html", "UTF-8", -1)),
        ("text/html; boundary=x; charset='latin1'", Declared("text/html", "latin1", -1)),
        ("", Declared("", "", -1)),
        ("html", Declared("", "", -1)),
        ("text/html, text/plain", Declared("", "", -1)),
        ("a/b" * 1000, Declared("", "", -1)),
        ("text/" + "x" * 100, Declared("", "", -1)),
    ],
)
def test_a_header_is_read_or_passed_over(header: str, declared: Declared) -> None:
    assert Declared.of(header, "") == declared


@pytest.mark.parametrize(("length", "size"), [("12", 12), ("", -1), ("-1", -1), ("1e9", -1), ("٣", -1), ("9" * 99, -1)])
def test_a_length_is_read_or_passed_over(length: str, size: int) -> None:
    assert Declared.of("", length).size == size


@pytest.mark.parametrize(
    ("declared", "body", "kind"),
    [
        ("text/plain", b"<html>", "text/plain"),
        ("application/ld+json", b"{}", "application/ld+json"),
        ("", b"\n <!-- x --><HTML lang=de>", "text/html"),
        ("application/octet-stream", b"<!doctype html>", "text/html"),
        ("application/octet-stream", b"words", "text/plain"),
    ],
)
def test_what_is_not_declared_as_text_is_looked_at(declared: str, body: bytes, kind: str) -> None:
    assert type_of(Declared(declared, "", -1), body) == kind


def test_addresses_in_a_text_are_its_links() -> None:
    text = (
        "See https://one.example/a?b=c#d, (http://two.example/x) and <https://three.example>. "
        '{"u": "https://one.example/a?b=c"} '
        "ftp://no.example http://u@no.example http://2130706433/ https://" + "y" * 600
    )

    assert links_in(text) == ("https://one.example/a?b=c", "http://two.example/x", "https://three.example")
