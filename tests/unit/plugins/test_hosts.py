"""Hosts that a person grants a server: which connections they cover."""

import pytest

from ozzie_server_ext.plugins.hosts import HostGrant


@pytest.mark.parametrize(
    ("grant", "host", "port", "covered"),
    [
        ("api.example.org", "api.example.org", 443, True),
        ("api.example.org", "API.Example.ORG.", 80, True),
        ("api.example.org", "api.example.org", 8080, False),
        ("api.example.org", "example.org", 443, False),
        ("api.example.org", "evil-api.example.org", 443, False),
        ("api.example.org", "api.example.org.evil.example", 443, False),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "notexample.org", 443, False),
        ("localhost:8080", "localhost", 8080, True),
        ("localhost:8080", "localhost", 443, False),
        ("127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("127.0.0.1:8080", "127.0.0.2", 8080, False),
        ("127.0.0.1:8080", "127.0.0.1.", 8080, True),
        ("[::1]:8080", "::1", 8080, True),
        ("*", "whatever.example", 443, True),
        ("*", "whatever.example", 22, False),
        ("*:22", "whatever.example", 22, True),
        ("api.example.org", "", 443, False),
        ("api.example.org", "api.example.org@evil.example", 443, False),
        ("api.example.org", "api.example.org/evil", 443, False),
    ],
)
def test_a_grant_covers_its_host_at_its_ports(grant: str, host: str, port: int, covered: bool) -> None:
    assert HostGrant.of(grant).covers(host, port) is covered


@pytest.mark.parametrize("text", ["", "10.0.0.0/8", "a b", "https://example.org", "example.org:0", "example.org:70000"])
def test_what_is_no_host_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a host|is a network|has no port"):
        HostGrant.of(text)


@pytest.mark.parametrize(
    ("text", "is_exact"), [("localhost:80", True), ("localhost", False), ("*.example.org:80", False), ("*:80", False)]
)
def test_only_one_host_with_its_port_may_lead_into_a_private_network(text: str, is_exact: bool) -> None:
    assert HostGrant.of(text).is_exact is is_exact
