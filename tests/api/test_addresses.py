"""What the service calls itself, and whom of the proxies it believes."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.api.addresses import Addresses
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.factories import make_settings

ENVIRON = {
    "wsgi.url_scheme": "http",
    "SERVER_NAME": "127.0.0.1",
    "SERVER_PORT": "8000",
    "REMOTE_ADDR": "192.0.2.1",
    "HTTP_HOST": "www.example.com",
}

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
    "an empty entry": (1, {"HOST": "evil.example,", "PROTO": ""}, "http://www.example.com"),
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


def test_public_base_url_rules(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, PUBLIC_BASE_URL="https://pay.example.com/base/", TRUSTED_PROXIES="1")
    environ = ENVIRON | {"HTTP_X_FORWARDED_HOST": "evil.example", "HTTP_X_FORWARDED_PROTO": "http"}

    assert Addresses(settings).base_url(environ) == "https://pay.example.com/base"


@pytest.mark.parametrize(("trusted", "forwarded", "url"), FORWARDED.values(), ids=FORWARDED.keys())
def test_forwarded_host_and_protocol_are_believed_from_trusted_proxies_alone(
    tmp_path: Path, trusted: int, forwarded: dict[str, str], url: str
) -> None:
    addresses = Addresses(make_settings(tmp_path, TRUSTED_PROXIES=str(trusted)))
    environ = ENVIRON | {f"HTTP_X_FORWARDED_{name}": value for name, value in forwarded.items()}

    assert addresses.base_url(environ) == url


@pytest.mark.parametrize(("host", "url"), HOSTS.values(), ids=HOSTS.keys())
def test_the_host_that_was_asked_names_the_service(tmp_path: Path, host: str, url: str) -> None:
    assert Addresses(make_settings(tmp_path)).base_url(ENVIRON | {"HTTP_HOST": host}) == url


@pytest.mark.parametrize("host", HOSTILE_HOSTS.values(), ids=HOSTILE_HOSTS.keys())
@pytest.mark.parametrize("name", ["HTTP_HOST", "HTTP_X_FORWARDED_HOST"])
def test_what_is_no_host_names_nothing(tmp_path: Path, name: str, host: str) -> None:
    addresses = Addresses(make_settings(tmp_path, TRUSTED_PROXIES="1"))

    url = urlsplit(addresses.base_url(ENVIRON | {name: host}))

    assert url.scheme == "http"
    assert url.netloc in ("127.0.0.1:8000", "www.example.com")
    assert not url.path


@pytest.mark.parametrize("protocol", ["javascript", "ftp", "", "https://evil.example", "https\r\nX: 1"])
def test_what_is_no_protocol_of_the_web_is_not_believed(tmp_path: Path, protocol: str) -> None:
    addresses = Addresses(make_settings(tmp_path, TRUSTED_PROXIES="1"))

    url = addresses.base_url(ENVIRON | {"HTTP_X_FORWARDED_PROTO": protocol})

    assert url in ("http://127.0.0.1:8000", "http://www.example.com")


def test_a_request_without_host_is_answered_with_the_address_of_the_server(tmp_path: Path) -> None:
    environ = {name: value for name, value in ENVIRON.items() if name != "HTTP_HOST"}

    assert Addresses(make_settings(tmp_path)).base_url(environ) == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("server", "url"),
    [
        pytest.param(("::1", "8000"), "http://[::1]:8000", id="IPv6"),
        pytest.param(("/run/web.sock", ""), "http://localhost", id="unix socket"),
    ],
)
def test_an_address_of_the_server_that_is_no_host_and_port_makes_a_valid_url(
    tmp_path: Path, server: tuple[str, str], url: str
) -> None:
    environ = ENVIRON | {"SERVER_NAME": server[0], "SERVER_PORT": server[1], "HTTP_HOST": ""}

    assert Addresses(make_settings(tmp_path)).base_url(environ) == url


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


SOCKETS = {
    "a unix socket without a proxy": ("unix:/run/web.sock", "0", 1),
    "a unix socket behind a proxy": ("unix:/run/web.sock", "1", 0),
    "a port without a proxy": ("127.0.0.1:8000", "0", 0),
}


@pytest.mark.parametrize(("bind", "proxies", "warnings"), SOCKETS.values(), ids=SOCKETS)
def test_it_warns_of_a_socket_that_tells_no_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bind: str, proxies: str, warnings: int
) -> None:
    Addresses(make_settings(tmp_path / "mail", BIND=bind, TRUSTED_PROXIES=proxies))

    assert len([record for record in caplog.records if "all clients count as one" in record.message]) == warnings


FORWARDERS = {
    "a port without a proxy": ("127.0.0.1:8000", "0", 1),
    "a port behind a proxy": ("127.0.0.1:8000", "1", 0),
    "a unix socket, of which the start has warned": ("unix:/run/web.sock", "0", 0),
}


@pytest.mark.parametrize(("bind", "proxies", "warnings"), FORWARDERS.values(), ids=FORWARDERS)
def test_it_warns_once_and_without_an_address_of_a_proxy_that_it_does_not_believe(
    make_client: MakeClient, caplog: pytest.LogCaptureFixture, bind: str, proxies: str, warnings: int
) -> None:
    client = make_client(BIND=bind, TRUSTED_PROXIES=proxies)
    caplog.clear()

    client.get("/api")
    silent = caplog.text
    for address in ("203.0.113.1", "203.0.113.2"):
        client.get("/api", headers={"X-Forwarded-For": address})

    assert "TRUSTED_PROXIES" not in silent
    assert caplog.text.count("TRUSTED_PROXIES=0") == warnings
    assert "203.0.113" not in caplog.text.replace("203.0.113.0/24", "")
