"""The socket of the metrics."""

import os
import socket
from functools import cache

from app.settings import SettingsError


@cache
def metrics_listener(address: str) -> socket.socket:
    """The socket that listens at HOST:PORT, one for this process and all that it forks; raises SettingsError.

    gunicorn's first process opens it, so no reload finds the port taken. The new program of an upgrade listens beside
    the old one.
    """
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), int(port)), family=family, reuse_port=True)
    except OSError as error:
        fault = f"METRICS_BIND={address!r}: expected an address to listen at: {os.strerror(error.errno or 0)}"
        raise SettingsError([fault]) from error
