"""Hosts in one form: what looks like another host, or is read as another one, is not it."""

from ipaddress import ip_address

import pytest

from ozzie_server_ext.policy.patterns import Host, HostPattern, canonical_host, host_of


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.ORG/a", "example.org"),
        ("https://example.org./", "example.org"),
        ("https://example.org:8443/x?y#z", "example.org"),
        ("https://evil.com#.example.org", "evil.com"),
        ("https://evil.com/.example.org", "evil.com"),
        ("https://evil.com?.example.org", "evil.com"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("https://faß.example/", "xn--fa-hia.example"),
        ("https://ＥＸＡＭＰＬＥ.org/", "example.org"),
        ("http://127.0.0.1/", ip_address("127.0.0.1")),
        ("http://evil.com。/", "evil.com"),
        ("http://evil.com．/", "evil.com"),
        ("http://evil.com｡/", "evil.com"),
        ("http://evil。com/", "evil.com"),
        ("http://127.0.0.1./", ip_address("127.0.0.1")),
        ("http://127.0.0.1。/", ip_address("127.0.0.1")),
        ("http://127。0．0｡1/", ip_address("127.0.0.1")),
        ("http://１２７.0.0.1/", ip_address("127.0.0.1")),
        ("http://[::1]/", ip_address("::1")),
        ("http://[::ffff:127.0.0.1]/", ip_address("127.0.0.1")),
        ("http://[0:0:0:0:0:0:0:1]/", ip_address("::1")),
    ],
)
def test_a_host_is_read_as_it_will_be_called(url: str, host: Host) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.com\\@example.org/",
        "https://user:word@example.org/",
        "https://user@example.org/",
        "https://exam\tple.org/",
        "https://example.org\n.evil.com/",
        " https://example.org/",
        "https://example.org\u00a0/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://127.1。/",
        "http://0x7f.1．/",
        "http://2130706433./",
        "http://example.org../",
        "http://。/",
        "//example.org/",
        "example.org",
        "https:///path",
        "https://[::1/",
        "https://exa mple.org/",
        "https://*.example.org/",
        "https://example..org/",
        "",
    ],
)
def test_what_readers_of_addresses_do_not_agree_on_has_no_host(url: str) -> None:
    assert host_of(url) is None


@pytest.mark.parametrize(
    ("pattern", "host", "matches"),
    [
        ("example.org", "example.org", True),
        ("EXAMPLE.org.", "example.org", True),
        ("example.org", "www.example.org", False),
        ("*.example.org", "www.example.org", True),
        ("*.example.org", "a.b.example.org", True),
        ("*.example.org", "example.org", False),
        ("*.example.org", "evilexample.org", False),
        ("*.bücher.example", "shop.xn--bcher-kva.example", True),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "[::1]", True),
        ("127.0.0.0/8", "[::ffff:127.0.0.9]", True),
        ("::1", "127.0.0.1", False),
        ("example.org。", "example.org", True),
        ("*.example。org。", "www.example.org", True),
        ("127.0.0.1。", "127.0.0.1", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "[::ffff:10.0.0.1]", True),
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "11.1.2.3", False),
        ("example.org", "127.0.0.1", False),
    ],
)
def test_a_pattern_is_a_host_what_lies_below_it_or_a_network(pattern: str, host: str, matches: bool) -> None:
    found = canonical_host(host)
    assert found is not None

    assert HostPattern.of(pattern).matches(found) is matches


def test_what_is_longer_than_any_host_is_none() -> None:
    assert canonical_host("a." * 120 + "example") is not None
    assert canonical_host("a." * 600 + "example") is None


@pytest.mark.parametrize(
    "pattern", ["", "*", "*.", "a.*.org", "*example.org", "10.0.0.1/8", "exa mple.org", "127.1", "*.127.0.0.1。"]
)
def test_what_is_no_host_is_refused_with_what_to_write(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a host: write example"):
        HostPattern.of(pattern)
