"""Who a client is: the address that counts, among those that a request names."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ratelimit.client import client_key, forwarded_entry, truncated

PROXY = "198.51.100.1"

SAME_CLIENT = {
    "an IPv4 address": ("192.0.2.7", "192.0.2.7"),
    "an IPv4-mapped IPv6 address": ("::ffff:192.0.2.7", "192.0.2.7"),
    "an IPv4-mapped address in hexadecimal": ("::FFFF:c000:207", "192.0.2.7"),
    "a NAT64 address": ("64:ff9b::192.0.2.7", "192.0.2.7"),
    "two addresses of one IPv6 /64": ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::"),
    "an IPv6 address in another notation": ("2001:0DB8:0001:0002:0:0:0:1", "2001:db8:1:2::1"),
    "white space around": (" \t192.0.2.7 ", "192.0.2.7"),
    "a port behind IPv4": ("192.0.2.7:8080", "192.0.2.7"),
    "quotes": ('"192.0.2.7"', "192.0.2.7"),
    "quotes and a port": ('"192.0.2.7:8080"', "192.0.2.7"),
    "brackets": ("[2001:db8:1:2::1]", "2001:db8:1:2::1"),
    "brackets and a port": ("[2001:db8:1:2::1]:8080", "2001:db8:1:2::1"),
    "quotes, brackets and a port": ('"[2001:db8:1:2::1]:8080"', "2001:db8:1:2::1"),
    "a zone": ("fe80::1%eth0", "fe80::1"),
    "a zone in brackets": ("[fe80::1%25eth0]:8080", "fe80::1"),
    "IPv4-mapped in brackets with a port": ("[::ffff:192.0.2.7]:8080", "192.0.2.7"),
    "IPv4-mapped with a zone": ("::ffff:192.0.2.7%eth0", "192.0.2.7"),
}

OTHER_CLIENT = {
    "IPv4 neighbours": ("192.0.2.7", "192.0.2.8"),
    "two IPv6 /64 of one /56": ("2001:db8:1:2::1", "2001:db8:1:3::1"),
    "an IPv4-compatible IPv6 address": ("::192.0.2.7", "192.0.2.7"),
    "an address of a network's own NAT64": ("64:ff9b:1::192.0.2.7", "192.0.2.7"),
    "IPv6 that begins with the bytes of IPv4": ("c000:207::", "192.0.2.7"),
    "no address at all": ("", "0.0.0.0"),
}

NO_ADDRESS = {
    "empty": "",
    "white space": " \t ",
    "unknown": "unknown",
    "an obfuscated name": "_hidden",
    "a host name": "client.example.com",
    "a number too large": "192.0.2.256",
    "three numbers": "192.0.2",
    "leading zeros": "192.000.002.007",
    "hexadecimal numbers": "0xc0.0.2.7",
    "one long number": "3221225991",
    "a network": "192.0.2.0/24",
    "too many groups": "2001:db8:1:2:3:4:5:6:7",
    "two gaps": "2001::db8::1",
    "an open bracket": "[",
    "empty brackets": "[]:80",
    "a port alone": ":80",
    "a zone alone": "%eth0",
    "quotes alone": '""',
    "letters beyond ASCII": "dirección",
    "digits beyond ASCII": "\u0661\u0669\u0662.0.2.7",
    "a NUL inside": "192.0.2.7\0",
    "a NUL inside IPv6": "2001:db8::\0",
    "a lone surrogate": "\udcff",
    "very long": "1" * 10_000,
}


@pytest.mark.parametrize(("one", "other"), SAME_CLIENT.values(), ids=SAME_CLIENT)
class TestOneClient:
    def test_it_is_counted_under_one_key_however_it_connects(self, one: str, other: str) -> None:
        assert client_key(one, "", 0) == client_key(other, "", 0)

    def test_it_is_counted_under_the_same_key_however_a_proxy_names_it(self, one: str, other: str) -> None:
        assert client_key(PROXY, one, 1) == client_key(other, "", 0)


@pytest.mark.parametrize(("one", "other"), OTHER_CLIENT.values(), ids=OTHER_CLIENT)
def test_different_clients_are_counted_under_different_keys(one: str, other: str) -> None:
    assert client_key(one, "", 0) != client_key(other, "", 0)


SPOOFED = "203.0.113.66"
BELIEVED = {
    "no proxy, no entry": (0, "", PROXY),
    "no proxy, the entry is ignored": (0, "192.0.2.7", PROXY),
    "one proxy, one entry": (1, "192.0.2.7", "192.0.2.7"),
    "one proxy, entries on the left are the client's own words": (1, f"{SPOOFED}, {SPOOFED}, 192.0.2.7", "192.0.2.7"),
    "one proxy, no white space": (1, f"{SPOOFED},192.0.2.7", "192.0.2.7"),
    "one proxy, no entry": (1, "", PROXY),
    "one proxy, an empty last entry": (1, f"{SPOOFED}, ", PROXY),
    "two proxies, two entries": (2, "192.0.2.7, 198.51.100.2", "192.0.2.7"),
    "two proxies, entries on the left": (2, f"{SPOOFED}, {SPOOFED}, 192.0.2.7, 198.51.100.2", "192.0.2.7"),
    "two proxies, one entry": (2, SPOOFED, PROXY),
    "two proxies, no entry": (2, "", PROXY),
    "two proxies, an empty first entry": (2, ", 198.51.100.2", PROXY),
    "two proxies, the inner one's entry does not matter": (2, "192.0.2.7, unknown", "192.0.2.7"),
}


@pytest.mark.parametrize(("proxies", "forwarded", "counts"), BELIEVED.values(), ids=BELIEVED)
def test_as_many_proxies_are_believed_as_are_trusted(proxies: int, forwarded: str, counts: str) -> None:
    assert client_key(PROXY, forwarded, proxies) == client_key(counts, "", 0)


@pytest.mark.parametrize("entry", NO_ADDRESS.values(), ids=NO_ADDRESS)
class TestWhatIsNoAddress:
    def test_in_a_forwarded_entry_it_leaves_the_address_of_the_connection(self, entry: str) -> None:
        assert client_key(PROXY, entry, 1) == client_key(PROXY, "", 0)

    def test_it_never_lets_an_entry_further_left_count(self, entry: str) -> None:
        assert client_key(PROXY, f"{SPOOFED}, {entry}", 1) == client_key(PROXY, "", 0)
        assert client_key(PROXY, f"{SPOOFED}, {entry}, 198.51.100.2", 2) == client_key(PROXY, "", 0)

    def test_as_the_address_of_the_connection_it_does_not_raise(self, entry: str) -> None:
        assert isinstance(client_key(entry, "", 0), bytes)


anything = st.text(st.characters()) | st.text('0123456789abcdef.:,[]%" \0', max_size=40)


@given(remote=anything, forwarded=anything, proxies=st.integers(0, 3))
def test_no_text_raises(remote: str, forwarded: str, proxies: int) -> None:
    assert isinstance(client_key(remote, forwarded, proxies), bytes)


@given(
    address=st.ip_addresses(v=4), spoofed=st.lists(st.ip_addresses().map(str) | anything.filter(lambda t: "," not in t))
)
def test_whatever_the_client_sends_itself_the_entry_of_the_proxy_counts(address: object, spoofed: list[str]) -> None:
    assert client_key(PROXY, ", ".join([*spoofed, str(address)]), 1) == client_key(str(address), "", 0)


@given(one=st.ip_addresses(v=4), other=st.ip_addresses(v=4))
def test_ipv4_addresses_share_a_key_only_if_they_are_equal(one: object, other: object) -> None:
    assert (client_key(str(one), "", 0) == client_key(str(other), "", 0)) == (one == other)


TRUNCATED = {
    "IPv4": ("192.0.2.7", "192.0.2.0/24"),
    "IPv4-mapped": ("::ffff:192.0.2.7", "192.0.2.0/24"),
    "NAT64": ("64:ff9b::192.0.2.7", "192.0.2.0/24"),
    "IPv6": ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
    "no address": ("", "-"),
    "no address, but text": ("unknown", "-"),
}


@pytest.mark.parametrize(("address", "shown"), TRUNCATED.values(), ids=TRUNCATED)
def test_a_log_shows_no_more_than_a_clients_network(address: str, shown: str) -> None:
    assert truncated(client_key(address, "", 0)) == shown


@given(st.binary(max_size=20))
def test_no_key_breaks_the_log(key: bytes) -> None:
    assert truncated(key).isascii()


def test_a_field_of_many_entries_is_not_taken_apart() -> None:
    field = "," * 800_000
    tracemalloc.start()
    try:
        assert forwarded_entry(field, 2) == ""
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2 * len(field)
