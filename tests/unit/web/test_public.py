"""Which IP addresses are public: held against the registries, and against what Python takes for them."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.web.address import is_public

ADDRESSES = st.ip_addresses(v=4) | st.ip_addresses(v=6)


@given(ADDRESSES)
def test_whatever_python_knows_to_be_not_global_is_not_public(address: ipaddress.IPv4Address) -> None:
    is_odd = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
    if is_odd or address.is_reserved or address.is_unspecified:
        assert not is_public(address) or address in ipaddress.ip_network("64:ff9b::/96")


@given(st.ip_addresses(v=4))
def test_an_ipv6_address_is_as_public_as_the_ipv4_address_within(inner: ipaddress.IPv4Address) -> None:
    number = int(inner)
    assert is_public(ipaddress.IPv6Address(0x0064FF9B << 96 | number)) is is_public(inner)
    assert not is_public(ipaddress.IPv6Address(0x2002 << 112 | number << 80 | 1)), "6to4 leads through a relay"
    assert not is_public(ipaddress.IPv6Address(0xFFFF << 32 | number))
    assert not is_public(ipaddress.IPv6Address(number))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "93.184.215.14", "172.15.255.255", "172.32.0.0", "100.128.0.1", "223.255.255.255"]
)
def test_what_is_public_is(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_the_edges_of_the_networks_are_where_they_should_be() -> None:
    inside = ["10.255.255.255", "100.127.255.255", "169.254.0.0", "172.31.255.255", "198.19.255.255", "239.0.0.0"]
    outside = ["11.0.0.0", "9.255.255.255", "100.63.255.255", "169.253.255.255", "198.20.0.0", "198.17.255.255"]

    assert [is_public(ipaddress.ip_address(address)) for address in inside] == [False] * 6
    assert [is_public(ipaddress.ip_address(address)) for address in outside] == [True] * 6
