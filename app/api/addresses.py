"""The client of a request and the base address of the service, as far as the trusted proxies vouch for them."""

import logging
import re
from typing import Any

from app.ratelimit.client import client_key, forwarded_entry
from app.settings import Settings

logger = logging.getLogger(__name__)


class Addresses:
    """Client, request id and base address of a WSGI environ (PEP 3333)."""

    def __init__(self, settings: Settings) -> None:
        self._public_base_url = settings.public_base_url
        self._trusted_proxies = settings.trusted_proxies
        self._warns = not settings.trusted_proxies
        if settings.bind.startswith("unix:") and self._warns:
            self._warns = False
            logger.warning("a unix socket tells no client's address: with TRUSTED_PROXIES=0 all clients count as one")

    def client(self, environ: dict[str, Any]) -> bytes:
        """The key that the limiter counts the request under."""
        forwarded_for = environ.get("HTTP_X_FORWARDED_FOR", "")
        if self._warns and forwarded_for:
            self._warns = False
            logger.warning(
                "X-Forwarded-For is not believed: with TRUSTED_PROXIES=0 all clients of a proxy count as one"
            )
        return client_key(environ.get("REMOTE_ADDR", ""), forwarded_for, self._trusted_proxies)

    def request_id(self, environ: dict[str, Any]) -> str:
        """The id that a trusted proxy gave the request, if it has the form of nginx's $request_id; else empty."""
        given: str = environ.get("HTTP_X_REQUEST_ID", "") if self._trusted_proxies else ""
        return given if re.fullmatch("[0-9a-f]{32}", given) else ""

    def base_url(self, environ: dict[str, Any]) -> str:
        """The address that clients reach the service under, without a slash at its end."""
        if self._public_base_url is not None:
            return self._public_base_url
        own, name = environ["wsgi.url_scheme"], environ["SERVER_NAME"]
        own_host = f"[{name}]" if ":" in name else name
        proxies = self._trusted_proxies
        scheme = forwarded_entry(environ.get("HTTP_X_FORWARDED_PROTO", ""), proxies) or own
        host = forwarded_entry(environ.get("HTTP_X_FORWARDED_HOST", ""), proxies) or environ.get("HTTP_HOST", "")
        return _url(scheme, host) or _url(own, f"{own_host}:{environ['SERVER_PORT']}") or "http://localhost"


def _url(scheme: str, host: str) -> str | None:
    """The URL; None when a client sent something that makes no URL."""
    if re.fullmatch(r"https?", scheme) and re.fullmatch(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", host):
        return f"{scheme}://{host}"
    return None
