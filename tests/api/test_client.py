"""Who a client is and what the service calls itself, as far as proxies are trusted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.test import create_environ

from app.api.client import Clients, client_key, network_of
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.factories import make_settings

PROXY = "198.51.100.1"
ASKED, PAY = "http://www.example.com", "https://pay.example.com"
ENVIRON = create_environ(base_url=ASKED) | {"SERVER_NAME": "127.0.0.1", "SERVER_PORT": "8000", "REMOTE_ADDR": PROXY}


def behind(proxies: int, **changes: str | None) -> dict[str, Any]:
    """The environ that the app sees with so many trusted proxies; a change to None leaves a variable out."""
    seen: list[dict[str, Any]] = []

    def app(environ: dict[str, Any], _: object) -> list[bytes]:
        seen.append(environ)
        return []

    environ = {name: value for name, value in (ENVIRON | changes).items() if value is not None}
    list(ProxyFix(app, x_for=proxies, x_proto=proxies, x_host=proxies)(environ, lambda *_: None))  # type: ignore[arg-type]
    return seen[0]


def shown(value: str) -> str:
    """The id of a case."""
    return f"{value!a:.30}"


def key(address: str, forwarded_for: str = "", proxies: int = 0) -> bytes:
    return client_key(behind(proxies, REMOTE_ADDR=address, HTTP_X_FORWARDED_FOR=forwarded_for))


SPOOFED = "203.0.113.66"
NETWORK = "2001:db8:1:2"
SAME: dict[str, tuple[str, str]] = {
    "an IPv4-mapped IPv6 address": ("::ffff:192.0.2.7", "192.0.2.7"),
    "a NAT64 address": ("64:ff9b::192.0.2.7", "192.0.2.7"),
    "two addresses of one IPv6 /64": (f"{NETWORK}:ffff:ffff:ffff:ffff", f"{NETWORK}::"),
    "another notation": ("2001:0DB8:0001:0002:0:0:0:1", f"{NETWORK}::1"),
    "white space around": (" \t192.0.2.7 ", "192.0.2.7"),
    "a port behind IPv4": ("192.0.2.7:8080", "192.0.2.7"),
    "brackets and a port": (f"[{NETWORK}::1]:8080", f"{NETWORK}::1"),
    "a zone in brackets": ("[fe80::1%25eth0]:8080", "fe80::1"),
    "IPv4-mapped with a zone": ("::ffff:192.0.2.7%eth0", "192.0.2.7"),
}
DIFFERENT: dict[str, tuple[str, str]] = {
    "IPv4 neighbours": ("192.0.2.7", "192.0.2.8"),
    "two IPv6 /64 of one /56": ("2001:db8:1:2::1", "2001:db8:1:3::1"),
    "an IPv4-compatible IPv6 address": ("::192.0.2.7", "192.0.2.7"),
    "IPv6 that begins with the bytes of IPv4": ("c000:207::", "192.0.2.7"),
    "no address at all": ("", "0.0.0.0"),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_a_client_has_one_key_however_it_connects_and_however_a_proxy_names_it(one: str, other: str) -> None:
    assert key(PROXY, one, 1) == key(one) == key(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_different_clients_have_different_keys(one: str, other: str) -> None:
    assert key(one) != key(other)


BELIEVED = {
    "no proxy, the entry is ignored": (0, "192.0.2.7", PROXY),
    "one proxy, one entry": (1, "192.0.2.7", "192.0.2.7"),
    "one proxy, entries on the left are the client's own words": (1, f"{SPOOFED}, {SPOOFED},192.0.2.7", "192.0.2.7"),
    "one proxy, no entry": (1, "", PROXY),
    "one proxy, quotes and a port": (1, '"192.0.2.7:8080"', "192.0.2.7"),
    "two proxies, a quote that is left open": (2, f'{SPOOFED}, ", 192.0.2.7, 198.51.100.2', PROXY),
    "two proxies, entries on the left": (2, f"{SPOOFED}, 192.0.2.7, 198.51.100.2", "192.0.2.7"),
    "two proxies, one entry": (2, SPOOFED, PROXY),
    "two proxies, an empty first entry": (2, ", 198.51.100.2", PROXY),
    "two proxies, the inner one's entry does not matter": (2, "192.0.2.7, unknown", "192.0.2.7"),
}


@pytest.mark.parametrize(("proxies", "forwarded", "counts"), BELIEVED.values(), ids=BELIEVED)
def test_as_many_proxies_are_believed_as_are_trusted(proxies: int, forwarded: str, counts: str) -> None:
    assert key(PROXY, forwarded, proxies) == key(counts)


NO_ADDRESS = [
    *("unknown", "_hidden", "client.example.com", "dirección", '""', "[", "[]:80", ":80", "%eth0", "1" * 10_000),
    *("192.0.2", "192.000.002.007", "0xc0.0.2.7", "3221225991", "192.0.2.0/24"),
    *("2001::db8::1", "192.0.2.7\0", "\udcff"),
]


# None is empty: werkzeug passes an empty entry over, and no proxy adds one.
@pytest.mark.parametrize("entry", NO_ADDRESS, ids=shown)
def test_what_is_no_address_leaves_the_connections_and_never_an_entry_further_left(entry: str) -> None:
    assert key(PROXY, f"{SPOOFED}, {entry}", 1) == key(PROXY)
    assert key(PROXY, f"{SPOOFED}, {entry}, 198.51.100.2", 2) == key(PROXY)


anything = st.text(st.characters()) | st.text('0123456789abcdef.:,[]%" \0', max_size=40)


@example(remote="", forwarded="", proxies=0)  # a unix socket's connection has no address
@example(remote="\udcff", forwarded="", proxies=0)
@given(remote=anything, forwarded=anything, proxies=st.integers(0, 3))
def test_no_text_raises(remote: str, forwarded: str, proxies: int) -> None:
    assert isinstance(key(remote, forwarded, proxies), bytes)


@given(address=st.ip_addresses(v=4), spoofed=st.lists(st.ip_addresses().map(str) | anything))
def test_whatever_the_client_sends_itself_it_never_counts(address: object, spoofed: list[str]) -> None:
    """A quote that it leaves open hides the proxy's entry: then the address of the connection counts."""
    one_proxy = ", ".join([*spoofed, str(address)])

    assert key(PROXY, one_proxy, 1) in (key(str(address)), key(PROXY))
    assert key(PROXY, f"{one_proxy}, 198.51.100.2", 2) in (key(str(address)), key(PROXY))


TRUNCATED = {
    "IPv4": ("192.0.2.7", "192.0.2.0/24"),
    "IPv6": ("2001:db8:1:ff02:3:4:5:6", "2001:db8:1::/48"),
    "no address": ("", "-"),
    "no address, but text": ("unknown", "-"),
}


@pytest.mark.parametrize(("address", "network"), TRUNCATED.values(), ids=TRUNCATED)
def test_a_log_shows_no_more_than_a_clients_network(address: str, network: str) -> None:
    assert network_of(key(address)) == network


def forwarded(host: str | None = None, proto: str | None = None) -> dict[str, str | None]:
    return {"HTTP_X_FORWARDED_HOST": host, "HTTP_X_FORWARDED_PROTO": proto}


def without_host(server: str, port: str = "8000") -> dict[str, str | None]:
    return {"HTTP_HOST": None, "SERVER_NAME": server, "SERVER_PORT": port}


OWN = "https://pay.example.com/base/"
BASE_URLS: dict[str, tuple[str, int, Mapping[str, str | None], str]] = {
    "nothing forwarded": ("", 0, {}, ASKED),
    "no proxy is trusted": ("", 0, forwarded("evil.example", "https"), ASKED),
    "host and protocol of one proxy": ("", 1, forwarded("pay.example.com", "https"), PAY),
    "protocol alone": ("", 1, forwarded(proto="https"), "https://www.example.com"),
    "host alone": ("", 1, forwarded("pay.example.com:8443"), "http://pay.example.com:8443"),
    "the client's own words": ("", 1, forwarded("evil.example, pay.example.com", "ftp, https"), PAY),
    "entries of two": ("", 2, forwarded("evil.example, pay.example.com, in", "ftp, https, http"), PAY),
    "fewer entries than proxies": ("", 2, forwarded("evil.example", "https"), ASKED),
    "no Host, IPv6": ("", 0, without_host("::1"), "http://[::1]:8000"),
    "no Host, unix socket": ("", 0, without_host("/run/web.sock", ""), "http://localhost"),
    "Host with an IPv6 address": ("", 0, {"HTTP_HOST": "[2001:db8::7]:8000"}, "http://[2001:db8::7]:8000"),
    "a protocol that is none": ("", 1, forwarded(proto="javascript"), ASKED),
    "another address as protocol": ("", 1, forwarded(proto="https://evil.example"), ASKED),
    "PUBLIC_BASE_URL rules": (OWN, 1, forwarded("evil.example", "http"), OWN[:-1]),
}


@pytest.mark.parametrize(("public", "proxies", "changes", "url"), BASE_URLS.values(), ids=BASE_URLS)
def test_the_service_is_named_as_it_was_asked_or_as_trusted_proxies_say(
    tmp_path: Path, public: str, proxies: int, changes: Mapping[str, str | None], url: str
) -> None:
    assert Clients(make_settings(tmp_path, PUBLIC_BASE_URL=public)).base_url(behind(proxies, **changes)) == url


HOSTILE_HOSTS = [
    *("", "evil.example/x", "evil.example?x", "evil.example#x", "user@evil.example", "evil.example\r\nX-Evil: 1"),
    *('"><script>evil.example</script>', "evil.example, www.example.com", "evil.example\\x", "evil.exámple"),
    *("evil%2eexample", "[::1", "evil.example:x", "evil.example:100000"),
]


@pytest.mark.parametrize("host", HOSTILE_HOSTS, ids=shown)
@pytest.mark.parametrize("name", ["HTTP_HOST", "HTTP_X_FORWARDED_HOST"])
def test_what_is_no_host_names_nothing(tmp_path: Path, name: str, host: str) -> None:
    assert Clients(make_settings(tmp_path)).base_url(behind(1, **{name: host})) in ("http://localhost", ASKED)


@pytest.mark.parametrize("host", HOSTILE_HOSTS, ids=shown)
def test_a_hostile_host_shows_in_no_response(client: ValidatingClient, host: str) -> None:
    index, error = (client.get(path, environ_overrides={"HTTP_HOST": host}) for path in ("/api", "/api/x"))

    assert (index.status_code, error.status_code) == (200, 404)
    assert "evil" not in f"{index.text} {index.headers} {error.text} {error.headers}"


NO_ENTRY: list[dict[str, str]] = [{}, {}]
TWO_CLIENTS = [{"X-Forwarded-For": "203.0.113.1"}, {"X-Forwarded-For": "203.0.113.2"}]
WARNING = "TRUSTED_PROXIES=0: X-Forwarded-For is ignored, so all clients behind a proxy share one rate limit"
PROXIES: dict[str, tuple[int, str, list[dict[str, str]], list[str], list[str]]] = {
    "a proxy that is not believed": (0, PROXY, TWO_CLIENTS, ["59", "58"], [WARNING]),
    "a trusted proxy": (1, PROXY, TWO_CLIENTS, ["59", "59"], []),
    "a trusted proxy at a unix socket": (1, "", TWO_CLIENTS, ["59", "59"], []),
    "fewer entries than proxies": (2, PROXY, TWO_CLIENTS, ["59", "58"], []),
    "a unix socket, which tells no address": (0, "", NO_ENTRY, ["59", "58"], [WARNING]),
    "no proxy": (0, PROXY, NO_ENTRY, ["59", "58"], []),
}
"""TRUSTED_PROXIES, the address of a connection, and the fields, the quota and the warnings of two requests."""


@pytest.mark.parametrize(("trusted", "address", "sent", "left", "warnings"), PROXIES.values(), ids=PROXIES)
def test_trusted_proxies_alone_tell_clients_apart_and_the_log_warns_once_of_others(
    make_client: MakeClient,
    caplog: pytest.LogCaptureFixture,
    trusted: int,
    address: str,
    sent: list[dict[str, str]],
    left: list[str],
    warnings: list[str],
) -> None:
    client = make_client(TRUSTED_PROXIES=str(trusted))

    responses = [client.get("/api", headers=fields, environ_overrides={"REMOTE_ADDR": address}) for fields in sent]

    assert [response.headers["X-RateLimit-Remaining"] for response in responses] == left
    assert [record.getMessage() for record in caplog.records if record.name == "app.api.client"] == warnings
