"""The addresses of a host, looked up in limited time."""

import socket
import threading
from typing import Any


class Resolver:
    """Looks up the addresses of one host. There is one look-up at a time, and all threads wait for the same one.

    What it finds after they have given up is for the next one that asks.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._look_up: _LookUp | None = None
        self._lock = threading.Lock()

    def addresses(self, seconds: float) -> list[Any]:
        """The host's addresses as getaddrinfo gives them, found within that time; raises OSError."""
        with self._lock:
            if self._look_up is None:
                look_up = _LookUp(self._host, self._port)
                try:
                    look_up.start()
                except RuntimeError as error:
                    raise OSError("cannot start a look-up thread") from error
                self._look_up = look_up
            look_up = self._look_up
        look_up.join(seconds)
        with self._lock:
            if self._look_up is look_up and not look_up.is_alive():
                self._look_up = None
        if isinstance(look_up.found, OSError):
            raise type(look_up.found)(*look_up.found.args)  # a copy, because each raise adds a traceback to it
        return look_up.found


class _LookUp(threading.Thread):
    """A DNS look-up in a thread of its own. It cannot be interrupted, but its callers can stop waiting."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(target=self._ask, args=(host, port), name="resolver", daemon=True)
        self.found: list[Any] | OSError = TimeoutError("the time for the attempt is up")

    def _ask(self, host: str, port: int) -> None:
        try:
            self.found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # the latter for a label that is empty or too long
            self.found = error if isinstance(error, OSError) else socket.gaierror(socket.EAI_NONAME, "not a host name")
