"""The listening sockets of the service."""

import socket
from functools import cache

from app.settings import SettingsError


@cache
def metrics_listener(address: str) -> socket.socket:
    """The socket that listens on HOST:PORT, shared with all forked processes; raises SettingsError.

    gunicorn's master opens it, so a reload never finds the port taken. During an upgrade (USR2) the new master may
    listen on the same port.
    """
    return _listen("METRICS_BIND", address, reuse_port=True)


def require_free(setting: str, address: str) -> None:
    """Raise SettingsError when this process cannot listen on HOST:PORT, even with SO_REUSEPORT."""
    _listen(setting, address, reuse_port=False).close()


def _listen(setting: str, address: str, *, reuse_port: bool) -> socket.socket:
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), int(port)), family=family, reuse_port=reuse_port)
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]  # the rest is the address once more
        another = f"127.0.0.1:{int(port) % 65_535 + 1}"
        fault = f"{setting}={address!r}: {reason}: set {setting} to another address, such as {another}"
        raise SettingsError([fault]) from error
