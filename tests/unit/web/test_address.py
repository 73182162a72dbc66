"""Which addresses may be asked for, and that there is one way to read each of them."""

import pytest

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.web.address import joined, read_address, redirected
from ozzie_server_ext.web.port import MAX_URL, NotFetchable


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("https://example.org", "https://example.org/"),
        ("HTTPS://EXAMPLE.org:443/A", "https://example.org/A"),
        ("http://example.org:80/?", "http://example.org/"),
        ("https://example.org:8443/a", "https://example.org:8443/a"),
        ("http://example.org:8080", "http://example.org:8080/"),
        ("https://example.org./a", "https://example.org/a"),
        ("https://bücher.example/ä?q=ü", "https://xn--bcher-kva.example/%C3%A4?q=%C3%BC"),
        ("https://example。org/", "https://example.org/"),
        ("https://example.org/a%20b%zz?x=%", "https://example.org/a%20b%25zz?x=%25"),
        ("https://example.org/a#b@127.0.0.1/", "https://example.org/a"),
        ("https://example.org#@127.0.0.1/", "https://example.org/"),
        ("https://example.org/@127.0.0.1/", "https://example.org/@127.0.0.1/"),
        ("http://93.184.215.14/", "http://93.184.215.14/"),
        ("https://[2606:4700::1111]/", "https://[2606:4700::1111]/"),
        ("https://[64:ff9b::5db8:d70e]/", "https://[64:ff9b::5db8:d70e]/"),
    ],
)
def test_an_address_of_the_public_web_is_read(url: str, read: str) -> None:
    assert read_address(url).url == read
    assert read_address(read).url == read, "what was read is read in one way"


@pytest.mark.parametrize(
    "url",
    [
        # Of this machine, a network of one's own, a cloud.
        "http://localhost/",
        "http://LOCALHOST./",
        "http://a.localhost/",
        "http://localhost.localdomain.local/",
        "http://printer/",
        "http://printer.local/",
        "http://metadata.google.internal/",
        "http://nas.home.arpa/",
        "http://127.0.0.1/",
        "http://127.8.9.10:8080/",
        "http://0.0.0.0/",
        "http://10.1.2.3/",
        "http://100.64.0.1/",
        "http://100.100.100.200/",
        "http://168.63.129.16/",
        "http://169.254.169.254/latest/meta-data/",
        "http://172.16.0.1/",
        "http://172.31.255.255/",
        "http://192.168.0.1/",
        "http://192.0.0.192/",
        "http://198.18.0.1/",
        "http://203.0.113.7/",
        "http://224.0.0.1/",
        "http://240.0.0.1/",
        "http://255.255.255.255/",
        "http://[::]/",
        "http://[::1]/",
        "http://[::127.0.0.1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[0:0:0:0:0:ffff:10.0.0.1]/",
        "http://[64:ff9b::127.0.0.1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[64:ff9b:1::a00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[2002:a9fe:a9fe::1]/",
        "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
        "http://[2606:4700::5efe:10.0.0.1]/",
        "http://[2001:db8::1]/",
        "http://[3fff::1]/",
        "http://[5f00::1]/",
        "http://[100::1]/",
        "http://[fc00::1]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://[fec0::1]/",
        "http://[ff02::1]/",
        # IP addresses in the forms of old, and in other scripts.
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.1/",
        "http://0/",
        "http://017700000001/",
        "http://127.0.0.1./",
        "http://①②⑦.⓪.⓪.①/",
        "http://127。0。0。1/",
        "http://127%2e0%2e0%2e1/",
        # What readers of addresses do not agree upon.
        "http://user@example.org/",
        "http://user:word@example.org/",
        "http://@example.org/",
        "http://example.org@127.0.0.1/",
        "http://example.org:80@127.0.0.1/",
        "http://example.org\\@127.0.0.1/",
        "http://example.org\\.127.0.0.1/",
        "http://127.0.0.1\\example.org/",
        "http:\\\\example.org/",
        "http://exam\tple.org/",
        "http://example.org/\r\nX: y",
        "http://exam\nple.org/",
        " http://example.org/",
        "http://example.org/ ",
        "http://example.org\x00.127.0.0.1/",
        "http://exa%6dple.org/",
        "http://[fe80::1%25eth0]/",
        "http://[2606:4700::1111%eth0]/",
        "http://[127.0.0.1]/",
        "http://[v1.x]/",
        "http://[::1/",
        "http://exa_mple..org/",
        "http://-a.example/",
        "http:///path",
        "http:example.org",
        "//example.org/",
        "example.org",
        "",
        # Other schemes and ports.
        "ftp://example.org/",
        "file:///etc/passwd",
        "file://example.org/etc/passwd",
        "gopher://example.org/",
        "javascript:alert(1)",
        "data:text/plain,x",
        "ws://example.org/",
        "unix://example.org/",
        "http://example.org:22/",
        "http://example.org:25/",
        "http://example.org:6379/",
        "http://example.org:11434/",
        "http://example.org:0/",
        "http://example.org:65536/",
        "http://example.org:99999999/",
        "http://example.org:+80/",
        "http://example.org:8_0/",
        "http://example.org:80:80/",
        "http://example.org:٨٠/",
        "http://example.org:-1/",
        "https://example.org/" + "a" * MAX_URL,
    ],
)
def test_what_is_none_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(NotFetchable) as refused:
        read_address(url)

    assert refused.value.code == "web.refused"
    assert refused.value.hint


def test_only_what_is_allowed_by_name_is_allowed_beside_it() -> None:
    allowed = {"ports": (4711,), "addresses": ("127.0.0.1",)}

    assert read_address("http://127.0.0.1:4711/", **allowed).url == "http://127.0.0.1:4711/"
    for url in ("http://127.0.0.2:4711/", "http://127.0.0.1:4712/", "http://localhost:4711/"):
        with pytest.raises(NotFetchable):
            read_address(url, **allowed)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://example.org/", "http://www.example.org:8080/a", True),
        ("https://www.example.org/", "https://example.org/", True),
        ("https://example.org/", "https://EXAMPLE.org./", True),
        ("https://example.org/", "https://docs.example.org/", False),
        ("https://example.org/", "https://www.www.example.org/", False),
        ("https://example.org/", "https://example.org.evil.example/", False),
        ("https://example.org/", "https://wwwexample.org/", False),
    ],
)
def test_the_same_host_may_have_a_www(one: str, other: str, same: bool) -> None:
    assert read_address(one).is_same_host(read_address(other)) is same


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("/b?c#d", "https://example.org/b?c"),
        ("b", "https://example.org/a/b"),
        ("//other.example/x", "https://other.example/x"),
        (" /b ", "https://example.org/b"),
        ("/a b", "https://example.org/a%20b"),
        ("/\xc3\xa4", "https://example.org/%C3%A4"),
        ("http://127.0.0.1\t.example/", ""),
        ("https:\\\\127.0.0.1/", ""),
        ("http://[::1", ""),
    ],
)
def test_where_a_redirect_leads_is_read_without_a_guess(location: str, leads_to: str) -> None:
    assert redirected(read_address("https://example.org/a/"), location) == leads_to


@pytest.mark.parametrize(
    ("href", "link"),
    [
        ("b?c=d#e", "https://example.org/a/b?c=d"),
        (" \n/b\t", "https://example.org/b"),
        ("//other.example", "https://other.example"),
        ("HTTP://other.example/", "HTTP://other.example/"),
        ("/a b", "https://example.org/a%20b"),
        ("/ä", "https://example.org/%C3%A4"),
        ("/a_(b)<c>", "https://example.org/a_%28b%29%3Cc%3E"),
        ("?", "https://example.org/a/"),
        ("#part", ""),
        ("", ""),
        ("javascript:alert(1)", ""),
        ("JaVaScRiPt:alert(1)", ""),
        ("java\nscript:alert(1)", ""),
        ("data:text/html,x", ""),
        ("mailto:a@example.org", ""),
        ("vbscript:x", ""),
        ("http://user@other.example/", ""),
        ("http://[::1", ""),
        ("http://2130706433/", ""),
        ("/" + "x" * 500, ""),
    ],
)
def test_a_link_is_absolute_or_none(href: str, link: str) -> None:
    assert joined("https://example.org/a/", href, longest=500) == link


def test_the_reason_says_what_to_do() -> None:
    said = []
    for url in ("http://10.0.0.1/", "http://u@example.org/", "http://example.org:22/", "ftp://example.org/"):
        with pytest.raises(OzzieError) as refused:
            read_address(url)
        said.append(str(refused.value))

    assert said == [
        "That address is not on the public web: it belongs to this machine or a private network, or is reserved.",
        "An address with a user or a password in it is not fetched.",
        "Only the ports 80, 443, 8080 and 8443 are reached.",
        "Only addresses that begin with http:// or https:// are fetched.",
    ]
