"""The socket of the metrics."""

import socket
from functools import cache

from app.settings import SettingsError


@cache
def metrics_listener(address: str) -> socket.socket:
    """The socket that listens at HOST:PORT, one for this process and all that it forks; raises SettingsError.

    gunicorn's first process opens it, so a reload never finds the port taken. The new program of an upgrade may listen
    beside the old one.
    """
    return _listen(address, reuse_port=True)


def require_free(address: str) -> None:
    """Raise SettingsError when another program listens at HOST:PORT, also when its socket could be shared."""
    _listen(address, reuse_port=False).close()


def _listen(address: str, *, reuse_port: bool) -> socket.socket:
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), int(port)), family=family, reuse_port=reuse_port)
    except OSError as error:
        fault = f"METRICS_BIND={address!r}: expected an address to listen at: {error.strerror}"
        raise SettingsError([fault]) from error
