"""The client and base URL of a request, after ProxyFix has applied the trusted X-Forwarded-*."""

import logging
import re
import socket
from typing import Any

from werkzeug.wsgi import get_host

from app.settings import Settings

_IPV4_IN_IPV6 = bytes(10) + b"\xff\xff", b"\x00\x64\xff\x9b" + bytes(8)
"""The prefixes of an IPv6 address that is an IPv4 one: mapped (RFC 4291, 2.5.5.2), or of NAT64 (RFC 6052, 2.1)."""
_IPV4_BYTES, _IPV6_PREFIX_BYTES = 4, 8

logger = logging.getLogger(__name__)


class Clients:
    """Reads client, request id and base URL from a WSGI environ (PEP 3333)."""

    def __init__(self, settings: Settings) -> None:
        self._public_base_url = settings.public_base_url
        self._trusts_proxies = settings.trusted_proxies > 0
        self._warns = not self._trusts_proxies

    def key(self, environ: dict[str, Any]) -> bytes:
        """The key under which limiters count the client."""
        if self._warns and ("HTTP_X_FORWARDED_FOR" in environ or not environ.get("REMOTE_ADDR")):
            self._warns = False
            logger.warning(
                "TRUSTED_PROXIES=0: X-Forwarded-For is ignored, so all clients behind a proxy share one rate limit"
            )
        return client_key(environ)

    def request_id(self, environ: dict[str, Any]) -> str | None:
        """The id that a trusted proxy gave the request, if it has the form of nginx's $request_id."""
        given: str = environ.get("HTTP_X_REQUEST_ID", "") if self._trusts_proxies else ""
        return given if re.fullmatch("[0-9a-f]{32}", given) else None

    def base_url(self, environ: dict[str, Any]) -> str:
        """The service's public base URL, without a trailing slash."""
        if self._public_base_url is not None:
            return self._public_base_url
        scheme = "https" if environ["wsgi.url_scheme"] == "https" else "http"
        return f"{scheme}://{get_host(environ) or 'localhost'}"  # get_host() returns "" for an invalid host


def client_key(environ: dict[str, Any]) -> bytes:
    """The key of a client, an IPv4 address or an IPv6 /64. Without one from the proxies, the peer address."""
    peer: str = environ.get("werkzeug.proxy_fix.orig", environ).get("REMOTE_ADDR") or ""
    return _pack(environ.get("REMOTE_ADDR") or "") or _pack(peer) or peer.encode(errors="replace")


def network_of(key: bytes) -> str:
    """A client's network as the log may show it: /24 for IPv4, /48 for IPv6."""
    if len(key) == _IPV4_BYTES:
        return f"{key[0]}.{key[1]}.{key[2]}.0/24"
    return f"{socket.inet_ntop(socket.AF_INET6, key[:6] + bytes(10))}/48" if len(key) == _IPV6_PREFIX_BYTES else "-"


def _pack(address: str) -> bytes | None:
    """The packed address, without the port, brackets and zone that some proxies add; None if it is no IP address."""
    address = address.strip()
    if address.startswith("["):
        address = address[1:].partition("]")[0]
    elif address.count(":") == 1:
        address = address.partition(":")[0]
    address = address.partition("%")[0]
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except (OSError, ValueError):
        return None
    return packed[12:] if packed.startswith(_IPV4_IN_IPV6) else packed[:_IPV6_PREFIX_BYTES]
