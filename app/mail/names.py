"""Names in SMTP: the mail server's addresses, looked up in limited time, and the name that this host gives itself."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from typing import Any

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})+")


class Resolver:
    """Looks up the addresses of one host. There is one look-up at a time, and all threads wait for the same one."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._known: list[Any] | None = None
        with suppress(OSError, UnicodeError):  # it is a name and must be looked up each time
            self._known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        self._look_up: _LookUp | None = None
        self._lock = threading.Lock()

    def addresses(self, seconds: float) -> list[Any]:
        """The host's addresses as getaddrinfo gives them.

        Raises TimeoutError when they are not found in ``seconds``, another OSError when there are none.
        """
        if self._known is not None:
            return self._known
        with self._lock:
            if self._look_up is None or not self._look_up.is_alive():
                self._look_up = _LookUp(self._host, self._port)
                try:
                    self._look_up.start()
                except RuntimeError as error:
                    raise OSError("there is no thread for the look-up") from error
            look_up = self._look_up
        look_up.join(seconds)
        return look_up.result()


class _LookUp(threading.Thread):
    """A DNS look-up in a thread of its own. It cannot be interrupted, but its callers can stop waiting."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(name="smtp-resolver", daemon=True)
        self._host = host
        self._port = port
        self._addresses: list[Any] = []
        self._failure: OSError | None = TimeoutError("the time for the hand-over is up")

    def run(self) -> None:
        try:
            self._addresses = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            self._failure = None
        except OSError as error:
            self._failure = error
        except UnicodeError:  # a label that is empty or too long
            self._failure = socket.gaierror(socket.EAI_NONAME, "not a host name")

    def result(self) -> list[Any]:
        """The addresses; raises OSError when there are none yet."""
        failure = self._failure
        if failure is not None:
            # A copy: if several threads raised the same exception, it would collect the tracebacks of all.
            raise type(failure)(*failure.args)
        return self._addresses


def own_name(address: str) -> str:
    """The name of this host for EHLO, found without the DNS (RFC 5321, section 4.1.1.1).

    It is the host's name when that is a domain, else ``address``, this end of the connection (section 4.1.3).
    """
    name = socket.gethostname()
    if _DOMAIN.fullmatch(name):
        return name
    address = address.partition("%")[0]  # the zone has a meaning on this host only
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"
