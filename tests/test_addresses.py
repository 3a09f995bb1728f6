"""Who a client is and what the service calls itself, as far as proxies are trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.middleware.proxy_fix import ProxyFix

from app.addresses import Addresses, client_key, truncated
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.factories import make_settings

PROXY = "198.51.100.1"
ENVIRON = {
    "wsgi.url_scheme": "http",
    "SERVER_NAME": "127.0.0.1",
    "SERVER_PORT": "8000",
    "REMOTE_ADDR": PROXY,
    "HTTP_HOST": "www.example.com",
}


def behind(proxies: int, **changes: str) -> dict[str, Any]:
    """The environ that the app sees with so many trusted proxies."""
    seen: list[dict[str, Any]] = []

    def app(environ: dict[str, Any], _: object) -> list[bytes]:
        seen.append(environ)
        return []

    environ = ENVIRON | changes
    list(ProxyFix(app, x_for=proxies, x_proto=proxies, x_host=proxies)(environ, lambda *_: None))  # type: ignore[arg-type]
    return seen[0]


def key(address: str, forwarded_for: str = "", proxies: int = 0) -> bytes:
    return client_key(behind(proxies, REMOTE_ADDR=address, HTTP_X_FORWARDED_FOR=forwarded_for))


SAME_CLIENT = {
    "an IPv4 address": ("192.0.2.7", "192.0.2.7"),
    "an IPv4-mapped IPv6 address": ("::ffff:192.0.2.7", "192.0.2.7"),
    "an IPv4-mapped address in hexadecimal": ("::FFFF:c000:207", "192.0.2.7"),
    "a NAT64 address": ("64:ff9b::192.0.2.7", "192.0.2.7"),
    "two addresses of one IPv6 /64": ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::"),
    "an IPv6 address in another notation": ("2001:0DB8:0001:0002:0:0:0:1", "2001:db8:1:2::1"),
    "white space around": (" \t192.0.2.7 ", "192.0.2.7"),
    "a port behind IPv4": ("192.0.2.7:8080", "192.0.2.7"),
    "brackets": ("[2001:db8:1:2::1]", "2001:db8:1:2::1"),
    "brackets and a port": ("[2001:db8:1:2::1]:8080", "2001:db8:1:2::1"),
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
def test_a_client_has_one_key_however_it_connects_and_however_a_proxy_names_it(one: str, other: str) -> None:
    assert key(PROXY, one, 1) == key(one) == key(other)


@pytest.mark.parametrize(("one", "other"), OTHER_CLIENT.values(), ids=OTHER_CLIENT)
def test_different_clients_have_different_keys(one: str, other: str) -> None:
    assert key(one) != key(other)


SPOOFED = "203.0.113.66"
BELIEVED = {
    "no proxy, no entry": (0, "", PROXY),
    "no proxy, the entry is ignored": (0, "192.0.2.7", PROXY),
    "one proxy, one entry": (1, "192.0.2.7", "192.0.2.7"),
    "one proxy, entries on the left are the client's own words": (1, f"{SPOOFED}, {SPOOFED}, 192.0.2.7", "192.0.2.7"),
    "one proxy, no white space": (1, f"{SPOOFED},192.0.2.7", "192.0.2.7"),
    "one proxy, no entry": (1, "", PROXY),
    "one proxy, quotes and a port": (1, '"192.0.2.7:8080"', "192.0.2.7"),
    "two proxies, a quote that is left open": (2, f'{SPOOFED}, ", 192.0.2.7, 198.51.100.2', PROXY),
    "two proxies, two entries": (2, "192.0.2.7, 198.51.100.2", "192.0.2.7"),
    "two proxies, entries on the left": (2, f"{SPOOFED}, {SPOOFED}, 192.0.2.7, 198.51.100.2", "192.0.2.7"),
    "two proxies, one entry": (2, SPOOFED, PROXY),
    "two proxies, no entry": (2, "", PROXY),
    "two proxies, an empty first entry": (2, ", 198.51.100.2", PROXY),
    "two proxies, the inner one's entry does not matter": (2, "192.0.2.7, unknown", "192.0.2.7"),
}


@pytest.mark.parametrize(("proxies", "forwarded", "counts"), BELIEVED.values(), ids=BELIEVED)
def test_as_many_proxies_are_believed_as_are_trusted(proxies: int, forwarded: str, counts: str) -> None:
    assert key(PROXY, forwarded, proxies) == key(counts)


# werkzeug passes an empty entry over. No proxy adds one.
@pytest.mark.parametrize("entry", [entry for entry in NO_ADDRESS.values() if entry.strip()])
def test_what_is_no_address_leaves_the_connections_and_never_an_entry_further_left(entry: str) -> None:
    assert key(PROXY, f"{SPOOFED}, {entry}", 1) == key(PROXY)
    assert key(PROXY, f"{SPOOFED}, {entry}, 198.51.100.2", 2) == key(PROXY)


@pytest.mark.parametrize("address", NO_ADDRESS.values(), ids=NO_ADDRESS)
def test_a_connection_without_an_address_has_a_key(address: str) -> None:
    assert isinstance(key(address), bytes)


anything = st.text(st.characters()) | st.text('0123456789abcdef.:,[]%" \0', max_size=40)


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
    "IPv4-mapped": ("::ffff:192.0.2.7", "192.0.2.0/24"),
    "NAT64": ("64:ff9b::192.0.2.7", "192.0.2.0/24"),
    "IPv6": ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
    "no address": ("", "-"),
    "no address, but text": ("unknown", "-"),
}


@pytest.mark.parametrize(("address", "shown"), TRUNCATED.values(), ids=TRUNCATED)
def test_a_log_shows_no_more_than_a_clients_network(address: str, shown: str) -> None:
    assert truncated(key(address)) == shown


FORWARDED: dict[str, tuple[int, dict[str, str], str]] = {
    "nothing": (0, {}, "http://www.example.com"),
    "no proxy is trusted": (0, {"HOST": "evil.example", "PROTO": "https"}, "http://www.example.com"),
    "host and protocol of one proxy": (1, {"HOST": "pay.example.com", "PROTO": "https"}, "https://pay.example.com"),
    "protocol alone": (1, {"PROTO": "https"}, "https://www.example.com"),
    "host alone": (1, {"HOST": "pay.example.com:8443"}, "http://pay.example.com:8443"),
    "what the client itself wrote": (
        1,
        {"HOST": "evil.example, pay.example.com", "PROTO": "ftp, https"},
        "https://pay.example.com",
    ),
    "entries of two proxies": (
        2,
        {"HOST": "evil.example, pay.example.com, inner", "PROTO": "ftp, https, http"},
        "https://pay.example.com",
    ),
    "fewer entries than proxies": (2, {"HOST": "evil.example", "PROTO": "https"}, "http://www.example.com"),
}

HOSTS: dict[str, tuple[str, str]] = {
    "name": ("www.example.com", "http://www.example.com"),
    "name and port": ("www.example.com:8080", "http://www.example.com:8080"),
    "IPv4": ("192.0.2.7:8000", "http://192.0.2.7:8000"),
    "IPv6": ("[2001:db8::7]:8000", "http://[2001:db8::7]:8000"),
}

HOSTILE_HOSTS = {
    "empty": "",
    "path": "evil.example/x",
    "query": "evil.example?x",
    "fragment": "evil.example#x",
    "user": "user@evil.example",
    "space": "evil.example x",
    "line break": "evil.example\r\nX-Evil: 1",
    "tab": "evil.example\tx",
    "markup": '"><script>evil.example</script>',
    "list": "evil.example, www.example.com",
    "backslash": "evil.example\\x",
    "non-ASCII": "evil.exámple",
    "percent": "evil%2eexample",
    "bracket": "[::1",
    "zone": "[fe80::1%25eth0]",
    "port without digits": "evil.example:x",
    "port of six digits": "evil.example:100000",
    "null": "evil.example\x00",
}


@pytest.mark.parametrize(("trusted", "forwarded", "url"), FORWARDED.values(), ids=FORWARDED)
def test_forwarded_host_and_protocol_are_believed_from_trusted_proxies_alone(
    tmp_path: Path, trusted: int, forwarded: dict[str, str], url: str
) -> None:
    environ = behind(trusted, **{f"HTTP_X_FORWARDED_{name}": value for name, value in forwarded.items()})

    assert Addresses(make_settings(tmp_path)).base_url(environ) == url


@pytest.mark.parametrize(("host", "url"), HOSTS.values(), ids=HOSTS)
def test_the_host_that_was_asked_names_the_service(tmp_path: Path, host: str, url: str) -> None:
    assert Addresses(make_settings(tmp_path)).base_url(behind(0, HTTP_HOST=host)) == url


@pytest.mark.parametrize("host", HOSTILE_HOSTS.values(), ids=HOSTILE_HOSTS)
@pytest.mark.parametrize("name", ["HTTP_HOST", "HTTP_X_FORWARDED_HOST"])
def test_what_is_no_host_names_nothing(tmp_path: Path, name: str, host: str) -> None:
    url = Addresses(make_settings(tmp_path)).base_url(behind(1, **{name: host}))

    assert url in ("http://localhost", "http://www.example.com")


@pytest.mark.parametrize("protocol", ["javascript", "ftp", "", "https://evil.example", "https\r\nX: 1"])
def test_what_is_no_protocol_of_the_web_is_not_believed(tmp_path: Path, protocol: str) -> None:
    environ = behind(1, HTTP_X_FORWARDED_PROTO=protocol)

    assert Addresses(make_settings(tmp_path)).base_url(environ) == "http://www.example.com"


@pytest.mark.parametrize(
    ("server", "url"),
    [
        pytest.param(("127.0.0.1", "8000"), "http://127.0.0.1:8000", id="IPv4"),
        pytest.param(("::1", "8000"), "http://[::1]:8000", id="IPv6"),
        pytest.param(("/run/web.sock", ""), "http://localhost", id="unix socket"),
    ],
)
def test_a_request_without_host_is_answered_with_the_address_of_the_server(
    tmp_path: Path, server: tuple[str, str], url: str
) -> None:
    environ = behind(0, SERVER_NAME=server[0], SERVER_PORT=server[1])
    del environ["HTTP_HOST"]

    assert Addresses(make_settings(tmp_path)).base_url(environ) == url


def test_public_base_url_rules(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, PUBLIC_BASE_URL="https://pay.example.com/base/", TRUSTED_PROXIES="1")
    environ = behind(1, HTTP_X_FORWARDED_HOST="evil.example", HTTP_X_FORWARDED_PROTO="http")

    assert Addresses(settings).base_url(environ) == "https://pay.example.com/base"


@pytest.mark.parametrize("host", HOSTILE_HOSTS.values(), ids=HOSTILE_HOSTS.keys())
def test_a_hostile_host_shows_in_no_response(client: ValidatingClient, host: str) -> None:
    for path in ("/api", "/api/x"):
        response = client.get(path, environ_overrides={"HTTP_HOST": host})

        assert response.status_code in (200, 404)
        assert "evil" not in response.text
        assert "evil" not in str(response.headers)


def test_the_base_address_is_in_every_body_that_names_one(make_client: MakeClient) -> None:
    client = make_client(TRUSTED_PROXIES="1")
    headers = {"X-Forwarded-Host": "pay.example.com", "X-Forwarded-Proto": "https"}

    index, document, error = (client.get(path, headers=headers).get_json() for path in ("/api", "/openapi.json", "/x"))

    assert index["data"]["openapi"] == "https://pay.example.com/openapi.json"
    assert document["servers"][0]["url"] == "https://pay.example.com"
    assert error["docs"] == "https://pay.example.com/openapi.json"


@pytest.mark.parametrize(
    ("trusted", "remaining"),
    [
        pytest.param(0, ["59", "58"], id="none trusted"),
        pytest.param(1, ["59", "59"], id="one trusted"),
        pytest.param(2, ["59", "58"], id="fewer entries than proxies"),
    ],
)
def test_a_forwarded_address_is_believed_from_trusted_proxies_alone(
    make_client: MakeClient, trusted: int, remaining: list[str]
) -> None:
    client = make_client(TRUSTED_PROXIES=str(trusted))

    stated = [
        client.get("/api", headers={"X-Forwarded-For": address}).headers["X-RateLimit-Remaining"]
        for address in ("203.0.113.1", "203.0.113.2")
    ]

    assert stated == remaining


WARNINGS: dict[str, tuple[str, dict[str, str], int]] = {
    "a proxy that is not believed": ("0", {"HTTP_X_FORWARDED_FOR": "203.0.113.1", "REMOTE_ADDR": PROXY}, 1),
    "a unix socket, which tells no address": ("0", {"REMOTE_ADDR": ""}, 1),
    "a trusted proxy": ("1", {"HTTP_X_FORWARDED_FOR": "203.0.113.1", "REMOTE_ADDR": ""}, 0),
    "no proxy": ("0", {"REMOTE_ADDR": PROXY}, 0),
}


@pytest.mark.parametrize(("proxies", "environ", "warnings"), WARNINGS.values(), ids=WARNINGS)
def test_it_warns_once_and_without_an_address_when_all_clients_count_as_one(
    make_client: MakeClient, caplog: pytest.LogCaptureFixture, proxies: str, environ: dict[str, str], warnings: int
) -> None:
    client = make_client(TRUSTED_PROXIES=proxies)

    for _ in range(2):
        client.get("/api", environ_overrides=environ)

    said = [record.getMessage() for record in caplog.records if record.name == "app.addresses"]
    assert len(said) == warnings
    assert not [line for line in said if "203.0.113" in line or "TRUSTED_PROXIES=0" not in line]
